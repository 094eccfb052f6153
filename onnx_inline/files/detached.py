"""Serialise a model, also one that holds more than protobuf can: over 2 GiB, as onnx.load makes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import onnx
from google.protobuf.message import EncodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import TensorProto

from onnx_inline.errors import FileError
from onnx_inline.files.reduction import LARGE
from onnx_inline.files.sources import STAMP_KEY, Memory, lent
from onnx_inline.files.tensors import byte_size


@contextlib.contextmanager
def serialised(model: onnx.ModelProto) -> Iterator[bytes]:
    """Give a model as bytes; if it is too large, its initializers are references that hold inside the block.

    Raises:
        FileError: if it is too large without its initializers, or has fields that cannot be copied then.
    """
    data = whole(model)
    if data is not None:
        yield data
        return
    large = {n: t for n, t in enumerate(model.graph.initializer) if _is_large(t)}
    with lent(_memory(tensor) for tensor in large.values()) as stamps:
        data = whole(_detached(model, dict(zip(large, stamps, strict=True))))
        if data is None:
            raise FileError(
                "the model is larger than 2 GiB, even without its initializers",
                hint="load it with onnx_inline.load_proto, which leaves all large tensors in the file",
            )
        yield data


def _is_large(tensor: TensorProto) -> bool:
    return tensor.HasField("raw_data") and byte_size(tensor, "") >= LARGE


def _memory(tensor: TensorProto) -> Memory:
    return Memory(byte_size(tensor, ""), lambda: tensor.raw_data)


def whole(model: onnx.ModelProto) -> bytes | None:
    """Return a model as bytes, None if that is more than protobuf can."""
    try:
        return bytes(model.SerializeToString())
    except (EncodeError, ValueError):
        return None


def _detached(model: onnx.ModelProto, stamps: Mapping[int, str]) -> onnx.ModelProto:
    """Return a copy in which the initializers at these positions are references."""
    copy = onnx.ModelProto()
    _copy_fields(model, copy, without="graph")
    _copy_fields(model.graph, copy.graph, without="initializer")
    for position, tensor in enumerate(model.graph.initializer):
        added = copy.graph.initializer.add()
        if position in stamps:
            _copy_fields(tensor, added, without="raw_data")
            added.external_data.add(key=STAMP_KEY, value=stamps[position])
            added.data_location = TensorProto.EXTERNAL
        else:
            added.CopyFrom(tensor)
    return copy


def _copy_fields(source: Message, target: Message, without: str) -> None:
    if len(UnknownFieldSet(source)):
        raise FileError(
            "the model is larger than 2 GiB and has fields that ONNX does not know, which would be lost",
            hint="load it with onnx_inline.load_proto",
        )
    for name in source.DESCRIPTOR.fields_by_name:
        if name == without:
            continue
        # to look at a field of bytes is to copy them: only at those that are kept
        if hasattr(value := getattr(source, name), "MergeFrom"):
            if len(value) if hasattr(value, "extend") else source.HasField(name):
                getattr(target, name).MergeFrom(value)
        elif source.HasField(name):
            setattr(target, name, value)
