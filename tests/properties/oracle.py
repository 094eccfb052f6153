"""What a model with functions computes by the specification: the oracle of the property tests.

onnxruntime and the reference evaluator both inline in ways of their own, and are wrong about some of what is
generated here (overloads, outputs listed twice, graphs as attributes).  So a small interpreter decides, which
calls functions instead of inlining them; the two run what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

Id = tuple[str, str, str]
Scope = dict[str, Any]
#: a graph together with the scopes that it sees
Closure = tuple[onnx.GraphProto, tuple[Scope, ...], Mapping[str, Any]]


def norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    centred = x - x.mean()
    out = centred / np.sqrt((centred**2).mean() + np.float32(1e-5)) * scale
    return out if bias is None else out + bias


OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Neg": lambda a: -a,
    "Tanh": np.tanh,
    "Identity": lambda a: a,
    "Less": lambda a, b: a < b,
    "ReduceMax": lambda a, keepdims: a.max(),
    "LeakyRelu": lambda a, alpha=0.01: np.where(a < 0, a * np.float32(alpha), a),
    "LayerNormalization": norm,
}


class Interpreter:
    """Runs a model; every call runs the function's body in a scope of its own."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = model.graph
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        return self.outputs(self.graph, (), {}, dict(feeds))

    def outputs(
        self, graph: onnx.GraphProto, outer: tuple[Scope, ...], attributes: Mapping[str, Any], own: Scope
    ) -> list[Any]:
        own.update((t.name, onnx.numpy_helper.to_array(t)) for t in graph.initializer)
        scopes = (own, *outer)
        self.nodes(graph.node, scopes, attributes)
        return [value_of(scopes, output.name) for output in graph.output]

    def nodes(
        self, nodes: Sequence[onnx.NodeProto], scopes: tuple[Scope, ...], given: Mapping[str, Any]
    ) -> None:
        for node in nodes:
            inputs = [value_of(scopes, name) if name else None for name in node.input]
            resolved = ((a.name, self.attribute(a, scopes, given)) for a in node.attribute)
            attributes = {name: value for name, value in resolved if value is not None}
            results = self.node(node, inputs, attributes)
            assert all(name not in scopes[0] for name in node.output if name), "a value is defined twice"
            scopes[0].update((n, r) for n, r in zip(node.output, results, strict=False) if n)

    def attribute(
        self, attribute: onnx.AttributeProto, scopes: tuple[Scope, ...], given: Mapping[str, Any]
    ) -> Any:
        if attribute.ref_attr_name:
            return given.get(attribute.ref_attr_name)
        if attribute.type == onnx.AttributeProto.GRAPH:
            return (attribute.g, scopes, given)
        return onnx.helper.get_attribute_value(attribute)

    def node(self, node: onnx.NodeProto, inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            return self.call(function, inputs, attributes)
        if node.op_type in ("If", "Loop", "Scan"):
            results: list[Any] = getattr(self, node.op_type.lower())(*inputs, **attributes)
            return results
        if node.op_type == "Constant":
            return [constant(**attributes)]
        return [OPERATORS[node.op_type](*inputs, **attributes)]

    def call(self, function: onnx.FunctionProto, inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
        inputs = inputs + [None] * (len(function.input) - len(inputs))
        scope: Scope = dict(zip(function.input, inputs, strict=True))
        defaults = {a.name: self.attribute(a, (scope,), {}) for a in function.attribute_proto}
        self.nodes(function.node, (scope,), {**defaults, **attributes})
        return [scope[name] for name in function.output]

    def closure(self, closure: Closure, **own: Any) -> list[Any]:
        graph, scopes, attributes = closure
        named = {value.name: given for value, given in zip(graph.input, own.values(), strict=True)}
        return self.outputs(graph, scopes, attributes, named)

    def if_(self, condition: Any, then_branch: Closure, else_branch: Closure) -> list[Any]:
        return self.closure(then_branch if condition else else_branch)

    def loop(self, trips: Any, condition: Any, state: Any, body: Closure) -> list[Any]:
        for trip in range(int(trips)):
            condition, state = self.closure(body, trip=trip, condition=condition, state=state)
        return [state]

    def scan(self, state: Any, items: Any, body: Closure, num_scan_inputs: int) -> list[Any]:
        for item in items:
            (state,) = self.closure(body, state=state, item=item)
        return [state]


setattr(Interpreter, "if", Interpreter.if_)  # the operator is called so


def constant(
    value: Any = None, value_float: Any = None, value_floats: Any = None, value_int: Any = None
) -> Any:
    if value is not None:
        return onnx.numpy_helper.to_array(value)
    if value_int is not None:
        return np.int64(value_int)
    return np.array(value_float if value_floats is None else value_floats, np.float32)


def value_of(scopes: tuple[Scope, ...], name: str) -> Any:
    return next(scope[name] for scope in scopes if name in scope)
