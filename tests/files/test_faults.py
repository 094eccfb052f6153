"""Each call to the operating system fails once: what was there stays whole, and nothing is left over."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_inline import load_proto, save_proto
from onnx_inline.errors import FileError
from onnx_inline.files import system
from tests.files.models import WEIGHTS, external, model_with, names, values, weights, write_data, written

#: the calls of a save that can fail; the others only look
CALLS = [
    "close",
    "copy_file_range",
    "create",
    "duplicate",
    "fstat",
    "link",
    "lstat",
    "names_in",
    "open_folder",
    "open_read",
    "read_at",
    "rename",
    "reserve",
    "set_mode",
    "stat",
    "sync",
    "sync_data",
    "try_lock",
    "unlink",
    "write_all",
]


class Failing:
    """Makes the k-th of all calls fail, before it does anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, make: Callable[[], BaseException]) -> None:
        self.left, self.make, self.failed = at, make, ""
        for name in CALLS:
            monkeypatch.setattr(system, name, self.around(name, getattr(system, name)))

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if not self.left:
                self.failed = name
                if name == "close":
                    # a descriptor is closed even if that fails
                    call(*args, **options)
                raise self.make()
            return call(*args, **options)

        return wrapped


def in_place(folder: Path) -> Callable[[], object]:
    model = load_proto(folder / "m.onnx")
    return lambda: save_proto(changed(model), folder / "m.onnx", external="inline")


def new_pair(folder: Path) -> Callable[[], object]:
    model = load_proto(folder / "m.onnx")
    return lambda: save_proto(changed(model), folder / "m.onnx", external="copy")


def same_name(folder: Path) -> Callable[[], object]:
    model = load_proto(folder / "m.onnx")
    return lambda: save_proto(
        changed(model), folder / "m.onnx", external="copy", external_data="w.bin", size_threshold_bytes=1
    )


def kept(folder: Path) -> Callable[[], object]:
    model = load_proto(folder / "m.onnx")
    return lambda: save_proto(changed(model), folder / "m.onnx")


LAYOUTS = [in_place, new_pair, same_name, kept]


def changed(model: Any) -> Any:
    """Return the model with other weights in it, to tell new from old."""
    del model.graph.initializer[1:]
    model.graph.initializer.append(weights("v", 2))
    return model


def old_pair(folder: Path) -> None:
    folder.mkdir()
    write_data(folder)
    written(folder, model_with(external(), weights("v")))


def state(folder: Path) -> str:
    """Say which model is in a folder; it must be a whole one."""
    assert np.array_equal(values(folder / "m.onnx"), WEIGHTS)
    scale = values(folder / "m.onnx", "v") / np.maximum(WEIGHTS, 1e-9)
    return "old" if scale[1, 2] == 1 else "new"


FAULTS = {
    "EIO": lambda: OSError(errno.EIO, "input/output error"),
    "ENOSPC": lambda: OSError(errno.ENOSPC, "no space left on device"),
    "EACCES": lambda: PermissionError(errno.EACCES, "permission denied"),
    "memory": MemoryError,
    "interrupt": KeyboardInterrupt,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_whichever_call_fails_one_whole_model_is_there(
    tmp_path: Path, layout: Callable[[Path], Callable[[], object]], fault: str
) -> None:
    for at in range(1, 1000):
        folder = tmp_path / str(at)
        old_pair(folder)
        save = layout(folder)
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, at, FAULTS[fault])
            error = failure_of(save)
        if not failing.failed:
            break
        check(folder, error, f"{failing.failed} as call {at}: {error!r}")
    assert at > 20


def failure_of(save: Callable[[], object]) -> BaseException | None:
    try:
        save()
    except (FileError, KeyboardInterrupt) as error:
        return error
    return None


def check(folder: Path, error: BaseException | None, what: str) -> None:
    """A save that failed left the old model; the next save leaves no litter behind."""
    found = state(folder)
    if isinstance(error, FileError):
        assert found == "old", what
        assert "m.onnx" in str(error), what
    elif error is None:
        assert found == "new", what
    save_proto(model_with(weights("w"), weights("v", 2)), folder / "m.onnx")
    assert [name for name in names(folder) if name not in ("m.onnx", "w.bin")] == [], what
