"""The power goes during a save: whatever part of its writes is on the disk, one whole model is there.

The system calls of a save are recorded, with what they wrote.  Then disks are made as they may be found
afterwards: the calls up to some moment, of which those that no sync had waited for are there or not, each by
itself, in any order.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.files.machine import LAYOUTS, Save, new_pair, prepared, state, watch

Content = dict[int, bytearray]
Names = dict[str, int]


@dataclass
class Change:
    """Something that a call changed; ``file`` is the inode that has to be synced for it, None for a folder's.

    ``apply`` makes the change on a disk: what files contain, and the names of one folder.
    """

    file: int | None
    apply: Callable[[Content, Names], None]
    durable_after: int | None = None


@dataclass
class Recorder:
    """Records what the calls of a save change in one folder, and when a sync makes it last."""

    folder: Path
    names: Names
    content: Content
    changes: list[Change] = field(default_factory=list)

    def step(self, name: str, call: Any) -> Any:
        handler = getattr(self, f"on_{name}", None)
        return call() if handler is None else handler(call)

    def _add(self, file: int | None, apply: Callable[[Content, Names], None]) -> None:
        self.changes.append(Change(file, apply))

    def on_open(self, call: Any) -> int:
        descriptor = int(call())
        path, flags = call.args[:2]
        if flags & os.O_CREAT:
            number, name = os.fstat(descriptor).st_ino, Path(path).name
            self._add(None, lambda _, names: names.update({name: number}))
        return descriptor

    def on_writev(self, call: Any) -> int:
        descriptor, buffers = call.args
        at, data = os.lseek(descriptor, 0, os.SEEK_CUR), b"".join(map(bytes, buffers))
        done = int(call())
        self._wrote(descriptor, at, data[:done])
        return done

    def on_copy_file_range(self, call: Any) -> int:
        source, descriptor, _, offset = call.args
        at = os.lseek(descriptor, 0, os.SEEK_CUR)
        done = int(call())
        self._wrote(descriptor, at, os.pread(source, done, offset))
        return done

    def _wrote(self, descriptor: int, at: int, data: bytes) -> None:
        number = os.fstat(descriptor).st_ino
        self._add(number, lambda content, _: put(content.setdefault(number, bytearray()), at, data))

    def on_fsync(self, call: Any) -> None:
        call()
        synced = os.fstat(call.args[0])
        file = None if synced.st_ino == self.folder.stat().st_ino else synced.st_ino
        for change in self.changes:
            if change.file == file and change.durable_after is None:
                change.durable_after = len(self.changes)

    def on_replace(self, call: Any) -> None:
        source, target = (Path(path).name for path in call.args)
        number = Path(call.args[0]).stat().st_ino
        call()

        def rename(_: Content, names: Names) -> None:
            names[target] = number
            names.pop(source, None)

        self._add(None, rename)

    def on_link(self, call: Any) -> None:
        number, target = Path(call.args[0]).stat().st_ino, Path(call.args[1]).name
        call()
        self._add(None, lambda _, names: names.update({target: number}))

    def on_unlink(self, call: Any) -> None:
        call()
        name = Path(call.args[0]).name
        self._add(None, lambda _, names: names.pop(name, None) and None)

    def disk(self, moment: int, is_lost: Callable[[int, Change], bool]) -> tuple[Content, Names]:
        """Return what is on the disk if the power goes after so many changes."""
        content, names = {number: bytearray(data) for number, data in self.content.items()}, dict(self.names)
        for at, change in enumerate(self.changes[:moment]):
            # the sync is over when the next change is made, not before
            lasts = change.durable_after is not None and change.durable_after < moment
            if lasts or not is_lost(at, change):
                change.apply(content, names)
        return content, names


def put(content: bytearray, at: int, data: bytes) -> None:
    content.extend(bytes(max(0, at + len(data) - len(content))))
    content[at : at + len(data)] = data


def recorded(folder: Path, save: Save) -> Recorder:
    files = [path for path in folder.iterdir() if path.is_file()]
    names = {path.name: path.stat().st_ino for path in files}
    recorder = Recorder(folder, names, {names[path.name]: bytearray(path.read_bytes()) for path in files})
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, recorder.step)
        save()
    return recorder


def made(folder: Path, disk: tuple[Content, Names]) -> Path:
    content, names = disk
    folder.mkdir()
    for name, number in names.items():
        (folder / name).write_bytes(content.get(number, b""))
    return folder


def losses(rng: random.Random, moment: int) -> Callable[[int, Change], bool]:
    """Return which changes are lost: all; each by itself; or, of a folder, all from some change on."""
    if rng.random() < 0.1:
        return lambda *_: True
    if rng.random() < 0.5:
        share = rng.random()
        return lambda *_: rng.random() < share
    end = rng.randrange(moment + 1)
    return lambda at, change: rng.random() < 0.5 if change.file is not None else at >= end


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_the_power_goes(quick_path: Path, layout: Callable[[Path], Save], nightly: bool) -> None:
    """500 states of the disk in each of five layouts; 5,000 in each with ``--nightly``."""
    rng, seen = random.Random(1), set()
    recorder = recorded(quick_path / "pair", prepared(quick_path / "pair", layout))
    assert state(quick_path / "pair") == "new"
    assert state(made(quick_path / "all", recorder.disk(len(recorder.changes), lambda *_: False))) == "new"
    for number in range(5000 if nightly else 500):
        moment = rng.randrange(len(recorder.changes) + 1)
        seen.add(state(made(quick_path / str(number), recorder.disk(moment, losses(rng, moment)))))
    assert seen == {"old", "new"}


def test_without_syncs_the_simulation_finds_broken_models(quick_path: Path) -> None:
    """The test above can fail: if syncs are taken to do nothing, it does."""
    recorder = recorded(quick_path / "pair", prepared(quick_path / "pair", new_pair))
    for change in recorder.changes:
        change.durable_after = None
    rng, broken = random.Random(1), 0
    for number in range(50):
        folder = made(quick_path / str(number), recorder.disk(len(recorder.changes), losses(rng, 1)))
        try:
            state(folder)
        except Exception:
            broken += 1
    assert broken > 5
