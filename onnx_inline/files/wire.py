"""Protobuf's wire format: where the fields of a message begin and end, without parsing what is in them.

A field is ``(number, wire type, start, end)``; ``start:end`` is its payload: the bytes of a string or message
without their length, the digits of a varint, a group together with its end tag.  The field's tag begins where
the field before it ended.  What protobuf itself refuses is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
Field = tuple[int, int, int, int]
#: protobuf refuses messages and groups nested deeper than this
MAX_DEPTH = 100
#: a tag takes at most 5 bytes, a length as many, a varint 10
_LONGEST_HEADER = 16
_SMALLEST = 1 << 9
_CHUNK = 1 << 18
_CUT = "it ends in the middle of a field"


class WireError(ValueError):
    """The bytes are no protobuf message; the message says why and at which offset."""

    def __init__(self, reason: str, offset: int) -> None:
        self.reason, self.offset = reason, offset
        super().__init__(f"{reason} (at byte {offset})")


def varint(data: bytes, pos: int, end: int, longest: int = 10) -> tuple[int, int]:
    """Return the number that starts at ``pos`` and the position after it."""
    value = shift = 0
    for at in range(pos, min(end, pos + longest)):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise WireError(_CUT if end < pos + longest else "a number has too many digits", pos)


def encode_varint(value: int) -> bytes:
    """Return an unsigned number as a varint.

    >>> encode_varint(300)
    b'\\xac\\x02'
    """
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def header(number: int, length: int) -> bytes:
    """Return tag and length of a field of wire type LENGTH, to be followed by ``length`` bytes.

    >>> header(1, 5)
    b'\\n\\x05'
    """
    return encode_varint(number << 3 | LENGTH) + encode_varint(length)


def text_field(number: int, text: str) -> bytes:
    """Return a string as a whole field."""
    payload = text.encode("utf-8", "surrogateescape")
    return header(number, len(payload)) + payload


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yield the fields of the message ``data[start:end]``.

    Raises:
        WireError: if the bytes are no protobuf message.

    >>> list(fields(b"\\x08\\x07\\x12\\x02hi"))
    [(1, 0, 1, 2), (2, 2, 4, 6)]
    """
    stop = len(data) if end is None else end
    groups: list[tuple[int, int]] = []
    yield from _window(data, start, stop, 0, stop, groups)
    _check_closed(groups)


def fields_of_file(read: Callable[[int, int], bytes], start: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message in a file; ``read(start, end)`` gives the bytes around the tags."""
    groups: list[tuple[int, int]] = []
    pos, size = start, _SMALLEST
    while pos < end:
        window = read(pos, min(end, pos + size))
        after = yield from _window(window, 0, len(window), pos, end, groups)
        # many small fields: read more at once; a payload was skipped: begin again with little
        size = min(8 * size, _CHUNK) if after <= pos + size else _SMALLEST
        pos = after
    _check_closed(groups)


def _check_closed(groups: list[tuple[int, int]]) -> None:
    if groups:
        raise WireError("a group never ends", groups[-1][1])


def _window(
    data: bytes, pos: int, end: int, base: int, limit: int, groups: list[tuple[int, int]]
) -> Generator[Field, None, int]:
    """Yield the fields whose tags lie in ``data[pos:end]``; return where the next window begins.

    ``base`` is where ``data[0]`` lies in the file and ``limit`` where the message ends there.
    """
    safe = end if base + end >= limit else end - _LONGEST_HEADER
    while pos < safe:
        tag = data[pos]
        pos += 1
        if tag >= 0x80:
            tag, pos = varint(data, pos - 1, end, 5)
        number, kind = tag >> 3, tag & 7
        if kind == LENGTH:
            if pos < end and data[pos] < 0x80:
                stop = pos + 1 + data[pos]
                pos += 1
            else:
                length, pos = varint(data, pos, end, 5)
                stop = pos + length
        else:
            stop = _after(data, pos, end, kind, base)
        if not (0 < number < 1 << 29 or groups):
            raise WireError(f"{number} is no field number", base + pos)
        if base + stop > limit:
            raise WireError(_CUT, base + pos)
        if kind == GROUP:
            _open_group(groups, number, base + pos)
        elif kind == END_GROUP:
            opened = _close_group(groups, number, base + pos)
            if not groups:
                yield number, GROUP, opened, base + stop
        elif not groups:
            yield number, kind, base + pos, base + stop
        pos = stop
    return base + pos


def _after(data: bytes, pos: int, end: int, kind: int, base: int) -> int:
    """Return the position after a payload that is not LENGTH."""
    if kind == VARINT:
        return varint(data, pos, end)[1]
    if kind == FIXED64:
        return pos + 8
    if kind == FIXED32:
        return pos + 4
    if kind in (GROUP, END_GROUP):
        return pos
    raise WireError(f"wire type {kind} does not exist", base + pos)


def _open_group(groups: list[tuple[int, int]], number: int, pos: int) -> None:
    if len(groups) >= MAX_DEPTH:
        raise WireError("groups are nested too deep", pos)
    groups.append((number, pos))


def _close_group(groups: list[tuple[int, int]], number: int, pos: int) -> int:
    if not groups or groups[-1][0] != number:
        raise WireError("a group ends that never began", pos)
    return groups.pop()[1]
