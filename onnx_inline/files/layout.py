"""Where every byte of a saved model comes from: pieces in memory, and ranges of other files.

The model is serialised without the weights that it only refers to, then laid out again field by field, each
reference giving way to what it stands for.  What holds no reference and need not move is taken as it is.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from onnx import TensorProto

from onnx_inline.files import messages
from onnx_inline.files.messages import CHILDREN, DATA_FIELDS, GRAPH, MODEL, TENSOR, Tensor, tensor_field
from onnx_inline.files.sources import STAMP_BYTES, STAMP_KEY, Memory, Source, read_stamp
from onnx_inline.files.wire import LENGTH, Field, encode_varint, fields, header

#: offsets of data that a reader may want to map are multiples of this, the widest page in use
_PAGE = 65536
_MAPPED_FROM = 1 << 20
_ALIGNED = 64
#: typed fields whose packed numbers are the bytes that raw_data would have
_SAME_AS_RAW = {
    Tensor.FLOAT_DATA: (TensorProto.FLOAT, TensorProto.COMPLEX64),
    Tensor.DOUBLE_DATA: (TensorProto.DOUBLE, TensorProto.COMPLEX128),
}


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes that are copied from a file."""

    source: Source
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length


Piece = bytes | memoryview | Range | Memory


class Fate(Enum):
    """What becomes of a tensor's data."""

    INSIDE = auto()  # they go into the model file
    KEEP = auto()  # they stay in the data file they are in
    DATA = auto()  # they go into the new data file


@dataclass(frozen=True, slots=True)
class Payload:
    """A tensor's data as a policy sees them.

    ``location`` is empty for data in a model file or in memory; ``movable`` says that they could be external.
    """

    size: int
    location: str
    source: Source | None
    movable: bool


Policy = Callable[[Payload], Fate]


@dataclass
class DataFile:
    """The new data file: pieces at growing offsets, the same range only once."""

    name: str
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    size: int = 0
    _placed: dict[tuple[Source, int, int], int] = field(default_factory=dict)

    def place(self, piece: Piece) -> int:
        """Return the offset at which the piece is going to lie."""
        key = (piece.source, piece.offset, piece.length) if isinstance(piece, Range) else None
        if key is not None and key in self._placed:
            return self._placed[key]
        step = _PAGE if len(piece) >= _MAPPED_FROM else _ALIGNED
        offset = -(-self.size // step) * step
        self.pieces.append((offset, piece))
        self.size = offset + len(piece)
        if key is not None:
            self._placed[key] = offset
        return offset


@dataclass(frozen=True)
class Layout:
    """A model file, piece by piece, and the data file that belongs to it."""

    pieces: list[Piece]
    size: int
    data: DataFile
    moved: int
    kept: int


def lay_out(
    model: bytes, nodes: Sequence[bytes] | None, policy: Policy, data_name: str, smallest: int | None
) -> Layout:
    """Lay out a serialised model.

    Args:
        model: the model, its tensors carrying stamps where their data lie elsewhere.
        nodes: serialised ``GraphProto.node`` fields that replace those of the model's graph.
        policy: decides over each tensor that refers to a file or has at least ``smallest`` bytes.
        data_name: the name of the new data file.
        smallest: tensors in memory below this size stay inside; None for all.
    """
    data = DataFile(data_name)
    writer = _Writer(model, policy, data, smallest)
    pieces = writer.model(nodes)
    return Layout(pieces, sum(map(len, pieces)), data, writer.moved, writer.kept)


class _Writer:
    """Lays out the messages in one piece of serialised bytes."""

    def __init__(self, data: bytes, policy: Policy, target: DataFile, smallest: int | None) -> None:
        self._data, self._view = data, memoryview(data)
        self._policy, self._target, self._smallest = policy, target, smallest
        self._stamps = [found.start() for found in re.finditer(re.escape(STAMP_BYTES), data)]
        self.moved = self.kept = 0

    def model(self, nodes: Sequence[bytes] | None) -> list[Piece]:
        if nodes is None:
            return self._message(MODEL, 0, len(self._data))
        pieces: list[Piece] = []
        done = before = 0
        for number, _, first, last in fields(self._data):
            if number == messages.MODEL_GRAPH:
                inner = [*self._nodes(nodes), *self._graph_without_nodes(first, last)]
                pieces += [self._view[done:before], header(number, sum(map(len, inner))), *inner]
                done = last
            before = last
        return [*pieces, self._view[done:]]

    def _nodes(self, nodes: Sequence[bytes]) -> list[Piece]:
        pieces: list[Piece] = []
        for chunk in nodes:
            if STAMP_BYTES in chunk:
                inner = _Writer(chunk, self._policy, self._target, self._smallest)
                pieces += inner._message(GRAPH, 0, len(chunk))
                self.moved, self.kept = self.moved + inner.moved, self.kept + inner.kept
            else:
                pieces.append(chunk)
        return pieces

    def _graph_without_nodes(self, start: int, end: int) -> list[Piece]:
        """Lay out a graph from its first field that is no node; protobuf writes nodes before all else."""
        for number, _, _, last in fields(self._data, start, end):
            if number != messages.GRAPH_NODE:
                break
            start = last
        return self._message(GRAPH, start, end)

    def _message(self, kind: str, start: int, end: int) -> list[Piece]:
        if self._smallest is None and not self._stamps:
            return [self._view[start:end]]
        pieces: list[Piece] = []
        done = before = start
        for number, wire, first, last in fields(self._data, start, end):
            child = CHILDREN[kind].get(number) if wire == LENGTH else None
            if child and self._concerns(first, last):
                inner = self._child(kind, number, child, first, last)
                pieces += [self._view[done:before], header(number, sum(map(len, inner))), *inner]
                done = last
            before = last
        return [*pieces, self._view[done:end]]

    def _concerns(self, first: int, last: int) -> bool:
        """Tell whether a message refers to a file, or can hold data that might move."""
        if self._smallest is not None and last - first >= self._smallest:
            return True
        at = bisect.bisect_left(self._stamps, first)
        return at < len(self._stamps) and self._stamps[at] < last

    def _child(self, kind: str, number: int, child: str, first: int, last: int) -> list[Piece]:
        if child != TENSOR:
            return self._message(child, first, last)
        found = list(fields(self._data, first, last))
        # only initializers are known to every reader as external data
        tensor = _Tensor(self._data, first, found, (kind, number) == (GRAPH, 5))
        fate = self._policy(tensor.payload)
        self.moved += fate is Fate.DATA
        self.kept += fate is Fate.KEEP
        if fate is Fate.DATA:
            return tensor.external(self._target)
        return tensor.kept() if fate is Fate.KEEP else tensor.inside()


class _Tensor:
    """One tensor in serialised bytes, its fields in the order of their numbers."""

    def __init__(self, data: bytes, start: int, found: list[Field], initializer: bool) -> None:
        self._view = memoryview(data)
        befores = [start, *(last for *_, last in found)]
        known = ((tensor_field(number, wire), wire, first, last) for number, wire, first, last in found)
        self._fields = list(zip(known, befores, strict=False))
        self._entries = self._read_entries()
        self._stamp = read_stamp(self._entries[STAMP_KEY]) if STAMP_KEY in self._entries else None
        self._data_type = self._number(Tensor.DATA_TYPE)
        self._number_of_field, self._piece = self._find_data()
        self.payload = self._payload(initializer)

    def _read_entries(self) -> dict[str, str]:
        ours = (f for f, _ in self._fields if f[0] == Tensor.EXTERNAL_DATA)
        entries = (TensorProto.FromString(header(13, f[3] - f[2]) + self._view[f[2] : f[3]]) for f in ours)
        return {entry.key: entry.value for tensor in entries for entry in tensor.external_data}

    def _number(self, field_number: int) -> int:
        for (number, *_, last), before in self._fields:
            if number == field_number:
                return int(TensorProto.FromString(self._view[before:last]).data_type)
        return 0

    def _find_data(self) -> tuple[int, Piece]:
        """Return the number of the field that holds the data and the data: a range, or bytes in memory."""
        if self._stamp is not None:
            offset, length = self._entries.get("offset", "0"), self._entries.get("length")
            if isinstance(self._stamp.source, Memory):
                return self._stamp.field, self._stamp.source
            size = self._stamp.source.identity.size - int(offset) if length is None else int(length)
            return self._stamp.field, Range(self._stamp.source, int(offset), size)
        for (number, wire, first, last), _ in self._fields:
            if number in DATA_FIELDS and wire == LENGTH and number != Tensor.STRING_DATA:
                return number, self._view[first:last]
        return 0, b""

    def _payload(self, initializer: bool) -> Payload:
        raw = self._number_of_field in (0, Tensor.RAW_DATA)
        typed = self._data_type in _SAME_AS_RAW.get(Tensor(self._number_of_field), ()) if not raw else False
        external = self._stamp is not None and not self._stamp.field
        source = self._stamp.source if self._stamp and isinstance(self._stamp.source, Source) else None
        location = self._entries["location"] if external else ""
        return Payload(len(self._piece), location, source, external or (initializer and (raw or typed)))

    def _without(self, *numbers: int) -> list[tuple[int, Piece]]:
        return [(f[0], self._view[before : f[3]]) for f, before in self._fields if f[0] not in numbers]

    def inside(self) -> list[Piece]:
        """Lay the tensor out with its data in it."""
        if self._stamp is None:
            return [piece for _, piece in self._without()]
        number = self._stamp.field or Tensor.RAW_DATA
        new: list[tuple[int, Piece]] = [(number, header(number, len(self._piece))), (number, self._piece)]
        if self._stamp.explicit:
            new.append((Tensor.DATA_LOCATION, encode_varint(Tensor.DATA_LOCATION << 3) + b"\0"))
        return _merged(self._without(Tensor.EXTERNAL_DATA, Tensor.DATA_LOCATION), new)

    def kept(self) -> list[Piece]:
        """Lay the tensor out as it refers to its data file, without our stamp."""
        entries = {key: value for key, value in self._entries.items() if key != STAMP_KEY}
        return self._with_entries(entries)

    def external(self, target: DataFile) -> list[Piece]:
        """Lay the tensor out with its data in the new data file."""
        offset = target.place(self._piece)
        entries = {"location": target.name, "offset": str(offset), "length": str(len(self._piece))}
        if "checksum" in self._entries:
            entries["checksum"] = self._entries["checksum"]
        return self._with_entries(entries)

    def _with_entries(self, entries: dict[str, str]) -> list[Piece]:
        tensor = TensorProto(data_location=TensorProto.EXTERNAL)
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
        gone = (Tensor.EXTERNAL_DATA, Tensor.DATA_LOCATION, *DATA_FIELDS)
        return _merged(self._without(*gone), [(Tensor.EXTERNAL_DATA, tensor.SerializeToString())])


def _merged(old: list[tuple[int, Piece]], new: list[tuple[int, Piece]]) -> list[Piece]:
    """Put fields together in the order of their numbers; what protobuf does not know stays at the end."""
    return [piece for _, piece in sorted(old + new, key=lambda field: field[0])]
