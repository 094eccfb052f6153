"""What the tests of faults share: saves of several kinds, and a stand-in for ``os`` in files/system.py."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_inline import load_proto, save_proto
from onnx_inline.files import system
from tests.files.models import WEIGHTS, external, model_with, names, weights, write_data, written

#: what system.py calls in ``os``; those that change something on the disk first
CHANGING = ["open", "writev", "write", "copy_file_range", "sendfile", "posix_fallocate"]
CHANGING += ["fsync", "fdatasync", "replace", "link", "unlink", "fchmod"]
LOOKING = ["close", "dup", "fstat", "stat", "listdir", "pread"]

Step = Callable[[str, Callable[[], Any]], Any]
Save = Callable[[], object]


class Os:
    """Stands for the module ``os``: each call of the lists above goes through ``step(name, call)``."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return partial(self._call, name, found) if name in CHANGING or name in LOOKING else found

    def _call(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._step(name, partial(call, *args, **options))


def watch(patch: pytest.MonkeyPatch, step: Step) -> None:
    """Let every system call of a save or load go through ``step``, locks as well."""
    lock = SimpleNamespace(LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB)
    lock.flock = lambda *args: step("flock", partial(fcntl.flock, *args))
    patch.setattr(system, "os", Os(step))
    patch.setattr(system, "fcntl", lock)


# ---- saves: each finds an old pair in the folder ``out`` and puts a model with other weights there


def old_pair(folder: Path) -> None:
    folder.mkdir(parents=True)
    write_data(folder)
    written(folder, model_with(external(), weights("v")))


def changed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with other weights in it, to tell new from old."""
    del model.graph.initializer[1:]
    model.graph.initializer.append(weights("v", 2))
    return model


def _save(source: Path, target: Path, **options: Any) -> Save:
    model = changed(load_proto(source / "m.onnx"))
    return lambda: save_proto(model, target / "m.onnx", **options)


def inside(folder: Path) -> Save:
    return _save(folder, folder, external="inline")


def new_pair(folder: Path) -> Save:
    return _save(folder, folder, external="copy")


def same_name(folder: Path) -> Save:
    return _save(folder, folder, external="copy", external_data="w.bin", size_threshold_bytes=1)


def in_place(folder: Path) -> Save:
    return _save(folder, folder)


def other_folder(folder: Path) -> Save:
    old_pair(folder / "source")
    return _save(folder / "source", folder)


LAYOUTS = [inside, new_pair, same_name, in_place, other_folder]


def prepared(folder: Path, layout: Callable[[Path], Save]) -> Save:
    old_pair(folder)
    return layout(folder)


def state(folder: Path) -> str:
    """Say which model is in a folder, ``old`` or ``new``; it must be a whole one."""
    found = {t.name: numpy_helper.to_array(t) for t in onnx.load(folder / "m.onnx").graph.initializer}
    assert np.array_equal(found["w"], WEIGHTS)
    scale = found["v"][1, 2] / WEIGHTS[1, 2]
    assert np.array_equal(found["v"], WEIGHTS * scale)
    assert scale in (1, 2)
    return "old" if scale == 1 else "new"


def assert_tidy_after_the_next_save(folder: Path, what: str) -> None:
    """Save once more: nothing is left over but the model, and its data if a source still has them."""
    save_proto(model_with(weights("w"), weights("v", 2)), folder / "m.onnx")
    assert [name for name in names(folder) if name not in ("m.onnx", "w.bin", "source")] == [], what
    assert state(folder) == "new", what
