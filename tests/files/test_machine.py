"""Machines at their limits, several processes at once, and outputs that are no files."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnx_inline import load, load_proto, save_proto
from onnx_inline.errors import FileError, SourceChangedError, WriteError
from tests.files.machine import assert_tidy_after_the_next_save, old_pair, state
from tests.files.models import model_with, names, values, weights
from tests.files.processes import Child, in_child, needs_fork

MEGABYTE = 1 << 20


def large(folder: Path, external: bool, size: int = 2 * MEGABYTE) -> Callable[[], object]:
    """Return what saves so many bytes over the pair in a folder, inside or beside the model."""
    model = model_with(weights(), weights("v", 2))
    model.graph.initializer.add(name="large", data_type=TensorProto.UINT8, dims=[size], raw_data=bytes(size))
    return lambda: save_proto(model, folder / "m.onnx", external_data="large.bin" if external else None)


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a disk in memory, or skip the test where that is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def sizes(nightly: bool, most: int) -> range:
    return range(0, most, most // (200 if nightly else 20))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tmpfs is Linux's")
@pytest.mark.parametrize("external", [False, True], ids=["inside", "external"])
def test_a_disk_that_is_full(tmp_path: Path, external: bool, nightly: bool) -> None:
    """A tmpfs that lacks from nothing to 2 MB, in 20 sizes (200 with ``--nightly``)."""
    refused = 0
    for free in sizes(nightly, 2 * MEGABYTE + 200_000):
        options = ["-t", "tmpfs", "-o", f"size={free + 40_960}", "tmpfs"]
        with mounted(tmp_path / "disk", *options) as disk:
            folder = disk / "pair"
            old_pair(folder)
            save = large(folder, external)
            try:
                save()
            except WriteError as error:
                assert "No space left" in str(error)
                assert str(folder / "m.onnx") in str(error)
                assert "bytes are needed" in str(error)
                assert state(folder) == "old"
                assert names(folder) == ["m.onnx", "w.bin"]
                refused += 1
            else:
                assert state(folder) == "new"
    assert refused > 15


@needs_fork
@pytest.mark.parametrize("external", [False, True], ids=["inside", "external"])
def test_a_limit_to_the_size_of_files(quick_path: Path, external: bool, nightly: bool) -> None:
    """RLIMIT_FSIZE at 20 sizes (200 with ``--nightly``)."""

    def limited(most: int, save: Callable[[], object]) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        save()

    refused = 0
    for most in sizes(nightly, 2 * MEGABYTE + 200_000):
        folder = quick_path / str(most)
        old_pair(folder)
        ended = in_child(lambda most=most, folder=folder: limited(most, large(folder, external)))
        assert ended.signal == 0
        if ended.text:
            assert ended.text.startswith("WriteError"), ended.text
            assert "ulimit -f" in ended.text
            assert state(folder) == "old"
            assert names(folder) == ["m.onnx", "w.bin"]
            refused += 1
        else:
            assert state(folder) == "new"
    assert refused > 15


@needs_fork
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory in use is not told")
@pytest.mark.parametrize("external", [False, True], ids=["inside", "external"])
def test_a_limit_to_memory(quick_path: Path, external: bool, nightly: bool) -> None:
    """RLIMIT_AS at 10 sizes (50 with ``--nightly``) above what the process has already.

    How many of them are too small depends on what the process has free; both ends must leave whole files.
    """

    def limited(more: int, save: Callable[[], object]) -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
        save()

    for number in range(50 if nightly else 10):
        folder = quick_path / str(number)
        old_pair(folder)
        # so large a piece is never taken from memory that was freed before
        save = large(folder, external, 40 * MEGABYTE)
        more = number * 200 * MEGABYTE // (50 if nightly else 10)
        ended = in_child(lambda more=more, save=save: limited(more, save))
        assert ended.signal == 0
        if ended.text:
            assert ended.text.startswith("WriteError"), ended.text
            assert "out of memory" in ended.text
            assert state(folder) == "old"
        else:
            assert state(folder) == "new"
        assert not ended.text or names(folder) == ["m.onnx", "w.bin"]
        assert_tidy_after_the_next_save(folder, f"with {more} bytes of memory")


# ---- several processes


#: why a data name cannot be had while others save under it
RACES = ("holds the data", "does not use it", "created by somebody else")


@needs_fork
@pytest.mark.parametrize("name", [None, "w.bin"], ids=["free-name", "fixed-name"])
def test_eight_writers(quick_path: Path, name: str | None) -> None:
    """Eight processes save 20 times each, all over the same pair: one whole model is left, and no litter."""
    folder = quick_path / "pair"
    old_pair(folder)

    def writer(scale: int) -> str:
        refused = 0
        for _ in range(20):
            try:
                write_scaled(folder / "m.onnx", scale, external_data=name)
            except FileError as error:
                if not name or not any(reason in str(error) for reason in RACES):
                    raise
                refused += 1
        return str(refused)

    children = [Child(lambda scale=scale: writer(scale)) for scale in range(1, 9)]
    refused = [child.wait().text for child in children]
    assert all(text.isdigit() for text in refused), refused
    assert name is not None or refused == ["0"] * 8
    whole_scale(onnx.load(folder / "m.onnx"))
    assert_tidy_after_the_next_save(folder, "after eight writers")


def write_scaled(path: Path, scale: int, external_data: str | None) -> None:
    model = model_with(weights("w", scale), weights("v", scale))
    model.graph.doc_string = str(scale)
    options = {"external_data": external_data} if external_data else {}
    save_proto(model, path, size_threshold_bytes=1, **options)


def whole_scale(model: onnx.ModelProto) -> int:
    """Return the scale of all weights, which the model tells as well: new weights in an old graph differ."""
    scale = int(model.graph.doc_string)
    for tensor in model.graph.initializer:
        expected = weights(tensor.name, scale).raw_data
        assert tensor.raw_data == expected, "a mixture of two models"
    return scale


def ours(path: Path) -> onnx.ModelProto:
    """Load a model with this package, and then its data."""
    proto = onnx.ModelProto(graph=onnx.GraphProto(doc_string="0"))
    model = load(path)
    proto.graph.doc_string = model.graph.doc_string or ""
    for name, value in model.graph.initializers.items():
        assert value.const_value is not None
        proto.graph.initializer.add(name=name, raw_data=value.const_value.tobytes())
    return proto


@needs_fork
@pytest.mark.parametrize(
    ("name", "read"),
    [(None, onnx.load), ("free", onnx.load), (None, ours), ("free", ours), ("fixed.bin", ours)],
    ids=["inside-onnx", "free-name-onnx", "inside", "free-name", "fixed-name"],
)
def test_readers_during_saves(
    quick_path: Path, name: str | None, read: Callable[[Path], onnx.ModelProto], nightly: bool
) -> None:
    """Two readers load without a pause during 50 saves (500 with ``--nightly``): no mixture, no fragment.

    A reader that has read the old model may find that its data are gone: that is an error (onnx has three
    kinds), and no mixture.
    onnx cannot notice that data under a fixed name were replaced after it read the model; we can.
    """
    path = quick_path / "m.onnx"
    write_scaled(path, 1, None)

    def reader() -> str:
        loads = gone = 0
        while not (quick_path / "stop").exists():
            try:
                whole_scale(read(path))
                loads += 1
            except (FileNotFoundError, onnx.checker.ValidationError, RuntimeError, SourceChangedError):
                gone += 1
        return f"{loads} {gone}"

    children = [Child(reader) for _ in range(2)]
    for scale in range(1, 501 if nightly else 51):
        write_scaled(path, scale, f"{scale}.bin" if name == "free" else name)
    (quick_path / "stop").touch()
    ended = [child.wait().text for child in children]
    assert all(text.replace(" ", "").isdigit() for text in ended), ended
    loads, gone = (sum(int(text.split()[at]) for text in ended) for at in (0, 1))
    assert loads > 10
    assert name is not None or gone == 0


# ---- outputs that are no files


def a_socket(path: Path) -> None:
    with contextlib.chdir(path.parent) if sys.version_info >= (3, 11) else contextlib.nullcontext():
        socket.socket(socket.AF_UNIX).bind(path.name)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, a_socket], ids=["folder", "fifo", "socket"])
@pytest.mark.parametrize("source", ["m.onnx", "missing.onnx"])
def test_an_output_that_is_no_file_is_refused(
    tmp_path: Path, make: Callable[[Path], object], source: str
) -> None:
    old_pair(tmp_path / "pair")
    make(tmp_path / "out.onnx")
    command = [sys.executable, "-m", "onnx_inline", "inline", f"pair/{source}", "out.onnx", "--force"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 2
    assert "\nhint: " in done.stderr
    assert names(tmp_path) == ["out.onnx", "pair"]


def test_a_device_as_output_is_refused() -> None:
    for device in ("/dev/full", "/dev/null"):
        with pytest.raises(FileError, match="is a device, not a file"):
            save_proto(model_with(weights()), device)


def test_a_disk_that_can_only_be_read(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "tmpfs") as disk:
        old_pair(disk / "pair")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(WriteError, match="Read-only file system"):
            save_proto(load_proto(disk / "pair" / "m.onnx"), disk / "pair" / "m.onnx", external="copy")
        assert state(disk / "pair") == "old"


@needs_fork
def test_a_folder_that_others_own(quick_path: Path) -> None:
    old_pair(quick_path / "pair")
    for folder in (quick_path, quick_path / "pair"):
        folder.chmod(0o555)
    save = large(quick_path / "pair", True)

    def as_nobody() -> None:
        if not os.getuid():
            os.setuid(65534)
        save()

    ended = in_child(as_nobody)
    for folder in (quick_path, quick_path / "pair"):
        folder.chmod(0o755)
    assert ended.text.startswith("WriteError")
    assert "Permission denied" in ended.text
    assert "a folder that you may write to" in ended.text
    assert names(quick_path / "pair") == ["m.onnx", "w.bin"]


@needs_fork
def test_a_read_that_is_killed_leaves_nothing(quick_path: Path) -> None:
    old_pair(quick_path / "pair")

    def read() -> None:
        load_proto(quick_path / "pair" / "m.onnx")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(read).signal == signal.SIGKILL
    assert names(quick_path / "pair") == ["m.onnx", "w.bin"]
    assert np.isfinite(values(quick_path / "pair" / "m.onnx")).all()
