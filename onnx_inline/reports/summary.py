"""What stands around the tree of ``inspect``: its heading, the operators, remarks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from onnx_inline.identifiers import OperatorId
from onnx_inline.reports.hierarchy import Hierarchy
from onnx_inline.reports.text import byte_size, escaped_name, quantity
from onnx_inline.reports.tree import opsets_text

if TYPE_CHECKING:
    from rich.table import Table


def heading(model: str, hierarchy: Hierarchy) -> str:
    """Return one line that answers: how many functions and nodes, how large, from where."""
    main = hierarchy.main
    functions = quantity(len(hierarchy.functions) - 1, "function")
    calls = quantity(sum(facts.calls for facts in hierarchy.functions.values()), "call")
    own = sum(facts.nodes for facts in hierarchy.functions.values())
    flat = "recursive" if main.flat_nodes is None else f"{main.flat_nodes:,} flat"
    weights = f"{quantity(main.parameters, 'parameter')} in {byte_size(main.parameter_bytes)}"
    made_by = f", written by {escaped_name(hierarchy.producer)}" if hierarchy.producer else ""
    return (
        f"{escaped_name(model)}: {functions}, {calls}, {quantity(own, 'other node')} ({flat}), {weights}; "
        f"IR version {hierarchy.ir_version}, opset {opsets_text(main.opsets, hierarchy)}{made_by}"
    )


def operators_table(
    hierarchy: Hierarchy, *, limit: int | None = 20, missing: Collection[OperatorId] = ()
) -> Table:
    """Return the operators of the flat model, the most frequent first; those in ``missing`` lead."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("operator", no_wrap=True)
    table.add_column(
        "in the flat model" if not hierarchy.cycle else "in all bodies", justify="right", no_wrap=True
    )
    counts = sorted(hierarchy.operators.items(), key=lambda item: (item[0] not in missing, -item[1], item[0]))
    for name, count in counts[:limit]:
        lacking = name in missing
        table.add_row(
            escaped_name(str(name)) + ("  (the target lacks it)" if lacking else ""),
            f"{count:,}",
            style="red" if lacking else None,
        )
    if limit is not None and len(counts) > limit:
        table.add_row(f"and {len(counts) - limit} more, see -v", "", style="dim")
    return table


def remarks(hierarchy: Hierarchy) -> Iterator[str]:
    """Yield a line about recursion and one about functions that nothing calls, where there are any."""
    if hierarchy.cycle:
        yield "recursive: " + " calls ".join(escaped_name(str(name)) for name in hierarchy.cycle)
    if dead := hierarchy.never_called:
        listed = ", ".join(escaped_name(str(name)) for name in dead[:20])
        more = f" and {len(dead) - 20:,} more" if len(dead) > 20 else ""
        yield f"never called: {listed}{more}"
