"""Commands about chains of passes: run, bisect, passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from onnx_inline.cli.group import Command
from onnx_inline.cli.job import Job, reads_and_writes, reads_model, refuse_to_overwrite
from onnx_inline.cli.output import json_option, print_json
from onnx_inline.cli.settings import settings
from onnx_inline.reports.text import escaped

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_inline.chaining import RunReport
    from onnx_inline.manager import Instrument


@click.command(
    "run",
    cls=Command,
    example="onnx-inline run in.onnx out.onnx --passes 'inline-functions{keep=m::Attn},remove-unused-nodes'",
)
@reads_and_writes
@click.option("--passes", metavar="TEXT", required=True, help="The chain: pass{option=value},pass,...")
@click.option("--skip", metavar="PASS", multiple=True, help="Leave this pass out of the chain; repeatable.")
@click.option("--verify", type=click.Choice(["off", "structure", "numeric"]), default="structure",
              show_default=True, help="What to hold the model to after each pass.")  # fmt: skip
@click.option("--dump-on-failure", metavar="PATH", help="Where to write the model before a pass that fails.")
@json_option
def run_command(
    job: Job,
    passes: str,
    skip: tuple[str, ...],
    verify: str,
    dump_on_failure: str | None,
    json: bool,
    report: str | None,
) -> None:
    """Run a chain of passes.  With --diff, show what each of them changes.

    "onnx-inline passes" lists them.  pyproject.toml may hold the chain: passes = "..." in [tool.onnx-inline].
    """
    from onnx_inline.chaining import run_file

    outcome = run_file(
        job.source,
        job.target,
        _chain(passes, skip),
        instruments=_instruments(job, verify),
        dump_on_failure=dump_on_failure,
        **job.reading(),
        **job.writing(),
    )
    if not (print_json("run", lambda: {**job.to_dict(), **outcome.to_dict()}, json, report) or job.diff):
        _tell(job, outcome)


def _chain(text: str, skip: Iterable[str]) -> list[ir.passes.PassBase]:
    from onnx_inline.passes.table import entry_of, name_of
    from onnx_inline.passes.text import parse_passes

    left_out = {entry_of(name).name for name in skip}
    return [each for each in parse_passes(text) if name_of(each) not in left_out]


def _instruments(job: Job, verify: str) -> list[Instrument]:
    from onnx_inline.instruments import Changes, Progress, Verification

    silent = settings().quiet or settings().no_progress
    chosen: list[Instrument] = [] if silent else [Progress()]
    if verify != "off":
        chosen.append(Verification(numeric=verify == "numeric"))
    if job.diff:
        chosen.append(Changes(write=lambda text: click.echo(escaped(text))))
    return chosen


def _tell(job: Job, outcome: RunReport) -> None:
    from onnx_inline.reports.pass_list import run_table

    head, *_ = str(outcome).splitlines()
    settings().say("\n".join([head, *outcome.notes]) + job.remark())
    if outcome.passes and not settings().quiet:
        settings().show(run_table(outcome.passes))


@click.command(
    "bisect",
    cls=Command,
    example="onnx-inline bisect in.onnx --passes 'inline-functions,identity-elimination' -o bad.onnx",
)
@reads_model
@click.option("--passes", metavar="TEXT", required=True, help="The chain: pass{option=value},pass,...")
@click.option("--by", metavar="WHAT", default="outputs", show_default=True,
              help="outputs, checker, or a command that exits with 0 for a good model.")  # fmt: skip
@click.option("--timeout", metavar="SECONDS", type=float, help="When the command counts as failed.")
@click.option("-o", "--output", metavar="PATH", help="Where to write the smallest failing model.")
@click.option("--force", is_flag=True, help="Write over a file that is there already.")
@json_option
def bisect_command(
    model: str,
    input_format: str | None,
    external_root: str | None,
    passes: str,
    by: str,
    timeout: float | None,
    output: str | None,
    force: bool,
    json: bool,
    report: str | None,
) -> int:
    """Find the pass of a chain, and the node within it, that first makes a model go wrong.

    A command gets the path of a model at its end, or in place of {}.  The exit code is 0 if the model is
    good after the last pass, and 1 if it goes wrong or was bad before the first.
    """
    from onnx_inline.bisection import bisect, by_command
    from onnx_inline.files.lazy import load

    refuse_to_overwrite(model, output, force)
    loaded = load(model, input_format=input_format, external_root=external_root)
    predicate = by if by in ("outputs", "checker") else by_command(by, timeout=timeout)
    found = bisect(loaded, passes, predicate, output=output)
    facts = {"source": model, **found.to_dict()}
    facts["pass"], facts["reproduce"] = facts.pop("pass_"), facts.pop("command")
    if not print_json("bisect", lambda: facts, json, report):
        settings().say(str(found))
    return int(not found.good)


@click.command("passes", cls=Command, example="onnx-inline passes")
@json_option
def passes_command(json: bool, report: str | None) -> None:
    """List the passes that a chain can be made of, with their options."""
    from onnx_inline.passes.table import known_passes
    from onnx_inline.reports.pass_list import pass_dict, passes_table

    entries = list(known_passes().values())
    if not print_json("passes", lambda: {"passes": [pass_dict(entry) for entry in entries]}, json, report):
        settings().listing(passes_table(entries))
