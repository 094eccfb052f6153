"""Initializers without data: where a model names a weight that it does not hold.

``files`` asks here before it writes, ``binding`` before it fills in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx

from onnx_inline.errors import UnboundInitializersError

if TYPE_CHECKING:
    import onnx_ir as ir

Dim: TypeAlias = "int | str | None"

_DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@dataclass(frozen=True)
class UnboundInitializer:
    """An initializer whose data the model does not hold.

    Attributes:
        name: the name that nodes read.
        type: the element type by its ONNX name, such as ``"FLOAT"``; None if the model does not say.
        shape: the dimensions, each a number, a symbol or None; None if not even the rank is known.
        why: what is missing.
    """

    name: str
    type: str | None
    shape: tuple[Dim, ...] | None
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({described(self.type, self.shape)}: {self.why})"


def described(type_: str | None, shape: Iterable[Dim] | None) -> str:
    """Return a tensor type as text: ``FLOAT[3,N]``, with ``?`` for what is not known."""
    dims = "" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
    return f"{type_ or '?'}{dims}"


def unbound_initializers(model: onnx.ModelProto | ir.Model) -> tuple[UnboundInitializer, ...]:
    """List the initializers that have no data.

    These are initializers without a value, as :func:`torch.onnx.export` leaves them under
    ``FakeTensorMode`` or on the meta device, and names that the graph reads and nothing defines, as
    ``ONNXProgram.save(include_initializers=False)`` writes them.  External data counts as data; whether
    its file exists is not looked at.

    Args:
        model: the model; its graph and subgraphs are searched, functions have no initializers.

    Returns:
        Initializers in the model's order, then undefined names in the order of their first use.

    Example:
        >>> import onnx, onnx_inline
        >>> model = onnx.parser.parse_model(
        ...     '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Add (x, w) }'
        ... )
        >>> [weight.name for weight in onnx_inline.unbound_initializers(model)]
        ['w']
    """
    return tuple(weight for weight, _ in places(model))


def require_bound(model: onnx.ModelProto | ir.Model) -> None:
    """Refuse a model with unbound initializers.

    Args:
        model: the model, not changed.

    Raises:
        UnboundInitializersError: there are some; it names them and the command that binds them.
    """
    if missing := unbound_initializers(model):
        raise UnboundInitializersError(missing)


def places(model: onnx.ModelProto | ir.Model) -> Iterator[tuple[UnboundInitializer, list[Any]]]:
    """Yield each unbound initializer with what is to be filled in.

    That is one ``TensorProto`` or ``ir.Value`` for an initializer; for an undefined name nothing in a
    proto, and in an ``ir.Model`` the values by that name, which onnx_ir makes one for each use.
    """
    if isinstance(model, onnx.ModelProto):
        yield from _proto_places(model.graph)
    else:
        yield from _ir_initializers(model)
        yield from _ir_undefined(model)


# ---- ModelProto


def _proto_places(graph: onnx.GraphProto) -> Iterator[tuple[UnboundInitializer, list[Any]]]:
    for inner in _graphs(graph):
        for tensor in inner.initializer:
            if why := _tensor_lacks(tensor):
                dims: tuple[Dim, ...] = tuple(tensor.dims)
                yield UnboundInitializer(tensor.name, _type_name(tensor.data_type), dims, why), [tensor]
    infos = {info.name: info for info in graph.value_info}
    readers: dict[str, str] = {}
    _find_undefined(graph, set(), readers)
    for name, reader in readers.items():
        type_, shape = _info_type(infos.get(name))
        yield UnboundInitializer(name, type_, shape, f"{reader} reads it, and nothing defines it"), []


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _graphs(inner)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _tensor_lacks(tensor: onnx.TensorProto) -> str:
    """Say what a tensor lacks to have a value; nothing if it has one."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        located = any(entry.key == "location" and entry.value for entry in tensor.external_data)
        return "" if located else "it refers to external data without a location"
    if 0 in tensor.dims or any(len(getattr(tensor, field)) for field in _DATA_FIELDS):
        return ""
    # Reading raw_data copies it, but a field that is present may still be empty.
    return "" if tensor.HasField("raw_data") and tensor.raw_data else "it has no data"


def _find_undefined(graph: onnx.GraphProto, defined: set[str], readers: dict[str, str]) -> None:
    """Add to ``readers`` each name read in ``graph`` that is not in ``defined``, with its first reader."""
    own = _defined_in(graph) - defined
    # One set, grown and shrunk again, since a copy for each subgraph would make the cost quadratic.
    defined |= own
    for node in graph.node:
        for name in node.input:
            if name and name not in defined:
                readers.setdefault(name, f"node {node.name or node.op_type}")
        for inner in _subgraphs(node):
            _find_undefined(inner, defined, readers)
    for output in graph.output:
        if output.name and output.name not in defined:
            readers.setdefault(output.name, f"the output of graph {graph.name}")
    defined -= own


def _defined_in(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    names.update(name for node in graph.node for name in node.output)
    return names


def _info_type(info: onnx.ValueInfoProto | None) -> tuple[str | None, tuple[Dim, ...] | None]:
    if info is None or not info.type.HasField("tensor_type"):
        return None, None
    tensor = info.type.tensor_type
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return _type_name(tensor.elem_type), shape


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return dim.dim_value
    return dim.dim_param or None


def _type_name(number: int) -> str | None:
    """Return the name of an element type; None for UNDEFINED, the number itself if onnx does not know it."""
    names = onnx.TensorProto.DataType
    return (names.Name(number) if number in names.values() else str(number)) if number else None


# ---- ir.Model


def _ir_initializers(model: ir.Model) -> Iterator[tuple[UnboundInitializer, list[Any]]]:
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            if why := _value_lacks(value):
                yield _described_value(value, why), [value]


def _ir_undefined(model: ir.Model) -> Iterator[tuple[UnboundInitializer, list[Any]]]:
    found: dict[str, dict[ir.Value, None]] = {}
    readers: dict[str, str] = {}
    for reader, value in _ir_reads(model):
        if value.name and value.producer() is None and not _is_defined(value):
            found.setdefault(value.name, {})[value] = None
            readers.setdefault(value.name, reader)
    for name, values in found.items():
        why = f"{readers[name]} reads it, and nothing defines it"
        yield _described_value(next(iter(values)), why), list(values)


def _is_defined(value: ir.Value) -> bool:
    return value.is_graph_input() or value.is_initializer()


def _ir_reads(model: ir.Model) -> Iterator[tuple[str, ir.Value]]:
    for node in model.graph.all_nodes():
        for value in node.inputs:
            if value is not None:
                yield f"node {node.name or node.op_type}", value
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.outputs:
            yield f"the output of graph {graph.name}", value


def _value_lacks(value: ir.Value) -> str:
    tensor = value.const_value
    if tensor is None:
        return "it has no value"
    raw = getattr(tensor, "raw", None)
    return _tensor_lacks(raw) if isinstance(raw, onnx.TensorProto) else lacks_memory(raw)


def lacks_memory(array: object) -> str:
    """Say why a torch tensor has no data; nothing if it has, or is no torch tensor."""
    # By name, since to import torch takes seconds, and to ask a fake tensor for its device needs no import.
    if any(base.__name__ == "FakeTensor" for base in type(array).__mro__):
        return "it is a FakeTensor, which has no data"
    return "it is on the meta device, which has no data" if getattr(array, "is_meta", False) is True else ""


def _described_value(value: ir.Value, why: str) -> UnboundInitializer:
    type_ = value.dtype or (value.const_value and value.const_value.dtype)
    shape = value.shape if value.const_value is None or value.shape is not None else value.const_value.shape
    dims = None if shape is None else tuple(_ir_dim(dim) for dim in shape)
    return UnboundInitializer(value.name or "", type_.name if type_ else None, dims, why)


def _ir_dim(dim: int | ir.SymbolicDimProtocol) -> Dim:
    return dim if isinstance(dim, int) else dim.value
