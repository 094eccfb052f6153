"""Scopes, nodes and values of a model in either form, as the rules of the verifier see them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import onnx

from onnx_inline.identifiers import OperatorId, normalized_domain

if TYPE_CHECKING:
    import onnx_ir as ir


class Value(NamedTuple):
    """A value where it is defined or used: its name, and what makes it one with another use.

    In a proto that is the name again.  In onnx_ir it is the object: two objects of one name are two values,
    until the model is written.
    """

    name: str
    key: Hashable


@dataclass(slots=True)
class Node:
    """A node: its operator, values and subgraphs, and (attribute, attribute of the function) references."""

    name: str
    op: OperatorId
    inputs: list[Value]
    outputs: list[Value]
    scopes: list[Scope]
    references: list[tuple[str, str]]

    def __str__(self) -> str:
        outputs, inputs = (", ".join(v.name for v in vs) for vs in (self.outputs, self.inputs))
        return f"{outputs} = {self.op} ({inputs})"


@dataclass(slots=True)
class Scope:
    """A graph, a subgraph or a function's body.

    Attributes:
        title: what to call it in messages.
        annotated: the names that value_info gives types for.
    """

    title: str
    inputs: list[Value]
    initializers: list[Value]
    nodes: list[Node]
    outputs: list[Value]
    annotated: list[str]

    def defined(self) -> Iterator[Value]:
        """Yield what the scope itself defines, an initializer that is an input once."""
        yield from self.inputs
        given = {value.name for value in self.inputs}
        yield from (value for value in self.initializers if value.name not in given)
        for node in self.nodes:
            yield from node.outputs

    def all_scopes(self) -> Iterator[Scope]:
        """Yield the scope and those in it."""
        yield self
        for node in self.nodes:
            for inner in node.scopes:
                yield from inner.all_scopes()

    def all_nodes(self) -> Iterator[Node]:
        """Yield the nodes of the scope and of those in it."""
        for scope in self.all_scopes():
            yield from scope.nodes


@dataclass(slots=True)
class Function:
    """A model-local function."""

    id: OperatorId
    scope: Scope
    imports: Mapping[str, int]
    attributes: frozenset[str]


#: name and type of each input, and of each output
Interface = tuple[tuple[tuple[str, bytes], ...], tuple[tuple[str, bytes], ...]]


@dataclass(slots=True)
class Model:
    """A model; ``light`` gives it as a proto without weights."""

    graph: Scope
    imports: Mapping[str, int]
    functions: list[Function]
    interface: Interface
    light: Callable[[], onnx.ModelProto] = field(repr=False)

    def owners(self) -> Iterator[Scope]:
        """Yield the scopes that see nothing outside of themselves: the graph and the functions' bodies."""
        yield self.graph
        yield from (function.scope for function in self.functions)


def view_of(model: onnx.ModelProto | ir.Model) -> Model:
    """Return what there is in a model of either form; weights are not read."""
    if isinstance(model, onnx.ModelProto):
        return _proto_model(model)
    from onnx_inline.verifier.scopes_ir import ir_model

    return ir_model(model)


def _proto_model(model: onnx.ModelProto) -> Model:
    functions = [_proto_function(function) for function in model.functions]
    graph = _proto_scope(model.graph, "the graph")
    interface = interface_of(model.graph.input, model.graph.output)
    return Model(graph, imports_of(model.opset_import), functions, interface, lambda: _light(model))


def interface_of(inputs: Iterable[onnx.ValueInfoProto], outputs: Iterable[onnx.ValueInfoProto]) -> Interface:
    """Return names and types."""

    def side(infos: Iterable[onnx.ValueInfoProto]) -> tuple[tuple[str, bytes], ...]:
        return tuple((info.name, info.type.SerializeToString(deterministic=True)) for info in infos)

    return side(inputs), side(outputs)


def imports_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return versions by domain."""
    return {normalized_domain(entry.domain): entry.version for entry in imports}


def _proto_function(function: onnx.FunctionProto) -> Function:
    overload = getattr(function, "overload", "")  # since onnx 1.16
    name = OperatorId(normalized_domain(function.domain), function.name, overload)
    attributes = frozenset([*function.attribute, *(a.name for a in function.attribute_proto)])
    scope = Scope(
        f"function {name}",
        _values(function.input),
        [],
        [_proto_node(node) for node in function.node],
        _values(function.output),
        [info.name for info in getattr(function, "value_info", ())],
    )
    return Function(name, scope, imports_of(function.opset_import), attributes)


def _values(names: Iterable[str]) -> list[Value]:
    return [Value(name, name) for name in names]


def _proto_scope(graph: onnx.GraphProto, title: str) -> Scope:
    initializers = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    return Scope(
        title,
        _values(info.name for info in graph.input),
        _values(initializers),
        [_proto_node(node) for node in graph.node],
        _values(info.name for info in graph.output),
        [info.name for info in graph.value_info],
    )


def _proto_node(node: onnx.NodeProto) -> Node:
    op = OperatorId(normalized_domain(node.domain), node.op_type, getattr(node, "overload", ""))
    scopes = [
        _proto_scope(graph, f"{attribute.name} of {op} {node.name!r}")
        for attribute in node.attribute
        for graph in ([attribute.g] if attribute.HasField("g") else attribute.graphs)
    ]
    references = [(a.name, a.ref_attr_name) for a in node.attribute if a.ref_attr_name]
    written = [Value(name, name) for name in node.output if name]
    return Node(node.name, op, [Value(n, n) for n in node.input if n], written, scopes, references)


#: initializers up to this many elements are looked at by the checker
SMALL = 64


def _light(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which large initializers are inputs, so that nothing reads them."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    for field_name in ("input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, field_name).extend(getattr(model.graph, field_name))
    add_initializers(light.graph, model.graph.initializer)
    return light


def add_initializers(graph: onnx.GraphProto, tensors: Iterable[onnx.TensorProto]) -> None:
    """Add small initializers as they are, and large ones as inputs."""
    given = {info.name for info in graph.input}
    for tensor in tensors:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and _elements(tensor) <= SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in given:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)


def _elements(tensor: onnx.TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count
