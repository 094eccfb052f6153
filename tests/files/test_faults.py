"""Each call to the operating system fails once: what was there stays whole, and nothing is left over."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from onnx_inline.errors import FileError, WriteError
from onnx_inline.files import publish
from tests.files.machine import LAYOUTS, Save, assert_tidy_after_the_next_save, prepared, state, watch

ERRORS = ["EIO", "ENOSPC", "EDQUOT", "EACCES", "EINTR"]


def refusal(name: str) -> OSError:
    number = getattr(errno, name)
    return OSError(number, os.strerror(number))


FAULTS: dict[str, Callable[[], BaseException]] = {
    **{name: partial(refusal, name) for name in ERRORS},
    "memory": MemoryError,
    "interrupt": KeyboardInterrupt,
}


class Failing:
    """Makes the k-th of all calls fail, before it does anything; a descriptor is closed all the same."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, make: Callable[[], BaseException]) -> None:
        self.left, self.make, self.failed = at, make, ""
        watch(patch, self.step)

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left:
            return call()
        self.failed = name
        if name == "close":
            call()
        raise self.make()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_whichever_call_fails_one_whole_model_is_there(
    quick_path: Path, layout: Callable[[Path], Save], fault: str, nightly: bool
) -> None:
    """Each call fails with EIO; with each of the other faults every seventh, every one with ``--nightly``."""
    failed = 0
    step = 1 if nightly or fault == "EIO" else 7
    for at in range(1 + list(FAULTS).index(fault) % step, 10_000, step):
        folder = quick_path / str(at)
        save = prepared(folder, layout)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(publish, "_RESERVED_FROM", 0)
            failing = Failing(patch, at, FAULTS[fault])
            error = failure_of(save)
        if not failing.failed:
            break
        failed += 1
        check(folder, error, f"{failing.failed} as call {at}: {error!r}")
    assert failed * step > 40


def failure_of(save: Save) -> BaseException | None:
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
    assert_tidy_after_the_next_save(folder, what)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_writes_and_copies_that_stay_short_make_the_same_model(
    quick_path: Path, layout: Callable[[Path], Save]
) -> None:
    """Each write takes five bytes, each copy too: as a kernel may when it is interrupted."""
    save = prepared(quick_path / "short", layout)
    with pytest.MonkeyPatch.context() as patch:
        short(patch)
        save()
    prepared(quick_path / "plain", layout)()
    assert (quick_path / "short" / "m.onnx").read_bytes() == (quick_path / "plain" / "m.onnx").read_bytes()
    assert state(quick_path / "short") == "new"


def short(patch: pytest.MonkeyPatch) -> None:
    def step(name: str, call: Any) -> Any:
        if name == "writev":
            descriptor, buffers = call.args
            return os.write(descriptor, b"".join(map(bytes, buffers))[:5])
        if name == "copy_file_range":
            source, target, length, offset = call.args
            return os.copy_file_range(source, target, min(5, length), offset)
        return call()

    watch(patch, step)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_a_disk_that_stays_full_is_one_error(quick_path: Path, layout: Callable[[Path], Save]) -> None:
    """From the k-th write on all of them fail, as on a full disk."""
    for at in range(1, 100):
        folder = quick_path / str(at)
        save = prepared(folder, layout)
        with pytest.MonkeyPatch.context() as patch:
            full = Full(patch, at)
            error = failure_of(save)
        if not full.met:
            break
        found = state(folder)
        assert found == ("old" if error else "new")
        if error is not None:
            assert isinstance(error, WriteError)
            assert "No space left" in str(error)
            assert "bytes are needed" in str(error)
        assert_tidy_after_the_next_save(folder, f"from write {at} on")
    assert at > 1


class Full:
    """Makes all calls that take space fail, from the k-th on."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        self.left, self.met = at, False
        watch(patch, self.step)

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        self.left -= name in ("writev", "copy_file_range", "posix_fallocate")
        if self.left > 0 or name not in ("writev", "copy_file_range", "posix_fallocate"):
            return call()
        self.met = True
        raise refusal("ENOSPC")
