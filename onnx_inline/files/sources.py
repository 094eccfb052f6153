"""The files that loaded models take their data from, and the stamp that ties a tensor to its file.

A skeleton's tensors refer to data that stay in their file.  Each reference carries a stamp, an extra
``external_data`` entry, which says where the bytes are.  Stamps hold a secret of this process, so that a
file cannot contain one, and no saved file ever does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx_inline.errors import SourceChangedError
from onnx_inline.files import system

STAMP_KEY = "onnx_inline.source"
_TOKEN = secrets.token_hex(16)
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


class Stamp(NamedTuple):
    """Where the data of a tensor lie.

    ``field`` is the number of the TensorProto field that holds them in a model file, or 0 for external data;
    ``explicit`` says that the file spelled out ``data_location: DEFAULT``.
    """

    source: Source
    field: int
    explicit: bool


_SOURCES: list[Source] = []
_KNOWN: dict[tuple[str, Identity], int] = {}


def register(path: str, identity: Identity, pinned: int | None = None) -> Source:
    """Return the source for a file, the same one for the same file."""
    known = _KNOWN.get((path, identity))
    if known is not None and pinned is None:
        return _SOURCES[known]
    source = Source(path, identity, pinned)
    _KNOWN[path, identity] = len(_SOURCES)
    _SOURCES.append(source)
    return source


def stamp_text(stamp: Stamp) -> str:
    """Return the value of a stamp's entry."""
    index = _KNOWN[stamp.source.path, stamp.source.identity]
    return f"{_TOKEN}.{index}.{stamp.field}.{int(stamp.explicit)}"


def read_stamp(text: str) -> Stamp | None:
    """Return what a stamp says, or None if this process did not make it."""
    token, *numbers = text.split(".")
    if not secrets.compare_digest(token.encode(), STAMP_BYTES):
        return None
    index, number, explicit = map(int, numbers)
    return Stamp(_SOURCES[index], number, bool(explicit))


def pin_if_source(status: os.stat_result) -> None:
    """Keep a file open that is about to lose its name, if a model was loaded from it."""
    identity = Identity.of(status)
    for source in _SOURCES:
        if source.identity == identity:
            source.pin()
