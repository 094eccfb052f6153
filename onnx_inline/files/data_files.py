"""The data files in a folder: which model names which, and which nobody needs any more."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Collection, Iterator

import onnx
from onnx import TensorProto

from onnx_inline.errors import FileError
from onnx_inline.files import forms, locations, publish, system
from onnx_inline.files.publish import Target
from onnx_inline.files.skeleton import may_name_data, read_unchecked
from onnx_inline.files.sources import pin_if_source
from onnx_inline.files.tensors import all_tensors


def named_by(target: Target) -> set[str]:
    """Return the locations of external data that the model at a target names; none if it is no model.

    It is going to be replaced: whatever it is, it must not keep that from happening.
    """
    try:
        return _locations(read_unchecked(target.real)) if may_name_data(target.real) else set()
    except FileError as error:
        # no model, or none there; but if it cannot be read just now, its data would stay for ever
        if error.errno in (None, errno.ENOENT):
            return set()
        raise


def _locations(model: onnx.ModelProto) -> set[str]:
    return {
        entry.value
        for tensor in all_tensors(model)
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }


def _models(folder: str) -> Iterator[str]:
    """Yield the names of what may be models: by suffix, and links too, for a reader follows them."""
    for name in system.names_in(folder):
        suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122
        if suffix in _MODEL_SUFFIXES:
            yield name


_MODEL_SUFFIXES = {".onnx", ".pb"} | {
    suffix
    for form in (forms.TEXTPROTO, forms.ONNXTXT, forms.JSON)
    for suffix in onnx.serialization.registry.get(form).file_extensions
}


def users(folder: str, name: str, without: str = "") -> list[str]:
    """Return the models in a folder that name a data file, leaving out the model at the path ``without``.

    A file that cannot be read as a model counts if the name stands anywhere in it.
    """
    data = system.real_path(os.path.join(folder, name))  # noqa: PTH118
    return [model for model in _models(folder) if _uses(folder, model, data, name, without)]


def _uses(folder: str, model: str, data: str, name: str, without: str) -> bool:
    path = os.path.join(folder, model)  # noqa: PTH118
    if without and system.real_path(path) == without:
        return False
    try:
        named = _locations(read_unchecked(path))
    except (FileError, OSError, MemoryError):
        return _mentions(path, name)
    return any(system.real_path(os.path.join(folder, place)) == data for place in named)  # noqa: PTH118


def _mentions(path: str, name: str) -> bool:
    """Tell whether a name stands in a file; one that cannot be read may hold it."""
    wanted, rest = os.fsencode(name), b""
    try:
        descriptor = locations.open_model(path)
    except FileError:
        return os.path.isfile(path)  # noqa: PTH113
    try:
        at, size = 0, system.fstat(descriptor).st_size
        while at < size:
            block = system.read_at(descriptor, at, min(system.COPY_CHUNK, size - at))
            if wanted in rest + block:
                return True
            at, rest = at + len(block), block[-len(wanted) :]
    finally:
        system.close(descriptor)
    return False


def clean(folders: Collection[str]) -> None:
    """Remove what savers that died have left, together with data that no model names yet.

    What cannot be removed stays: it hinders nobody.
    """
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):
            if paths := publish.litter(folder):
                with publish.exclusive(folder) as alone:
                    for path in paths if alone else ():
                        _remove_if_abandoned(folder, path)


def _remove_if_abandoned(folder: str, path: str) -> None:
    with contextlib.suppress(OSError), publish.abandoned(path) as dead:
        if dead:
            # a mark may look dead before its writer has locked it: temporary files have locks of their own
            for name in itertools.filterfalse(publish.is_temporary, system.names_in(folder)):
                other = os.path.join(folder, name)  # noqa: PTH118
                if publish.tag_of(system.lstat(other)) in path and not users(folder, name):
                    system.unlink(other)
            system.unlink(path)


def settle(folder: str, name: str) -> bool:
    """Remove a data file that no model in its folder names any more; tell whether nothing is left to do."""
    path = os.path.join(folder, name)  # noqa: PTH118
    with contextlib.suppress(OSError):
        status = publish.status_of(path)
        if status is not None and not users(folder, name):
            pin_if_source(status)
            system.unlink(path)
        return True
    return False
