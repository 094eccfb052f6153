"""Where the results of commands go: JSON, text files, stdout."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from onnx_inline._version import __version__

#: Version of the JSON that ``--json`` prints; grows when a field goes or changes meaning.
SCHEMA_VERSION = 1

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(command: _Command) -> _Command:
    """Add ``--json`` and ``--report PATH``."""
    command = click.option("--report", metavar="PATH", help="Write the JSON to a file. Also: --json=PATH.")(
        command
    )
    return click.option("--json", is_flag=True, help="Print JSON on stdout, and nothing else there.")(command)


def print_json(
    command: str, facts: Callable[[], Mapping[str, Any]], wanted: bool, report: str | None
) -> bool:
    """Print ``facts()`` as JSON if ``wanted``, write it to ``report``; say if stdout has it."""
    if not wanted and report is None:
        return False
    text = json_text(command, facts())
    if report is not None:
        write_text(report, text)
    if wanted:
        write_text("-", text)
    return wanted


def json_text(command: str, facts: Mapping[str, Any]) -> str:
    """Return the machine form of a result."""
    import json

    head = {"schema_version": SCHEMA_VERSION, "onnx_inline": __version__, "command": command}
    # ASCII, so that names with control characters or lone surrogates leave no terminal or encoder in doubt.
    return json.dumps(_finite({**head, **facts}), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _finite(facts: Any) -> Any:
    """Return ``facts`` with infinities and NaN, which JSON lacks, as text."""
    if isinstance(facts, float) and not math.isfinite(facts):
        return str(facts)
    if isinstance(facts, Mapping):
        return {key: _finite(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_finite(value) for value in facts]
    return facts


def write_text(path: str, text: str) -> None:
    """Write ``text`` to a file, or to stdout if ``path`` is ``-``."""
    if path == "-":
        sys.stdout.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
