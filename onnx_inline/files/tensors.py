"""Every tensor of a model, and whether its data fit its type and shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import TensorProto

from onnx_inline.errors import TensorDataError

#: bits of one element, by data_type
BITS: dict[int, int] = {
    TensorProto.FLOAT: 32,
    TensorProto.UINT8: 8,
    TensorProto.INT8: 8,
    TensorProto.UINT16: 16,
    TensorProto.INT16: 16,
    TensorProto.INT32: 32,
    TensorProto.INT64: 64,
    TensorProto.BOOL: 8,
    TensorProto.FLOAT16: 16,
    TensorProto.DOUBLE: 64,
    TensorProto.UINT32: 32,
    TensorProto.UINT64: 64,
    TensorProto.COMPLEX64: 64,
    TensorProto.COMPLEX128: 128,
    TensorProto.BFLOAT16: 16,
    **dict.fromkeys(range(17, 21), 8),  # float 8
    **dict.fromkeys((21, 22, 23), 4),  # UINT4, INT4, FLOAT4E2M1
    24: 8,  # FLOAT8E8M0
    **dict.fromkeys((25, 26), 2),  # UINT2, INT2
    **dict.fromkeys((27, 28), 6),  # FLOAT6E2M3, FLOAT6E3M2
}
#: data_type -> the typed field that may hold it, where that is not int32_data
_TYPED_FIELD: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
}
_DATA_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
#: attributes that hold neither tensors nor graphs
_PLAIN = frozenset(
    getattr(onnx.AttributeProto, kind)
    for kind in ("FLOAT", "INT", "STRING", "FLOATS", "INTS", "STRINGS", "TYPE_PROTO", "TYPE_PROTOS")
)
_MOST_BYTES = (1 << 63) - 1


def all_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor, sparse ones' parts too; in subgraphs, functions and training info as well."""
    graphs = [model.graph]
    for info in model.training_info:
        graphs += [info.initialization, info.algorithm]
    for function in model.functions:
        yield from _in_nodes(function.node, graphs)
        yield from _in_attributes(function.attribute_proto, graphs)
    while graphs:
        graph = graphs.pop()
        yield from graph.initializer
        yield from _in_sparse(graph.sparse_initializer)
        yield from _in_nodes(graph.node, graphs)


def _in_nodes(nodes: Iterable[onnx.NodeProto], graphs: list[onnx.GraphProto]) -> Iterator[TensorProto]:
    for node in nodes:
        if attributes := node.attribute:
            yield from _in_attributes(attributes, graphs)


def _in_attributes(
    attributes: Iterable[onnx.AttributeProto], graphs: list[onnx.GraphProto]
) -> Iterator[TensorProto]:
    """Yield the tensors of attributes; the graphs in them are added to ``graphs`` for later."""
    for attribute in attributes:
        if attribute.type in _PLAIN:
            continue
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        if attribute.HasField("sparse_tensor"):
            yield from _in_sparse([attribute.sparse_tensor])
        yield from attribute.tensors
        yield from _in_sparse(attribute.sparse_tensors)
        graphs += attribute.graphs


def _in_sparse(tensors: Iterable[onnx.SparseTensorProto]) -> Iterator[TensorProto]:
    for tensor in tensors:
        yield tensor.values
        yield tensor.indices


def byte_size(tensor: TensorProto, path: str) -> int:
    """Return the bytes that the elements need by type and shape, exactly.

    Raises:
        TensorDataError: if the type is unknown or the shape impossible.
    """
    bits = BITS.get(tensor.data_type)
    if bits is None:
        raise _fault(
            tensor,
            path,
            f"{tensor.data_type} is no element type with a fixed size",
            "data_type",
            "give it a type",
        )
    return -(-element_count(tensor, path) * bits // 8)


def element_count(tensor: TensorProto, path: str) -> int:
    """Return the number of elements.

    Raises:
        TensorDataError: if a dimension is negative or there are more than 64 bits can count.
    """
    dims = tensor.dims
    if not dims:
        return 1
    if min(dims) <= 0:
        if min(dims) < 0:
            raise _fault(
                tensor, path, f"its shape has the dimension {min(dims)}", "dims", "sizes are 0 or more"
            )
        return 0
    count = 1
    for dim in dims:
        count *= dim
        if count > _MOST_BYTES:
            raise _fault(
                tensor, path, "its shape has more elements than 64 bits can count", "dims", "correct it"
            )
    return count


def check_inside(tensor: TensorProto, path: str) -> None:
    """Refuse a tensor whose own data do not fit; one without any data passes, for it can be bound later.

    Raises:
        TensorDataError: on too little or too much data, data in two fields, an unknown type.
    """
    typed = typed_fields(tensor)
    if tensor.HasField("raw_data"):
        if typed:
            raise _fault(tensor, path, f"its data are given in two fields at once, raw_data and {typed[0]}")
        _compare(tensor, path, len(tensor.raw_data), byte_size(tensor, path), "raw_data", "bytes")
    elif typed:
        _check_typed(tensor, path, typed)
    elif tensor.data_type != TensorProto.STRING:
        byte_size(tensor, path)


def typed_fields(tensor: TensorProto) -> list[str]:
    """Return the typed fields that have entries."""
    return [name for name in _DATA_FIELDS if len(getattr(tensor, name))]


def _check_typed(tensor: TensorProto, path: str, typed: list[str]) -> None:
    if len(typed) > 1:
        raise _fault(tensor, path, f"its data are given in two fields at once, {' and '.join(typed)}")
    expected = typed_field(tensor.data_type)
    if typed[0] != expected:
        raise _fault(
            tensor, path, f"its data are in {typed[0]}, but its type belongs into {expected}", typed[0]
        )
    count = entries_needed(tensor, path)
    _compare(tensor, path, len(getattr(tensor, expected)), count, expected, "entries")


def typed_field(data_type: int) -> str:
    """Return the name of the typed field for an element type."""
    return _TYPED_FIELD.get(data_type, "int32_data")


def entries_needed(tensor: TensorProto, path: str) -> int:
    """Return how many entries of its typed field the tensor needs."""
    count = element_count(tensor, path)
    if tensor.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return 2 * count
    if tensor.data_type == TensorProto.STRING:
        return count
    byte_size(tensor, path)
    per_entry = {4: 2, 2: 4}.get(BITS[tensor.data_type], 1)
    return -(-count // per_entry)


def check_range(tensor: TensorProto, path: str, field: int, length: int) -> None:
    """Refuse a payload left in the model file that does not fit; ``field`` is the field that holds it."""
    name = {4: "float_data", 10: "double_data"}.get(field, "raw_data")
    expected = typed_field(tensor.data_type)
    if name not in ("raw_data", expected):
        raise _fault(tensor, path, f"its data are in {name}, but its type belongs into {expected}", name)
    _compare(tensor, path, length, byte_size(tensor, path), name, "bytes")


def _compare(tensor: TensorProto, path: str, has: int, needs: int, field: str, unit: str) -> None:
    if has != needs:
        shape = list(tensor.dims[:8])
        raise _fault(tensor, path, f"its shape {shape} needs {needs} {unit}, {field} has {has}", field)


def _fault(
    tensor: TensorProto, path: str, message: str, field: str = "", hint: str = "export the model again"
) -> TensorDataError:
    return TensorDataError(message, path=path, tensor=tensor.name, field=field, hint=hint)
