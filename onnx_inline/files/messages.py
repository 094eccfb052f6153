"""The parts of ONNX's messages through which a tensor can be reached, and the fields of a tensor."""

from __future__ import annotations

import enum

MODEL, GRAPH, NODE, FUNCTION = "ModelProto", "GraphProto", "NodeProto", "FunctionProto"
ATTRIBUTE, TENSOR, SPARSE = "AttributeProto", "TensorProto", "SparseTensorProto"
TRAINING = "TrainingInfoProto"

#: message -> field number -> the message in that field
CHILDREN: dict[str, dict[int, str]] = {
    MODEL: {7: GRAPH, 20: TRAINING, 25: FUNCTION},
    GRAPH: {1: NODE, 5: TENSOR, 15: SPARSE},
    NODE: {5: ATTRIBUTE},
    FUNCTION: {7: NODE, 11: ATTRIBUTE},
    ATTRIBUTE: {5: TENSOR, 6: GRAPH, 10: TENSOR, 11: GRAPH, 22: SPARSE, 23: SPARSE},
    SPARSE: {1: TENSOR, 2: TENSOR},
    TRAINING: {1: GRAPH, 2: GRAPH},
    TENSOR: {},
}

#: tensors in fields that occur once; written twice, the parts merge, so that no part is a tensor by itself
SINGULAR = {(ATTRIBUTE, 5), (ATTRIBUTE, 22), (SPARSE, 1), (SPARSE, 2)}

MODEL_GRAPH = 7
GRAPH_NODE = 1


class Tensor(enum.IntEnum):
    """Field numbers of TensorProto."""

    DIMS = 1
    DATA_TYPE = 2
    FLOAT_DATA = 4
    INT32_DATA = 5
    STRING_DATA = 6
    INT64_DATA = 7
    NAME = 8
    RAW_DATA = 9
    DOUBLE_DATA = 10
    UINT64_DATA = 11
    EXTERNAL_DATA = 13
    DATA_LOCATION = 14


#: the wire types in which protobuf knows a tensor's fields (repeated numbers: one by one, or packed)
TENSOR_WIRES: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((3, 6, 8, 9, 12, 13, 16), (2,)),
    **dict.fromkeys((1, 5, 7, 11), (0, 2)),
    **dict.fromkeys((2, 14), (0,)),
    4: (5, 2),
    10: (1, 2),
}


def tensor_field(number: int, wire: int) -> int:
    """Return a tensor field's number, or more than any if protobuf does not know it in this wire type."""
    return number if wire in TENSOR_WIRES.get(number, ()) else 1 << 29


#: the fields that can hold a tensor's elements
DATA_FIELDS = frozenset(
    {
        Tensor.FLOAT_DATA,
        Tensor.INT32_DATA,
        Tensor.STRING_DATA,
        Tensor.INT64_DATA,
        Tensor.RAW_DATA,
        Tensor.DOUBLE_DATA,
        Tensor.UINT64_DATA,
    }
)
