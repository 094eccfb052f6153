"""Run something in a forked child; for tests that kill it, limit it, or run several at once."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from typing import NamedTuple

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Ended(NamedTuple):
    """How a child ended: the signal that killed it, or 0; and what it had to say."""

    signal: int
    text: str


class Child:
    """A forked process that runs ``work`` and tells the text that it returns, or the error that it raises."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _run(work, writing)
        os.close(writing)

    def wait(self) -> Ended:
        with open(self._reading, encoding="utf-8") as told:
            text = told.read()
        _, status = os.waitpid(self.pid, 0)
        return Ended(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, text)


def _run(work: Callable[[], object], writing: int) -> None:
    """Never return: what follows in the test is the parent's business."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        text = str(work() or "")
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        if type(error).__module__ == "builtins" and not isinstance(error, KeyboardInterrupt):
            text += traceback.format_exc()
    os.write(writing, text.encode()[:60_000])
    os._exit(0)


def in_child(work: Callable[[], object]) -> Ended:
    return Child(work).wait()
