"""Commands about passes: passes."""

from __future__ import annotations

import click

from onnx_inline.cli.group import Command
from onnx_inline.cli.output import json_option, print_json
from onnx_inline.cli.settings import settings


@click.command("passes", cls=Command, example="onnx-inline passes")
@json_option
def passes_command(json: bool, report: str | None) -> None:
    """List the passes that a chain can be made of, with their options."""
    from onnx_inline.passes.table import known_passes
    from onnx_inline.reports.pass_list import pass_dict, passes_table

    entries = list(known_passes().values())
    if not print_json("passes", lambda: {"passes": [pass_dict(entry) for entry in entries]}, json, report):
        settings().result(passes_table(entries))
