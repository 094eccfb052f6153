"""Targets read from TOML files: those of the package, and a user's own."""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from onnx_inline.errors import FileError, TargetFileError, UnknownTargetError
from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.targets.target import GradientRules, OpsetRange, Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The keys of a target file, and the type that each must have.
KEYS: Mapping[str, type] = {
    "name": str,
    "reader": str,
    "summary": str,
    "max_ir_version": int,
    "local_functions": bool,
    "expands_schema_functions": bool,
    "max_opset": dict,
    "operators": dict,
    "gradients": dict,
}
GRADIENT_KEYS: Mapping[str, type] = {
    "ignores_domain": bool,
    "without": list,
    "stops": dict,
    "inputs": dict,
    "outputs": dict,
    "attributes": dict,
    "reserved_suffix": str,
    "unique_node_names": bool,
    "leaf_used_twice": bool,
    "leaf_used_once": list,
}


def list_targets() -> tuple[str, ...]:
    """Return the names of the targets that come with the package, in order.

    Example:
        >>> "ort-training" in list_targets()
        True
    """
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load_target(target: str | os.PathLike[str] | Target) -> Target:
    """Return a target.

    Args:
        target: the name of a target of the package, the path of a TOML file, or a target, returned as it is.

    Raises:
        UnknownTargetError: there is no target of that name.
        FileError: the file cannot be read.
        TargetFileError: the file is no target file; the message says which key is wrong.

    Example:
        >>> load_target("ort-training").max_opset[""]
        21
    """
    if isinstance(target, Target):
        return target
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"a target is a name, a path or a Target, not {type(target).__name__}")
    if isinstance(target, str) and target in list_targets():
        return _packaged(target)
    path = Path(target)
    if isinstance(target, str) and path.suffix != ".toml":
        raise _unknown(target)
    return target_from_table(_parsed(_read(path), os.fspath(target)), os.fspath(target))


@functools.cache
def _packaged(name: str) -> Target:
    return target_from_table(target_table(name), f"{name}.toml")


def target_table(name: str) -> dict[str, Any]:
    """Return the file of a target of the package, as plain dictionaries and lists."""
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return _parsed(text, f"{name}.toml")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(
            f"the target file cannot be read: {reason}", path=str(path), errno=getattr(error, "errno", None)
        ) from error


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(text)
        return table
    except tomllib.TOMLDecodeError as error:
        raise TargetFileError(f"not TOML: {error}", path=path) from error


def _unknown(name: str) -> UnknownTargetError:
    known = list_targets()
    return UnknownTargetError(
        f"there is no target {name!r}; there are {', '.join(known)}, and a file of your own is named by its "
        "path, which ends in .toml",
        name=name,
        close=difflib.get_close_matches(name, known, n=2, cutoff=0.6),
    )


# ------------------------------------------------------------------------ from table to target


def target_from_table(table: Mapping[str, Any], path: str = "") -> Target:
    """Return the target that a table, as TOML holds it, describes.

    Args:
        table: see the reference page on target files; ``name`` and ``operators`` are required.
        path: the file it comes from, for error messages.

    Raises:
        TargetFileError: a key is missing, unknown or of the wrong type, or an entry cannot be read.

    Example:
        >>> target_from_table({"name": "mine", "operators": {"ai.onnx": ["Add", "Softmax 1-10,13-"]}}).name
        'mine'
    """
    _check(table, KEYS, "", path)
    for key in ("name", "operators"):
        if key not in table:
            raise TargetFileError(f"the key {key!r} is missing", path=path, field=key)
    plain = {key: table[key] for key in KEYS if key in table and KEYS[key] is not dict}
    gradients = table.get("gradients")
    return Target(
        **plain,
        operators=_operators(table["operators"], path),
        max_opset={
            normalized_domain(domain): _integer(version, f"max_opset.{domain}", path)
            for domain, version in table.get("max_opset", {}).items()
        },
        gradients=None if gradients is None else _gradients(gradients, path),
    )


def _check(table: Mapping[str, Any], keys: Mapping[str, type], prefix: str, path: str) -> None:
    for key, value in table.items():
        field = prefix + key
        if key not in keys:
            known = ", ".join(keys)
            raise TargetFileError(f"unknown key {field!r}; the keys are {known}", path=path, field=field)
        # A TOML boolean is an int in Python, and must not pass for one.
        if not isinstance(value, keys[key]) or (keys[key] is int and isinstance(value, bool)):
            raise TargetFileError(
                f"{field} must be {_SPOKEN[keys[key]]}, but is {value!r}", path=path, field=field
            )


_SPOKEN = {str: "a string", int: "an integer", bool: "true or false", dict: "a table", list: "a list"}


def _integer(value: object, field: str, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TargetFileError(f"{field} must be a whole number, but is {value!r}", path=path, field=field)
    return value


def _strings(value: object, field: str, path: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise TargetFileError(f"{field} must be a list of strings, but is {value!r}", path=path, field=field)
    return value


def _operators(table: Mapping[str, Any], path: str) -> dict[OperatorId, tuple[OpsetRange, ...]]:
    found: dict[OperatorId, tuple[OpsetRange, ...]] = {}
    for domain, entries in table.items():
        field = f"operators.{domain}"
        for entry in _strings(entries, field, path):
            name, _, ranges = entry.strip().partition(" ")
            spans = tuple(_span(text, entry, field, path) for text in ranges.split(",")) if ranges else ()
            found[OperatorId(normalized_domain(domain), name)] = spans or (OpsetRange(1, None),)
    return found


def _span(text: str, entry: str, field: str, path: str) -> OpsetRange:
    low, dash, high = text.strip().partition("-")
    if not (low.isdecimal() and dash and (high.isdecimal() or not high)):
        raise TargetFileError(
            f"{field}: {entry!r} is no operator with opset ranges; write "
            "'Name', 'Name 13-' or 'Name 1-10,13-'",
            path=path,
            field=field,
        )
    return OpsetRange(int(low), int(high) if high else None)


def _gradients(table: Mapping[str, Any], path: str) -> GradientRules:
    _check(table, GRADIENT_KEYS, "gradients.", path)
    plain = {key: table[key] for key in GRADIENT_KEYS if key in table and GRADIENT_KEYS[key] in (str, bool)}
    return GradientRules(
        **plain,
        without=frozenset(_strings(table.get("without", []), "gradients.without", path)),
        leaf_used_once=frozenset(_strings(table.get("leaf_used_once", []), "gradients.leaf_used_once", path)),
        stops={
            name: frozenset(_integers(places, f"gradients.stops.{name}", path))
            for name, places in table.get("stops", {}).items()
        },
        inputs=_numbers(table, "inputs", path),
        outputs=_numbers(table, "outputs", path),
        attributes={
            operator: _numbers(table["attributes"], operator, path)
            for operator in table.get("attributes", {})
        },
    )


def _integers(value: object, field: str, path: str) -> Iterable[int]:
    if not isinstance(value, list):
        raise TargetFileError(f"{field} must be a list, but is {value!r}", path=path, field=field)
    return [_integer(entry, field, path) for entry in value]


def _numbers(table: Mapping[str, Any], key: str, path: str) -> dict[str, int]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise TargetFileError(f"{key} must be a table, but is {value!r}", path=path, field=key)
    return {name: _integer(number, f"{key}.{name}", path) for name, number in value.items()}
