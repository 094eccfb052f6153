"""Random models with functions, subgraphs, optional inputs, attributes and names that clash.

All values are float[2], but for conditions and the like, which no other node reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper

from tests.properties.oracle import Id

#: few names, such that inlining makes them clash
NAMES = ("a", "b", "f", "f/a", "f_2", "a_2", "f/a_2", "f/f/a", "Neg", "f/Neg", "b/f/a")
LABELS = ("", "", "a", "f", "f/a", "/f", "f_2", "b", "f//", "/")
FUNCTIONS = ("f", "b", "f_2", "Neg", "Add")
DOMAINS = ("l", "m.n", "l", "")
ATTRIBUTES = ("a", "alpha", "f", "value_floats")
FLOATS = (0.5, -1.0, 2.0, 0.25)
#: ReduceMax has to be converted from 17 to 18, the model's; nothing that is used here changed later
OPSETS = (18, 18, 17, 21)
SMALL = st.integers(0, 2)


@dataclass
class Declared:
    """An attribute of a function: its kind, and whether a call must give it."""

    kind: int
    required: bool


@dataclass
class Function:
    """What calls need to know of a function; optional inputs come last."""

    id: Id
    inputs: int
    optional: int
    outputs: int
    attributes: Mapping[str, Declared]


@dataclass
class Scope:
    """The names that can be read and those that cannot be given again."""

    readable: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    #: given in graphs inside, which onnxruntime does not want to see given again outside
    inside: set[str] = field(default_factory=set)

    def nested(self) -> Scope:
        return Scope(list(self.readable), set(self.taken))


class Writer:
    """Writes the nodes of one function, or of the main graph."""

    def __init__(self, draw: Any, functions: list[Function], own: Mapping[str, Declared]) -> None:
        self.draw, self.functions, self.own = draw, functions, own
        #: an optional input can only be passed on as one
        self.optional: list[str] = []
        self.labels: set[str] | None = None
        self.budget = 12

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(items))

    def name(self, scope: Scope, *, readable: bool = True) -> str:
        taken = scope.taken | scope.inside if self.labels is not None else scope.taken
        free = [name for name in NAMES if name not in taken]
        name: str = self.pick(free or [f"v{n}" for n in range(len(taken) + 1) if f"v{n}" not in taken][:1])
        scope.taken.add(name)
        if readable:
            scope.readable.append(name)
        return name

    def read(self, scope: Scope) -> str:
        name: str = self.pick(scope.readable)
        return name

    def label(self) -> str:
        """Return a name for a node; onnxruntime does not want one given twice in a graph."""
        label: str = self.pick(LABELS)
        if self.labels is not None and label in self.labels:
            return ""
        if self.labels is not None and label:
            self.labels.add(label)
        return label

    def node(
        self, op: str, inputs: list[str], outputs: list[str], domain: str = "", **attributes: Any
    ) -> Any:
        made = helper.make_node(op, inputs, outputs, name=self.label(), domain=domain, **attributes)
        if self.draw(st.integers(0, 9)) == 0:
            made.metadata_props.add(key=self.pick("ab"), value=self.pick("xy"))
        return made

    # ------------------------------------------------------------------ nodes

    def nodes(self, scope: Scope, depth: int = 0) -> Iterator[onnx.NodeProto]:
        kinds: list[Callable[..., Iterator[onnx.NodeProto]]] = [
            self.binary,
            self.constant,
            self.leaky,
            self.norm,
        ]
        kinds += [self.call] * (4 if self.functions else 0)
        kinds += [self.conditional, self.loop, self.scan] if depth < 2 else []
        for _ in range(self.draw(st.integers(1, 4))):
            self.budget -= 1
            yield from (self.pick(kinds) if self.budget > 0 else self.binary)(scope, depth)

    def binary(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        op, inputs = self.pick(["Add", "Sub", "Mul", "Neg", "Tanh"]), [self.read(scope)]
        if op in ("Add", "Sub", "Mul"):
            inputs.append(self.read(scope))
        yield self.node(op, inputs, [self.name(scope)])

    def constant(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        forms = [{"value_floats": [self.pick(FLOATS), 1.0]}, {"value": vector(self.pick(FLOATS))}]
        yield from self.with_reference("Constant", [], scope, self.pick(forms))

    def leaky(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        attributes = self.pick([{}, {"alpha": self.pick(FLOATS)}])
        yield from self.with_reference("LeakyRelu", [self.read(scope)], scope, attributes)

    def with_reference(
        self, op: str, inputs: list[str], scope: Scope, attributes: dict[str, Any]
    ) -> Iterator[onnx.NodeProto]:
        """Yield a node, perhaps with a reference in the place of an attribute's value."""
        made = helper.make_node(op, inputs, [], **attributes)
        kind = made.attribute[0].type if made.attribute else AttributeProto.FLOAT
        known = self.references(kind, needed=op == "Constant")
        if known and self.draw(st.booleans()):
            name = made.attribute[0].name if made.attribute else "alpha"
            del made.attribute[:]
            made.attribute.add(name=name, type=kind, ref_attr_name=self.pick(known))
        made.output.append(self.name(scope))
        made.name = self.label()
        yield made

    def references(self, kind: int, *, needed: bool) -> list[str]:
        """Return the function's own attributes of a kind; if needed, those that always have a value."""
        return [n for n, own in self.own.items() if own.kind == kind and (own.required or not needed)]

    def norm(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        inputs = [self.read(scope), self.read(scope)]
        if self.optional and self.draw(st.booleans()):
            inputs.append(self.pick(self.optional))
        yield self.node("LayerNormalization", inputs, [self.name(scope)])

    # ------------------------------------------------------------------ calls

    def call(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        function: Function = self.pick(self.functions)
        inputs = [self.read(scope) for _ in range(function.inputs - function.optional)]
        inputs += [self.pick(["", *self.optional, self.read(scope)]) for _ in range(function.optional)]
        while inputs and inputs[-1] == "" and self.draw(st.booleans()):
            inputs.pop()
        made = helper.make_node(function.id[1], inputs, [], domain=function.id[0], name=self.label())
        if function.id[2]:
            made.overload = function.id[2]
        for name, declared in function.attributes.items():
            if declared.required or self.draw(st.booleans()):
                made.attribute.append(self.value(name, declared, scope, depth))
        left_out = [self.draw(SMALL) == 0 for _ in range(function.outputs)]
        made.output.extend("" if left else self.name(scope) for left in left_out)
        while made.output and made.output[-1] == "" and self.draw(st.booleans()):
            made.output.pop()
        yield made

    def value(self, name: str, declared: Declared, scope: Scope, depth: int) -> onnx.AttributeProto:
        known = self.references(declared.kind, needed=True)
        if known and self.draw(st.booleans()):
            return AttributeProto(name=name, type=declared.kind, ref_attr_name=self.pick(known))
        if declared.kind == AttributeProto.GRAPH:
            return helper.make_attribute(name, self.graph(scope, depth + 1))
        return literal(name, declared.kind, self.pick(FLOATS))

    # ------------------------------------------------------------ control flow

    def graph(self, scope: Scope, depth: int, inputs: Mapping[str, int] | None = None) -> onnx.GraphProto:
        """Return a graph with one output; ``inputs`` are the element types of its inputs by their role."""
        inner, given = scope.nested(), []
        for role, kind in (inputs or {}).items():
            shape = [2] if kind == TensorProto.FLOAT else []
            name = self.name(inner, readable=kind == TensorProto.FLOAT)
            given.append((role, helper.make_tensor_value_info(name, kind, shape)))
        initializers = []
        if self.draw(SMALL) == 0:
            initializers.append(vector(self.pick(FLOATS), self.name(inner)))
        first = len(inner.readable)
        nodes = [*self.nodes(inner, depth)]
        made = inner.readable[first:]
        if not made:
            nodes += self.binary(inner, depth)
            made = inner.readable[-1:]
        outputs = [helper.make_tensor_value_info(self.pick(made), TensorProto.FLOAT, [2])]
        for role, value in given:
            if role == "condition":
                again = self.name(inner, readable=False)
                nodes.append(self.node("Identity", [value.name], [again]))
                outputs.insert(0, helper.make_tensor_value_info(again, TensorProto.BOOL, []))
        scope.inside |= inner.taken | inner.inside
        return helper.make_graph(nodes, "g", [value for _, value in given], outputs, initializers)

    def conditional(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        largest, limit, condition = (self.name(scope, readable=False) for _ in range(3))
        yield self.node("ReduceMax", [self.read(scope)], [largest], keepdims=0)
        yield self.node("Constant", [], [limit], value_float=self.pick(FLOATS))
        yield self.node("Less", [largest, limit], [condition])
        made = self.node("If", [condition], [])
        for branch in ("then_branch", "else_branch"):
            known = self.references(AttributeProto.GRAPH, needed=True)
            if known and self.draw(st.booleans()):
                made.attribute.add(name=branch, type=AttributeProto.GRAPH, ref_attr_name=self.pick(known))
            else:
                made.attribute.append(helper.make_attribute(branch, self.graph(scope, depth + 1)))
        made.output.append(self.name(scope))
        yield made

    def loop(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        trips, condition = (self.name(scope, readable=False) for _ in range(2))
        yield self.node("Constant", [], [trips], value_int=self.pick([0, 2]))
        yield self.node(
            "Constant", [], [condition], value=helper.make_tensor("", TensorProto.BOOL, [], [True])
        )
        inputs = {"trip": TensorProto.INT64, "condition": TensorProto.BOOL, "state": TensorProto.FLOAT}
        body, state = self.graph(scope, depth + 1, inputs), self.read(scope)
        yield self.node("Loop", [trips, condition, state], [self.name(scope)], body=body)

    def scan(self, scope: Scope, depth: int) -> Iterator[onnx.NodeProto]:
        items = self.name(scope, readable=False)
        values = helper.make_tensor("", TensorProto.FLOAT, [2, 2], [1.0, 2.0, -1.0, 0.5])
        yield self.node("Constant", [], [items], value=values)
        body = self.graph(scope, depth + 1, {"state": TensorProto.FLOAT, "item": TensorProto.FLOAT})
        state = self.read(scope)
        yield self.node("Scan", [state, items], [self.name(scope)], body=body, num_scan_inputs=1)


def vector(number: float, name: str = "") -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [2], [number, -number])


def literal(name: str, kind: int, number: float) -> onnx.AttributeProto:
    values = {
        AttributeProto.FLOAT: number,
        AttributeProto.FLOATS: [number, 1.0],
        AttributeProto.TENSOR: vector(number),
        AttributeProto.GRAPH: constant_graph(number),
    }
    return helper.make_attribute(name, values[kind])


def constant_graph(number: float) -> onnx.GraphProto:
    node = helper.make_node("Constant", [], ["a"], value_floats=[number, number])
    return helper.make_graph([node], "d", [], [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])])


def imports(version: int) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid(d, version if d == "" else 1) for d in ("", "l", "m.n")]


KINDS = (AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.TENSOR, AttributeProto.GRAPH)


def function(draw: Any, number: int, callees: list[Function]) -> tuple[Function, onnx.FunctionProto]:
    names = draw(st.lists(st.sampled_from(ATTRIBUTES), unique=True, max_size=3))
    own, defaults = {}, []
    for name in names:
        kind, has_default = draw(st.sampled_from(KINDS)), draw(st.booleans())
        own[name] = Declared(kind, not has_default)
        if has_default:
            defaults.append(literal(name, kind, draw(st.sampled_from(FLOATS))))
    # A default makes a value sure as well, so inside all of them can be relied upon; only calls may omit one.
    writer, scope = Writer(draw, callees, {n: Declared(d.kind, True) for n, d in own.items()}), Scope()
    inputs = [writer.name(scope) for _ in range(draw(st.integers(1, 3)))]
    optional = draw(st.integers(0, len(inputs) - 1))
    writer.optional = inputs[len(inputs) - optional :]
    scope.readable = inputs[: len(inputs) - optional]
    nodes = [*writer.nodes(scope)]
    # Repeated, and passed through.
    outputs = draw(st.lists(st.sampled_from(scope.readable), min_size=1, max_size=3))
    taken = {f.id for f in callees}
    free = [(d, n, o) for d in DOMAINS[:3] for n in FUNCTIONS for o in ("", "v") if (d, n, o) not in taken]
    identifier: Id = draw(st.sampled_from(free))
    made = helper.make_function(
        identifier[0],
        identifier[1],
        inputs,
        outputs,
        nodes,
        imports(draw(st.sampled_from(OPSETS))),
        [name for name in own if own[name].required],
        defaults,
        overload=identifier[2],
    )
    return Function(identifier, len(inputs), optional, len(outputs), own), made


@st.composite
def models(draw: Any) -> onnx.ModelProto:
    """Draw a model; its inputs are ``a`` and perhaps others, all float[2]."""
    known: list[Function] = []
    protos: list[onnx.FunctionProto] = []
    for number in range(draw(st.integers(0, 4))):
        spec, proto = function(draw, number, known)
        known.append(spec)
        protos.append(proto)
    writer, scope = Writer(draw, known, {}), Scope()
    writer.labels = set()
    inputs = [writer.name(scope) for _ in range(draw(st.integers(1, 2)))]
    initializers = [vector(draw(st.sampled_from(FLOATS)), writer.name(scope)) for _ in range(draw(SMALL))]
    given = len(scope.readable)
    nodes = [*writer.nodes(scope), *writer.nodes(scope), *writer.binary(scope, 0)]
    outputs = draw(st.lists(st.sampled_from(scope.readable[given:]), unique=True, min_size=1, max_size=3))
    types = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in (*inputs, *outputs)}
    graph = helper.make_graph(
        nodes, "main", [types[n] for n in inputs], [types[n] for n in outputs], initializers
    )
    return helper.make_model(
        graph,
        ir_version=10,
        opset_imports=imports(18),
        functions=draw(st.permutations(protos)),
    )


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    numbers = np.array([0.5, -1.25, 2.0, 0.75, -0.5, 1.5], np.float32)
    return {value.name: numbers[n : n + 2] for n, value in enumerate(model.graph.input)}
