"""An onnx_ir model as the rules of the verifier see it."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir

from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.verifier.scopes import SMALL, Function, Model, Node, Scope, Value, interface_of


def ir_model(model: ir.Model) -> Model:
    """Return what there is in a model; weights are not read."""
    functions = [_function(function) for function in model.functions.values()]
    values = (model.graph.inputs, model.graph.outputs)
    inputs, outputs = ([ir.serde.serialize_value(value) for value in side] for side in values)
    scope = _scope(model.graph, "the graph")
    imports = _imports(model.graph.opset_imports)
    return Model(scope, imports, functions, interface_of(inputs, outputs), lambda: light_model(model))


def _imports(imports: dict[str, int]) -> dict[str, int]:
    return {normalized_domain(domain): version for domain, version in imports.items()}


def _function(function: ir.Function) -> Function:
    name = OperatorId(normalized_domain(function.domain), function.name, function.overload)
    scope = _scope(function.graph, f"function {name}")
    return Function(name, scope, _imports(function.opset_imports), frozenset(function.attributes))


def _scope(graph: ir.Graph, title: str) -> Scope:
    return Scope(
        title,
        _values(graph.inputs),
        _values(graph.initializers.values()),
        [_node(node) for node in graph],
        _values(graph.outputs),
        [],
    )


def _values(values: Iterable[ir.Value | None]) -> list[Value]:
    # An output without a name is one that is left out.
    return [Value(value.name or "", value) for value in values if value is not None and value.name != ""]


def _node(node: ir.Node) -> Node:
    op = OperatorId(normalized_domain(node.domain), node.op_type, node.overload)
    scopes = [
        _scope(graph, f"{attribute.name} of {op} {node.name or ''!r}")
        for attribute in node.attributes.values()
        for graph in _graphs(attribute)
    ]
    references = [(a.name, a.ref_attr_name or "") for a in node.attributes.values() if a.is_ref()]
    return Node(node.name or "", op, _values(node.inputs), _values(node.outputs), scopes, references)


def _graphs(attribute: ir.Attr) -> list[ir.Graph]:
    if attribute.is_ref():
        return []
    if attribute.type is ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    return list(attribute.as_graphs()) if attribute.type is ir.AttributeType.GRAPHS else []


def light_model(model: ir.Model) -> onnx.ModelProto:
    """Return a model as a proto in which large initializers are inputs, so that nothing reads them."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in model.graph.opset_imports.items():
        light.opset_import.add(domain=domain, version=version)
    light.functions.extend(ir.serde.serialize_function(f) for f in model.functions.values())
    graph = light.graph
    graph.name = model.graph.name or ""
    graph.node.extend(ir.serde.serialize_node(node) for node in model.graph)
    graph.input.extend(ir.serde.serialize_value(value) for value in model.graph.inputs)
    graph.output.extend(ir.serde.serialize_value(value) for value in model.graph.outputs)
    for value in model.graph.initializers.values():
        _add_initializer(graph, value)
    return light


def _add_initializer(graph: onnx.GraphProto, value: ir.Value) -> None:
    tensor = value.const_value
    if tensor is not None and not isinstance(tensor, ir.ExternalTensor) and tensor.size <= SMALL:
        graph.initializer.append(ir.serde.serialize_tensor(tensor))
        graph.initializer[-1].name = value.name or ""
    elif not value.is_graph_input():
        graph.input.append(ir.serde.serialize_value(value))
