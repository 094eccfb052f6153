"""Every exception that onnx_inline raises on purpose.

A message has three parts: what is wrong, where it is, what to do about it.  The facts are fields as well.
"""

from __future__ import annotations

from collections.abc import Sequence


class OnnxInlineError(Exception):
    """The root of all exceptions raised on purpose."""


class ModelError(OnnxInlineError):
    """Something about the model makes the request impossible; the model is as it was before the call.

    A pass raises a subclass that is an :class:`onnx_ir.passes.PreconditionError` as well.
    """


class FileError(OnnxInlineError):
    """A file cannot be read as a model, or written; what was on disk before is still there."""


class UnknownNameError(OnnxInlineError, LookupError):
    """A name given by the caller (function, pass, target, initializer) does not exist.

    Attributes:
        name: what was asked for.
        close: existing names that are spelled alike.
    """

    def __init__(self, message: str, *, name: str = "", close: Sequence[str] = ()) -> None:
        self.name, self.close = name, tuple(close)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        super().__init__(message + hint)
