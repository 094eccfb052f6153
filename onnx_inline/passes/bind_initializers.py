"""Give initializers without data the data that they lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.binding import BindReport, bind_initializers
from onnx_inline.passes.base import refusing
from onnx_inline.weights import Source


@dataclass
class BindPassResult(ir.passes.PassResult):
    """The result of :class:`BindInitializersPass`; ``report`` says what was bound and what was not."""

    report: BindReport


@dataclass(frozen=True)
class BindInitializersPass(ir.passes.InPlacePass):
    """Give the initializers that have no data the data of the same name from ``sources``.

    Attributes:
        sources: one source or several, as for :func:`onnx_inline.bind_initializers`.
        strict: raise unless every initializer gets data that fits and every name given is of use.

    Raises:
        BindingError: data is missing, of no use, or does not fit; the model is as it was.
        FileError: a source cannot be read.
    """

    name: ClassVar[str] = "bind-initializers"

    sources: Source | tuple[Source, ...] = ()
    strict: bool = True

    @refusing
    def call(self, model: ir.Model) -> BindPassResult:
        """Bind in place."""
        sources = self.sources if isinstance(self.sources, tuple) else (self.sources,)
        _, report = bind_initializers(model, *sources, strict=self.strict, with_report=True)
        return BindPassResult(model, bool(report.bound), report)
