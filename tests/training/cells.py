"""One cell of the training matrix: a net, an exporter, and what gradient builders make of the export.

``python -m tests.training.cells NET EXPORTER`` prints one as JSON.  Exporting leaves state behind in torch,
so a process is good for one cell when modules of chosen classes are exported as functions.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer
from torch import Tensor, nn

from onnx_inline.integrations.ort_training import generate_artifacts
from onnx_inline.preparation import prepare
from tests.training.exporters import export
from tests.training.nets import LOSSES, NETS, Net, target_for

STEPS = 20
#: The other exporters write batch normalisation as in evaluation, so that is what they are compared with.
WRITES_TRAINING_MODE = frozenset({"functions", "class set"})
#: A difference is relative to the largest entry of the parameter's gradient or, where that gradient is next
#: to nothing, to the largest entry of any gradient of the net times this.
FLOOR = 1e-2

Gradients = Mapping[str, np.ndarray]


@dataclass
class LossResult:
    """What training with one loss gave.

    ``error`` is the largest relative difference between a gradient of ONNX Runtime and torch's in the first
    step (None: not comparable), ``absolute`` the largest absolute one; ``losses`` are the first of 20 steps
    and the one after the last.
    """

    error: float | None
    absolute: float | None
    losses: tuple[float, float]


@dataclass
class Cell:
    """All that was measured.

    ``before`` is what ONNX Runtime says without onnx_inline ("" if it trains), ``failure`` what it says with,
    ``onnx_ad`` the largest relative error of the second builder's gradients, or what it says.
    """

    net: str
    exporter: str
    functions: int = 0
    parameters: int = 0
    before: str = ""
    failure: str = ""
    losses: dict[str, LossResult] = field(default_factory=dict)
    onnx_ad: float | str = ""


def measure(name: str, exporter: str, losses: Mapping[str, Any] = LOSSES) -> Cell:
    """Export, generate artifacts, compare gradients, train."""
    net, cell = NETS[name], Cell(name, exporter)
    torch.manual_seed(0)
    module, x = net.build().train(), net.inputs()
    with tempfile.TemporaryDirectory() as folder, quiet():
        model = export(exporter, Path(folder, "model.onnx"), module, x, net)
        trained, training = trained_names(module, model), exporter in WRITES_TRAINING_MODE
        cell.functions, cell.parameters = len(model.functions), len(trained)
        cell.before = _without(model, trained, folder)
        try:
            for loss in losses:
                expected, target = reference(module, x, loss, trained, training)
                cell.losses[loss] = train(Path(folder, "model.onnx"), x, loss, expected, target, net.random)
        except Exception as error:
            cell.failure = one_line(error)
            return cell
        cell.onnx_ad = _second_builder(model, module, x, trained, net, exporter)
    return cell


def _without(model: onnx.ModelProto, trained: list[str], folder: str) -> str:
    """Say what ONNX Runtime's own function says about the export; "" if it makes artifacts that load."""
    before = copy.deepcopy(model)
    try:
        artifacts.generate_artifacts(
            before, requires_grad=trained, loss=artifacts.LossType.MSELoss, artifact_directory=folder
        )
        state = CheckpointState.load_checkpoint(str(Path(folder, "checkpoint")))
        Module(Path(folder, "training_model.onnx"), state, Path(folder, "eval_model.onnx"))
    except Exception as error:
        return one_line(error)
    return ""


def trained_names(module: nn.Module, model: onnx.ModelProto) -> list[str]:
    """Return the parameters' names in the model: a shared one has several in torch, and exporters choose."""
    read = {name for node in model.graph.node for name in node.input}
    return [name for name, _ in module.named_parameters(remove_duplicate=False) if name in read]


def train(
    path: Path, x: Tensor, loss: str, expected: Gradients, target: Tensor, random: bool = False
) -> LossResult:
    """Generate artifacts, compare the first gradients with ``expected``, take STEPS steps, evaluate once."""
    with tempfile.TemporaryDirectory() as folder:
        files = generate_artifacts(
            path,
            requires_grad=list(expected),
            loss=artifacts.LossType[loss],
            optimizer=artifacts.OptimType.AdamW,
            artifact_directory=folder,
            output_names=["y"],
        )
        state = CheckpointState.load_checkpoint(str(files.checkpoint))
        trainer = Module(files.training_model, state, files.eval_model)
        optimizer = Optimizer(files.optimizer_model, trainer)
        optimizer.set_learning_rate(0.01)
        feeds = (x.numpy(), target.numpy())
        values = [float(trainer(*feeds))]
        measured = {name: np.array(state.parameters[name].grad) for name in expected}
        for _ in range(STEPS):
            optimizer.step()
            trainer.lazy_reset_grad()
            values.append(float(trainer(*feeds)))
        trainer.eval()
        trainer(*feeds)
    error, absolute = (None, None) if random else errors(measured, expected)
    return LossResult(error, absolute, (values[0], values[-1]))


def reference(
    module: nn.Module, x: Tensor, loss: str, names: list[str], training: bool
) -> tuple[Gradients, Tensor]:
    """Return torch's own gradients, by parameter name, and the target; ``module`` is left alone."""
    twin = copy.deepcopy(module).train(training)
    output = twin(x)
    target = target_for(loss, output.detach())
    LOSSES[loss](output, target).backward()
    gradients = {name: one.grad.numpy() for name, one in twin.named_parameters(remove_duplicate=False)}
    return {name: gradients[name] for name in names}, target


def errors(measured: Gradients, expected: Gradients) -> tuple[float, float]:
    """Return the largest relative and the largest absolute difference; see FLOOR."""
    floor = FLOOR * max(float(np.abs(array).max()) for array in expected.values())
    absolute = {name: float(np.abs(measured[name] - array).max()) for name, array in expected.items()}
    scales = {name: max(float(np.abs(array).max()), floor) for name, array in expected.items()}
    return max(absolute[name] / scales[name] for name in expected), max(absolute.values())


def _second_builder(
    model: onnx.ModelProto, module: nn.Module, x: Tensor, trained: list[str], net: Net, exporter: str
) -> float | str:
    """Compare onnx-ad's gradients of the mean squared error with torch's."""
    if net.random:
        return "random"
    expected, target = reference(module, x, "MSELoss", trained, exporter in WRITES_TRAINING_MODE)
    try:
        measured = onnx_ad_gradients(model, module, x, target, trained)
    except Exception as error:
        return one_line(error)
    return errors(measured, expected)[0]


def onnx_ad_gradients(
    model: onnx.ModelProto, module: nn.Module, x: Tensor, target: Tensor, trained: list[str]
) -> Gradients:
    """Return the gradients of the mean squared error by onnx-ad, run by ONNX Runtime."""
    import onnx_ad

    from onnx_inline.integrations import weightless

    ready = weightless.weights_as_inputs(weightless.without_data(prepare(model, "onnx-ad"), trained))
    adjoint = onnx_ad.reverse(ready, inputs=trained, prefix="adj_", layout="onnx")
    adjoint.ir_version = min(adjoint.ir_version, 10)
    session = onnxruntime.InferenceSession(adjoint.SerializeToString())
    weights = {
        name: parameter.detach().numpy()
        for name, parameter in module.named_parameters(remove_duplicate=False)
    }
    weights = {name: weights[name] for name in trained}
    output = ready.graph.output[0].name
    y = forward(ready, x, weights)
    seed = (2 * (y - target.numpy()) / y.size)[..., None]
    results = session.run(
        [f"adj_{name}" for name in trained], {**weights, "x": x.numpy(), f"adj_{output}": seed}
    )
    return {name: array[..., 0] for name, array in zip(trained, results, strict=True)}


def forward(model: onnx.ModelProto, x: Tensor, weights: Gradients) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {**weights, "x": x.numpy()})[0]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and the exporters' progress out of the output."""
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def one_line(error: Exception) -> str:
    """Return the part of a message that says what is wrong."""
    text = " ".join(str(error).split())
    for start in ("The gradient builder has not been registered", "no reverse rule for"):
        if start in text:
            return text[text.index(start) :][:160]
    return f"{type(error).__name__}: {text[-200:]}"


def main() -> None:
    """Print the cell that the command line asks for; everything else goes to the error stream."""
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        json.dump(asdict(measure(*sys.argv[1:3])), output)


if __name__ == "__main__":
    main()
