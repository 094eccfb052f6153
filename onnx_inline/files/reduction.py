"""A model file without its weights: the same protobuf message, each large payload replaced by a reference.

Only the tags on the way to large tensors are read.  What is small is copied as it is, so that protobuf
parses, and judges, every byte that is not a weight.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from onnx_inline.errors import TensorDataError
from onnx_inline.files.messages import (
    ATTRIBUTE,
    CHILDREN,
    DATA_FIELDS,
    MODEL,
    SINGULAR,
    SPARSE,
    TENSOR,
    Tensor,
    tensor_field,
)
from onnx_inline.files.sources import STAMP_KEY, Source, Stamp, stamp_text
from onnx_inline.files.wire import (
    LENGTH,
    MAX_DEPTH,
    VARINT,
    Field,
    WireError,
    fields_of_file,
    header,
    text_field,
    varint,
)

#: payloads from this size on stay in the file
LARGE = 1024
#: the fields whose payloads can stay there, and what their lengths are multiples of
_ITEM_SIZE: dict[int, int] = {Tensor.RAW_DATA: 1, Tensor.FLOAT_DATA: 4, Tensor.DOUBLE_DATA: 8}
#: a tensor of more fields, numbers one by one, say, is left to protobuf, which is faster at that
_MOST_FIELDS = 1000
_EXTERNAL = b"\x70\x01"
Reader = Callable[[int, int], bytes]


class Reduction:
    """Walks one file; ``read(start, end)`` gives its bytes; ``references`` counts the payloads left out."""

    def __init__(self, read: Reader, source: Source) -> None:
        self._read, self._source = read, source
        self.references = 0

    def model(self, size: int) -> bytes:
        """Return the whole file's message without its large payloads."""
        return b"".join(self._message(MODEL, 0, size, 0))

    def _message(self, kind: str, start: int, end: int, depth: int) -> list[bytes]:
        """Return a message's bytes in pieces."""
        if depth > MAX_DEPTH:
            raise WireError("messages are nested too deep", start)
        if kind == TENSOR:
            return self._tensor(start, end)
        if kind in (ATTRIBUTE, SPARSE) and self._has_split(kind, start, end):
            return [self._read(start, end)]
        pieces: list[bytes] = []
        done = before = start
        for number, wire, first, last in fields_of_file(self._read, start, end):
            child = CHILDREN[kind].get(number)
            if child and wire == LENGTH and last - first >= LARGE:
                inner = self._message(child, first, last, depth + 1)
                pieces += [self._read(done, before), header(number, sum(map(len, inner))), *inner]
                done = last
            before = last
        pieces.append(self._read(done, end))
        return pieces

    def _has_split(self, kind: str, start: int, end: int) -> bool:
        """Tell whether a tensor is written in several parts, which only protobuf itself merges."""
        numbers = [
            number for number, *_ in fields_of_file(self._read, start, end) if (kind, number) in SINGULAR
        ]
        return len(numbers) != len(set(numbers))

    def _tensor(self, start: int, end: int) -> list[bytes]:
        found = list(itertools.islice(self._tensor_fields(start, end), _MOST_FIELDS + 1))
        data = [field for field, _ in found if field[0] in DATA_FIELDS]
        if len(found) > _MOST_FIELDS or not self._replaceable(found, data):
            return [self._read(start, end)]
        kept = [self._read(first, last) for first, last in _runs(found)]
        explicit = any(field[0] == Tensor.DATA_LOCATION for field, _ in found)
        number, _, first, last = data[-1]
        return [*kept, self._reference(Stamp(self._source, number, explicit), first, last - first)]

    def _tensor_fields(self, start: int, end: int) -> Iterator[tuple[Field, int]]:
        """Yield each field with the position of its tag."""
        before = start
        for number, wire, first, last in fields_of_file(self._read, start, end):
            yield (tensor_field(number, wire), wire, first, last), before
            before = last

    def _replaceable(self, found: list[tuple[Field, int]], data: list[Field]) -> bool:
        """Tell whether the elements lie in one piece that is worth leaving in the file.

        Of several ``raw_data`` the last counts.  Numbers of varying length, which can be malformed, and
        packed numbers in several pieces are left to protobuf.
        """
        numbers = {number for number, *_ in data}
        if len(numbers) > 1:
            raise TensorDataError(
                "its data are given in two fields at once",
                path=self._source.path,
                tensor=self._name(found),
                hint="export the model again",
            )
        if not numbers <= set(_ITEM_SIZE) or not data:
            return False
        number, wire, first, last = data[-1]
        in_one_piece = number == Tensor.RAW_DATA or len(data) == 1
        whole = wire == LENGTH and (last - first) % _ITEM_SIZE[number] == 0
        return in_one_piece and whole and last - first >= LARGE and not self._external(found)

    def _external(self, found: list[tuple[Field, int]]) -> bool:
        return any(
            number == Tensor.EXTERNAL_DATA
            or (number == Tensor.DATA_LOCATION and self._digits(wire, first, last) != 0)
            for (number, wire, first, last), _ in found
        )

    def _digits(self, wire: int, first: int, last: int) -> int:
        data = self._read(first, last) if wire == VARINT else b"\x7f"
        return varint(data, 0, len(data))[0]

    def _name(self, found: list[tuple[Field, int]]) -> str:
        names = [
            self._read(f[2], min(f[3], f[2] + 1000))
            for f, _ in found
            if f[0] == Tensor.NAME and f[1] == LENGTH
        ]
        return names[-1].decode(errors="replace") if names else ""

    def _reference(self, stamp: Stamp, offset: int, length: int) -> bytes:
        self.references += 1
        entries = {
            "location": self._source.path,
            "offset": str(offset),
            "length": str(length),
            STAMP_KEY: stamp_text(stamp),
        }
        return b"".join(_entry(key, value) for key, value in entries.items()) + _EXTERNAL


def _runs(found: list[tuple[Field, int]]) -> Iterator[tuple[int, int]]:
    """Yield where the fields that stay lie, neighbours together."""
    gone = DATA_FIELDS | {Tensor.DATA_LOCATION}
    for goes, run in itertools.groupby(found, lambda item: item[0][0] in gone):
        if not goes:
            fields = list(run)
            yield fields[0][1], fields[-1][0][3]


def _entry(key: str, value: str) -> bytes:
    payload = text_field(1, key) + text_field(2, value)
    return header(Tensor.EXTERNAL_DATA, len(payload)) + payload
