"""The function hierarchy as a table whose first column is a tree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_inline.identifiers import OperatorId
from onnx_inline.reports.hierarchy import MAIN, FunctionFacts, Hierarchy
from onnx_inline.reports.text import byte_size, escaped_name

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

#: How to order the functions that one body calls, by the word after ``--sort``; the largest first.
SORTS: dict[str, Callable[[FunctionFacts], int]] = {
    "order": lambda facts: 0,
    "calls": lambda facts: -facts.calls,
    "nodes": lambda facts: -facts.nodes,
    "flat": lambda facts: -(facts.flat_nodes or 0),
    "bytes": lambda facts: -facts.parameter_bytes,
    "depth": lambda facts: -(facts.depth or 0),
}

#: Levels shown unless asked for more; a line of the tree is as long as its level is deep.
DEFAULT_DEPTH = 16

_GUIDES = {True: ("├── ", "└── ", "│   "), False: ("|-- ", "`-- ", "|   ")}


@dataclass(frozen=True)
class Line:
    """A function in the tree: where it hangs, how often its caller calls it, why no callees follow."""

    guide: str
    facts: FunctionFacts
    times: int
    note: str


def tree_lines(
    hierarchy: Hierarchy, *, depth: int = DEFAULT_DEPTH, sort: str = "order", unicode: bool = True
) -> Iterator[Line]:
    """Yield the main graph and what it calls, depth first, each function's callees only where it comes first.

    Listing them at every call would take exponential space in a model of a few functions.
    """
    shown: set[OperatorId] = set()
    # A line to come: identifier, calls, prefix of the line, prefix of the lines below it, level.
    pending = [(MAIN, 1, "", "", 0)]
    tee, corner, bar = _GUIDES[unicode]
    while pending:
        name, times, guide, below, level = pending.pop()
        facts = hierarchy.functions[name]
        callees = _sorted(hierarchy, facts, sort)
        note = _note(callees, name in shown, level >= depth)
        yield Line(guide, facts, times, note)
        shown.add(name)
        if note:
            continue
        for callee in reversed(callees):
            last = callee is callees[-1]
            line, rest = (corner, "    ") if last else (tee, bar)
            pending.append((callee, facts.callees[callee], below + line, below + rest, level + 1))


def _sorted(hierarchy: Hierarchy, facts: FunctionFacts, sort: str) -> list[OperatorId]:
    return sorted(facts.callees, key=lambda callee: SORTS[sort](hierarchy.functions[callee]))


def _note(callees: Collection[OperatorId], seen: bool, too_deep: bool) -> str:
    if not callees:
        return ""
    if seen:
        return "(callees shown above)"
    return f"(calls {len(callees)} more, see --depth)" if too_deep else ""


def tree_table(
    hierarchy: Hierarchy,
    *,
    depth: int = DEFAULT_DEPTH,
    sort: str = "order",
    unicode: bool = True,
    missing: Collection[OperatorId] = (),
    width: int | None = None,
) -> Table:
    """Return the hierarchy as a rich table, one line a function.

    Args:
        hierarchy: what to show.
        depth: levels below the main graph to show.
        sort: a key of :data:`SORTS`.
        unicode: whether the stream can print box characters.
        missing: operators that a target lacks; functions that use one are marked.
        width: columns of the terminal, for which long names lose their beginnings; None is no limit.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("function", no_wrap=True)
    for title in ("calls", "nodes", "flat", "depth", "weights", "bytes"):
        table.add_column(title, justify="right", no_wrap=True)
    opsets = {name: opsets_text(facts.opsets, hierarchy) for name, facts in hierarchy.functions.items()}
    if several := len(set(opsets.values())) > 1:
        table.add_column("opset", no_wrap=True)
    lines = list(tree_lines(hierarchy, depth=depth, sort=sort, unicode=unicode))
    cells = [[*_numbers(line.facts), *([opsets[line.facts.identifier]] if several else [])] for line in lines]
    room = None if width is None else max(width - _columns(table, cells), _NARROWEST)
    for line, numbers in zip(lines, cells, strict=True):
        table.add_row(_first_cell(line, missing, room), *numbers)
    return table


#: What is left of a name at least, however narrow the terminal.
_NARROWEST = 24


def _columns(table: Table, cells: Sequence[Sequence[str]]) -> int:
    """Return the terminal columns that all cells but the first need, with the gaps before them."""
    titles = [str(column.header) for column in table.columns[1:]]
    return sum(max(map(len, column)) + 1 for column in zip(titles, *cells, strict=True))


def _first_cell(line: Line, missing: Collection[OperatorId], room: int | None) -> Text:
    from rich.text import Text

    lacking = sorted(str(name) for name in line.facts.operators if name in missing)
    label = _label(line) + (f"  lacks {escaped_name(', '.join(lacking))}" if lacking else "")
    excess = 0 if room is None else len(line.guide) + len(label) - room
    if excess > 0:
        label = "..." + label[excess + 3 :]
    return Text().append(line.guide, style="dim").append(label, style="red" if lacking else "")


def _label(line: Line) -> str:
    name = "main graph" if line.facts.identifier == MAIN else escaped_name(str(line.facts.identifier))
    times = f" x{line.times:,}" if line.times > 1 else ""
    return f"{name}{times} {line.note}".rstrip()


def _numbers(facts: FunctionFacts) -> list[str]:
    calls = "" if facts.identifier == MAIN else f"{facts.calls:,}"
    flat = "recursive" if facts.flat_nodes is None else f"{facts.flat_nodes:,}"
    depth = "" if facts.depth is None else f"{facts.depth:,}"
    weights = [f"{facts.parameters:,}", byte_size(facts.parameter_bytes)] if facts.parameters else ["", ""]
    return [calls, f"{facts.nodes:,}", flat, depth, *weights]


def opsets_text(opsets: Mapping[str, int], hierarchy: Hierarchy) -> str:
    """Return opset imports in one line, without domains of functions, whose versions select nothing."""
    shown = [(domain, version) for domain, version in opsets.items() if domain not in hierarchy.own_domains]
    return ", ".join(f"{escaped_name(domain) or 'ai.onnx'} {version}" for domain, version in shown)
