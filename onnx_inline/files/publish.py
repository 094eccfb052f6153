"""Put a model file, and its data file, in the place of what was there: all at once, or not at all.

Files are written under temporary names in the target's folder and put on the disk.  The data then get their
own name, a free one; then the model's temporary file is renamed over the target, and that one step is the
save.  Whoever dies before it leaves the old model as it was, and litter: temporary files, which their writer
keeps locked, so that the next save can tell that nobody is going to need them, and data under their own
name, of which a temporary file tells by its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from onnx_inline.errors import FileError, WriteError
from onnx_inline.files import system
from onnx_inline.files.layout import Piece, Range
from onnx_inline.files.locations import kind_of
from onnx_inline.files.sources import Memory, Source, pin_if_source

_TEMPORARY = re.compile(r"\.onnx-inline-[0-9a-f]{16}(-[0-9a-f]+-[0-9a-f]+)?\.tmp")
#: how often one looks whether another process still publishes its files; 10 seconds
_PATIENCE = 2000
#: smaller files are not worth a call
_RESERVED_FROM = 1 << 20
#: so many bytes are written between two requests to put them on the disk
_FLUSHED = 1 << 25
_FLUSHED_FROM = 1 << 26
_LINKS_UNKNOWN = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


@dataclass(frozen=True)
class Target:
    """The path that a model is saved to.

    ``folder`` is where the path says, and where readers look for data; ``real`` is the model file itself, in
    another folder if the path is a link, which stays one.
    """

    path: str
    folder: str
    real: str
    old: os.stat_result | None

    @classmethod
    def at(cls, path: str) -> Target:
        """Examine a path before any work.

        Raises:
            FileError: if something is there that is no file, or there is no such folder.
        """
        folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - links are kept
        try:
            real = system.real_path(path)
            if not stat.S_ISDIR(system.stat(os.path.dirname(real)).st_mode):  # noqa: PTH120
                raise NotADirectoryError(errno.ENOTDIR, "its folder is no folder")
            old = status_of(real)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FileError(
                f"cannot be written: {reason}", path=path, hint="name a file in a folder"
            ) from error
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise FileError(f"is {kind_of(old.st_mode)}, not a file", path=path, hint="name a file to write")
        return cls(path, folder, real, old)

    @property
    def mode(self) -> int:
        """The permissions for the new file; those of the old one, else what the system gives."""
        return 0o666 if self.old is None else stat.S_IMODE(self.old.st_mode)


def status_of(path: str) -> os.stat_result | None:
    """Describe what is at a path, None if nothing is."""
    try:
        return system.lstat(path)
    except FileNotFoundError:
        return None


class Temporary:
    """A file that nobody knows yet; it is gone after the ``with`` block unless it is ``settled``.

    That is so when it got another name.  If nobody recorded that, the disk is asked, for an interrupt may
    come between a step and its record.
    """

    def __init__(self, folder: str, mode: int = 0o600, exact: bool = False, tag: str = "") -> None:
        self._folder, self._mode, self._exact, self._tag = folder, mode, exact, tag
        self.path, self.descriptor, self.settled = "", -1, False

    def __enter__(self) -> Temporary:
        while not self._created():
            pass
        return self

    def _created(self) -> bool:
        """Create and lock a file; False if, between the two, a clean-up took it for litter."""
        self.path, self.settled = os.path.join(self._folder, self._name()), False  # noqa: PTH118
        try:
            self.descriptor = system.create(self.path, self._mode)
            if system.try_lock(self.descriptor) and system.fstat(self.descriptor).st_nlink:
                if self._exact:
                    system.set_mode(self.descriptor, self._mode)
                return True
        except BaseException:
            self.__exit__()
            raise
        self.__exit__()
        return False

    def _name(self) -> str:
        return f".onnx-inline-{os.urandom(8).hex()}{self._tag}.tmp"

    def __exit__(self, *_: object) -> None:
        try:
            tidy(self._remove)
        finally:
            descriptor, self.descriptor = self.descriptor, -1
            if descriptor >= 0:
                with contextlib.suppress(Exception):
                    system.close(descriptor)

    def _remove(self) -> None:
        self.settled = self.settled or (self.descriptor >= 0 and self.is_gone())
        if not self.settled:
            system.unlink(self.path)

    def is_gone(self) -> bool:
        """Ask the disk whether the file lost its name; if it does not say, nothing may be undone."""
        try:
            return status_of(self.path) is None
        except Exception:
            return True


def tidy(step: Callable[[], object]) -> None:
    """Do what should be done but need not; an interrupt on the way is passed on after a second attempt."""
    try:
        with contextlib.suppress(Exception):
            step()
    except BaseException:
        with contextlib.suppress(Exception):
            step()
        raise


def write(pieces: Iterable[Piece], descriptor: int, size: int = 0) -> None:
    """Write pieces one after the other, ``size`` bytes in all; ranges never pass through Python."""
    if size > _RESERVED_FROM:
        system.reserve(descriptor, size)
    with contextlib.ExitStack() as files:
        flush = files.enter_context(_flushing(descriptor)) if size > _FLUSHED_FROM else _nothing
        opened: dict[Source, int] = {}
        for buffers, piece in _grouped(pieces):
            system.write_all(descriptor, buffers)
            if piece is not None:
                if piece.source not in opened:
                    opened[piece.source] = files.enter_context(piece.source.opened())
                _copy(opened[piece.source], piece, descriptor, flush)


def _grouped(pieces: Iterable[Piece]) -> Iterator[tuple[list[bytes | memoryview], Range | None]]:
    """Yield buffers that can be written by one call, and the range that follows them."""
    buffers: list[bytes | memoryview] = []
    for piece in pieces:
        if isinstance(piece, Range):
            yield buffers, piece
            buffers = []
        elif isinstance(piece, Memory):
            yield [*buffers, made(piece)], None
            buffers = []
        else:
            buffers.append(piece)
    yield buffers, None


def _copy(source: int, piece: Range, target: int, flush: Callable[[], None]) -> None:
    for start in range(0, piece.length, _FLUSHED):
        system.copy(source, piece.offset + start, min(_FLUSHED, piece.length - start), target)
        flush()


def _nothing() -> None:
    pass


@contextlib.contextmanager
def _flushing(descriptor: int) -> Iterator[Callable[[], None]]:
    """Give what starts to put a file on the disk while it is still being written.

    The sync at the end then finds little left to do.  An error counts although it came to a thread: the
    system reports it only once.
    """
    requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
    errors: list[OSError] = []

    def work() -> None:
        try:
            while requests.get():
                system.sync_data(descriptor)
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # no more threads, or no memory for one: the end takes longer
        yield _nothing
        return
    try:
        yield lambda: requests.put(True) if requests.empty() else None
    finally:
        requests.put(False)
        thread.join()
    for error in errors:
        raise error


def at_offsets(pieces: Iterable[tuple[int, Piece]]) -> Iterator[Piece]:
    """Yield pieces with zeros between them, so that each begins at its offset."""
    end = 0
    for offset, piece in pieces:
        yield bytes(offset - end)
        yield piece
        end = offset + len(piece)


def loaded(pieces: Iterable[Piece]) -> Iterator[bytes | memoryview]:
    """Yield the pieces as bytes in memory."""
    for piece in pieces:
        if isinstance(piece, Range):
            with piece.source.opened() as descriptor:
                yield system.read_at(descriptor, piece.offset, piece.length)
        else:
            yield made(piece) if isinstance(piece, Memory) else piece


def made(memory: Memory) -> bytes:
    """Return the data of a tensor in memory."""
    data = memory.produce()
    if len(data) != len(memory):
        raise FileError(
            f"a tensor of {len(memory)} bytes gave {len(data)} when it was written",
            hint="give it data that do not change while it is saved",
        )
    return data


def sync_folder(folder: str) -> None:
    """Put the names in a folder on the disk."""
    descriptor = system.open_folder(folder, follow=True)
    try:
        system.sync(descriptor)
    finally:
        system.close(descriptor)


def tag_of(status: os.stat_result) -> str:
    """Return the part of a temporary file's name that tells of a data file."""
    return f"-{status.st_ino:x}-{status.st_mtime_ns:x}"


@contextlib.contextmanager
def exclusive(folder: str) -> Iterator[bool]:
    """Keep others from publishing in a folder, or from cleaning up; False if they did not let us for long.

    Whoever is not alone may publish, for names are taken without a race, but must remove nothing.
    """
    descriptor = system.open_folder(folder, follow=True)
    try:
        yield _locked(descriptor)
    finally:
        with contextlib.suppress(Exception):
            system.close(descriptor)


def _locked(descriptor: int) -> bool:
    for _ in range(_PATIENCE):
        if system.try_lock(descriptor):
            return True
        system.pause()
    return False


def rename_if_free(source: str, target: str) -> None:
    """Give a finished file its own name, if that is free, and no other.

    Raises:
        FileExistsError: if it is not.
    """
    try:
        system.link(source, target)
        # with two names left, onnx would refuse the file as a possible attack
        system.unlink(source)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _LINKS_UNKNOWN:
            raise
        # a file system without hard links: reserve the name, then take it
        system.close(system.create(target, 0o600))
        system.rename(source, target)


def replace(source: str, target: str) -> None:
    """Let a finished file take the place of another; models loaded from that keep their bytes."""
    if (old := status_of(target)) is not None:
        pin_if_source(old)
    system.rename(source, target)


def litter(folder: str) -> list[str]:
    """Return the temporary files in a folder, whoever they belong to."""
    return [os.path.join(folder, name) for name in filter(is_temporary, system.names_in(folder))]  # noqa: PTH118


def is_temporary(name: str) -> bool:
    """Tell whether a name is one of a temporary file."""
    return _TEMPORARY.fullmatch(name) is not None


@contextlib.contextmanager
def abandoned(path: str) -> Iterator[bool]:
    """Tell whether the writer of a temporary file is dead, and keep its lock meanwhile."""
    descriptor = system.open_read(path, follow=False)
    try:
        yield stat.S_ISREG(system.fstat(descriptor).st_mode) and system.try_lock(descriptor)
    finally:
        system.close(descriptor)


@contextlib.contextmanager
def errors_about(path: str, needs: list[int]) -> Iterator[None]:
    """Turn what the system refuses into an error of ours; ``needs`` holds the sizes known when it happens."""
    try:
        yield
    except (OSError, EOFError, MemoryError) as error:
        raise write_error(error, path, sum(needs)) from error


def write_error(error: BaseException, path: str, need: int) -> WriteError:
    """Return the error that says what the system refused."""
    number = getattr(error, "errno", None)
    reason = getattr(error, "strerror", None) or (
        "out of memory" if isinstance(error, MemoryError) else str(error)
    )
    hints = {
        errno.ENOSPC: "free some space or save elsewhere",
        errno.EDQUOT: "free some of your quota or save elsewhere",
        errno.EFBIG: "raise the file size limit (ulimit -f)",
        errno.EACCES: "save into a folder that you may write to",
        errno.EROFS: "save to a disk that can be written to",
    }
    fallback = "raise the memory limit" if isinstance(error, MemoryError) else "save elsewhere, or try again"
    needs = f" ({need} bytes are needed)" if need else ""
    return WriteError(
        f"cannot be written, {reason}{needs}; what was there before is untouched",
        path=path,
        errno=number,
        hint=hints.get(number, fallback) if number else fallback,
    )


def plain_name(name: str) -> bool:
    """Tell whether a name is one of a file in the same folder on every system."""
    return (
        bool(name)
        and PurePath(name).name == name
        and not set(name) & set("\\/:\0")
        and name not in (".", "..")
    )
