"""A save that is killed, or interrupted, at each of its system calls leaves one whole model."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.files.machine import (
    CHANGING,
    LAYOUTS,
    Save,
    assert_tidy_after_the_next_save,
    old_pair,
    prepared,
    same_name,
    state,
    watch,
)
from tests.files.models import names
from tests.files.processes import Child, in_child, needs_fork

pytestmark = needs_fork


class Signalled:
    """Sends the own process a signal before, or after, the k-th of its system calls."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, number: int, after: bool) -> None:
        self.left, self.number, self.after = at, number, after
        watch(patch, self.step)

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        if self.after and name not in CHANGING:
            # nothing is changed: it is as if the process were killed before its next call
            return call()
        self.left -= 1
        if not self.left and not self.after:
            os.kill(os.getpid(), self.number)
        result = call()
        if not self.left and self.after:
            os.kill(os.getpid(), self.number)
        return result


def signalled(save: Save, at: int, number: int, after: bool) -> str:
    """Run in a child: save, and get a signal on the way; tell whether it came."""
    with pytest.MonkeyPatch.context() as patch:
        sender = Signalled(patch, at, number, after)
        save()
    return "late" if sender.left <= 0 else "done"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_kill_9_at_each_system_call(quick_path: Path, layout: Callable[[Path], Save], when: str) -> None:
    """All calls, and after each that changes something: some 600 points in five layouts."""
    for at in itertools.count(1):
        folder = quick_path / str(at)
        save = prepared(folder, layout)
        ended = in_child(lambda save=save, at=at: signalled(save, at, signal.SIGKILL, when == "after"))
        found = state(folder)
        assert_tidy_after_the_next_save(folder, f"killed {when} call {at}, {found} was there")
        if ended.signal != signal.SIGKILL:
            assert (ended.text, found) == ("done", "new")
            break
    assert at > 15


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_an_interrupt_at_each_system_call_leaves_no_litter(
    quick_path: Path, layout: Callable[[Path], Save], number: int, when: str, nightly: bool
) -> None:
    """Every fifth call (every one with ``--nightly``); SIGTERM raises an exception, as in the command line.

    Only where the data have a fixed name, a mark for the next save may stay.
    """
    for at in range(1, 10_000, 1 if nightly else 5):
        folder = quick_path / str(at)
        save = prepared(folder, layout)
        ended = in_child(lambda save=save, at=at: interrupted(save, at, number, when == "after"))
        assert ended.signal == 0
        found = state(folder)
        if ended.text == "done":
            break
        assert ended.text.startswith(("KeyboardInterrupt", "Stopped", "late")), ended.text
        assert layout is same_name or not litter(folder), f"call {at}: {litter(folder)}"
        assert_tidy_after_the_next_save(folder, f"call {at}, {found} was there")
    assert at > 15


def litter(folder: Path) -> list[str]:
    """Return what is neither the model nor its data, nor a folder of the test."""
    named = onnx.load(folder / "m.onnx", load_external_data=False).graph.initializer
    used = {entry.value for tensor in named for entry in tensor.external_data if entry.key == "location"}
    return [name for name in names(folder) if name not in {"m.onnx", "source", *used}]


class Stopped(BaseException):
    """SIGTERM came."""


def interrupted(save: Save, at: int, number: int, after: bool) -> str:
    def stop(*_: object) -> None:
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    return signalled(save, at, number, after)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_kill_9_at_any_instant(quick_path: Path, layout: Callable[[Path], Save], nightly: bool) -> None:
    """20 random instants a layout, 1,000 with ``--nightly``; all kills before the clean-up at the end."""
    rng = random.Random(1)
    old_pair(quick_path / "pair")
    start = time.perf_counter()
    in_child(layout(quick_path / "pair"))
    usual = time.perf_counter() - start
    for at in range(1000 if nightly else 20):
        folder = quick_path / str(at)
        child = Child(prepared(folder, layout))
        time.sleep(rng.uniform(0, usual))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert_tidy_after_the_next_save(folder, f"after {state(folder)}")
