"""Every call to the operating system that a save or a load makes, one plain function each.

The other modules of this room call ``system.name(...)`` and nothing in ``os``, so that a test can make the
k-th call fail, stop before it, or record it.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sys
import time
from collections.abc import Sequence

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

#: how much is copied by one call: large enough to cost nothing, small enough to be interrupted
COPY_CHUNK = 1 << 24
#: the most buffers that one ``writev`` takes on Linux
_BUFFERS = 1024
_CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
#: a folder can be opened, and files in it opened and examined by descriptor (everywhere but on Windows)
BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd


def open_read(path: str, *, folder: int | None = None, follow: bool = True) -> int:
    """Open for reading without waiting for a FIFO's writer and without taking a terminal."""
    flags = os.O_RDONLY | _NO_WAIT | _CLOEXEC | (0 if follow else _NO_FOLLOW)
    return os.open(path, flags, dir_fd=folder)


def open_folder(path: str, *, folder: int | None = None, follow: bool = False) -> int:
    """Open a folder, to name files in it or to sync it."""
    flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOEXEC | (0 if follow else _NO_FOLLOW)
    return os.open(path, flags, dir_fd=folder)


def create(path: str, mode: int) -> int:
    """Create a file that did not exist, for reading and writing; a link at ``path`` is not followed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _CLOEXEC, mode)


def close(descriptor: int) -> None:
    """Close a descriptor."""
    os.close(descriptor)


def duplicate(descriptor: int) -> int:
    """Return another descriptor for the same open file."""
    return os.dup(descriptor)


def fstat(descriptor: int) -> os.stat_result:
    """Describe an open file."""
    return os.fstat(descriptor)


def stat(path: str) -> os.stat_result:
    """Describe what a path leads to, links followed."""
    return os.stat(path)  # noqa: PTH116 - one system call, wrapped in tests


def lstat(path: str, *, folder: int | None = None) -> os.stat_result:
    """Describe what is at a path, a link being a link."""
    return os.stat(path, dir_fd=folder, follow_symlinks=False)


def real_path(path: str) -> str:
    """Return the path with all links resolved; the last part need not exist."""
    return os.path.realpath(path)


def names_in(folder: str) -> list[str]:
    """Return the names in a folder, sorted."""
    return sorted(os.listdir(folder))  # noqa: PTH208 - one system call, wrapped in tests


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Read exactly ``length`` bytes.

    Raises:
        EOFError: if the file ends before.
    """
    parts: list[bytes] = []
    while length:
        part = _read_at(descriptor, min(length, COPY_CHUNK), offset)
        if not part:
            raise EOFError(f"the file ends at byte {offset}, {length} more were expected")
        parts.append(part)
        offset, length = offset + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_at(descriptor: int, length: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, length, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # pragma: no cover - Windows
    return os.read(descriptor, length)  # pragma: no cover - Windows


def read_some(descriptor: int) -> bytes:
    """Read what a stream has next; nothing at its end."""
    return os.read(descriptor, 1 << 20)


def write_all(descriptor: int, buffers: Sequence[bytes | memoryview]) -> None:
    """Write all buffers at the current position."""
    for first in range(0, len(buffers), _BUFFERS):
        rest: list[bytes | memoryview] = list(buffers[first : first + _BUFFERS])
        while rest:
            _drop(rest, _write(descriptor, rest))


def _write(descriptor: int, buffers: Sequence[bytes | memoryview]) -> int:
    if hasattr(os, "writev"):
        return os.writev(descriptor, buffers)
    return os.write(descriptor, b"".join(buffers))  # pragma: no cover - Windows


def _drop(buffers: list[bytes | memoryview], written: int) -> None:
    """Remove the first ``written`` bytes; one pass, for writes that stay short as well."""
    done = 0
    while done < len(buffers) and written >= len(buffers[done]):
        written -= len(buffers[done])
        done += 1
    del buffers[:done]
    if written:
        buffers[0] = memoryview(buffers[0])[written:]


def copy(source: int, offset: int, length: int, target: int) -> None:
    """Copy a range of one file to the current position of another, in the kernel where that is possible.

    Raises:
        EOFError: if the source ends before.
    """
    while length:
        done = _copy_some(source, offset, min(length, COPY_CHUNK), target)
        if not done:
            raise EOFError(f"the file ends at byte {offset}, {length} more were expected")
        offset, length = offset + done, length - done


def _copy_some(source: int, offset: int, length: int, target: int) -> int:
    for in_kernel in (copy_file_range, send_file):
        with contextlib.suppress(_UnsupportedError):
            return in_kernel(source, offset, length, target)
    data = _read_at(source, min(length, 1 << 20), offset)
    write_all(target, [data])
    return len(data)


class _UnsupportedError(Exception):
    """The kernel or the file system has no such call; another way must do."""


#: what a kernel answers when two files, or a file and a pipe, cannot be copied in it
_NOT_HERE = {errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP, errno.EPERM}


def copy_file_range(source: int, offset: int, length: int, target: int) -> int:
    """Copy between two files, which may share blocks."""
    if not hasattr(os, "copy_file_range"):
        raise _UnsupportedError
    try:
        return os.copy_file_range(source, target, length, offset)
    except OSError as error:
        if error.errno in _NOT_HERE:
            raise _UnsupportedError from error
        raise


def send_file(source: int, offset: int, length: int, target: int) -> int:
    """Copy from a file to anything."""
    if not sys.platform.startswith("linux"):
        raise _UnsupportedError
    try:
        return os.sendfile(target, source, offset, length)
    except OSError as error:
        if error.errno in _NOT_HERE:
            raise _UnsupportedError from error
        raise


def reserve(descriptor: int, size: int) -> None:
    """Take the blocks for a file of that size now.

    A full disk says so before anything is copied, and copying is a third faster.  Where the file system
    cannot do it, the blocks come as they are written.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise


def sync(descriptor: int) -> None:
    """Wait until an open file, or folder, is on the disk."""
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Wait until what was written to an open file so far is on the disk."""
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(descriptor)


def rename(source: str, target: str) -> None:
    """Give a file another name, replacing what had it, in one step."""
    os.replace(source, target)  # noqa: PTH105 - one system call, wrapped in tests


def link(source: str, target: str) -> None:
    """Give a file a second name, which must be free."""
    os.link(source, target, follow_symlinks=False)


def unlink(path: str) -> None:
    """Remove a name."""
    os.unlink(path)  # noqa: PTH108 - one system call, wrapped in tests


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of an open file."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def try_lock(descriptor: int) -> bool:
    """Take the lock on an open file, held until it is closed or its process dies; False if another has it."""
    if fcntl is None:  # pragma: no cover - Windows
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            return True
        raise
    return True


def pause() -> None:
    """Wait a moment for another process."""
    time.sleep(0.005)


def map_read(descriptor: int, offset: int, length: int) -> mmap.mmap:
    """Map a range of a file; ``offset`` is a multiple of ``mmap.ALLOCATIONGRANULARITY``."""
    return mmap.mmap(descriptor, length, access=mmap.ACCESS_READ, offset=offset)
