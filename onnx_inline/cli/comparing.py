"""Commands that compare two models: verify, diff; and the options about numeric comparison."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from onnx_inline.cli.group import Command
from onnx_inline.cli.job import EXTERNAL_ROOT, INPUT_FORMAT
from onnx_inline.cli.output import json_option, print_json, write_text
from onnx_inline.cli.running import AnswerIsNoError
from onnx_inline.cli.settings import settings
from onnx_inline.reports.text import escaped

if TYPE_CHECKING:
    import onnx

_ENGINES = ("onnxruntime", "reference")


def numeric_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about a numeric comparison."""
    for option in (
        click.option("--input-data", metavar="F.npz", help="Use these inputs instead of generated ones."),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the generated inputs."),
        click.option("--atol", type=float, default=1e-5, show_default=True, callback=_tolerance,
                     help="Absolute tolerance."),
        click.option("--rtol", type=float, default=1e-4, show_default=True, callback=_tolerance,
                     help="Relative tolerance."),
    ):  # fmt: skip
        command = option(command)
    return command


def _tolerance(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse what a comparison would never pass, or always."""
    if not 0 <= value < math.inf:
        raise click.BadParameter(f"{value} is no tolerance; give a number, 0 or more")
    return value


def given_inputs(input_data: str | None, model: onnx.ModelProto) -> dict[str, Any] | None:
    """Return the arrays of an .npz file by input name, or None if none is given.

    Raises:
        click.UsageError: the file is no .npz file, or its arrays are not the model's inputs.
    """
    if input_data is None:
        return None
    import numpy as np

    try:
        with np.load(input_data, allow_pickle=False) as arrays:
            found = dict(arrays)
    except (ValueError, EOFError, AttributeError, TypeError) as error:
        raise click.UsageError(f"{input_data}: no .npz file of arrays") from error
    _refuse_other_inputs(input_data, found, model)
    return found


def _refuse_other_inputs(path: str, arrays: dict[str, Any], model: onnx.ModelProto) -> None:
    import onnx

    defaults = {weight.name for weight in model.graph.initializer}
    inputs = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    listed = ", ".join(inputs)
    if strange := sorted(arrays.keys() - inputs.keys()):
        raise click.UsageError(f"{path}: the model has no input {strange[0]!r}; its inputs are {listed}")
    if lacking := sorted(inputs.keys() - arrays.keys() - defaults):
        raise click.UsageError(f"{path}: holds no array for the input {lacking[0]!r}")
    for name, array in arrays.items():
        wanted = onnx.helper.tensor_dtype_to_np_dtype(inputs[name]) if inputs[name] else array.dtype
        if array.dtype != wanted and array.dtype.kind in "biufc" and wanted.kind in "biufc":
            raise click.UsageError(f"{path}: the array {name!r} is {array.dtype}, the input is {wanted}")


def check_numerically(before: onnx.ModelProto, after: onnx.ModelProto, numeric: dict[str, Any]) -> None:
    """Run both models on the same inputs and say how far apart they are.

    Raises:
        AnswerIsNoError: they are not the same, or no engine could run them.
    """
    from onnx_inline.equivalence import verify

    inputs = given_inputs(numeric["input_data"], before)
    tolerances = {name: numeric[name] for name in ("samples", "rtol", "atol", "seed")}
    found = replace(verify(before, after, inputs=inputs, **tolerances), a="before", b="after")
    if not settings().quiet or not found.same:
        click.echo(escaped(str(found)), err=True)
    if not found.same:
        raise AnswerIsNoError


@click.command("verify", cls=Command, example="onnx-inline verify before.onnx after.onnx --samples 10")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--samples", metavar="N", type=click.IntRange(1), default=3, show_default=True,
              help="Sets of inputs to generate.")  # fmt: skip
@click.option("--engine", "engines", type=click.Choice(_ENGINES), multiple=True, help="Run these; else both.")
@numeric_options
@INPUT_FORMAT
@EXTERNAL_ROOT
@json_option
def verify_command(
    first: str,
    second: str,
    engines: tuple[str, ...],
    input_data: str | None,
    input_format: str | None,
    external_root: str | None,
    json: bool,
    report: str | None,
    **numeric: Any,
) -> int:
    """Say whether two models have the same interface and compute the same.

    Inputs are generated to fit the models.  The exit code is 1 if they differ, or could not be compared.
    """
    from onnx_inline.equivalence import verify

    models = [_loaded(path, input_format, external_root) for path in (first, second)]
    inputs = given_inputs(input_data, models[0])
    found = verify(*models, inputs=inputs, engines=engines or _ENGINES, **numeric)
    found = replace(found, a=first, b=second)
    if not print_json("verify", found.to_dict, json, report):
        settings().say(str(found))
    return int(not found.same)


def _loaded(path: str, input_format: str | None, external_root: str | None) -> onnx.ModelProto:
    from onnx_inline.files.protos import load_proto

    return load_proto(path, input_format=input_format, external_root=external_root)


@click.command("diff", cls=Command, example="onnx-inline diff before.onnx after.onnx")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@INPUT_FORMAT
@EXTERNAL_ROOT
@json_option
def diff_command(
    first: str,
    second: str,
    input_format: str | None,
    external_root: str | None,
    json: bool,
    report: str | None,
) -> int:
    """Show how two models differ as text, and their counts side by side.  The exit code is 1 if they differ.

    Weights of more than a few bytes are compared by their hash, those in other files by their place.
    """
    from onnx_inline.reports.changes import before_after_text, model_diff, model_rows
    from onnx_inline.reports.hierarchy import read_hierarchy

    before, after = (_loaded(path, input_format, external_root) for path in (first, second))
    text = model_diff(before, after, first, second)
    facts = {"a": first, "b": second, "same": not text, "diff": text}
    if not print_json("diff", lambda: facts, json, report):
        write_text("-", text)
        if text:
            settings().show(before_after_text(model_rows(read_hierarchy(before), read_hierarchy(after))))
    return int(bool(text))
