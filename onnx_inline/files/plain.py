"""A short way to see that a tensor is in order, for models with ten thousands of small ones."""

from __future__ import annotations

import onnx

from onnx_inline.errors import TensorDataError
from onnx_inline.files.messages import Tensor
from onnx_inline.files.tensors import byte_size
from onnx_inline.files.wire import WireError, encode_varint, fields, header

_NAME_TAG = encode_varint(Tensor.NAME << 3 | 2)


class PlainTensors:
    """Recognises a serialised tensor that has dims, data_type, name, and exactly the raw_data these need.

    Such a tensor takes a third of the time that its fields take one by one.  False says nothing: it may
    be in order as well.
    """

    def __init__(self) -> None:
        #: dims and data_type as bytes -> the header of raw_data, and the bytes that follow it
        self._known: dict[bytes, tuple[bytes, int]] = {}

    def recognise(self, data: bytes) -> bool:
        """Tell whether ``data``, as protobuf wrote it, is such a tensor."""
        at = data.find(_NAME_TAG)
        if at < 0 or at + 1 >= len(data) or data[at + 1] > 0x7F:
            return False
        head = data[:at]
        known = self._known.get(head)
        if known is None:
            known = self._known[head] = _raw_header(head)
        raw = at + 2 + data[at + 1]
        return data.startswith(known[0], raw) and len(data) == raw + len(known[0]) + known[1]


def _raw_header(head: bytes) -> tuple[bytes, int]:
    """Return how raw_data must begin after these dims and data_type, and its size; -1 for anything else."""
    try:
        if {number for number, *_ in fields(head)} <= {Tensor.DIMS, Tensor.DATA_TYPE}:
            size = byte_size(onnx.TensorProto.FromString(head), "")
            return header(Tensor.RAW_DATA, size), size
    except (WireError, TensorDataError):
        pass
    return b"", -1
