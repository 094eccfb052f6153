"""Options of passes as text: what a value means for an option of a type, and how it is written."""

from __future__ import annotations

import collections.abc
import enum
import json
import os
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin


@dataclass(frozen=True)
class Word:
    """A value without brackets, and whether it was in quotes."""

    text: str
    quoted: bool
    position: int


@dataclass(frozen=True)
class Several:
    """A value in brackets."""

    items: tuple[Word | Several, ...]
    position: int


Written = Word | Several


class DoesNotFitError(ValueError):
    """A value is not of the type that an option takes."""


class UnwritableError(ValueError):
    """A value has no text form."""


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")
_RESERVED = {"none", "true", "false", "inf", "nan"}
#: what can be written without quotes and is no number
_PLAIN = re.compile(r"[^\s,{}\[\]=\"\d+.-][^\s,{}\[\]=\"]*")

_LISTS = (
    tuple,
    list,
    frozenset,
    collections.abc.Iterable,
    collections.abc.Sequence,
    collections.abc.Collection,
)


def encoded(value: Any) -> str:
    """Return a value as text.

    Raises:
        UnwritableError: it has no text form, as a predicate has none.
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return _encoded_text(value.name)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | os.PathLike):
        return _encoded_text(os.fspath(value))
    if isinstance(value, frozenset | set):
        return f"[{','.join(sorted(map(encoded, value)))}]"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(encoded, value))}]"
    raise UnwritableError(f"{value!r} has no text form")


def _encoded_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in _RESERVED:
        return text
    return json.dumps(text)


def decoded(value: Written, hint: Any) -> Any:
    """Return what a written value means for an option of the type ``hint``.

    Raises:
        DoesNotFitError: it is no value of the type.
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decoded_union(value, get_args(hint))
    if origin is Literal:
        return _decoded_literal(value, get_args(hint))
    if (origin or hint) in _LISTS:
        return _decoded_list(value, origin or hint, get_args(hint))
    return _decoded_word(value, hint)


def _decoded_union(value: Written, hints: tuple[Any, ...]) -> Any:
    # Text fits everything in a word, so it comes last.
    for hint in sorted(hints, key=lambda hint: hint is str):
        try:
            return decoded(value, hint)
        except DoesNotFitError:
            continue
    raise DoesNotFitError


def _decoded_literal(value: Written, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if isinstance(value, Word) and value.text == (choice if isinstance(choice, str) else encoded(choice)):
            return choice
    raise DoesNotFitError


def _decoded_list(value: Written, kind: Any, hints: tuple[Any, ...]) -> Any:
    if not isinstance(value, Several):
        raise DoesNotFitError
    if kind is tuple and hints and hints[-1] is not Ellipsis:
        if len(hints) != len(value.items):
            raise DoesNotFitError
        return tuple(decoded(item, hint) for item, hint in zip(value.items, hints, strict=True))
    hint = hints[0] if hints else Any
    items = (decoded(item, hint) for item in value.items)
    return frozenset(items) if kind is frozenset else list(items) if kind is list else tuple(items)


def _decoded_word(value: Written, hint: Any) -> Any:
    if hint is Any:
        return _guessed(value)
    if not isinstance(value, Word):
        raise DoesNotFitError
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and value.text in hint.__members__:
        return hint[value.text]
    decode = _DECODERS.get(get_origin(hint) or hint)
    if decode is None or (value.quoted and hint in _BARE):
        raise DoesNotFitError
    try:
        return decode(value.text)
    except (KeyError, ValueError):
        raise DoesNotFitError from None


def _guessed(value: Written) -> Any:
    if isinstance(value, Several):
        return tuple(map(_guessed, value.items))
    return decoded(value, None | bool | int | float | str)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,300}", text, re.ASCII):
        raise ValueError
    return int(text)


def _float(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return float(text)


_DECODERS: dict[Any, Callable[[str], Any]] = {
    types.NoneType: {"none": None}.__getitem__,
    bool: {"true": True, "false": False}.__getitem__,
    int: _integer,
    float: _float,
    str: str,
    Path: Path,
    os.PathLike: Path,
}
#: types whose values are never in quotes
_BARE = (types.NoneType, bool, int, float)


def expected(hint: Any) -> str:
    """Return in words what an option of a type takes."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(word for part in parts if (word := expected(part))))
    if origin is Literal:
        return " or ".join(choice if isinstance(choice, str) else encoded(choice) for choice in parts)
    if (origin or hint) in _LISTS:
        return "a list in brackets"
    return _EXPECTED.get(origin or hint, "")


_EXPECTED = {
    types.NoneType: "none",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    os.PathLike: "a path",
}
