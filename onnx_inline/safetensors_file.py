"""The table of contents of a .safetensors file, its tensors left on disk."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_inline.errors import FileError

_TYPES = {
    "BOOL": ir.DataType.BOOL,
    "U8": ir.DataType.UINT8,
    "I8": ir.DataType.INT8,
    "F8_E5M2": ir.DataType.FLOAT8E5M2,
    "F8_E4M3": ir.DataType.FLOAT8E4M3FN,
    "F8_E8M0": ir.DataType.FLOAT8E8M0,
    "I16": ir.DataType.INT16,
    "U16": ir.DataType.UINT16,
    "F16": ir.DataType.FLOAT16,
    "BF16": ir.DataType.BFLOAT16,
    "I32": ir.DataType.INT32,
    "U32": ir.DataType.UINT32,
    "F32": ir.DataType.FLOAT,
    "C64": ir.DataType.COMPLEX64,
    "I64": ir.DataType.INT64,
    "U64": ir.DataType.UINT64,
    "F64": ir.DataType.DOUBLE,
}
_LARGEST_HEADER = 100_000_000  # the format's own limit


def read(path: Path) -> dict[str, ir.ExternalTensor]:
    """Return each tensor of the file by name, as a reference to its bytes.

    Packed types, and types that the format has no name for, come as their bytes: ``UINT8[nbytes]``.

    Raises:
        FileError: the file does not follow the format, or is shorter than it says.
    """
    # A link is resolved once, here: in a Hugging Face cache the tensors are those of the file linked to.
    path = path.resolve()
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(8), "little")
            if length > min(size - 8, _LARGEST_HEADER):
                raise ValueError(f"its header has {length} bytes, the file {size}")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        return {name: _tensor(path, name, entry, 8 + length, size) for name, entry in header.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FileError(f"{path} is not a readable .safetensors file: {error}") from error


def _tensor(path: Path, name: str, entry: dict[str, Any], start: int, size: int) -> ir.ExternalTensor:
    begin, end = entry["data_offsets"]
    if not (type(begin) is type(end) is int and 0 <= begin <= end <= size - start):
        raise ValueError(f"tensor {name} has bytes {begin} to {end}, of {size - start}")
    type_, shape = _TYPES.get(entry["dtype"], ir.DataType.UINT8), entry["shape"]
    if entry["dtype"] not in _TYPES:
        shape = [end - begin]
    if not all(type(dim) is int and dim >= 0 for dim in shape) or _bytes(type_, shape) != end - begin:
        raise ValueError(f"tensor {name} is {type_.name}{shape}, but has {end - begin} bytes")
    return ir.ExternalTensor(
        path.name, start + begin, end - begin, type_, shape=ir.Shape(shape), name=name, base_dir=path.parent
    )


def _bytes(type_: ir.DataType, shape: list[int]) -> int:
    return math.prod(shape) * type_.bitwidth // 8
