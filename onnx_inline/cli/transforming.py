"""Commands that write a changed model: inline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onnx_inline.cli.comparing import check_numerically, numeric_options
from onnx_inline.cli.group import Command
from onnx_inline.cli.job import Job, reads_and_writes
from onnx_inline.cli.output import json_option, print_json
from onnx_inline.cli.settings import settings
from onnx_inline.cli.writing import finish, load

if TYPE_CHECKING:
    from onnx_inline.engine.report import InlineReport


@click.command(
    "inline",
    cls=Command,
    example="onnx-inline inline in.onnx out.onnx\n"
    "onnx-inline inline in.onnx -o out.onnx --only 'torch.nn.modules.*::*' --keep '*::Attention'",
)
@reads_and_writes
@click.option("--only", metavar="PATTERN", multiple=True, help="Inline these functions; repeatable.")
@click.option("--keep", metavar="PATTERN", multiple=True, help="Keep these functions; repeatable.")
@click.option("--max-nodes", metavar="N", type=click.IntRange(0), help="Refuse results with more nodes.")
@click.option(
    "--names", type=click.Choice(["path", "flat"]), default="path", help="How new values are named."
)
@click.option("--provenance", is_flag=True, help="Record in each node which calls it came through.")
@click.option(
    "--check", "samples", metavar="N", type=click.IntRange(1), help="Compare N runs before writing."
)
@numeric_options
@json_option
def inline_command(job: Job, json: bool, report: str | None, **options: Any) -> None:
    """Replace calls of functions by the functions' bodies.

    A PATTERN is a glob over domain::name.  Without an output nothing is written: a dry run.
    """
    from onnx_inline import api

    numeric = {name: options.pop(name) for name in ("samples", "rtol", "atol", "seed", "input_data")}
    options = {name: value for name, value in options.items() if value not in (None, ())}
    if job.diff or numeric["samples"]:
        outcome = _inlined_in_memory(job, options, numeric)
    else:
        outcome = api.inline_file(job.source, job.target, **options, **job.reading(), **job.writing())
    if not (print_json("inline", lambda: {**job.to_dict(), **outcome.to_dict()}, json, report) or job.diff):
        _tell(job, outcome)


def _inlined_in_memory(job: Job, options: dict[str, Any], numeric: dict[str, Any]) -> InlineReport:
    """Inline with both models at hand, to compare them before anything is written."""
    from onnx_inline import api

    before = load(job)
    after, outcome = api.inline_functions(before, **options, with_report=True)
    if numeric["samples"]:
        check_numerically(before, after, numeric)
    finish(job, before, after)
    return outcome


def _tell(job: Job, outcome: InlineReport) -> None:
    from onnx_inline.reports.changes import before_after_text, inline_rows

    settings().say(str(outcome) + job.remark())
    if outcome.modified and not settings().quiet:
        settings().show(before_after_text(inline_rows(outcome)))
