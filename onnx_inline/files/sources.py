"""The files that loaded models take their data from, and the stamp that ties a tensor to its file.

A skeleton's tensors refer to data that stay in their file.  Each reference carries a stamp, an extra
``external_data`` entry, which says where the bytes are.  Stamps hold a secret of this process, so that a
file cannot contain one, and no saved file ever does.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx_inline.errors import SourceChangedError
from onnx_inline.files import system
from onnx_inline.files.messages import Tensor

STAMP_KEY = "onnx_inline.source"
_TOKEN = os.urandom(16).hex()
#: what to look for in serialised bytes to know that they hold a stamp
STAMP_BYTES = _TOKEN.encode()


class Identity(NamedTuple):
    """What tells whether a file is still the one that was read."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """Return the identity of the file that was examined."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(eq=False)
class Source:
    """A file that data are taken from.

    ``path`` has no links in it.  ``pinned`` is a descriptor that is kept for good: of standard input, and of
    a file that a save of ours replaced while models loaded from it may still be in use.
    """

    path: str
    identity: Identity
    pinned: int | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """Give a descriptor of the file.

        Raises:
            SourceChangedError: if it is gone, or another one, or was written since.
        """
        descriptor = self._open()
        try:
            self.check(descriptor)
            yield descriptor
            self.check(descriptor)
        finally:
            system.close(descriptor)

    def check(self, descriptor: int) -> None:
        """Refuse a file that is not the one that was read."""
        if Identity.of(system.fstat(descriptor)) != self.identity:
            raise self._changed("it was replaced or written")

    def check_unchanged(self) -> None:
        """Refuse a file that is no longer what it was."""
        with self.opened():
            pass

    def _open(self) -> int:
        if self.pinned is not None:
            return system.duplicate(self.pinned)
        try:
            return system.open_read(self.path, follow=False)
        except FileNotFoundError as error:
            raise self._changed("it is gone") from error

    def _changed(self, how: str) -> SourceChangedError:
        return SourceChangedError(
            f"the file changed after the model was loaded: {how}; nothing was written",
            path=self.path,
            hint="load the model again",
        )

    def pin(self) -> None:
        """Keep the file open, so that its bytes stay readable when its name goes to another file."""
        if self.pinned is None:
            with contextlib.suppress(OSError, SourceChangedError), self.opened() as descriptor:
                self.pinned = system.duplicate(descriptor)


@dataclass(eq=False)
class Memory:
    """Data that are made when they are written, one tensor at a time."""

    length: int
    produce: Callable[[], bytes] = field(repr=False)

    def __len__(self) -> int:
        return self.length


class Stamp(NamedTuple):
    """Where the data of a tensor lie.

    ``field`` is the number of the TensorProto field that holds them in a model file, or 0 for external data;
    ``explicit`` says that the file spelled out ``data_location: DEFAULT``.
    """

    source: Source | Memory
    field: int
    explicit: bool


_NUMBERS = itertools.count()
_SOURCES: dict[int, Source | Memory] = {}
_KNOWN: dict[tuple[str, Identity], int] = {}


def register(path: str, identity: Identity, pinned: int | None = None) -> Source:
    """Return the source for a file, the same one for the same file."""
    known = _SOURCES.get(_KNOWN.get((path, identity), -1))
    if isinstance(known, Source) and pinned is None:
        return known
    source = Source(path, identity, pinned)
    number = _KNOWN[path, identity] = next(_NUMBERS)
    _SOURCES[number] = source
    return source


@contextlib.contextmanager
def lent(memories: Iterable[Memory]) -> Iterator[list[str]]:
    """Give a stamp's text for each of the data in memory; outside the block they mean nothing."""
    numbers = {next(_NUMBERS): memory for memory in memories}
    _SOURCES.update(numbers)
    try:
        yield [_text(number, Tensor.RAW_DATA, False) for number in numbers]
    finally:
        for number in numbers:
            del _SOURCES[number]


def stamp_text(stamp: Stamp) -> str:
    """Return the value of a stamp's entry, for data in a file."""
    assert isinstance(stamp.source, Source), "data in memory are lent"
    return _text(_KNOWN[stamp.source.path, stamp.source.identity], stamp.field, stamp.explicit)


def _text(number: int, field_number: int, explicit: bool) -> str:
    return f"{_TOKEN}.{number}.{field_number}.{int(explicit)}"


def read_stamp(text: str) -> Stamp | None:
    """Return what a stamp says, or None if this process did not make it."""
    token, *numbers = text.split(".")
    if token != _TOKEN:
        return None
    index, field_number, explicit = map(int, numbers)
    source = _SOURCES.get(index)
    return None if source is None else Stamp(source, field_number, bool(explicit))


def pin_if_source(status: os.stat_result) -> None:
    """Keep a file open that is about to lose its name, if a model was loaded from it."""
    identity = Identity.of(status)
    for source in list(_SOURCES.values()):
        if isinstance(source, Source) and source.identity == identity:
            source.pin()
