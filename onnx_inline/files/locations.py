"""External data: which file a tensor's ``external_data`` entries name, and whether it may be used.

The file is found first and examined when it is open, so that nothing can be exchanged in between.  Links are
fine as onnxruntime has it: what they lead to lies inside the folder of the model's path, or of the model
file's real path (a download cache keeps both model and data as links into one folder), or inside a folder
that the caller allows.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx_inline.errors import ExternalDataError, FileError
from onnx_inline.files import system
from onnx_inline.files.sources import Identity, Source, register

#: longer than any path that Linux, macOS or Windows opens
_LONGEST = 4096
#: 20 digits hold every 64-bit number
_DIGITS = 20


@dataclass(frozen=True)
class Place:
    """Where a tensor's bytes lie: ``length`` None reaches to the end of the file."""

    location: str
    offset: int
    length: int | None


def place_of(entries: Mapping[str, str], tensor: str, path: str) -> Place:
    """Read the entries of a tensor's ``external_data``.

    Raises:
        ExternalDataError: if one is missing or malformed.
    """
    location = entries.get("location", "")
    if reason := refused(location):
        raise ExternalDataError(
            reason,
            path=path,
            tensor=tensor,
            field="external_data.location",
            hint="name a file beside the model",
        )
    offset = _number(entries, "offset", tensor, path)
    return Place(location, offset or 0, _number(entries, "length", tensor, path))


def refused(location: str) -> str:
    """Say why a location cannot be used, whatever lies there; empty if it can."""
    if not location:
        return "its data are external, but no location says in which file"
    if len(location) > _LONGEST:
        return f"the location of its data has {len(location)} characters"
    shown = f"the location of its data, {location[:100]!r},"
    if "\\" in location or "\0" in location:
        return f"{shown} contains a backslash or a zero byte"
    if location.startswith("/") or (location[1:2] == ":" and location[0].isalpha()):
        return f"{shown} is an absolute path"
    if location.endswith("/"):
        return f"{shown} is the name of a folder"
    if ".." in location.split("/"):
        return f"{shown} leads out of the folder by '..'"
    return ""


def _number(entries: Mapping[str, str], key: str, tensor: str, path: str) -> int | None:
    """Read a number strictly: ``int`` takes signs, spaces, underscores and digits of every script."""
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ExternalDataError(
            f"the {key} of its data, {text[:30]!r}, is no number of 1 to {_DIGITS} digits",
            path=path,
            tensor=tensor,
            field=f"external_data.{key}",
            hint="write it in digits only",
        )
    return int(text)


def check_fits(place: Place, source: Source, needs: int, tensor: str, path: str) -> None:
    """Refuse a range that is not in the file, or is not what type and shape need.

    Raises:
        ExternalDataError: saying which of them.
    """
    has = source.identity.size
    length = needs if place.length is None else place.length
    if place.offset + length > has:
        reason = f"needs {length} bytes at offset {place.offset} of {place.location}, which has {has}"
    elif length != needs:
        reason = f"has {length} bytes in {place.location}, where its type and shape need {needs}"
    else:
        return
    raise ExternalDataError(
        f"it {reason}",
        path=path,
        tensor=tensor,
        field="external_data.length",
        hint="fetch the data file again",
    )


@dataclass
class Folder:
    """The folder of a model, in which the locations of external data are looked up.

    ``path`` is the folder as the model's path names it; ``roots`` are real paths that data may lie in;
    ``model`` is the identity of the model's own file, which is no data file.
    """

    path: str
    roots: tuple[str, ...]
    model: Identity | None
    _found: dict[str, Source] = field(default_factory=dict)

    @classmethod
    def around(cls, path: str, model: Identity | None, external_root: str | None = None) -> Folder:
        """Return the folder of the model file at ``path``."""
        folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - a str, links kept
        real = os.path.dirname(system.real_path(path))  # noqa: PTH120
        roots = [
            system.real_path(folder),
            real,
            *([system.real_path(external_root)] if external_root else []),
        ]
        return cls(folder, tuple(dict.fromkeys(roots)), model)

    @property
    def used(self) -> bool:
        """Whether a data file was found here."""
        return bool(self._found)

    def find(self, location: str, tensor: str, path: str) -> Source:
        """Return the data file at a location.

        Raises:
            ExternalDataError: if it is missing, no regular file, outside the roots, or the model itself.
        """
        source = self._found.get(location)
        if source is None:
            source = self._found[location] = self._look_up(location, tensor, path)
        return source

    def _look_up(self, location: str, tensor: str, path: str) -> Source:
        try:
            real = system.real_path(os.path.join(self.path, location))  # noqa: PTH118
            descriptor = self._open(real)
        except (OSError, ValueError, _OutsideError) as error:
            raise _unusable(location, _reason(error), tensor, path) from error
        try:
            identity = Identity.of(system.fstat(descriptor))
        finally:
            system.close(descriptor)
        if self.model is not None and identity[:2] == self.model[:2]:
            raise _unusable(location, "it is the model file itself", tensor, path)
        return register(real, identity)

    def _open(self, real: str) -> int:
        for root in self.roots:
            if Path(real).is_relative_to(root):
                return open_regular(root, os.path.relpath(real, root))
        raise _OutsideError


class _OutsideError(Exception):
    """A link leads out of the folders that data may lie in."""


class _KindError(OSError):
    """What was to be opened is no regular file."""


def _reason(error: Exception) -> str:
    if isinstance(error, _OutsideError):
        return "it leads out of the model's folder"
    if isinstance(error, _KindError):
        return f"it is {error.args[0]}, not a file"
    return getattr(error, "strerror", None) or "it is no path"


def _unusable(location: str, reason: str, tensor: str, path: str) -> ExternalDataError:
    return ExternalDataError(
        f"its data file {location[:200]!r} cannot be used: {reason}",
        path=path,
        tensor=tensor,
        field="external_data.location",
        hint="put the data file beside the model (external_root names a folder that links may lead into)",
    )


def open_regular(root: str, relative: str) -> int:
    """Open ``root/relative``, a regular file, following no link below ``root`` and waiting for nothing."""
    *folders, name = Path(relative).parts
    if not system.BY_DESCRIPTOR:  # pragma: no cover - Windows
        return _checked_open(os.path.join(root, relative), None)  # noqa: PTH118
    current = system.open_folder(root, follow=True)
    try:
        for part in folders:
            inner = system.open_folder(part, folder=current)
            system.close(current)
            current = inner
        return _checked_open(name, current)
    finally:
        system.close(current)


def _checked_open(name: str, folder: int | None) -> int:
    """Open a regular file; a device is not even opened, for that alone can have effects."""
    _require_regular(system.lstat(name, folder=folder))
    descriptor = system.open_read(name, folder=folder, follow=False)
    try:
        _require_regular(system.fstat(descriptor))
    except OSError:
        system.close(descriptor)
        raise
    return descriptor


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _KindError(kind_of(status.st_mode))


def kind_of(mode: int) -> str:
    """Name what is not a regular file."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFLNK: "a link",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


def open_model(path: str) -> int:
    """Open a model file: a regular file, links followed, waiting for nothing.

    Raises:
        FileError: if there is none or it cannot be opened.
    """
    try:
        real = system.real_path(path)
        return _checked_open(real, None)
    except (OSError, ValueError) as error:
        kind = f"is {error.args[0]}, not a file" if isinstance(error, _KindError) else _reason(error)
        number = error.errno if isinstance(error, OSError) else None
        raise FileError(
            f"cannot be read: {kind}", path=path, hint="name a model file", errno=number
        ) from error
