"""Small models for the tests of the files room, and what is done with them again and again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: 2 x 3 weights whose bytes are easy to recognise
WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def model_with(*initializers: TensorProto, functions: tuple[onnx.FunctionProto, ...] = ()) -> onnx.ModelProto:
    """Return a model that adds its initializers to its input; no shapes are declared that could be wrong."""
    nodes = [helper.make_node("Add", ["x", t.name], [f"y{n}"]) for n, t in enumerate(initializers)]
    nodes.append(helper.make_node("Identity", ["x"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializers,
    )
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def weights(name: str = "w", scale: float = 1) -> TensorProto:
    return numpy_helper.from_array(WEIGHTS * np.float32(scale), name)


def external(location: str | None = "w.bin", name: str = "w", **entries: str | int) -> TensorProto:
    """Return a tensor of 2 x 3 floats with external data."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def write_data(folder: Path, name: str = "w.bin", scale: float = 1) -> Path:
    path = folder / name
    path.write_bytes((WEIGHTS * np.float32(scale)).tobytes())
    return path


def written(folder: Path, model: onnx.ModelProto, name: str = "m.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def values(path: Path, name: str = "w") -> np.ndarray:
    """Return an initializer as onnx itself loads it."""
    return numpy_helper.to_array({t.name: t for t in onnx.load(path).graph.initializer}[name])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
