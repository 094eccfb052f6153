"""Models small enough to read, and a training step to put them through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import parser
from onnxruntime.training.api import CheckpointState, Module, Optimizer

from onnx_inline.integrations.ort_training import Artifacts

WIDTH = 24
#: 24 x 24 floats are 2,304 bytes: above the 1,024 from which ONNX Runtime's way of saving loses them.
LINEAR = f"""
<ir_version: 8, opset_import: ["" : 17, "models" : 1]>
net (float[2, {WIDTH}] x) => (float[2, {WIDTH}] y)
{{
    h = models.Linear (x, first_weight, first_bias)
    a = models.Squash (h)
    y = models.Linear (a, second_weight, second_bias)
}}
<domain: "models", opset_import: ["" : 17]>
Linear (x, weight, bias) => (y) {{ p = MatMul (x, weight) y = Add (p, bias) }}
<domain: "models", opset_import: ["" : 17]>
Squash (x) => (y) {{ y = Tanh (x) }}
"""
PARAMETERS = ("first_weight", "first_bias", "second_weight", "second_bias")


def linear_model() -> onnx.ModelProto:
    """Return a model of two linear layers, all of it in functions."""
    model = parser.parse_model(LINEAR)
    numbers = np.random.default_rng(0)
    for name in PARAMETERS:
        shape = (WIDTH, WIDTH) if name.endswith("weight") else (WIDTH,)
        array = numbers.standard_normal(shape).astype(np.float32) / 5
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def save_external(model: onnx.ModelProto, path: Path) -> Path:
    """Save with every weight in a second file; ``model`` is left alone."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    onnx.save(copied, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    return path


def data(loss: str = "MSELoss") -> tuple[np.ndarray, np.ndarray]:
    """Return an input and a target that suits the loss."""
    numbers = np.random.default_rng(1)
    x = numbers.standard_normal((2, WIDTH)).astype(np.float32)
    if loss == "CrossEntropyLoss":
        return x, np.array([3, 7])
    return x, numbers.random((2, WIDTH), dtype=np.float32)


class Trainer:
    """The four artifacts, loaded."""

    def __init__(self, files: Artifacts) -> None:
        assert files.optimizer_model is not None
        self.state = CheckpointState.load_checkpoint(str(files.checkpoint))
        self.module = Module(files.training_model, self.state, files.eval_model)
        self.optimizer = Optimizer(files.optimizer_model, self.module)
        self.optimizer.set_learning_rate(0.01)

    def gradients(self, feeds: Sequence[np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss and the gradients at the weights of the checkpoint."""
        loss = float(self.module.train()(*feeds))
        trained = [name for name, parameter in self.state.parameters if parameter.requires_grad]
        return loss, {name: np.array(self.state.parameters[name].grad) for name in trained}

    def losses(self, feeds: Sequence[np.ndarray], steps: int) -> list[float]:
        """Train; return the loss before each step."""
        values = []
        for _ in range(steps):
            self.module.lazy_reset_grad()
            values.append(float(self.module.train()(*feeds)))
            self.optimizer.step()
        return values

    def evaluated(self, feeds: Sequence[np.ndarray]) -> float:
        return float(self.module.eval()(*feeds))
