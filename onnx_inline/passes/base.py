"""What the passes have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import onnx_ir as ir

from onnx_inline.errors import ModelError

if TYPE_CHECKING:
    Call = TypeVar("Call", bound=Callable[..., ir.passes.PassResult])


def refusing(call: Call) -> Call:
    """Make the errors of a pass's ``call`` into ones that onnx_ir expects of a pass.

    A :class:`ModelError` that leaves the pass is a :class:`onnx_ir.passes.PreconditionError` as well.
    ``errors`` cannot say so itself: importing onnx_ir there would slow down everything that needs none.
    """

    @functools.wraps(call)
    def wrapped(*args: object, **kwargs: object) -> ir.passes.PassResult:
        try:
            return call(*args, **kwargs)
        except ModelError as error:
            if isinstance(error, ir.passes.PreconditionError):
                raise
            raise as_precondition(error) from error.__cause__

    return wrapped  # type: ignore[return-value]  # same signature


def as_precondition(error: ModelError) -> ModelError:
    """Return the error, with its fields, message and notes, as a subclass that is a PreconditionError too."""
    cls = _precondition_class(type(error))  # type: ignore[arg-type]  # classes do have a hash
    made: ModelError = cls.__new__(cls)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    return made.with_traceback(error.__traceback__)


@functools.cache
def _precondition_class(cls: type[ModelError]) -> type[ModelError]:
    return type(cls.__name__, (cls, ir.passes.PreconditionError), {"__doc__": cls.__doc__})
