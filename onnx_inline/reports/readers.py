"""Targets, that is readers of models, for people and for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from onnx_inline.targets import Target


def targets_table(targets: Iterable[Target]) -> Table:
    """Return a rich table, one target a line."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("target", "reader", "for"):
        table.add_column(title, no_wrap=True)
    table.add_column("operators", justify="right")
    table.add_column("opset", justify="right")
    table.add_column("summary")
    for target in targets:
        newest = str(target.max_opset.get("", ""))
        kind = "gradients" if target.gradients else "inference"
        table.add_row(target.name, target.reader, kind, str(len(target.operators)), newest, target.summary)
    return table


def operators_text(target: Target) -> str:
    """Return the operators that a target takes, in one line."""
    return "takes " + ", ".join(sorted(map(str, target.operators)))


def target_dict(target: Target) -> dict[str, Any]:
    """Return plain data for JSON."""
    return {
        "name": target.name,
        "reader": target.reader,
        "summary": target.summary,
        "gradients": target.gradients is not None,
        "max_opset": dict(target.max_opset),
        "max_ir_version": target.max_ir_version,
        "local_functions": target.local_functions,
        "operators": {str(name): [str(span) for span in spans] for name, spans in target.operators.items()},
    }
