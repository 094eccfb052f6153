"""Load and save ``onnx_ir.Model``: the weights stay on the disk until somebody asks for a value."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import mmap
import os
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto

from onnx_inline.files import system, tensors
from onnx_inline.files.locations import Folder
from onnx_inline.files.messages import Tensor
from onnx_inline.files.plan import External
from onnx_inline.files.protos import located
from onnx_inline.files.reduction import LARGE
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.sources import STAMP_KEY, Memory, Source, Stamp, lent, read_stamp, stamp_text
from onnx_inline.files.wire import header
from onnx_inline.files.writer import WriteReport, write_model
from onnx_inline.unbound import require_bound

#: whether tensors tell their stamp, in place of a path, when they are asked for their location
_SAVING: contextvars.ContextVar[bool] = contextvars.ContextVar("saving", default=False)


class FileTensor(ir.ExternalTensor):
    """A tensor whose data are in a file: a data file, or a model file itself.

    The data are mapped when they are first asked for, if the file is still the one that was loaded.
    """

    __slots__ = ("_place", "_stamp")

    def __init__(self, tensor: ir.ExternalTensor, stamp: Stamp) -> None:
        self._stamp = stamp
        super().__init__(
            tensor.location,
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=tensor.shape,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
            base_dir=os.path.dirname(self._source.path),  # noqa: PTH120
        )
        length = tensor.nbytes if tensor.length is None else tensor.length
        self._place = (tensor.offset or 0, length)

    @property
    def _source(self) -> Source:
        assert isinstance(self._stamp.source, Source), "stamps of loaded models name files"
        return self._stamp.source

    @property
    def location(self) -> str:
        """The file as the external data name it, or the path of the model file."""
        location = os.fspath(super().location)
        return f"{stamp_text(self._stamp)}:{location}" if _SAVING.get() else location

    @property
    def path(self) -> str:
        """The file that holds the data."""
        return self._source.path

    def _load(self) -> None:
        if not self._place[1]:
            self._array = np.empty(self.shape.numpy(), dtype=self.dtype.numpy())
        elif self._stamp.field in (0, Tensor.RAW_DATA) and self.dtype.bitwidth >= 8:
            self._array = self._mapped()
        else:
            self._array = ir.serde.TensorProtoTensor(self._proto()).numpy()

    def _mapped(self) -> np.ndarray[Any, Any]:
        offset, length = self._place
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        with self._source.opened() as descriptor:
            self.raw = system.map_read(descriptor, start, offset - start + length)
        numbers = np.dtype(self.dtype.numpy()).newbyteorder("<")
        count = length // numbers.itemsize
        return np.frombuffer(self.raw, numbers, count, offset - start).reshape(self.shape.numpy())

    def _proto(self) -> TensorProto:
        """Return the tensor as a proto with its data, which protobuf and onnx_ir then decode."""
        field, data = self._stamp.field or Tensor.RAW_DATA, self._bytes()
        proto = TensorProto()
        proto.MergeFromString(header(field, len(data)) + data)
        proto.data_type = self.dtype.value
        proto.dims.extend(self.shape.numpy())
        return proto

    def _bytes(self) -> bytes:
        with self._source.opened() as descriptor:
            return system.read_at(descriptor, *self._place)

    def tobytes(self) -> bytes:
        """Return the elements as ``raw_data`` has them."""
        if self._stamp.field in (0, Tensor.RAW_DATA):
            return self._bytes()
        return ir.Tensor(self.numpy(), dtype=self.dtype).tobytes()

    def tofile(self, file: BinaryIO) -> None:
        """Write the elements as ``raw_data`` has them, to anything with a ``write`` method."""
        file.write(self.tobytes())


class _LentTensor(ir.ExternalTensor):
    """Stands for a tensor in memory while its model is serialised; ``location`` is a stamp."""


def load(
    path: str | os.PathLike[str], *, external_root: str | None = None, input_format: str | None = None
) -> ir.Model:
    """Load a model without its weights; a tensor's data are mapped when somebody asks for them.

    Args:
        path: a model file (``.onnx``, or a text form by its suffix), or ``-`` for standard input.
        external_root: a further folder that links to data files may lead into.
        input_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if not given.

    Returns:
        The model.  Its external tensors, and those of 1024 bytes and more in a file over 16 MiB, are
        :class:`onnx_ir.ExternalTensor` objects.

    Raises:
        FileError: if the file cannot be read, is no model, or its data cannot be used.

    Example:
        >>> import os, tempfile, onnx, onnx_inline
        >>> model = onnx.parser.parse_model(
        ...     '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
        ... )
        >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
        >>> onnx.save(model, path)
        >>> [node.op_type for node in onnx_inline.load(path).graph]
        ['Abs']
    """
    return from_skeleton(read_skeleton(path, external_root=external_root, input_format=input_format).model)


def from_skeleton(proto: onnx.ModelProto) -> ir.Model:
    """Return a model whose weights stay in their files; the skeleton loses its stamps to it."""
    stamps = _take_stamps(proto)
    model = ir.serde.deserialize_model(proto)
    if stamps:
        _replace_tensors(model, stamps)
    return model


_Key = tuple[str, "int | None", "int | None"]


def _take_stamps(proto: onnx.ModelProto) -> dict[_Key, Stamp]:
    """Remove the stamps, which onnx would warn of, and return them by what external tensors keep."""
    stamps: dict[_Key, Stamp] = {}
    for tensor in tensors.all_tensors(proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            stamp = read_stamp(entries.pop(STAMP_KEY))
            assert stamp is not None, "a loaded model has no other stamps than ours"
            offset, length = (int(entries[key]) if key in entries else None for key in ("offset", "length"))
            stamps[entries["location"], offset, length] = stamp
            del tensor.external_data[:]
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=value)
    return stamps


def _replace_tensors(model: ir.Model, stamps: dict[_Key, Stamp]) -> None:
    """Put tensors of ours in the place of onnx_ir's external ones."""

    def ours(tensor: Any) -> Any:
        if not isinstance(tensor, ir.ExternalTensor):
            return tensor
        return FileTensor(tensor, stamps[os.fspath(tensor.location), tensor.offset, tensor.length])

    for graph in model.graphs():
        for value in graph.initializers.values():
            value.const_value = ours(value.const_value)
    functions = (node for function in model.functions.values() for node in function.all_nodes())
    for node in itertools.chain(model.graph.all_nodes(), functions):
        _replace_in_attributes(node.attributes, ours)


def _replace_in_attributes(attributes: MutableMapping[str, ir.Attr], ours: Callable[[Any], Any]) -> None:
    for name, attribute in list(attributes.items()):
        if attribute.is_ref():
            continue
        if attribute.type is ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
            attributes[name] = ir.AttrTensor(name, ours(attribute.value), attribute.doc_string)
        elif attribute.type is ir.AttributeType.TENSORS:
            attributes[name] = ir.AttrTensors(name, [*map(ours, attribute.value)], attribute.doc_string)


def save(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    size_threshold_bytes: int = 1024,
    external: External = "auto",
    output_format: str | None = None,
) -> WriteReport:
    """Save a model in one step: whatever happens, the old file or the new one is there, whole.

    Tensors are written one at a time, those in files without passing through memory.  The model is not
    changed, but while it is being saved no other thread may use it.

    Args:
        model: the model, loaded by :func:`load` or made otherwise.
        path: the file to write, or ``-`` for standard output.
        external_data: the name of a data file, beside the model, for its initializers.  The name may be
            that of the data of the model that is replaced.
        size_threshold_bytes: with ``external_data``, initializers below this size, in bytes, stay inside.
        external: what becomes of data that are external already: ``auto`` leaves them where they are if
            ``path`` is in their folder, else copies them; ``copy``, ``keep`` and ``inline`` do just that.
        output_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if not given.

    Returns:
        What was written, and what was done without being asked for.

    Raises:
        UnboundInitializersError: if initializers have no data.
        FileError: if the model cannot be written; what was there before is untouched then.

    Example:
        >>> import os, tempfile, onnx, onnx_inline
        >>> model = onnx.parser.parse_model(
        ...     '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
        ... )
        >>> folder = tempfile.mkdtemp()
        >>> onnx.save(model, os.path.join(folder, "a.onnx"))
        >>> loaded = onnx_inline.load(os.path.join(folder, "a.onnx"))
        >>> onnx_inline.save(loaded, os.path.join(folder, "b.onnx")).data_path is None
        True
    """
    require_bound(model)
    with _serialised(model) as proto:
        return write_model(
            path,
            located(proto, os.fspath(path), external),
            external_data=external_data,
            size_threshold_bytes=size_threshold_bytes,
            external=external,
            output_format=output_format,
        )


@contextlib.contextmanager
def _serialised(model: ir.Model) -> Iterator[onnx.ModelProto]:
    """Give the model as a proto in which every tensor that is large or in a file is a reference."""
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    held = [value.const_value for value in values]
    own = [(v, t) for v, t in zip(values, held, strict=True) if t is not None and _is_lent(t)]
    with lent(Memory(tensor.nbytes, tensor.tobytes) for _, tensor in own) as stamps:
        try:
            for (value, tensor), stamp in zip(own, stamps, strict=True):
                value.const_value = _stand_in(tensor, stamp)
            for value in values:
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value = _located(value.const_value)
            proto = _to_proto(model)
        finally:
            for value, former in zip(values, held, strict=True):
                value.const_value = former
        yield proto


def _is_lent(tensor: Any) -> bool:
    """Tell whether a tensor is in memory and worth writing from there, not from a copy in the proto."""
    return (
        not isinstance(tensor, ir.ExternalTensor | ir.serde.TensorProtoTensor)
        and tensor.dtype is not ir.DataType.STRING
        and tensor.nbytes >= LARGE
    )


def _stand_in(tensor: Any, stamp: str) -> _LentTensor:
    return _LentTensor(
        f"{stamp}:",
        0,
        tensor.nbytes,
        tensor.dtype,
        shape=tensor.shape,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _located(tensor: ir.ExternalTensor) -> ir.ExternalTensor:
    """Return a tensor that onnx_ir loaded as one of ours, its file checked; ours stay as they are."""
    if isinstance(tensor, FileTensor | _LentTensor):
        return tensor
    path = os.path.join(os.path.abspath(tensor.base_dir), "model")  # noqa: PTH100, PTH118
    location = os.fspath(tensor.location)
    source = Folder.around(path, None).find(location, tensor.name, path)
    return FileTensor(tensor, Stamp(source, 0, False))


def _to_proto(model: ir.Model) -> onnx.ModelProto:
    saving = _SAVING.set(True)
    try:
        proto = ir.serde.serialize_model(model)
    finally:
        _SAVING.reset(saving)
    for tensor in tensors.all_tensors(proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            _put_stamp(tensor)
    return proto


def _put_stamp(tensor: TensorProto) -> None:
    """Move a stamp from the location, the one entry that onnx_ir hands on, to an entry of its own."""
    for entry in tensor.external_data:
        text, _, location = entry.value.partition(":")
        if entry.key == "location" and read_stamp(text) is not None:
            entry.value = location
            tensor.external_data.add(key=STAMP_KEY, value=text)
            return
