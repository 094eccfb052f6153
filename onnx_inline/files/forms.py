"""The forms that onnx writes a model in: protobuf, its two text forms, and ONNX's own text."""

from __future__ import annotations

import re
import warnings
from pathlib import PurePath

import onnx

from onnx_inline.errors import NotAModelError

PROTOBUF, TEXTPROTO, ONNXTXT, JSON = "protobuf", "textproto", "onnxtxt", "json"
#: what ``--format`` and ``--input-format`` may say, and onnx's own names for it
NAMES = {"onnx": PROTOBUF, PROTOBUF: PROTOBUF, TEXTPROTO: TEXTPROTO, ONNXTXT: ONNXTXT, JSON: JSON}
#: brackets of ONNX's own text may be nested this deep; its parser is native and recurses
_DEEPEST = 200
#: brackets, and what can contain characters that look like some: strings, comments, arrows
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|#[^\n]*|=>|[()\[\]{}<>]', re.DOTALL)


def form_of(path: str, asked: str | None = None) -> str:
    """Return the form of a file: the one asked for, or by suffix as onnx itself has it.

    Raises:
        NotAModelError: if onnx knows no form of the name asked for.
    """
    if asked is not None:
        if asked not in NAMES:
            raise NotAModelError(f"{asked!r} is no format", path=path, hint=f"use one of {', '.join(NAMES)}")
        return NAMES[asked]
    suffix = PurePath(path).suffix
    return onnx.serialization.registry.get_format_from_file_extension(suffix) or PROTOBUF


def parse_text(data: bytes, form: str, path: str) -> onnx.ModelProto:
    """Parse a text form.

    Raises:
        NotAModelError: if it is none.
    """
    try:
        text = data.decode("utf-8")
        if form == ONNXTXT:
            _check_nesting(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return onnx.serialization.registry.get(form).deserialize_proto(text, onnx.ModelProto())
    except Exception as error:  # each of the four parsers has errors of its own
        reason = " ".join(str(error).split())[:300]
        raise NotAModelError(
            f"is no model in the {form} form: {reason}",
            path=path,
            hint="correct the text, or say which form it has",
        ) from error


def write_text(model: onnx.ModelProto, form: str) -> bytes:
    """Return a model in a text form."""
    return bytes(onnx.serialization.registry.get(form).serialize_proto(model))


def _check_nesting(text: str) -> None:
    """Refuse brackets nested so deep that the stack of a native parser would end."""
    depth = 0
    for token in _BRACKETS.finditer(text):
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(token[0], 0)
        if depth > _DEEPEST:
            raise ValueError(f"brackets are nested more than {_DEEPEST} deep")
        depth = max(depth, 0)
