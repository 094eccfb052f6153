"""Where a weight's bytes are, in the tensor or in a file, and how to hand them on without loading them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import onnx

from onnx_inline.errors import InvalidModelError
from onnx_inline.files import system, tensors
from onnx_inline.files.sources import STAMP_KEY, Source, Stamp, read_stamp
from onnx_inline.integrations.weightless import SMALL

#: Each weight of a spill file starts at a multiple of this many bytes, so that it can be mapped.
ALIGNMENT = 4096
#: Fields of a TensorProto that hold the numbers as memory does: external data, raw_data, float, double.
_PLAIN_FIELDS = {0, 9, 4, 10}


def is_external(tensor: onnx.TensorProto) -> bool:
    """Say whether the numbers of ``tensor`` are in a file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def byte_size(tensor: onnx.TensorProto) -> int:
    """Return how many bytes the numbers of ``tensor`` take, from its type and shape; 0 for strings."""
    return 0 if tensor.data_type == onnx.TensorProto.STRING else tensors.byte_size(tensor, "")


def is_large(tensor: onnx.TensorProto) -> bool:
    """Say whether ``tensor`` is worth leaving where it is."""
    return byte_size(tensor) >= SMALL


def source_of(tensor: onnx.TensorProto) -> Stamp:
    """Return the file that an external tensor's numbers are in.

    Raises:
        InvalidModelError: the model was loaded by other means than onnx_inline's: its folder is unknown.
    """
    stamp = read_stamp(_entries(tensor).get(STAMP_KEY, ""))
    if stamp is None:
        raise InvalidModelError(
            f"the data of tensor {tensor.name!r} are in another file; pass the path of the model instead"
        )
    return stamp


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _range(tensor: onnx.TensorProto) -> tuple[int, int]:
    """Return offset and length in bytes; both are optional for external data."""
    entries = _entries(tensor)
    return int(entries.get("offset", 0)), int(entries.get("length", byte_size(tensor)))


def file_of(tensor: onnx.TensorProto) -> Source | None:
    """Return the file that ONNX Runtime can read an external tensor's numbers from, if it can."""
    stamp = source_of(tensor)
    if isinstance(stamp.source, Source) and stamp.field in _PLAIN_FIELDS and stamp.source.pinned is None:
        return stamp.source
    return None


def reference(tensor: onnx.TensorProto, source: Source) -> onnx.TensorProto:
    """Return an external tensor as a reference by absolute path, which ONNX Runtime maps into memory."""
    return _reference(tensor, source.path, *_range(tensor))


def _reference(tensor: onnx.TensorProto, path: str, offset: int, length: int) -> onnx.TensorProto:
    answer = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    answer.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", path), ("offset", offset), ("length", length)):
        answer.external_data.add(key=key, value=str(value))
    return answer


def loaded(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return an external tensor with its numbers inside, in the field that they were in.

    Raises:
        FileError: the file is gone or has changed.
    """
    stamp = source_of(tensor)
    payload = _payload(stamp, *_range(tensor))
    answer = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    if stamp.field in {0, 9}:
        answer.raw_data = payload
    else:
        answer.MergeFromString(_varint(stamp.field << 3 | 2) + _varint(len(payload)) + payload)
    return answer


def _payload(stamp: Stamp, offset: int, length: int) -> bytes:
    if not isinstance(stamp.source, Source):
        return stamp.source.produce()
    with stamp.source.opened() as descriptor:
        return system.read_at(descriptor, offset, length)


def _varint(number: int) -> bytes:
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + _varint(rest) if rest else bytes([head])


def spilled(weights: Iterable[onnx.TensorProto], path: Path) -> dict[str, onnx.TensorProto]:
    """Write the numbers of ``weights`` to ``path``; return references to them, by name."""
    with path.open("wb") as stream:
        return {tensor.name: _spill(tensor, stream, path) for tensor in weights}


def _spill(tensor: onnx.TensorProto, stream: IO[bytes], path: Path) -> onnx.TensorProto:
    stream.seek(-stream.tell() % ALIGNMENT, os.SEEK_CUR)
    offset = stream.tell()
    length = stream.write(_raw(loaded(tensor) if is_external(tensor) else tensor))
    if length != byte_size(tensor):
        raise InvalidModelError(
            f"initializer {tensor.name!r} has {length} bytes, its type and shape need {byte_size(tensor)}"
        )
    return _reference(tensor, str(path.absolute()), offset, length)


def _raw(tensor: onnx.TensorProto) -> bytes:
    """Return the numbers of ``tensor`` as ONNX stores them raw: little-endian, packed."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    raw: bytes = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
    return raw
