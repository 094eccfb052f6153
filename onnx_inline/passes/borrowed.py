"""Passes of onnxscript, which are functions or wider passes there, with their options as fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.errors import InvalidModelError
from onnx_inline.passes.base import refusing


@dataclass(frozen=True)
class ConstantFoldingPass(ir.passes.InPlacePass):
    """Compute what depends on constants only, by onnxscript's optimizer.

    Attributes:
        shape_inference: infer types and shapes of the values on the way.
        input_size_limit: leave nodes with larger inputs, in bytes.
        output_size_limit: leave nodes with larger outputs, in bytes.

    Before::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) {
            one = Constant <value_float: float = 1.0> ()
            two = Add (one, one)
            y = Mul (x, two)
        }

    After::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) <float two = {2.0}, float two, float one> {
            ["node"] one = Constant <value_float: float = 1.0> ()
            ["node_1"] y = Mul (x, two)
        }
    """

    name: ClassVar[str] = "constant-folding"

    shape_inference: bool = False
    input_size_limit: int = 8192
    output_size_limit: int = 512 * 512

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold in place."""
        from onnxscript.optimizer import fold_constants_ir

        folded: ir.passes.PassResult = fold_constants_ir(
            model,
            onnx_shape_inference=self.shape_inference,
            input_size_limit=self.input_size_limit,
            output_size_limit=self.output_size_limit,
        )
        return folded


@dataclass(frozen=True)
class ConvertOpsetPass(ir.passes.FunctionalPass):
    """Convert the model to another version of the standard opset, by onnxscript's converter.

    All functions are inlined on the way: the converter takes none.  A new model is returned, because the
    converter changes a model before it knows that it cannot convert it.

    Attributes:
        version: the opset version to convert to.
        fallback: use onnx's own converter where onnxscript's cannot do it, as for lower versions.

    Before::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { y = Abs (x) }

    After::

        <ir_version: 10, opset_import: ["" : 20]>
        main (float[2] x) => (float[2] y) { y = Abs (x) }

    Raises:
        InvalidModelError: no converter can do it.
    """

    name: ClassVar[str] = "convert-opset"

    version: int
    fallback: bool = False

    @refusing
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert a copy."""
        from onnxscript.version_converter import ConvertVersionPass

        try:
            result = ConvertVersionPass(self.version, fallback=self.fallback)(model.clone())
        except Exception as error:  # each converter has errors of its own
            raise self._refusal(str(error)) from error
        if (has := result.model.graph.opset_imports.get("")) != self.version:
            raise self._refusal(f"no converter goes from {has} to {self.version}")
        return ir.passes.PassResult(result.model, result.modified)

    def _refusal(self, reason: str) -> InvalidModelError:
        hint = "choose another version" if self.fallback else "try fallback=True, or choose another version"
        return InvalidModelError(f"cannot convert to opset {self.version}: {reason}; {hint}")
