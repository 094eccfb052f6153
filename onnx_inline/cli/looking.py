"""Commands that look and change nothing: inspect, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onnx_inline.cli.group import Command
from onnx_inline.cli.job import reads_model
from onnx_inline.cli.output import json_option, print_json, write_text
from onnx_inline.cli.settings import settings

if TYPE_CHECKING:
    from onnx_inline.reports.hierarchy import Hierarchy

_SORTS = ("order", "calls", "nodes", "flat", "bytes", "depth")


@click.command(
    "inspect",
    cls=Command,
    example="onnx-inline inspect model.onnx --sort bytes\n"
    "onnx-inline inspect model.onnx --dot - | dot -Tpng -o calls.png",
)
@reads_model
@click.option(
    "--depth", metavar="N", type=click.IntRange(0), default=16, show_default=True, help="Levels to show."
)
@click.option(
    "--sort", type=click.Choice(_SORTS), default="order", show_default=True, help="Order of siblings."
)
@click.option("--dot", metavar="PATH", help="Write the call graph for Graphviz; - is stdout.")
@json_option
def inspect_command(
    model: str,
    input_format: str | None,
    external_root: str | None,
    depth: int,
    sort: str,
    dot: str | None,
    json: bool,
    report: str | None,
) -> None:
    """Show which functions a model holds, who calls them, and how large they are.

    Weights are not read.  Without --json or --dot, a tree and the operators of the flat model are printed.
    """
    from onnx_inline.files.skeleton import read_skeleton
    from onnx_inline.reports.hierarchy import read_hierarchy

    hierarchy = read_hierarchy(
        read_skeleton(model, input_format=input_format, external_root=external_root).model
    )
    if dot:
        from onnx_inline.reports.tree import dot_text

        write_text(dot, dot_text(hierarchy))
    if print_json("inspect", lambda: {"model": model, **hierarchy.to_dict()}, json, report) or dot:
        return
    _print_hierarchy(model, hierarchy, depth, sort)


def _print_hierarchy(model: str, hierarchy: Hierarchy, depth: int, sort: str) -> None:
    from onnx_inline.reports.summary import heading, operators_table, remarks
    from onnx_inline.reports.tree import tree_table

    chosen = settings()
    chosen.say(heading(model, hierarchy))
    chosen.result(
        tree_table(hierarchy, depth=depth, sort=sort, unicode=chosen.unicode(), width=chosen.width())
    )
    chosen.result(operators_table(hierarchy, limit=None if chosen.verbose else 20))
    for remark in remarks(hierarchy):
        chosen.say(remark)


@click.command("doctor", cls=Command, example="onnx-inline doctor")
@json_option
def doctor_command(json: bool, report: str | None) -> int:
    """Show versions, what is installed, and what works.  Exit code 1 if something needed does not."""
    from onnx_inline.cli.group import version_line
    from onnx_inline.reports.installation import examine, parts_dict, parts_table

    parts = examine()
    if not print_json("doctor", lambda: parts_dict(parts), json, report):
        settings().say(version_line())
        settings().result(parts_table(parts))
    return int(any(part.required and part.fault for part in parts))
