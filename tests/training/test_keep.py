"""A function kept on purpose takes part in training, if ONNX Runtime knows a gradient for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import parser
from onnxruntime.capi import _pybind_state
from onnxruntime.training import artifacts

from onnx_inline.integrations.ort_training import generate_artifacts
from tests.training.artifact_helpers import Trainer

TEXT = """
<ir_version: 8, opset_import: ["" : 17, "models" : 1]>
net (float[2, 3] x) => (float[2, 3] y)
{ h = models.Stretch (x, w)  y = models.Sigmoid (h) }
<domain: "models", opset_import: ["" : 17]>
Stretch (x, w) => (y) { y = Mul (x, w) }
<domain: "models", opset_import: ["" : 17]>
Sigmoid (x) => (y) { three = Constant <value_float = 3.0> ()  s = Sin (x)  y = Mul (three, s) }
"""


def gradient_of_sigmoid() -> list[_pybind_state.GradientNodeDefinition]:
    """Return d(3 sin x) = 3 cos x dx, as ONNX Runtime wants it."""
    three = _pybind_state.GradientNodeAttributeDefinition()
    three.name, three.value_json, three.dtype, three.is_tensor = "value", "3.0", "float", True
    return [
        definition("Constant", [], "three", [three]),
        definition("Cos", ["I(0)"], "cos"),
        definition("Mul", ["three", "cos"], "slope"),
        definition("Mul", ["GO(0)", "slope"], "GI(0)"),
    ]


def definition(
    operator: str, inputs: list[str], output: str, attributes: Sequence[object] = ()
) -> _pybind_state.GradientNodeDefinition:
    node = _pybind_state.GradientNodeDefinition()
    node.op_type, node.domain, node.inputs, node.outputs = operator, "", inputs, [output]
    node.attributes = list(attributes)
    return node


def gradient_error(folder: Path, keep: list[str] | None) -> float:
    """Return the largest difference from torch's gradient of w."""
    w = np.array([[0.5, -1.0, 2.0]], np.float32)
    x = np.array([[1.0, 2.0, 3.0], [0.1, 0.2, 0.3]], np.float32)
    target = np.zeros((2, 3), np.float32)
    model = parser.parse_model(TEXT)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    trainer = Trainer(
        generate_artifacts(
            model,
            ["w"],
            loss=artifacts.LossType.MSELoss,
            optimizer=artifacts.OptimType.SGD,
            artifact_directory=folder,
            keep=keep,
        )
    )
    _, gradients = trainer.gradients((x, target))
    parameter = torch.tensor(w, requires_grad=True)
    (3 * torch.sin(torch.tensor(x) * parameter)).pow(2).mean().backward()
    return float(np.abs(gradients["w"] - parameter.grad.numpy()).max())


def test_without_functions_the_gradient_is_right(tmp_path: Path) -> None:
    assert gradient_error(tmp_path, None) < 1e-5


def test_a_kept_function_gets_the_gradient_that_was_registered_for_it(tmp_path: Path) -> None:
    _pybind_state.register_gradient_definition("models::Sigmoid", gradient_of_sigmoid())
    assert gradient_error(tmp_path, ["models::Sigmoid"]) < 1e-5
    calls = {
        node.op_type for node in onnx.load(tmp_path / "eval_model.onnx").graph.node if node.domain == "models"
    }
    assert calls == {"Sigmoid"}
