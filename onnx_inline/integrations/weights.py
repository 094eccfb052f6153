"""Where a weight's bytes are (in the tensor, or in a file), and how to hand them on without loading them."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import onnx

from onnx_inline.errors import FileError, InvalidModelError
from onnx_inline.integrations.weightless import SMALL

#: Bytes between two tensors of a weight file start at multiples of this many bytes.
ALIGNMENT = 4096


@dataclass(frozen=True)
class FileRange:
    """A part of a file.

    Attributes:
        path: absolute path of the file.
        offset: where the part begins, in bytes.
        length: how long it is, in bytes.
    """

    path: str
    offset: int
    length: int


def is_external(tensor: onnx.TensorProto) -> bool:
    """Say whether the numbers of ``tensor`` are in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def byte_size(tensor: onnx.TensorProto) -> int:
    """Return how many bytes the numbers of ``tensor`` take, from its type and shape (0 for strings)."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return 0
    whole = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
    bits = BITS.get(tensor.data_type, whole)
    return int(math.prod(tensor.dims) * bits + 7) // 8


#: Types of less than a byte, which numpy shows as one byte an element.
BITS = {
    getattr(onnx.TensorProto, name): bits
    for name, bits in {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}.items()
    if hasattr(onnx.TensorProto, name)
}


def is_large(tensor: onnx.TensorProto) -> bool:
    """Say whether ``tensor`` is worth leaving where it is."""
    return byte_size(tensor) >= SMALL


def file_range(tensor: onnx.TensorProto, model_path: Path) -> FileRange:
    """Return where the numbers of an external tensor are.

    Args:
        tensor: an external tensor of a model file.
        model_path: that file.

    Raises:
        FileError: the location leaves the folder or is no regular file, or the range ends after the file.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = _inside(model_path, entries.get("location", ""), tensor.name)
    offset = _number(entries.get("offset", "0"), tensor.name)
    size = byte_size(tensor)
    length = _number(entries.get("length", str(size)), tensor.name)
    if length != size:
        raise FileError(f"{path}: tensor {tensor.name!r} has {length} bytes, its type and shape need {size}")
    if offset + length > path.stat().st_size:
        raise FileError(f"{path}: tensor {tensor.name!r} ends after the file; fetch the data file again")
    return FileRange(str(path), offset, length)


def _inside(model_path: Path, location: str, name: str) -> Path:
    """Return the file that ``location`` names, if it is beside the model or beside what that links to.

    Caches keep a model and its data as links into one other folder, so the second place is as good.
    """
    parts = Path(location).parts
    path = (model_path.parent / location).resolve()
    roots = (model_path.parent.resolve(), model_path.resolve().parent)
    plain = bool(location) and "\\" not in location and ".." not in parts and not Path(location).is_absolute()
    if not plain or not any(path.is_relative_to(root) for root in roots):
        raise FileError(
            f"{model_path}: the data file {location!r} of tensor {name!r} is not inside its folder"
        )
    if not path.exists() or not stat.S_ISREG(path.stat().st_mode):
        raise FileError(f"{model_path}: tensor {name!r} needs the data file {path}; put it beside the model")
    return path


def _number(text: str, name: str) -> int:
    """Return a number written in at most 20 ASCII digits; ``int`` alone accepts more, and slowly."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise FileError(f"tensor {name!r}: offset or length {text[:40]!r} of its external data is no number")
    return int(text)


def refer(tensor: onnx.TensorProto, where: FileRange) -> onnx.TensorProto:
    """Return ``tensor`` as a reference to ``where`` by absolute path, which ONNX Runtime maps into memory."""
    reference = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    reference.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", where.path), ("offset", where.offset), ("length", where.length)):
        reference.external_data.add(key=key, value=str(value))
    return reference


def loaded(tensor: onnx.TensorProto, model_path: Path) -> onnx.TensorProto:
    """Return an external tensor with its numbers inside."""
    where = file_range(tensor, model_path)
    inside = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    with open(where.path, "rb") as stream:
        stream.seek(where.offset)
        inside.raw_data = stream.read(where.length)
    return inside


def spilled(tensors: Iterable[onnx.TensorProto], path: Path) -> dict[str, onnx.TensorProto]:
    """Write the numbers of ``tensors`` to ``path``; return references to them, by name."""
    with path.open("wb") as stream:
        return {tensor.name: _spill(tensor, stream, path) for tensor in tensors}


def _spill(tensor: onnx.TensorProto, stream: IO[bytes], path: Path) -> onnx.TensorProto:
    stream.seek(-stream.tell() % ALIGNMENT, os.SEEK_CUR)
    offset = stream.tell()
    length = stream.write(_raw(tensor))
    if length != byte_size(tensor):
        raise InvalidModelError(
            f"initializer {tensor.name!r} has {length} bytes, its type and shape need {byte_size(tensor)}"
        )
    return refer(tensor, FileRange(str(path.absolute()), offset, length))


def _raw(tensor: onnx.TensorProto) -> bytes:
    """Return the numbers of ``tensor`` as ONNX stores them raw: little-endian."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    array = onnx.numpy_helper.from_array(np.asarray(onnx.numpy_helper.to_array(tensor)))
    return array.raw_data
