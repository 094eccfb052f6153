"""From where to where a command reads and writes a model; the options that say so."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from onnx_inline.cli.settings import settings
from onnx_inline.errors import FileError

FORMATS = ("onnx", "textproto", "onnxtxt", "json")

#: How external data is treated, by the word after ``--external``.
EXTERNAL = ("copy", "keep", "inline")


@dataclass(frozen=True)
class Job:
    """What one command reads and writes.

    Attributes:
        source: the model to read; ``-`` is stdin.
        target: where to write; ``-`` is stdout, None is nowhere.
        input_format: of :data:`FORMATS`; None is by suffix.
        output_format: likewise.
        external: of :data:`EXTERNAL`; None lets the place of the output decide.
        external_data: name of the data file beside the output; None is chosen freely.
        size_threshold: tensors of at least so many bytes go into the data file.
        external_root: a folder that links of external data may lead into.
        diff: print what would change as text.
    """

    source: str
    target: str | None
    input_format: str | None = None
    output_format: str | None = None
    external: str | None = None
    external_data: str | None = None
    size_threshold: int = 1024
    external_root: str | None = None
    diff: bool = False

    def reading(self) -> dict[str, Any]:
        """Return the keywords for functions that read a model file."""
        return {"input_format": self.input_format, "external_root": self.external_root}

    def writing(self) -> dict[str, Any]:
        """Return the keywords for functions that write a model file."""
        return {
            "external": self.external or "auto",
            "external_data": self.external_data,
            "size_threshold_bytes": self.size_threshold,
            "output_format": self.output_format,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"source": self.source, "target": self.target}

    def remark(self) -> str:
        """Return what to add to the answer if nothing was written."""
        return "" if self.target else "\nnothing written (dry run); give OUT, -o PATH or --in-place to write"


def reads_model(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument IN, called ``model``, and the options about reading it."""
    for option in (EXTERNAL_ROOT, INPUT_FORMAT, click.argument("model", metavar="IN")):
        command = option(command)
    return command


def reads_and_writes(command: Callable[..., Any], *, more: str | None = None) -> Callable[..., Any]:
    """Give a command IN, OUT and the options about them; it is called with a :class:`Job` first.

    With ``more``, further paths take the place of OUT and come as a keyword of that name.
    """

    @functools.wraps(command)
    def with_job(
        source: str, output: str | None, in_place: bool, force: bool, dry_run: bool,
        input_format: str | None, output_format: str | None, external: str | None, external_data: str | None,
        size_threshold: int, external_root: str | None, diff: bool, out: str | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        target = chosen_target(source, out, output, in_place)
        refuse_to_overwrite(source, target, force)
        if diff or (target == "-" and not dry_run):
            settings().stdout_taken = True
            _refuse_json("the diff" if diff else "the model", options)
        job = Job(
            source, None if dry_run or diff else target, input_format, output_format, external, external_data,
            size_threshold, external_root, diff,
        )  # fmt: skip
        return command(job, **options)

    decorated: Callable[..., Any] = with_job
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    second: dict[str, Any] = {"metavar": "[OUT]", "required": False}
    if more is not None:
        second = {"metavar": f"{more.upper()}...", "nargs": -1}
    return click.argument("source", metavar="IN")(click.argument(more or "out", **second)(decorated))


_Option = Callable[[Callable[..., Any]], Callable[..., Any]]

INPUT_FORMAT: _Option = click.option(
    "--input-format", type=click.Choice(FORMATS), help="Format of IN; else by suffix, or onnx."
)

EXTERNAL_ROOT: _Option = click.option(
    "--external-root", metavar="DIR", help="A folder that external data may lie in."
)

_OPTIONS: tuple[_Option, ...] = (
    click.option("-o", "--output", metavar="PATH", help="Where to write; - is stdout."),
    click.option("--in-place", is_flag=True, help="Write over IN."),
    click.option("--force", is_flag=True, help="Write over a file that is there already."),
    click.option("--dry-run", is_flag=True, help="Write nothing; as without an output."),
    click.option("--diff", is_flag=True, help="Write nothing; print what would change."),
    INPUT_FORMAT,
    click.option(
        "--format", "output_format", type=click.Choice(FORMATS),
        help="Format of OUT; else by suffix, or onnx.",
    ),
    click.option(
        "--external", type=click.Choice(EXTERNAL), help="What becomes of external data; else as OUT needs."
    ),
    click.option("--external-data", metavar="NAME", help="Name of the data file beside OUT."),
    click.option(
        "--size-threshold", metavar="BYTES", type=click.IntRange(0), default=1024, show_default=True,
        help="Smaller tensors stay inside.",
    ),
    EXTERNAL_ROOT,
)  # fmt: skip


def chosen_target(source: str, out: str | None, output: str | None, in_place: bool) -> str | None:
    """Return the one output that was asked for, or None.

    Raises:
        click.UsageError: two were asked for, or stdin is to be changed in place.
    """
    asked = [path for path in (out, output) if path is not None]
    if len(asked) + in_place > 1:
        raise click.UsageError("one output, please: OUT, -o or --in-place")
    if in_place and source == "-":
        raise click.UsageError("stdin cannot be changed in place; use -o")
    return source if in_place else next(iter(asked), None)


def refuse_to_overwrite(source: str, target: str | None, force: bool) -> None:
    """Keep an existing file that is not the input, unless told to write over it.

    Raises:
        FileError: ``target`` exists.
    """
    if target is None or target == "-" or force or not os.path.lexists(target):
        return
    if Path(target).exists() and Path(source).exists() and Path(source).samefile(target):
        return
    if Path(target).is_dir():
        raise FileError("is a folder, not a file", path=target, hint="name a file to write")
    raise FileError("exists and is not the input", path=target, hint="--force writes over it")


def _refuse_json(other: str, options: dict[str, Any]) -> None:
    if options.get("json"):
        raise click.UsageError(f"stdout holds {other}, so the JSON needs a file: --report PATH")
