"""Commands that fit models to their readers: check, prepare, decompose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onnx_inline.cli.comparing import check_numerically, numeric_options
from onnx_inline.cli.group import Command
from onnx_inline.cli.job import Job, reads_and_writes, reads_model
from onnx_inline.cli.output import json_option, print_json
from onnx_inline.cli.settings import settings
from onnx_inline.cli.writing import finish, load

if TYPE_CHECKING:
    import onnx


@click.command("check", cls=Command, example="onnx-inline check model.onnx --target ort-training")
@reads_model
@click.option("--target", metavar="NAME", default="ort-training", show_default=True, help="See targets.")
@click.option(
    "--trainable", metavar="NAME", multiple=True, help="Ask for this gradient; else for all weights."
)
@click.option(
    "--loss", metavar="NAME", multiple=True, help="Ask gradients of this value; else of all outputs."
)
@click.option("--keep", metavar="PATTERN", multiple=True, help="Functions that the reader knows.")
@json_option
def check_command(
    model: str,
    input_format: str | None,
    external_root: str | None,
    target: str,
    trainable: tuple[str, ...],
    loss: tuple[str, ...],
    keep: tuple[str, ...],
    json: bool,
    report: str | None,
) -> int:
    """Say what stands between a model and its reader, for example its gradient builder.

    The model is judged as it is once its functions are inlined; a function that the reader does not take is
    a finding too.  The exit code is 1 if anything blocks.
    """
    from onnx_inline.files.protos import load_proto
    from onnx_inline.gradients import check_gradients
    from onnx_inline.reports.findings import answer, findings_table

    proto = load_proto(model, input_format=input_format, external_root=external_root)
    found = check_gradients(proto, target, trainable or None, outputs=loss or None, keep=keep or None)
    if not print_json("check", lambda: {"model": model, **found.to_dict()}, json, report):
        settings().say(answer(found))
        if found.findings and not settings().quiet:
            settings().listing(findings_table(found))
    return int(not found.ok)


@click.command(
    "prepare", cls=Command, example="onnx-inline prepare in.onnx -o out.onnx --target ort-training"
)
@reads_and_writes
@click.option("--target", metavar="NAME", default="ort-training", show_default=True, help="See targets.")
@click.option("--keep", metavar="PATTERN", multiple=True, help="Functions that the reader knows.")
@click.option("--trainable", metavar="NAME", multiple=True, help="Train this one; else all weights.")
@click.option("--output-name", "output_names", metavar="NAME", multiple=True,
              help="New name of an output; once for each, in order.")  # fmt: skip
@click.option(
    "--check", "samples", metavar="N", type=click.IntRange(1), help="Compare N runs before writing."
)
@numeric_options
@json_option
def prepare_command(job: Job, json: bool, report: str | None, **options: Any) -> int:
    """Make a model one that its reader takes: inline, lower, decompose, clean, name and check.

    The exit code is 1 if something still blocks; the model is written all the same.
    """
    from onnx_inline.preparation import prepare

    numeric = {name: options.pop(name) for name in ("samples", "rtol", "atol", "seed", "input_data")}
    if numeric["samples"] and options["output_names"]:
        raise click.UsageError(
            "--check compares models of the same interface, so it goes without --output-name"
        )
    before = load(job)
    wishes: dict[str, Any] = {name: value or None for name, value in options.items()}
    after, outcome = prepare(before, with_report=True, **wishes)
    if numeric["samples"]:
        check_numerically(before, after, numeric)
    finish(job, before, after)
    if not (print_json("prepare", lambda: {**job.to_dict(), **outcome.to_dict()}, json, report) or job.diff):
        settings().say(str(outcome) + job.remark())
        if not settings().quiet:
            settings().show(_before_and_after(before, after))
    return int(not outcome.ok)


def _before_and_after(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    from onnx_inline.reports.changes import before_after_text, model_rows
    from onnx_inline.reports.hierarchy import read_hierarchy

    return before_after_text(model_rows(read_hierarchy(before), read_hierarchy(after)))


@click.command(
    "decompose", cls=Command, example="onnx-inline decompose in.onnx -o out.onnx --target ort-training"
)
@reads_and_writes
@click.option("--target", metavar="NAME", help="Replace what this reader lacks; see targets.")
@click.option("--operator", "operators", metavar="OP", multiple=True, help="Replace this one in any case.")
@json_option
def decompose_command(
    job: Job, target: str | None, operators: tuple[str, ...], json: bool, report: str | None
) -> None:
    """Replace operators by what they are made of, until only supported ones are left.

    With neither --target nor --operator, all operators whose schema has a body are replaced.
    """
    from onnx_inline.passes.decompose_operators import decompose_operators

    before = load(job)
    after, outcome = decompose_operators(before, target=target, operators=operators or None, with_report=True)
    finish(job, before, after)
    if not (
        print_json("decompose", lambda: {**job.to_dict(), **outcome.to_dict()}, json, report) or job.diff
    ):
        settings().say(str(outcome) + job.remark())
