"""Inline model-local functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import onnx_ir as ir

from onnx_inline.engine import inline_ir
from onnx_inline.engine.options import DEFAULT_MAX_NODES, Options
from onnx_inline.engine.report import InlineReport
from onnx_inline.engine.selection import Patterns
from onnx_inline.passes.base import refusing


@dataclass
class InlinePassResult(ir.passes.PassResult):
    """The result of :class:`InlineFunctionsPass`; ``report`` says what was done."""

    report: InlineReport


@dataclass(frozen=True)
class InlineFunctionsPass(ir.passes.InPlacePass):
    """Replace calls of model-local functions by the functions' bodies.

    Attributes:
        only: the functions to inline; all of them if None.
        keep: functions to leave.
        max_nodes: the most nodes that the result may have.
        names: ``path`` or ``flat``; how values inside are named.
        provenance: write into each node's metadata which calls it came through.

    The options are those of :func:`onnx_inline.inline_functions`.

    Before::

        <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        main (float[2] x) => (float[2] y) { ["act"] y = local.relu1 (x) }
        <domain: "local", opset_import: ["" : 18]>
        relu1 (a) => (c) { b = Relu (a) one = Constant <value_float: float = 1.0> () c = Min (b, one) }

    After::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) {
            ["act/Relu"] "act/b" = Relu (x)
            ["act/Constant"] "act/one" = Constant <value_float: float = 1.0> ()
            ["act/Min"] y = Min ("act/b", "act/one")
        }

    Raises:
        ModelError: the model cannot be inlined as asked; it is as it was.
    """

    name: ClassVar[str] = "inline-functions"

    only: Patterns = None
    keep: Patterns = None
    max_nodes: int = DEFAULT_MAX_NODES
    names: Literal["path", "flat"] = "path"
    provenance: bool = False

    @refusing
    def call(self, model: ir.Model) -> InlinePassResult:
        """Inline in place."""
        options = Options(self.only, self.keep, self.max_nodes, self.names, self.provenance)
        report = inline_ir.inline(model, options)
        return InlinePassResult(model, report.modified, report)
