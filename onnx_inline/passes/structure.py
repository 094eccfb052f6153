"""What a stretch of a graph computes, names aside: keys that are equal where the structure is."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

#: Constants up to this size are compared by value; larger ones are weights, which no pass reads.
LARGEST_CONSTANT_BYTES = 4096


@dataclass(frozen=True)
class Hole:
    """An attribute whose value a key leaves out, and the key of that value."""

    node: ir.Node
    value: ir.Attr
    key: Hashable

    @property
    def attribute(self) -> str:
        """The attribute's name."""
        return self.value.name


@dataclass
class Keys:
    """Makes keys of nodes, and numbers values in the order in which they are met.

    Attributes:
        versions: the opset version of each domain.
        functions: local functions, which no version selects.
        leave_out: says whether an attribute's value is a hole that the key leaves open.
        holes: the attributes left out so far.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    functions: Container[ir.OperatorIdentifier] = ()
    leave_out: Callable[[ir.Node, ir.Attr], bool] = lambda node, attribute: False
    holes: list[Hole] = field(default_factory=list)
    _numbers: dict[ir.Value, int] = field(default_factory=dict)

    def number(self, value: ir.Value | None) -> int:
        """Return the number of a value, the next free one if it is new; -1 for none."""
        return -1 if value is None else self._numbers.setdefault(value, len(self._numbers))

    def numbers(self, values: Iterable[ir.Value | None]) -> tuple[int, ...]:
        """Return the numbers of values."""
        return tuple(map(self.number, values))

    def node(self, node: ir.Node) -> Hashable:
        """Return the key of a node: operator, attributes, and the numbers of its inputs and outputs."""
        inputs = self.numbers(node.inputs)
        operation = self.operation(node)
        return operation, inputs, self.numbers(node.outputs)

    def operation(self, node: ir.Node) -> Hashable:
        """Return the key of what a node does, whatever its inputs are."""
        operator = node.op_identifier()
        attributes = tuple(self._attribute(node, attribute) for attribute in _sorted(node))
        version = None if operator in self.functions else self.versions.get(operator[0])
        return operator, version, attributes

    def graph(self, graph: ir.Graph) -> Hashable:
        """Return the key of a subgraph; values from outside count by their numbers."""
        inputs = self.numbers(graph.inputs)
        initializers = [(self.number(v), tensor_key(v.const_value)) for v in graph.initializers.values()]
        nodes = tuple(self.node(node) for node in graph)
        return inputs, tuple(initializers), nodes, self.numbers(graph.outputs)

    def function(self, function: ir.Function) -> Hashable:
        """Return the key of a function: interface and body, but no attributes that the body does not use."""
        inputs = self.numbers(function.inputs)
        used = {a.ref_attr_name for node in function for a in all_attributes(node) if a.is_ref()}
        attributes = tuple(attribute_key(a) for a in _sorted(function) if a.name in used)
        nodes = tuple(self.node(node) for node in function)
        return inputs, attributes, nodes, self.numbers(function.outputs)

    def _attribute(self, node: ir.Node, attribute: ir.Attr) -> Hashable:
        if attribute.is_ref():
            return attribute.name, attribute.type, attribute.ref_attr_name
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            return attribute.name, tuple(map(self.graph, attribute_graphs(attribute)))
        key = attribute_key(attribute)
        if self.leave_out(node, attribute):
            self.holes.append(Hole(node, attribute, key))
            return attribute.name, attribute.type
        return key


def attribute_graphs(attribute: ir.Attr) -> list[ir.Graph]:
    """Return the graphs that an attribute holds."""
    if attribute.is_ref():
        return []
    if attribute.type is ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return list(attribute.as_graphs()) if attribute.type is ir.AttributeType.GRAPHS else []


def all_nodes(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield nodes, each followed by those in its subgraphs; onnx_ir's own walk fails at a graph parameter."""
    for node in nodes:
        yield node
        for attribute in node.attributes.values():
            for graph in attribute_graphs(attribute):
                yield from all_nodes(graph)


def callees(
    function: ir.Function, functions: Container[ir.OperatorIdentifier]
) -> list[ir.OperatorIdentifier]:
    """Return the functions that a function calls, each once, in the order of the first calls."""
    operators = (node.op_identifier() for node in all_nodes(function))
    return list(dict.fromkeys(operator for operator in operators if operator in functions))


@contextlib.contextmanager
def callees_stay_first(model: ir.Model) -> Iterator[None]:
    """Put functions in front of those that call them again, if that is how they stand at the beginning.

    The standard asks for no order, but onnx's reference evaluator can run a model in this order only.
    """
    before = list(model.functions)
    keep = before == _callees_first(model)
    yield
    if keep and list(model.functions) != (order := _callees_first(model)):
        functions = dict(model.functions)
        model.functions.clear()
        model.functions.update((identifier, functions[identifier]) for identifier in order)


def _callees_first(model: ir.Model) -> list[ir.OperatorIdentifier]:
    """Return the functions in their order, but each after those that it calls."""
    order: dict[ir.OperatorIdentifier, None] = {}
    entered: set[ir.OperatorIdentifier] = set()
    pending = list(reversed(model.functions))
    while pending:
        identifier = pending[-1]
        if identifier in entered:
            order[pending.pop()] = None
            continue
        entered.add(identifier)
        called = callees(model.functions[identifier], model.functions)
        pending.extend(callee for callee in reversed(called) if callee not in entered)
    return list(order)


def all_attributes(node: ir.Node) -> Iterator[ir.Attr]:
    """Yield the attributes of a node and of the nodes in its subgraphs."""
    return (attribute for inner in all_nodes([node]) for attribute in inner.attributes.values())


def defined_within(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that a graph and the graphs in it define."""
    yield from _defined(graph)
    for node in graph:
        for attribute in node.attributes.values():
            for inner in attribute_graphs(attribute):
                yield from defined_within(inner)


def captured(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node's subgraphs read and do not define, as often as they are read."""
    for attribute in node.attributes.values():
        for graph in attribute_graphs(attribute):
            inner = set(_defined(graph))
            yield from (value for value in _read(graph) if value not in inner)


def _defined(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def _read(graph: ir.Graph) -> Iterator[ir.Value]:
    for node in graph:
        yield from (value for value in node.inputs if value is not None)
        yield from captured(node)
    yield from graph.outputs


def attribute_key(attribute: ir.Attr) -> Hashable:
    """Return a key of an attribute that holds no graph: name, type and value."""
    if attribute.is_ref():
        return attribute.name, attribute.type, attribute.ref_attr_name
    return attribute.name, attribute.type, _value_key(attribute.type, attribute.value)


def _value_key(type_: ir.AttributeType, value: Any) -> Hashable:
    if type_ is ir.AttributeType.TENSOR:
        return tensor_key(value)
    if type_ is ir.AttributeType.TENSORS:
        return tuple(map(tensor_key, value))
    if value is None or isinstance(value, (int, str, bytes)):
        return value
    if isinstance(value, float):
        return struct.pack("<d", value)  # NaN equals itself, and -0.0 is not 0.0
    if isinstance(value, (tuple, list)):
        return tuple(_value_key(type_, element) for element in value)
    return repr(value) if isinstance(value, ir.TypeAndShape) else ("identity", id(value))


def tensor_key(tensor: ir.TensorProtocol | None) -> Hashable:
    """Return a key of a tensor: its value if it is small, else the tensor itself."""
    if tensor is None:
        return None
    if isinstance(tensor, ir.ExternalTensor):
        return tensor.path, tensor.offset, tensor.length, tensor.dtype, tuple(tensor.shape.numpy())
    if tensor.nbytes > LARGEST_CONSTANT_BYTES:
        return "identity", id(tensor)
    return tensor.dtype, tuple(tensor.shape.numpy()), _content(tensor)


def _content(tensor: ir.TensorProtocol) -> Hashable:
    if tensor.dtype is ir.DataType.STRING:
        return tuple(tensor.numpy().reshape(-1).tolist())
    return tensor.tobytes()


def _sorted(owner: ir.Node | ir.Function) -> list[ir.Attr]:
    attributes = owner.attributes
    if len(attributes) < 2:
        return list(attributes.values())
    return [attributes[name] for name in sorted(attributes)]
