"""Read a model file without its weights."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from onnx_inline.errors import ExternalDataError, FileError, NotAModelError, TensorDataError
from onnx_inline.files import forms, locations, system, tensors
from onnx_inline.files.plain import PlainTensors
from onnx_inline.files.reduction import Reduction
from onnx_inline.files.sources import (
    STAMP_BYTES,
    STAMP_KEY,
    Identity,
    Source,
    Stamp,
    read_stamp,
    register,
    stamp_text,
)
from onnx_inline.files.spool import spooled
from onnx_inline.files.texts import check_texts
from onnx_inline.files.wire import WireError, fields

#: files up to this size are parsed whole; it keeps all of reading and writing one within 250 MB
WHOLE = 16 << 20
#: how much of a file tells what else it is
_MAGIC = 64
#: versions of operator sets are small numbers, which ONNX's own functions take as 32 bits
_LARGEST_VERSION = (1 << 31) - 1
#: how often a model is read again that another process replaced while it was read
_ATTEMPTS = 100
#: files up to this size are searched for the word that every reference to external data has
_SEARCHED = 64 << 20
#: the first bytes of what is often mistaken for a model, and what it is
_OTHERS = (
    (
        b"version https://git-lfs",
        0,
        "the pointer that git LFS keeps in place of a file",
        "fetch it with git lfs pull",
    ),
    (b"ORTM", 4, "onnxruntime's own format", "convert from the .onnx file that it was made of"),
    (b"PK\x03\x04", 0, "a zip archive", "unpack it, or export to ONNX if it is a PyTorch file"),
    (b"\x1f\x8b", 0, "compressed by gzip", "unpack it first"),
    (b"\x89HDF", 0, "an HDF5 file", "export it to ONNX"),
    (b"GGUF", 0, "a GGUF file", "export it to ONNX"),
    (b"<", 0, "a text: HTML, XML or ONNX's own", "name it .onnxtxt if it is a model in ONNX's text form"),
    (b"{", 0, "a text: JSON, perhaps", "name it .json if it is a model in JSON"),
)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A model whose weights are still in their files.

    Attributes:
        model: the model; tensors of 1024 bytes and more in a large file refer to their bytes there.
        path: the file's path as it was given, ``-`` for standard input.
        source: the file that was read, checked again before anything is written.
        form: ``protobuf``, ``textproto``, ``onnxtxt`` or ``json``.
        external: whether tensors have data in files of their own.
    """

    model: onnx.ModelProto
    path: str
    source: Source
    form: str
    external: bool


def read_skeleton(
    path: str | os.PathLike[str], *, external_root: str | None = None, input_format: str | None = None
) -> Skeleton:
    """Read a model without its weights, check every tensor's place and size, and where they are.

    Args:
        path: a model file, or ``-`` for standard input.
        external_root: a further folder that external data may lie in (by links in the model's folder).
        input_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if not given.

    Raises:
        FileError: if the file cannot be read, is no model, or its data cannot be used.
    """
    name = os.fspath(path)
    try:
        return _read(name, external_root, forms.form_of(name, input_format))
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        number = getattr(error, "errno", None)
        raise FileError(
            f"cannot be read: {reason}", path=name, hint="try again, or fetch the file again", errno=number
        ) from error
    except MemoryError as error:
        raise FileError(
            "needs more memory than there is", path=name, hint="raise the memory limit"
        ) from error


def read_unchecked(path: str) -> onnx.ModelProto:
    """Read what a file says, of a model that is not going to be used: no data are looked for.

    Raises:
        FileError: if it is no model.
    """
    with _opened(path) as (descriptor, source):
        return _contents(descriptor, source, path, forms.form_of(path))


def may_name_data(path: str) -> bool:
    """Say whether a model may name external data; most do not, and need not be parsed to be replaced.

    Only a small file is searched: a large one is parsed without its weights, which is quicker.

    Raises:
        FileError: if it cannot be opened.
    """
    with _opened(path) as (descriptor, source):
        size = source.identity.size
        return size > _SEARCHED or b"location" in system.read_at(descriptor, 0, size)


def _contents(descriptor: int, source: Source, path: str, form: str) -> onnx.ModelProto:
    size, stamps = source.identity.size, 0
    if form == forms.PROTOBUF and size > WHOLE:
        data, stamps = _reduced(descriptor, source, path)
    else:
        data = system.read_at(descriptor, 0, size)
    if data.count(STAMP_BYTES) != stamps:
        raise _foreign_reference(path)
    return _parsed(data, path) if form == forms.PROTOBUF else forms.parse_text(data, form, path)


def _foreign_reference(path: str, tensor: str = "") -> TensorDataError:
    return TensorDataError(
        "data are in a file that only the process which loaded the model can find",
        path=path,
        tensor=tensor,
        field="external_data",
        hint="save models loaded by onnx_inline with onnx_inline.save_proto",
    )


def _read(path: str, external_root: str | None, form: str) -> Skeleton:
    """Read a model and look at its data files; again, if it was replaced meanwhile.

    Else a save by another process could give us its new data for the old model.
    """
    for _ in range(_ATTEMPTS):
        with _opened(path) as (descriptor, source):
            model = _contents(descriptor, source, path, form)
            source.check(descriptor)
        check_complete(model, path)
        check_texts(model, path)
        folder = "." if path == "-" else path
        identity = None if path == "-" else source.identity
        around = locations.Folder.around(folder, identity, external_root)
        fault = _fault(model, path, around)
        if not (fault or around.used) or path == "-" or not _is_replaced(source):
            if fault is not None:
                raise fault
            return Skeleton(model, path, source, form, external=around.used)
    raise FileError("is replaced faster than it can be read", path=path, hint="try again later")


def _fault(model: onnx.ModelProto, path: str, folder: locations.Folder) -> ExternalDataError | None:
    """Return what is wrong with the data files, which may be that they belong to another model by now."""
    try:
        _check_tensors(model, path, folder)
    except ExternalDataError as error:
        return error
    return None


def _is_replaced(source: Source) -> bool:
    try:
        return Identity.of(system.lstat(source.path)) != source.identity
    except OSError:
        return True


@contextlib.contextmanager
def _opened(path: str) -> Iterator[tuple[int, Source]]:
    descriptor = spooled(sys.stdin.buffer.fileno()) if path == "-" else locations.open_model(path)
    try:
        identity = Identity.of(system.fstat(descriptor))
        if not identity.size:
            raise NotAModelError("is empty", path=path, hint="name a model file")
        if path == "-":
            yield descriptor, register(path, identity, pinned=system.duplicate(descriptor))
        else:
            yield descriptor, register(system.real_path(path), identity)
    finally:
        system.close(descriptor)


def _reduced(descriptor: int, source: Source, path: str) -> tuple[bytes, int]:
    """Return the file without its large payloads, and how many references are in their place."""

    def read(start: int, end: int) -> bytes:
        return system.read_at(descriptor, start, end - start)

    reduction = Reduction(read, source)
    try:
        return reduction.model(source.identity.size), reduction.references
    except WireError as error:
        start = read(0, min(_MAGIC, source.identity.size))
        raise not_a_model(start, path, str(error)) from error


def _parsed(data: bytes, path: str) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise not_a_model(data, path, _reason(data)) from error
    return model


def _reason(data: bytes) -> str:
    """Say where the top level breaks; faults further in are found by protobuf alone, which says nothing."""
    try:
        for _ in fields(data):
            pass
    except WireError as error:
        return str(error)
    return "a message in it is damaged"


def not_a_model(start: bytes, path: str, reason: str) -> NotAModelError:
    """Return the error for a file that protobuf refuses."""
    for magic, offset, what, hint in _OTHERS:
        if start[offset : offset + len(magic)] == magic:
            return NotAModelError(f"is no ONNX model but {what}", path=path, hint=hint)
    return NotAModelError(
        f"is no ONNX model, or a damaged one: {reason}", path=path, hint="fetch or export the model again"
    )


def check_complete(model: onnx.ModelProto, path: str) -> None:
    """Refuse what protobuf reads as a message but is no model, or only the beginning of one.

    Raises:
        NotAModelError: if there is no graph, no opset import, or nodes of a domain that nothing introduces.
    """
    hint = "it may be cut short: fetch or export the model again"
    if not model.HasField("graph"):
        raise NotAModelError("is no ONNX model, for it has no graph", path=path, field="graph", hint=hint)
    used = {node.domain for node in model.graph.node}
    if used and not model.opset_import:
        raise NotAModelError("has nodes but no opset_import", path=path, field="opset_import", hint=hint)
    known = {entry.domain for entry in model.opset_import} | {function.domain for function in model.functions}
    if lost := sorted(map(str, used - known - {"", "ai.onnx"})):
        message = f"uses the domain {lost[0]!r}, which no opset_import and no function introduces"
        raise NotAModelError(message, path=path, field="opset_import", hint=hint)
    for entry in itertools.chain(
        model.opset_import, *(function.opset_import for function in model.functions)
    ):
        if abs(entry.version) > _LARGEST_VERSION:
            message = f"imports version {entry.version} of the domain {entry.domain!r}"
            raise NotAModelError(message, path=path, field="opset_import", hint="export the model again")


def _check_tensors(model: onnx.ModelProto, path: str, folder: locations.Folder) -> None:
    plain = PlainTensors()
    for tensor in tensors.all_tensors(model):
        if plain.recognise(tensor.SerializeToString()):
            continue
        if tensor.data_location == TensorProto.EXTERNAL:
            _check_reference(tensor, path, folder)
        else:
            tensors.check_inside(tensor, path)


def _check_reference(tensor: TensorProto, path: str, folder: locations.Folder) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    stamp = read_stamp(entries[STAMP_KEY]) if STAMP_KEY in entries else None
    if stamp is not None:
        tensors.check_range(tensor, path, stamp.field, int(entries["length"]))
    else:
        stamp_external(tensor, entries, path, folder)


def stamp_external(tensor: TensorProto, entries: dict[str, str], path: str, folder: locations.Folder) -> None:
    """Check a tensor's external data and stamp the tensor with the file that they are in.

    Raises:
        ExternalDataError, TensorDataError: if the file or the range cannot be used.
    """
    _check_entries(tensor, entries, path)
    place = locations.place_of(entries, tensor.name, path)
    source = folder.find(place.location, tensor.name, path)
    locations.check_fits(place, source, tensors.byte_size(tensor, path), tensor.name, path)
    tensor.external_data.add(key=STAMP_KEY, value=stamp_text(Stamp(source, 0, False)))


def _check_entries(tensor: TensorProto, entries: dict[str, str], path: str) -> None:
    if STAMP_KEY in entries:
        raise _foreign_reference(path, tensor.name)
    if len(entries) != len(tensor.external_data):
        raise TensorDataError(
            "an entry of external_data is there twice",
            path=path,
            tensor=tensor.name,
            field="external_data",
            hint="keep one of each key",
        )
    if tensor.HasField("raw_data") or tensors.typed_fields(tensor):
        raise TensorDataError(
            "it has data of its own and external data at once",
            path=path,
            tensor=tensor.name,
            field="external_data",
            hint="remove one of them",
        )
