"""Commands that look and change nothing: inspect, doctor."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from onnx_inline.cli.group import Command
from onnx_inline.cli.job import reads_model
from onnx_inline.cli.output import json_option, print_json, write_text
from onnx_inline.cli.settings import settings

if TYPE_CHECKING:
    from onnx_inline.identifiers import OperatorId
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
@click.option("--target", metavar="NAME", help="Mark the operators that this reader lacks; see targets.")
@click.option("--dot", metavar="PATH", help="Write the call graph for Graphviz; - is stdout.")
@click.option("--svg", metavar="PATH", help="Draw the call graph, with Graphviz; - is stdout.")
@json_option
def inspect_command(
    model: str,
    input_format: str | None,
    external_root: str | None,
    depth: int,
    sort: str,
    target: str | None,
    dot: str | None,
    svg: str | None,
    json: bool,
    report: str | None,
) -> None:
    """Show which functions a model holds, who calls them, and how large they are.

    Weights are not read.  Without --json or --dot, a tree and the operators of the flat model are printed.
    """
    if json and "-" in (dot, svg):
        raise click.UsageError("stdout holds the drawing, so the JSON needs a file: --report PATH")
    from onnx_inline.files.skeleton import read_skeleton
    from onnx_inline.reports.hierarchy import read_hierarchy

    hierarchy = read_hierarchy(
        read_skeleton(model, input_format=input_format, external_root=external_root).model
    )
    if dot or svg:
        _draw(hierarchy, dot, svg)
    missing = _missing(hierarchy, target)
    facts = {"model": model, "target": target, "missing": sorted(map(str, missing))}
    if print_json("inspect", lambda: {**facts, **hierarchy.to_dict()}, json, report) or dot or svg:
        return
    _print_hierarchy(model, hierarchy, depth, sort, missing)


def _draw(hierarchy: Hierarchy, dot: str | None, svg: str | None) -> None:
    from onnx_inline.reports.drawing import dot_text, svg_text

    text = dot_text(hierarchy)
    if dot:
        write_text(dot, text)
    if svg:
        write_text(svg, svg_text(text))


def _missing(hierarchy: Hierarchy, target: str | None) -> Collection[OperatorId]:
    from onnx_inline.targets import load_target

    return hierarchy.lacking(load_target(target)) if target else ()


def _print_hierarchy(
    model: str, hierarchy: Hierarchy, depth: int, sort: str, missing: Collection[OperatorId]
) -> None:
    from onnx_inline.reports.summary import heading, operators_table, remarks
    from onnx_inline.reports.tree import tree_table

    chosen = settings()
    chosen.say(heading(model, hierarchy))
    unicode, width = chosen.unicode(), chosen.width()
    tree = tree_table(hierarchy, depth=depth, sort=sort, unicode=unicode, width=width, missing=missing)
    chosen.result(tree)
    chosen.result(operators_table(hierarchy, limit=None if chosen.verbose else 20, missing=missing))
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
        settings().listing(parts_table(parts))
    return int(any(part.required and part.fault for part in parts))


@click.command("targets", cls=Command, example="onnx-inline targets\nonnx-inline targets ort-training --json")
@click.argument("name", metavar="[NAME]", required=False)
@json_option
def targets_command(name: str | None, json: bool, report: str | None) -> None:
    """List the readers of models that --target can name, or what one of them takes.

    NAME is one of the list, or the path of a TOML file of your own.
    """
    from onnx_inline.reports.readers import operators_text, target_dict, targets_table
    from onnx_inline.targets import list_targets, load_target

    found = [load_target(each) for each in ([name] if name else list_targets())]
    if print_json("targets", lambda: {"targets": [target_dict(target) for target in found]}, json, report):
        return
    settings().listing(targets_table(found))
    if name:
        settings().say(operators_text(found[0]))
