"""The workload: a transformer whose modules are functions, 58 nodes a block once flat."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 18, "m" : 1]>
holder (float[1] x) => (float[1] y) { y = Identity (x) }

<domain: "m", opset_import: ["" : 18]>
Linear (x, w, b) => (y) { wt = Transpose <perm = [1, 0]> (w) mm = MatMul (x, wt) y = Add (mm, b) }

<domain: "m", opset_import: ["" : 18]>
LayerNorm (x, g, b) => (y) {
    eps = Constant <value = float {0.00001}> ()
    two = Constant <value = float {2}> ()
    axis = Constant <value = int64[1] {-1}> ()
    mean = ReduceMean (x, axis)
    centred = Sub (x, mean)
    squared = Pow (centred, two)
    variance = ReduceMean (squared, axis)
    shifted = Add (variance, eps)
    deviation = Sqrt (shifted)
    normal = Div (centred, deviation)
    scaled = Mul (normal, g)
    y = Add (scaled, b)
}

<domain: "m", opset_import: ["" : 18]>
GELU (x) => (y) {
    root = Constant <value = float {1.4142135}> ()
    one = Constant <value = float {1}> ()
    half = Constant <value = float {0.5}> ()
    a = Div (x, root) e = Erf (a) f = Add (e, one) g = Mul (x, f) y = Mul (g, half)
}

<domain: "m", opset_import: ["" : 18, "m" : 1]>
Attention (x, qw, qb, kw, kb, vw, vb, ow, ob) => (y) {
    ["query"] q = m.Linear (x, qw, qb)
    ["key"] k = m.Linear (x, kw, kb)
    ["value"] v = m.Linear (x, vw, vb)
    kt = Transpose <perm = [0, 2, 1]> (k)
    scores = MatMul (q, kt)
    scale = Constant <value = float {0.25}> ()
    scaled = Mul (scores, scale)
    weights = Softmax <axis = -1> (scaled)
    context = MatMul (weights, v)
    ["out"] y = m.Linear (context, ow, ob)
}

<domain: "m", opset_import: ["" : 18, "m" : 1]>
MLP (x, uw, ub, dw, db) => (y) {
    ["up"] u = m.Linear (x, uw, ub)
    ["act"] g = m.GELU (u)
    ["down"] y = m.Linear (g, dw, db)
}

<domain: "m", opset_import: ["" : 18, "m" : 1]>
Block (x, g1, b1, qw, qb, kw, kb, vw, vb, ow, ob, g2, b2, uw, ub, dw, db) => (y) {
    ["norm1"] n1 = m.LayerNorm (x, g1, b1)
    ["attn"] a = m.Attention (n1, qw, qb, kw, kb, vw, vb, ow, ob)
    r = Add (x, a)
    ["norm2"] n2 = m.LayerNorm (r, g2, b2)
    ["mlp"] f = m.MLP (n2, uw, ub, dw, db)
    y = Add (r, f)
}
"""
NODES_PER_BLOCK = 58


def transformer(blocks: int, width: int = 8) -> onnx.ModelProto:
    """Return a model of ``blocks`` transformer blocks; 12 * width**2 + 13 * width weights each."""
    functions = onnx.parser.parse_model(FUNCTIONS).functions
    for function in functions:
        for node in function.node:
            node.name = node.name or f"{node.op_type}_{node.output[0]}"
    parameters = functions[-1].input[1:]
    random = np.random.default_rng(0)
    nodes, initializers, previous = [], [], "x"
    for block in range(blocks):
        names = [f"blocks.{block}.{parameter}" for parameter in parameters]
        initializers += [
            _weight(random, name, _shape(parameter, width))
            for name, parameter in zip(names, parameters, strict=True)
        ]
        output = "out" if block == blocks - 1 else f"h{block}"
        nodes.append(
            helper.make_node("Block", [previous, *names], [output], domain="m", name=f"block_{block}")
        )
        previous = output
    graph = helper.make_graph(
        nodes,
        "transformer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, width])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 4, width])],
        initializers,
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("m", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)


def _shape(parameter: str, width: int) -> tuple[int, ...]:
    special = {"uw": (4 * width, width), "ub": (4 * width,), "dw": (width, 4 * width)}
    return special.get(parameter) or ((width, width) if parameter.endswith("w") else (width,))


def _weight(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> onnx.TensorProto:
    data = random.standard_normal(shape, dtype=np.float32) * np.float32(0.05)
    return numpy_helper.from_array(data, name)


def save(blocks: int, width: int, path: str) -> None:
    """Save the workload; as a script, so that the memory it takes is not counted for the caller."""
    onnx.save(transformer(blocks, width), path)


if __name__ == "__main__":
    save(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
