"""The passes there are, for people and for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onnx_inline.errors import PassUnavailableError
from onnx_inline.reports.text import escaped_name

if TYPE_CHECKING:
    from rich.table import Table

    from onnx_inline.chaining import PassReport
    from onnx_inline.passes.table import PassEntry


def pass_dict(entry: PassEntry) -> dict[str, Any]:
    """Return plain data for JSON; a pass that cannot be imported has a ``fault`` in place of options."""
    try:
        return entry.to_dict()
    except PassUnavailableError as error:
        return {"name": entry.name, "origin": entry.origin, "summary": "", "options": [], "fault": str(error)}


def passes_table(entries: Iterable[PassEntry]) -> Table:
    """Return a rich table, one pass a line."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("pass", "options", "from"):
        table.add_column(title, no_wrap=title != "options", overflow="fold")
    table.add_column("what it does")
    for entry in entries:
        facts = pass_dict(entry)
        options = ", ".join(option["name"] for option in facts["options"])
        summary = facts["summary"] or facts.get("fault", "")
        table.add_row(*map(escaped_name, (entry.name, options, entry.origin, summary)))
    return table


def run_table(passes: Iterable[PassReport]) -> Table:
    """Return a rich table of what each pass of a run did."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("pass", overflow="fold")
    for title in ("nodes", "functions", "seconds"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in passes:
        nodes = f"{one.nodes_before:,} -> {one.nodes_after:,}"
        functions = f"{one.functions_before:,} -> {one.functions_after:,}"
        cells = (escaped_name(one.text), nodes, functions, f"{one.seconds:.2g}")
        table.add_row(*cells, style=None if one.modified else "dim")
    return table
