"""The gradient of each operator that is decomposed for ONNX Runtime, against differences of its outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import pytest
from onnxruntime.capi._pybind_state import GradientGraphBuilder, get_optimized_model

import onnx_inline

#: half the distance of the two points of a difference
STEP = 1e-2

ROW = (
    '<ir_version: 8, opset_import: ["" : VERSION]> g (float[2,3] x) => (float[p,q] y)'
    " <float[3] w = {1, 2, 3}>"
)
IMAGE = (
    '<ir_version: 8, opset_import: ["" : VERSION]> g (float[2,4,4,4] x) => (float[p,q,r,t] y)'
    " <float[4,1,1] w = {1, 2, 3, 1}, float[4] s = {1, 2, 0.5, 1}, float[4] b = {0, 0.5, 0, 1},"
    " float[4] m = {0.1, 0.2, 0, 0}, float[4] v = {1, 2, 1, 1}>"
)

ROWS = [
    ("Softplus (a)", 13),
    ("Softsign (a)", 17),
    ("Elu <alpha = 2.0> (a)", 17),
    ("Celu <alpha = 0.5> (a)", 17),
    ("Selu (a)", 17),
    ("HardSigmoid <alpha = 0.1> (a)", 17),
    ("HardSwish (a)", 17),
    ("Mish (a)", 18),
    ("ThresholdedRelu <alpha = 0.5> (a)", 17),
    ("Shrink <lambd = 0.5, bias = 0.1> (a)", 17),
    ("PRelu (a, w)", 17),
    ("ReduceL1 <axes = [1]> (a)", 17),
    ("ReduceSumSquare <axes = [1]> (a)", 17),
    ("ReduceMax <axes = [1]> (a)", 17),
    ("ReduceMin <axes = [0]> (a)", 17),
    ("ReduceMax (a)", 18),
    ("Sum (a, x, a)", 17),
    ("Mean (a, x)", 17),
    ("MeanVarianceNormalization <axes = [1]> (a)", 17),
    ("LayerNormalization (a, w)", 17),
    ('Einsum <equation = "ij,kj->ik"> (a, x)', 17),
    ('Einsum <equation = "ij->ji"> (a)', 13),
]
IMAGES = [
    ("InstanceNormalization (a, s, b)", 13, ["w", "s", "b"]),
    ("BatchNormalization (a, s, b, m, v)", 17, ["w", "s", "b"]),
    ("GroupNormalization <num_groups = 2> (a, s, b)", 21, ["w", "s", "b"]),
    ("GlobalMaxPool (a)", 17, ["w"]),
    ("DepthToSpace <blocksize = 2> (a)", 17, ["w"]),
    ('DepthToSpace <blocksize = 2, mode = "CRD"> (a)', 17, ["w"]),
    ("SpaceToDepth <blocksize = 2> (a)", 17, ["w"]),
]


@pytest.mark.parametrize(("node", "version"), ROWS)
def test_the_gradient_of_a_row(node: str, version: int) -> None:
    header = ROW.replace("VERSION", str(version))
    assert_gradients(f"{header} {{ a = Mul (x, w) y = {node} }}", ["w"])


@pytest.mark.parametrize(("node", "version", "trained"), IMAGES)
def test_the_gradient_of_an_image(node: str, version: int, trained: list[str]) -> None:
    header = IMAGE.replace("VERSION", str(version))
    assert_gradients(f"{header} {{ a = Mul (x, w) c = {node} y = Tanh (c) }}", trained)


def test_the_gradient_of_attention_by_einsum() -> None:
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,2,3,4] x) => (float[p,q,r,t] y)'
    nodes = 'a = Mul (x, w) y = Einsum <equation = "bhid,bhjd->bhij"> (a, x)'
    assert_gradients(f"{header} <float[4] w = {{1, 2, 3, 1}}> {{ {nodes} }}", ["w"])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("layer", "gates", "options"),
    [("RNN", 1, ""), ("GRU", 3, ""), ("GRU", 3, ", linear_before_reset = 1"), ("LSTM", 4, "")],
)
def test_the_gradient_of_a_recurrent_layer(layer: str, gates: int, options: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    random = np.random.default_rng(2)

    def weight(name: str, *dims: int) -> str:
        numbers = random.normal(scale=0.5, size=int(np.prod(dims))).round(3)
        shape, data = ",".join(map(str, dims)), ", ".join(map(str, numbers.tolist()))
        return f"float[{shape}] {name} = {{{data}}}"

    sizes = [
        ("w", count, gates * 3, 2),
        ("r", count, gates * 3, 3),
        ("b", count, gates * 6),
        ("h", count, 2, 3),
    ]
    weights = ", ".join(weight(*size) for size in sizes)
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[4,2,2] x) => (float[p,q,r,t] y)'
    node = f'y = {layer} <hidden_size = 3, direction = "{direction}"{options}> (x, w, r, b, , h)'
    assert_gradients(f"{header} <{weights}> {{ {node} }}", ["w", "r", "b", "h"])


def assert_gradients(text: str, trained: list[str]) -> None:
    """Compare ONNX Runtime's gradients after preparing with differences before."""
    given = with_weights_as_inputs(onnx.parser.parse_model(text))
    prepared, report = onnx_inline.prepare(given, trainable=trained, with_report=True)
    assert report.ok, str(report)
    random = np.random.default_rng(0)
    feeds = {value.name: weight for value, weight in zip(given.graph.input, weights(text), strict=True)}
    (output,) = onnxruntime.InferenceSession(given.SerializeToString()).run(None, feeds)
    direction = random.normal(size=output.shape).astype(np.float32)
    for name, gradient in gradients(prepared, trained, feeds, direction).items():
        expected = differences(given, name, feeds, direction)
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(gradient, expected, atol=1e-3 * scale, rtol=0, err_msg=name)


def weights(text: str) -> list[np.ndarray]:
    """Return an input with a fixed distribution, then the initializers."""
    model = onnx.parser.parse_model(text)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return [data, *(onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer)]


def with_weights_as_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model as ONNX Runtime trains it: constants would be folded before the gradient is made."""
    for tensor in model.graph.initializer:
        info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(info)
    del model.graph.initializer[:]
    return model


def gradients(
    model: onnx.ModelProto, trained: list[str], feeds: dict[str, np.ndarray], direction: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the gradients of the output along a direction, by ONNX Runtime's builder."""
    graph = model.graph
    output = graph.output[0].name
    graph.initializer.append(onnx.numpy_helper.from_array(direction, "direction"))
    graph.node.append(onnx.helper.make_node("Mul", [output, "direction"], ["weighted"]))
    graph.node.append(onnx.helper.make_node("ReduceSum", ["weighted"], ["loss"], keepdims=0))
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info("loss", 1, []))
    options = onnxruntime.SessionOptions()
    with quiet():
        optimized = get_optimized_model(model.SerializeToString(), set(trained), options)
        builder = GradientGraphBuilder(optimized, {"loss"}, set(trained), "loss", options)
        builder.build()
    built = onnx.load_model_from_string(builder.get_model())
    names = [f"{name}_grad" for name in trained]
    known = {value.name for value in built.graph.output}
    built.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    session = onnxruntime.InferenceSession(built.SerializeToString())
    given = {**feeds, "loss_grad": np.array(1, np.float32)}
    wanted = {value.name for value in session.get_inputs()}
    found = session.run(names, {name: array for name, array in given.items() if name in wanted})
    return dict(zip(trained, found, strict=True))


def differences(
    model: onnx.ModelProto, name: str, feeds: dict[str, np.ndarray], direction: np.ndarray
) -> np.ndarray:
    """Return the gradient of the output along a direction, from outputs on both sides."""
    session = onnxruntime.InferenceSession(model.SerializeToString())

    def value(changed: np.ndarray) -> float:
        (output,) = session.run(None, {**feeds, name: changed})
        return float((output.astype(np.float64) * direction).sum())

    result = np.zeros(feeds[name].shape)
    for place in np.ndindex(*feeds[name].shape):
        above, below = feeds[name].copy(), feeds[name].copy()
        above[place] += STEP
        below[place] -= STEP
        result[place] = (value(above) - value(below)) / (2 * STEP)
    return result


@contextmanager
def quiet() -> Iterator[None]:
    """Send what native code prints to nowhere."""
    saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
