"""Passes of onnxscript under our names."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from helpers import parsed, printed

import onnx_inline
from onnx_inline import ConvertOpsetPass, verify

TEXT = """<ir_version: 8, opset_import: ["" : 18]> main (float[2, 3] x) => (float[2, 1] y) {
    axes = Constant <value_ints: ints = [1]> () y = ReduceMean (x, axes)
}"""


def test_a_higher_opset_is_converted_to_and_computes_the_same() -> None:
    model = parsed(TEXT)
    result = ConvertOpsetPass(20)(model)
    assert result.model.opset_imports == {"": 20}
    assert result.model is not model
    assert verify(model, result.model)


@pytest.mark.parametrize("version", [3, 10_000])
@pytest.mark.parametrize("fallback", [False, True])
def test_an_opset_that_no_converter_goes_to_is_refused_and_the_model_is_as_it_was(
    version: int, fallback: bool
) -> None:
    model = parsed(TEXT)
    with pytest.raises(onnx_inline.InvalidModelError, match=f"cannot convert to opset {version}: ") as caught:
        ConvertOpsetPass(version, fallback=fallback)(model)
    assert isinstance(caught.value, ir.passes.PreconditionError)
    assert printed(model) == printed(parsed(TEXT))
