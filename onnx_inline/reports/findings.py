"""What a check found, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_inline.errors import listed
from onnx_inline.reports.text import escaped_name, quantity

if TYPE_CHECKING:
    from rich.table import Table

    from onnx_inline.gradients import GradientReport


def answer(report: GradientReport) -> str:
    """Return one line: whether the target takes the model, and how much was looked at."""
    looked = f"{report.nodes_on_paths:,} of {quantity(report.nodes, 'node')} on the way"
    if report.ok:
        return f"ready for {report.target}: {looked}"
    blocking = quantity(len(report.blocking), "finding")
    return f"not ready for {report.target}: {blocking} in the way; {looked}"


def findings_table(report: GradientReport) -> Table:
    """Return a rich table, one finding a line, what blocks first."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for title in ("finding", "where", "cure"):
        table.add_column(title, overflow="fold")
    for finding in report.findings:
        where = listed([escaped_name(place) for place in finding.places], 3)
        cells = ("blocks" if finding.blocks else "note", escaped_name(finding.message), where)
        table.add_row(*cells, escaped_name(finding.cure), style="red" if finding.blocks else "dim")
    return table
