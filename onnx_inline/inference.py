"""Types and shapes of the values of a model, inferred without its weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.shadow import Labels, ShadowWriter, imports

#: onnx's inference walks a function again at each call; beyond this many nodes it gets no functions.
MOST_WALKED_NODES = 1_000_000

Types: TypeAlias = dict[ir.Value, onnx.TypeProto]


def infer_types(model: ir.Model) -> Types:
    """Return the types of all values that inference finds, in graphs, subgraphs and functions.

    A value in a function has a type if all calls of the function agree on it.  Weights are not read, and the
    model is not changed.

    Args:
        model: the model.

    Returns:
        Types with shapes, as far as they are known.

    Example:
        >>> model = ir.from_onnx_text('''<ir_version: 8, opset_import: ["" : 17]>
        ...     g (float[2,3] x) => (y) { y = Transpose (x) }''')
        >>> infer_types(model)[model.graph.outputs[0]].tensor_type.shape.dim[0].dim_value
        3
    """
    return _Inference(model).run()


def is_walkable(model: ir.Model) -> bool:
    """Say whether functions call each other in no circle, and add up to a bearable number of nodes."""
    sizes: dict[ir.OperatorIdentifier, int | None] = {}

    def size(nodes: Iterable[ir.Node]) -> int:
        total = 0
        for node in all_nodes(nodes):
            identifier = node.op_identifier()
            total += size_of(identifier) if identifier in model.functions else 1
        return total

    def size_of(identifier: ir.OperatorIdentifier) -> int:
        if identifier not in sizes:
            sizes[identifier] = None
            sizes[identifier] = size(model.functions[identifier])
        found = sizes[identifier]
        # None is a function that is being counted: a circle.
        return MOST_WALKED_NODES + 1 if found is None else found

    return size(model.graph) <= MOST_WALKED_NODES


def all_nodes(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield nodes and those in their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph)


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs in a node's attributes."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


class _Inference:
    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._labels = Labels()
        self._writer = ShadowWriter(self._labels)
        self._types: Types = {}
        self._with_functions = bool(model.functions) and is_walkable(model)
        functions = model.functions.values() if self._with_functions else ()
        self._domains = sorted({normalized_domain(function.domain) for function in functions})
        self._functions = [self._function(function) for function in functions]

    def run(self) -> Types:
        """Infer the types of the graph, then of functions, callers first."""
        self._infer(self._writer.graph(self._model.graph), self._model.opset_imports)
        if self._with_functions:
            for function in self._callers_first():
                graph = self._writer.body(function, self._agreed(function))
                self._infer(graph, function.opset_imports)
        return self._types

    def _function(self, function: ir.Function) -> onnx.FunctionProto:
        proto = self._writer.function(function)
        del proto.opset_import[:]
        proto.opset_import.extend(self._imports(function.opset_imports))
        return proto

    def _imports(self, versions: Mapping[str, int]) -> list[onnx.OperatorSetIdProto]:
        """Return opset imports that name every function's domain: inference knows no others."""
        known = {normalized_domain(domain) for domain in versions}
        missing = {domain: 1 for domain in self._domains if domain not in known}
        return imports({**versions, **missing})

    def _infer(self, graph: onnx.GraphProto, versions: Mapping[str, int]) -> None:
        proto = onnx.ModelProto(ir_version=10, graph=graph, functions=self._functions)
        proto.opset_import.extend(self._imports(versions))
        try:
            proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        except Exception:  # the native code raises whatever it likes; then what is written has to do
            self._collect(graph)
            return
        self._collect(proto.graph)

    def _collect(self, graph: onnx.GraphProto) -> None:
        for info in (*graph.input, *graph.value_info, *graph.output):
            if info.type.WhichOneof("value") and info.name in self._labels.values:
                self._types[self._labels.values[info.name]] = info.type
        for tensor in graph.initializer:
            if tensor.name in self._labels.values:
                made = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                self._types[self._labels.values[tensor.name]] = made
        for node in graph.node:
            for attribute in node.attribute:
                for inner in (attribute.g,) if attribute.HasField("g") else attribute.graphs:
                    self._collect(inner)

    def _callers_first(self) -> list[ir.Function]:
        """Return the functions that something calls, each after all its callers."""
        functions = self._model.functions
        calls = {f: Counter(_called(functions[f], functions)) for f in functions}
        waiting = Counter(callee for called in calls.values() for callee in called)
        order, ready = [], [identifier for identifier in functions if not waiting[identifier]]
        while ready:
            identifier = ready.pop()
            order.append(functions[identifier])
            for callee in calls[identifier]:
                waiting[callee] -= 1
                if not waiting[callee]:
                    ready.append(callee)
        return order

    def _agreed(self, function: ir.Function) -> Types:
        """Return the types of a function's inputs on which all its calls agree."""
        calls = self._calls().get(function.identifier(), [])
        agreed = {}
        for place, value in enumerate(function.inputs):
            given = [call.inputs[place] if place < len(call.inputs) else None for call in calls]
            if (common := self._common(given)) is not None:
                agreed[value] = common
        return agreed

    def _common(self, values: Sequence[ir.Value | None]) -> onnx.TypeProto | None:
        types = [self._types.get(value) if value is not None else None for value in values]
        first = types[0] if types else None
        if first is None or None in types:
            return None
        if all(one == first for one in types):
            return first
        kinds = {one.tensor_type.elem_type if one else 0 for one in types}
        # Shapes differ: what is known is the element type.
        return onnx.helper.make_tensor_type_proto(kinds.pop(), None) if len(kinds) == 1 else None

    def _calls(self) -> dict[ir.OperatorIdentifier, list[ir.Node]]:
        if not hasattr(self, "_found"):
            self._found: dict[ir.OperatorIdentifier, list[ir.Node]] = {}
            for owner in (self._model.graph, *self._model.functions.values()):
                for node in all_nodes(owner):
                    if node.op_identifier() in self._model.functions:
                        self._found.setdefault(node.op_identifier(), []).append(node)
        return self._found


def _called(
    function: ir.Function, functions: Mapping[ir.OperatorIdentifier, ir.Function]
) -> Iterator[ir.OperatorIdentifier]:
    seen = {node.op_identifier() for node in all_nodes(function)}
    return (identifier for identifier in functions if identifier in seen)


def element_type(types: Mapping[ir.Value, onnx.TypeProto], value: ir.Value | None) -> int:
    """Return the element type of a tensor as ONNX numbers them, 0 if it is unknown."""
    found = types.get(value) if value is not None else None
    return found.tensor_type.elem_type if found is not None else 0


def operator_id(node: ir.Node) -> OperatorId:
    """Return the identifier of the operator or function that a node calls."""
    return OperatorId(normalized_domain(node.domain), node.op_type, node.overload)
