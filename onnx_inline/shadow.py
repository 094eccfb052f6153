"""A model as protobuf without its weights: what type inference and analysis need, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeGuard

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import Message

#: Tensors of fewer bytes keep their data: shapes, axes and flags decide on types.
SMALL = 1024

Label = Callable[[ir.Value], str]


def own_name(value: ir.Value) -> str:
    """Return a value's own name."""
    return value.name or ""


class Labels:
    """Gives every value a label of its own, so that no scope hides another's.

    Attributes:
        values: the value of each label.
    """

    def __init__(self) -> None:
        self.values: dict[str, ir.Value] = {}
        self._labels: dict[ir.Value, str] = {}

    def __call__(self, value: ir.Value) -> str:
        """Return the label of a value."""
        if value not in self._labels:
            self._labels[value] = label = f"v{len(self._labels)}"
            self.values[label] = value
        return self._labels[value]


class ShadowWriter:
    """Writes parts of an onnx_ir model as protobuf; large tensors have a type and a shape only.

    Args:
        label: names a value.
    """

    def __init__(self, label: Label = own_name) -> None:
        self._label = label

    def model(self, model: ir.Model, functions: bool = True) -> onnx.ModelProto:
        """Return a model; initializers without data are inputs as well, as inference wants them."""
        proto = onnx.ModelProto(ir_version=model.ir_version)
        proto.opset_import.extend(imports(model.opset_imports))
        proto.graph.CopyFrom(self.graph(model.graph))
        if functions:
            proto.functions.extend(self.function(function) for function in model.functions.values())
        return proto

    def graph(self, graph: ir.Graph) -> onnx.GraphProto:
        """Return a graph, with the types that its values have."""
        proto = onnx.GraphProto(name=graph.name or "graph")
        proto.input.extend(self.info(value) for value in graph.inputs)
        given = set(graph.inputs)
        for value in graph.initializers.values():
            if small_data(value.const_value):
                proto.initializer.append(ir.serde.serialize_tensor(value.const_value))
                proto.initializer[-1].name = self._label(value)
            elif value not in given:
                proto.input.append(self.info(value))
        self._body(proto, graph)
        proto.output.extend(self.info(value) for value in graph.outputs)
        return proto

    def function(self, function: ir.Function) -> onnx.FunctionProto:
        """Return a function."""
        proto = onnx.FunctionProto(
            name=function.name, domain=function.domain, overload=function.overload, doc_string=""
        )
        proto.opset_import.extend(imports(function.opset_imports))
        proto.input.extend(self._label(value) for value in function.inputs)
        proto.output.extend(self._label(value) for value in function.outputs)
        for attribute in function.attributes.values():
            if attribute.value is None:
                proto.attribute.append(attribute.name)
            else:
                proto.attribute_proto.append(ir.serde.serialize_attribute(attribute))
        proto.node.extend(self.node(node) for node in function)
        return proto

    def body(self, function: ir.Function, types: Mapping[ir.Value, onnx.TypeProto]) -> onnx.GraphProto:
        """Return the body of a function as a graph with inputs of given types."""
        proto = onnx.GraphProto(name=function.name)
        for value in function.inputs:
            proto.input.add(name=self._label(value), type=types.get(value))
        self._body(proto, function)
        proto.output.extend(onnx.ValueInfoProto(name=self._label(value)) for value in function.outputs)
        return proto

    def _body(self, proto: onnx.GraphProto, nodes: Iterable[ir.Node]) -> None:
        for node in nodes:
            if node.op_type == "Constant" and large_constant(node):
                # Inference would look for the data.
                proto.input.append(self._constant_info(node))
                continue
            proto.node.append(self.node(node))
            proto.value_info.extend(self.info(value) for value in node.outputs if value.name and value.type)

    def node(self, node: ir.Node) -> onnx.NodeProto:
        """Return a node, its metadata left out."""
        proto = onnx.NodeProto(
            name=node.name or "", op_type=node.op_type, domain=node.domain, overload=node.overload
        )
        proto.input.extend(
            "" if not value or value.name == "" else self._label(value) for value in node.inputs
        )
        proto.output.extend("" if value.name == "" else self._label(value) for value in node.outputs)
        proto.attribute.extend(self.attribute(attribute) for attribute in node.attributes.values())
        return proto

    def attribute(self, attribute: ir.Attr) -> onnx.AttributeProto:
        """Return an attribute."""
        if attribute.is_ref():
            return ir.serde.serialize_reference_attribute(attribute)
        if attribute.type == ir.AttributeType.GRAPH:
            graph = self.graph(attribute.as_graph())
            return onnx.AttributeProto(name=attribute.name, type=onnx.AttributeProto.GRAPH, g=graph)
        if attribute.type == ir.AttributeType.GRAPHS:
            graphs = [self.graph(graph) for graph in attribute.as_graphs()]
            return onnx.AttributeProto(name=attribute.name, type=onnx.AttributeProto.GRAPHS, graphs=graphs)
        return ir.serde.serialize_attribute(attribute)

    def info(self, value: ir.Value) -> onnx.ValueInfoProto:
        """Return the name and type of a value."""
        proto = onnx.ValueInfoProto(name=self._label(value))
        tensor = value.const_value
        if value.type is not None:
            ir.serde.serialize_type_into(proto.type, value.type)
            if value.shape is not None:
                ir.serde.serialize_shape_into(proto.type, value.shape)
        elif tensor is not None:
            proto.type.CopyFrom(tensor_type(tensor))
        return proto

    def _constant_info(self, node: ir.Node) -> onnx.ValueInfoProto:
        tensor = node.attributes["value"].as_tensor()
        return onnx.ValueInfoProto(name=self._label(node.outputs[0]), type=tensor_type(tensor))


def imports(versions: Mapping[str, int]) -> list[onnx.OperatorSetIdProto]:
    """Return opset imports as protobuf."""
    return [onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in versions.items()]


def tensor_type(tensor: ir.TensorProtocol) -> onnx.TypeProto:
    """Return the type and shape of a tensor."""
    # A symbolic dimension in a tensor without data is written as None.
    shape = [d if isinstance(d, int) else None for d in tensor.shape]
    return onnx.helper.make_tensor_type_proto(tensor.dtype.value, shape)


def small_data(tensor: ir.TensorProtocol | None) -> TypeGuard[ir.TensorProtocol]:
    """Say whether a tensor is small and its data are in memory."""
    # A tensor of a framework may have no data at all, or have them on another device.  (The exact types are
    # asked for, and not the protocol, which takes a hundred times as long.)
    if type(tensor) is ir.Tensor:
        return isinstance(tensor.raw, np.ndarray) and tensor.nbytes < SMALL
    return type(tensor) is ir.serde.TensorProtoTensor and tensor.nbytes < SMALL


def large_constant(node: ir.Node) -> bool:
    """Say whether a node is a constant whose data are not worth writing."""
    attribute = node.attributes.get("value")
    if attribute is None or attribute.is_ref() or attribute.type != ir.AttributeType.TENSOR:
        return False
    return not small_data(attribute.value)


def shadow_of(model: onnx.ModelProto | ir.Model) -> onnx.ModelProto:
    """Return a model without the data of its larger initializers; the one given is not changed.

    Args:
        model: a model of either form.

    Returns:
        A model with the same graphs, functions and names; initializers of ``SMALL`` bytes and more have a
        type and a shape only.
    """
    if isinstance(model, ir.Model):
        return ShadowWriter().model(model)
    shadow = onnx.ModelProto()
    _copy(model, shadow, left_out=("graph", "training_info"))
    _copy(model.graph, shadow.graph, left_out=("initializer",))
    for tensor in model.graph.initializer:
        if tensor.ByteSize() < SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
            shadow.graph.initializer.append(tensor)
        else:
            shadow.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    return shadow


def _copy(source: Message, target: Message, left_out: Iterable[str]) -> None:
    for field, value in source.ListFields():
        if field.name in left_out:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)
