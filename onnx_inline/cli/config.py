"""Values for options from ``[tool.onnx-inline]`` in pyproject.toml, or from onnx-inline.toml."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

#: What a file in a folder must not decide for whoever works there: where to write, and over what.
ASKED_EACH_TIME = frozenset({"output", "in_place", "force", "report", "dot", "svg"})


def config_file(folder: Path) -> Path | None:
    """Return the nearest file with our options, from ``folder`` up; ours before pyproject.toml."""
    for place in (folder, *folder.parents):
        if (own := place / "onnx-inline.toml").is_file():
            return own
        shared = place / "pyproject.toml"
        if shared.is_file() and b"tool.onnx-inline" in shared.read_bytes():
            return shared
    return None


def configured(
    command: click.Command, folder: Path, all_commands: Callable[[], Iterable[click.Command]]
) -> dict[str, Any]:
    """Return the values that the nearest file gives for the options of ``command``.

    Keys are the options' long names; those in a table named like the command win over those outside of one,
    which need only be options of some command.

    Raises:
        click.UsageError: the file is no TOML, or has a key that no command knows, or a table for no command.
    """
    path = config_file(folder)
    if path is None:
        return {}
    table = _read(path)
    tables = {key for key, value in table.items() if isinstance(value, dict)} - {command.name}
    if tables:
        _refuse_unknown_tables(path, tables, {str(other.name) for other in all_commands()})
    own = table.get(command.name or "", {})
    if not isinstance(own, dict):
        raise click.UsageError(f"{path}: {command.name} must be a table of options")
    shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
    names = dict(_option_names(command))
    _refuse_unknown(own, names, f"{path}: {command.name}")
    if shared.keys() - names.keys():
        everywhere = {name for other in all_commands() for name, _ in _option_names(other)}
        _refuse_unknown(shared, everywhere, f"{path}: onnx-inline")
    return {names[key]: value for key, value in {**shared, **own}.items() if key in names}


def _refuse_unknown_tables(path: Path, names: Iterable[str], commands: Collection[str]) -> None:
    for name in sorted(names):
        if name not in commands:
            close = difflib.get_close_matches(name, commands, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"{path}: there is no command {name!r} to set options of{meant}")


def _option_names(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the long name of each option that a file may set, and the name click has for it."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name not in ASKED_EACH_TIME:
            long = max(parameter.opts, key=len).removeprefix("--")
            yield long, str(parameter.name)


def _refuse_unknown(keys: Iterable[str], known: Collection[str], place: str) -> None:
    for key in keys:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"{place} has no option {key!r} that a file may set{meant}")


def _read(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    if path.name == "pyproject.toml":
        data = data.get("tool", {}).get("onnx-inline", {})
    return data if isinstance(data, dict) else {}
