"""What a command changed: before and after, as a table or as a text diff."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from onnx_inline.reports.text import escaped, escaped_name

if TYPE_CHECKING:
    import onnx

    from onnx_inline.engine.report import InlineReport
    from onnx_inline.reports.hierarchy import Hierarchy

#: Rows of a table before "and N more".
MOST_ROWS = 20

#: Bytes of a weight that a diff shows in full.
LONGEST_DATA = 64


def before_after_text(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a table of what was and what is, as plain text: importing rich takes a tenth of a short run.

    Example:
        >>> print(before_after_text([("nodes", "7", "184")]))
               before  after
        nodes       7    184
    """
    lines = [("", "before", "after"), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        f"{title:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}".rstrip()
        for title, before, after in lines
    )


def inline_rows(report: InlineReport) -> Iterator[tuple[str, str, str]]:
    """Yield the rows about an inlining: functions, nodes, then each function's calls, most called first."""
    yield "functions", f"{report.functions_before:,}", f"{report.functions_before - len(report.removed):,}"
    yield "nodes", f"{report.nodes_before:,}", f"{report.nodes_after:,}"
    left = {entry.function: entry.calls for entry in report.left}
    calls = sorted(report.calls.items(), key=lambda item: (-item[1], item[0]))
    for name, count in calls[:MOST_ROWS]:
        remaining = left.get(name, 0)
        yield f"calls of {escaped_name(name)}", f"{count + remaining:,}", f"{remaining:,}"
    if len(calls) > MOST_ROWS:
        yield f"and {len(calls) - MOST_ROWS:,} more functions, see --json", "", ""


def model_rows(before: Hierarchy, after: Hierarchy) -> Iterator[tuple[str, str, str]]:
    """Yield the rows about two models: functions, nodes, opset, operators; changed operators come first."""
    from onnx_inline.reports.tree import opsets_text

    yield "functions", f"{len(before.functions) - 1:,}", f"{len(after.functions) - 1:,}"
    yield "nodes", f"{_nodes(before):,}", f"{_nodes(after):,}"
    yield "IR version", str(before.ir_version), str(after.ir_version)
    yield "opset", opsets_text(before.main.opsets, before), opsets_text(after.main.opsets, after)
    old, new = ({str(name): count for name, count in side.operators.items()} for side in (before, after))
    yield from _count_rows(old, new)


def _nodes(hierarchy: Hierarchy) -> int:
    return hierarchy.main.nodes + sum(hierarchy.main.callees.values())


def _count_rows(old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    def rank(name: str) -> tuple[bool, int, str]:
        difference = abs(new.get(name, 0) - old.get(name, 0))
        return not difference, -max(difference, new.get(name, 0)), name

    names = sorted(old.keys() | new.keys(), key=rank)
    for name in names[:MOST_ROWS]:
        yield escaped_name(name), f"{old.get(name, 0):,}", f"{new.get(name, 0):,}"
    if len(names) > MOST_ROWS:
        yield f"and {len(names) - MOST_ROWS:,} more operators", "", ""


def model_diff(before: onnx.ModelProto, after: onnx.ModelProto, name: str, name_after: str = "") -> str:
    """Return what changed between two models as a unified diff of their text, large weights by their hash.

    Args:
        before: the model as it was.
        after: the model as it would be.
        name: what to call it in the head of the diff.
        name_after: what to call the other; by default the same, with "(after)".
    """
    old, new = (_text(model).splitlines() for model in (before, after))
    names = (escaped_name(name), escaped_name(name_after or f"{name} (after)"))
    lines = difflib.unified_diff(old, new, *names, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _text(model: onnx.ModelProto) -> str:
    import onnx

    short = onnx.ModelProto()
    short.CopyFrom(model)
    for tensor in _tensors(short):
        if len(tensor.raw_data) > LONGEST_DATA:
            digest = hashlib.sha256(tensor.raw_data).hexdigest()[:16]
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="sha256", value=digest)
            tensor.ClearField("raw_data")
    return escaped(onnx.printer.to_text(short))


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the initializers of the main graph, and the tensors in attributes outside of subgraphs."""
    yield from model.graph.initializer
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))
