"""The command that gives weights to initializers without data: bind."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from onnx_inline.cli.group import Command
from onnx_inline.cli.job import Job, reads_and_writes
from onnx_inline.cli.output import json_option, print_json
from onnx_inline.cli.settings import settings

if TYPE_CHECKING:
    import onnx_ir as ir


@click.command("bind", cls=Command, example="onnx-inline bind model.onnx weights.safetensors -o bound.onnx")
@functools.partial(reads_and_writes, more="weights")
@click.option("--no-strict", is_flag=True, help="Bind what fits, and say what does not.")
@json_option
def bind_command(job: Job, weights: tuple[str, ...], no_strict: bool, json: bool, report: str | None) -> int:
    """Give the initializers that have no data the data of the same name from WEIGHTS.

    WEIGHTS are .safetensors, .npz or torch .pt files, or other models.  Without any, the initializers that
    have no data are listed, and the exit code is 1 if there are some.
    """
    from onnx_inline.files.lazy import load

    model = load(job.source, **job.reading())
    facts = _bind(model, weights, strict=not no_strict) if weights else {}
    facts["unbound"] = _unbound(model)
    if job.target is not None:
        from onnx_inline.files.lazy import save

        save(model, job.target, **job.writing())
    if not print_json("bind", lambda: {**job.to_dict(), **facts}, json, report):
        _tell(job, facts)
    return int(bool(facts["unbound"]))


def _bind(model: ir.Model, weights: tuple[str, ...], *, strict: bool) -> dict[str, Any]:
    from onnx_inline.binding import bind_initializers

    _, done = bind_initializers(model, *weights, strict=strict, with_report=True)
    return {
        "bound": list(done.bound),
        "unused": list(done.unused),
        "mismatched": [str(mismatch) for mismatch in done.mismatched],
        "already_bound": list(done.already_bound),
    }


def _unbound(model: ir.Model) -> list[dict[str, Any]]:
    from onnx_inline.unbound import unbound_initializers

    found = unbound_initializers(model)
    return [{"name": one.name, "type": one.type, "shape": one.shape, "why": one.why} for one in found]


def _tell(job: Job, facts: dict[str, Any]) -> None:
    from onnx_inline.reports.text import escaped_name, quantity

    missing = quantity(len(facts["unbound"]), "initializer")
    if "bound" not in facts:
        settings().say(f"{missing} without data")
    else:
        bound = quantity(len(facts["bound"]), "initializer")
        settings().say(f"bound {bound}; {missing} without data{job.remark()}")
    for one in facts["unbound"]:
        settings().say(f"  {escaped_name(one['name'])}: {one['why']}")
    for kind in ("unused", "mismatched"):
        for name in facts.get(kind, ()):
            settings().say(f"  {kind}: {escaped_name(name)}")
