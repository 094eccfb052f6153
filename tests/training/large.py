"""Generate artifacts for a model of any size, and say what memory and time it took.

    /usr/bin/time -v python -m tests.training.large 2112 external MSELoss FOLDER

makes a model of 2,112 MiB in FOLDER (with functions and external data), generates the artifacts there, loads
them, takes a training step if there is memory for that, and prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_inline.integrations.ort_training import Artifacts, generate_artifacts

#: One weight is a matrix of 16 MiB.
WIDTH = 2048
MIB = 2**20


def write_model(path: Path, mebibytes: int) -> list[str]:
    """Write a chain of calls, the weights in a second file, without ever holding more than one of them."""
    names = [f"layer_{place}/weight" for place in range(mebibytes * MIB // (WIDTH * WIDTH * 4))]
    values = ["x", *(f"hidden_{place}" for place in range(len(names)))]
    calls = [
        helper.make_node(
            "Layer", [values[place], name], [values[place + 1]], f"call_{place}", domain="models"
        )
        for place, name in enumerate(names)
    ]
    layer = helper.make_function(
        "models",
        "Layer",
        ["x", "weight"],
        ["y"],
        [helper.make_node("MatMul", ["x", "weight"], ["p"]), helper.make_node("Tanh", ["p"], ["y"])],
        [helper.make_opsetid("", 17)],
    )
    numbers, weights = np.random.default_rng(0), []
    with path.with_suffix(".data").open("wb") as stream:
        for name in names:
            matrix = numbers.standard_normal((WIDTH, WIDTH), dtype=np.float32) / WIDTH**0.5
            weights.append(_reference(name, path.with_suffix(".data").name, stream.tell()))
            stream.write(matrix.tobytes())
    graph = helper.make_graph(
        calls,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, WIDTH])],
        [helper.make_tensor_value_info(values[-1], TensorProto.FLOAT, [2, WIDTH])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("models", 1)]
    onnx.save(helper.make_model(graph, functions=[layer], opset_imports=opsets, ir_version=9), path)
    return names


def _reference(name: str, location: str, offset: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", WIDTH * WIDTH * 4)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def in_form(path: Path, form: str) -> Path | onnx.ModelProto:
    """Return the model as a path with its data outside, a path of one file, or an object."""
    if form == "external":
        return path
    model = onnx.load(path)
    if form == "object":
        return model
    onnx.save(model, path.with_name("single.onnx"))
    return path.with_name("single.onnx")


def peak() -> float:
    """Return the most memory that this process had so far, in MiB."""
    return mebibytes_in("/proc/self/status", "VmHWM")


def mebibytes_in(path: str, name: str) -> float:
    """Return a number that Linux gives in KiB, in MiB."""
    lines = Path(path).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def forget_peak() -> None:
    """Start over with :func:`peak`, at what the process has now."""
    Path("/proc/self/clear_refs").write_text("5")


def step(files: Artifacts, mebibytes: int, loss: str) -> float | None:
    """Load the artifacts and return the loss of one step, or None if there is no room for it."""
    if mebibytes_in("/proc/meminfo", "MemAvailable") < 5 * mebibytes:
        return None
    from onnxruntime.training.api import CheckpointState, Module

    state = CheckpointState.load_checkpoint(str(files.checkpoint))
    module = Module(files.training_model, state, files.eval_model)
    x = np.ones((2, WIDTH), np.float32)
    return float(module(x, np.array([0, 1]) if loss == "CrossEntropyLoss" else np.zeros_like(x)))


def main() -> None:
    mebibytes, form, loss, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    from onnxruntime.training import artifacts

    names = write_model(folder / "model.onnx", mebibytes)
    model = in_form(folder / "model.onnx", form)
    (folder / "artifacts").mkdir()
    forget_peak()
    before, start = peak(), time.perf_counter()
    files = generate_artifacts(
        model,
        requires_grad=names,
        loss=artifacts.LossType[loss],
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=folder / "artifacts",
    )
    result = {"weights": mebibytes, "before": before, "peak": peak(), "seconds": time.perf_counter() - start}
    del model
    print(json.dumps({**result, "loss": step(files, mebibytes, loss)}))


if __name__ == "__main__":
    main()
