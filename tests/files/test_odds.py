"""What happens rarely: other kernels, other processes, races, odd models."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_inline import load, load_proto, save, save_proto
from onnx_inline.errors import ExternalDataError, FileError, WriteError
from onnx_inline.files import data_files, publish, skeleton, sources, spool, system, writer
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.writer import copy_model, write_model
from tests.files.models import WEIGHTS, external, model_with, names, values, weights, write_data, written


def failing(number: int) -> Any:
    def call(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


# ---- copying


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat small files as large ones."""
    for module, name, value in (
        (skeleton, "WHOLE", 0),
        (publish, "_RESERVED_FROM", 0),
        (publish, "_FLUSHED_FROM", 0),
        (publish, "_FLUSHED", 1000),
    ):
        monkeypatch.setattr(module, name, value)


def big_model() -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[5000], raw_data=bytes(range(250)) * 20)
    return model_with(tensor)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("missing", [[], ["copy_file_range"], ["copy_file_range", "sendfile"]])
@pytest.mark.parametrize("reserve", [True, False])
def test_ranges_are_copied_whatever_the_kernel_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: list[str], reserve: bool
) -> None:
    for name in missing:
        monkeypatch.setattr(os, name, failing(errno.ENOSYS))
    if not reserve:
        monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    model = big_model()
    save_proto(load_proto(written(tmp_path, model)), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()


@pytest.mark.usefixtures("large")
def test_a_system_that_has_no_such_calls_copies_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "copy_file_range")
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(system.sys, "platform", "darwin")
    model = big_model()
    save_proto(load_proto(written(tmp_path, model)), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("call", ["copy_file_range", "sendfile", "posix_fallocate", "fdatasync", "fsync"])
def test_a_disk_that_fails_while_copying_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = written(tmp_path, big_model())
    model = load_proto(path)
    monkeypatch.setattr(os, call, failing(errno.EIO))
    if call == "sendfile":
        monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    with pytest.raises(WriteError, match="Input/output error"):
        save_proto(model, tmp_path / "out.onnx")
    assert names(tmp_path) == ["m.onnx"]


@pytest.mark.usefixtures("large")
def test_a_system_without_threads_to_spare_saves_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(publish.threading.Thread, "start", no_thread)
    save_proto(load_proto(written(tmp_path, big_model())), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()


def test_writes_that_stay_short_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(descriptor: int, buffers: list[bytes]) -> int:
        return os.write(descriptor, b"".join(buffers)[:7])

    monkeypatch.setattr(os, "writev", short)
    nodes = [onnx.GraphProto(node=[helper.make_node("Neg", ["x"], ["y"])]).SerializeToString()] * 3000
    write_model(tmp_path / "out.onnx", model_with(weights()), nodes=nodes)
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) == 3000


def test_a_file_that_ends_early_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    source, target = (
        os.open(tmp_path / "file", os.O_RDONLY),
        os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT),
    )
    with pytest.raises(EOFError, match="byte 4, 6 more"):
        system.read_at(source, 0, 10)
    with pytest.raises(EOFError, match="byte 4, 6 more"):
        system.copy(source, 0, 10, target)
    os.close(source)
    os.close(target)


# ---- streams


def test_a_stream_is_put_into_a_file_without_a_name() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"data")
    os.close(writing)
    descriptor = spool.spooled(reading)
    assert system.read_at(descriptor, 0, 4) == b"data"
    os.close(reading)
    os.close(descriptor)


def test_a_model_is_written_to_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_data(tmp_path)
    read = read_skeleton(written(tmp_path, model_with(external())))
    plain = read_skeleton(written(tmp_path, model_with(weights()), "plain.onnx"))
    with (tmp_path / "stream").open("wb") as stream:
        monkeypatch.setattr(writer, "_stdout", stream.fileno)
        write_model("-", read.model)
        copy_model("-", plain)
        monkeypatch.setattr("onnx_inline.files.plan.LIMIT", 2000)
        with pytest.raises(FileError, match="name an output file"):
            write_model("-", big_model())
    expected = model_with(weights()).SerializeToString()
    found = (tmp_path / "stream").read_bytes()
    inside = onnx.ModelProto.FromString(found[: -len(expected)])
    assert inside.graph.initializer[0].raw_data == WEIGHTS.tobytes()
    assert found.endswith(expected)


# ---- models and processes


def test_data_of_a_model_made_elsewhere_are_looked_for_beside_the_output(tmp_path: Path) -> None:
    model = model_with(external())
    with pytest.raises(ExternalDataError, match="No such file"):
        save_proto(model, tmp_path / "m.onnx")
    save_proto(model, tmp_path / "kept.onnx", external="keep")
    write_data(tmp_path)
    save_proto(model, tmp_path / "m.onnx")
    assert np.array_equal(values(tmp_path / "m.onnx"), WEIGHTS)
    assert len(model.graph.initializer[0].external_data) == 1


def test_a_reference_that_another_process_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path)
    model = load_proto(written(tmp_path, model_with(external())))
    monkeypatch.setattr(sources, "_TOKEN", "another")
    with pytest.raises(FileError, match="only the process"):
        save_proto(model, tmp_path / "out.onnx")
    (tmp_path / "copy.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(skeleton, "STAMP_BYTES", b"another")
    with pytest.raises(FileError, match="only the process"):
        load_proto(tmp_path / "copy.onnx")


def test_a_checksum_follows_its_data(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / "out").mkdir()
    path = written(tmp_path, model_with(external(checksum="abc")))
    save_proto(load_proto(path), tmp_path / "out" / "m.onnx")
    saved = onnx.load(tmp_path / "out" / "m.onnx", load_external_data=False).graph.initializer[0]
    assert {entry.key: entry.value for entry in saved.external_data}["checksum"] == "abc"


def test_data_in_a_folder_below_are_read(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    write_data(tmp_path / "a" / "b")
    path = written(tmp_path, model_with(external("a/b/w.bin")))
    save_proto(load_proto(path), path, external="inline")
    assert np.array_equal(values(path), WEIGHTS)
    assert names(tmp_path / "a" / "b") == ["w.bin"]


def test_tensors_in_attributes_of_an_ir_model_stay_in_their_files(tmp_path: Path) -> None:
    write_data(tmp_path)
    model = model_with()
    for name, attribute in (("value", external()), ("several", [external(), weights()])):
        model.graph.node.append(helper.make_node("Constant", [], [name]))
        model.graph.node[-1].attribute.append(helper.make_attribute(name, attribute))
    model.graph.node.append(helper.make_node("Constant", [], ["plain"], value_int=1))
    lazy = load(written(tmp_path, model))
    constant = next(n for n in lazy.graph if "value" in n.attributes)
    held = constant.attributes["value"].value
    assert isinstance(held, ir.ExternalTensor)
    assert held.path == str(tmp_path / "w.bin")
    assert np.array_equal(held.numpy(), WEIGHTS)
    (tmp_path / "out").mkdir()
    save(lazy, tmp_path / "out" / "m.onnx", external="inline")
    saved = onnx.load(tmp_path / "out" / "m.onnx")
    assert [t.raw_data for t in saved.graph.node[2].attribute[0].tensors] == [WEIGHTS.tobytes()] * 2
    assert names(tmp_path / "out") == ["m.onnx"]


def test_an_empty_external_tensor_of_an_ir_model_has_no_values(tmp_path: Path) -> None:
    write_data(tmp_path)
    tensor = external(length=0)
    tensor.dims[:] = [0, 3]
    found = load(written(tmp_path, model_with(tensor))).graph.initializers["w"].const_value
    assert found is not None
    assert found.numpy().shape == (0, 3)


def test_a_tensor_that_gives_other_bytes_than_it_said_is_refused(tmp_path: Path) -> None:
    lying = sources.Memory(5, lambda: b"four")
    with pytest.raises(FileError, match="5 bytes gave 4"):
        publish.made(lying)


def test_two_files_of_data_become_one(tmp_path: Path) -> None:
    write_data(tmp_path)
    path = written(tmp_path, model_with(external(), weights("v", 2)))
    save_proto(load_proto(path), path, external_data="w.bin", size_threshold_bytes=1)
    assert names(tmp_path) == ["m.onnx", "w.bin"]
    assert np.array_equal(values(path), WEIGHTS)
    assert np.array_equal(values(path, "v"), WEIGHTS * 2)


def test_a_text_form_with_a_data_file_is_written(tmp_path: Path) -> None:
    save_proto(model_with(weights()), tmp_path / "m.textproto", external_data="d", size_threshold_bytes=1)
    assert "external_data" in (tmp_path / "m.textproto").read_text()
    assert np.array_equal(load(tmp_path / "m.textproto").graph.initializers["w"].const_value.numpy(), WEIGHTS)
    assert data_files.users(str(tmp_path), "d") == ["m.textproto"]


# ---- races and faults


def test_a_damaged_model_keeps_the_data_that_it_mentions(tmp_path: Path) -> None:
    write_data(tmp_path)
    path = written(tmp_path, model_with(external()))
    (tmp_path / "damaged.onnx").write_bytes(path.read_bytes()[:-1])
    os.mkfifo(tmp_path / "fifo.onnx")
    save_proto(load_proto(path), path, external="inline")
    assert "w.bin" in names(tmp_path)
    (tmp_path / "damaged.onnx").write_bytes(b"nothing")
    assert data_files.users(str(tmp_path), "w.bin") == []


def test_a_saver_that_is_not_alone_leaves_the_clean_up_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path)
    path = written(tmp_path, model_with(external()))
    (tmp_path / f".onnx-inline-{'0' * 16}.tmp").touch()
    monkeypatch.setattr(publish, "_PATIENCE", 2)
    folder = os.open(tmp_path, os.O_RDONLY)
    assert system.try_lock(folder)
    save_proto(load_proto(path), path, external="inline")
    left = [name for name in names(tmp_path) if not name.startswith(".")]
    assert left == ["m.onnx", "w.bin"]
    os.close(folder)
    save_proto(load_proto(path), path)
    assert names(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(system, "link", failing(number))
    for scale in (1, 2):
        save_proto(
            model_with(weights("w", scale)), tmp_path / "m.onnx", external_data="d", size_threshold_bytes=1
        )
        assert np.array_equal(values(tmp_path / "m.onnx"), WEIGHTS * scale)
        assert names(tmp_path) == ["d", "m.onnx"]


def test_a_name_that_is_taken_at_the_last_moment_is_left_to_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(_: str, target: str) -> None:
        raise FileExistsError(target)

    monkeypatch.setattr(system, "link", taken)
    with pytest.raises(ExternalDataError, match="just now"):
        save_proto(model_with(weights()), tmp_path / "m.onnx", external_data="d", size_threshold_bytes=1)
    assert names(tmp_path) == []


def test_a_temporary_file_taken_for_litter_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False])
    real = system.try_lock
    monkeypatch.setattr(
        system, "try_lock", lambda descriptor: next(answers, None) is None and real(descriptor)
    )
    save_proto(model_with(weights()), tmp_path / "m.onnx")
    assert names(tmp_path) == ["m.onnx"]


def test_a_mark_that_is_not_locked_yet_does_not_cost_the_data_that_it_tells_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making a mark and locking it, another saver cleans up and takes it for that of a dead one."""
    cleaned: list[str] = []

    def create(path: str, mode: int) -> int:
        descriptor = real(path, mode)
        if Path(path).name.count("-") == 4 and not cleaned:
            cleaned.append(path)
            data_files.clean([str(tmp_path)])
        return descriptor

    real = system.create
    monkeypatch.setattr(system, "create", create)
    save_proto(model_with(weights()), tmp_path / "m.onnx", external_data="d", size_threshold_bytes=1)
    assert cleaned
    assert np.array_equal(values(tmp_path / "m.onnx"), WEIGHTS)
    assert names(tmp_path) == ["d", "m.onnx"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO])
def test_a_file_system_without_locks_will_do_and_one_that_fails_will_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(system.fcntl, "flock", failing(number))
    if number == errno.ENOLCK:
        save_proto(model_with(weights()), tmp_path / "m.onnx")
    else:
        with pytest.raises(WriteError):
            save_proto(model_with(weights()), tmp_path / "m.onnx")
        assert names(tmp_path) == []


def test_what_goes_wrong_while_reading_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, model_with(weights()))
    monkeypatch.setattr(system, "read_at", failing(errno.EIO))
    with pytest.raises(FileError, match="Input/output error"):
        load_proto(path)

    def no_memory(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(system, "read_at", no_memory)
    with pytest.raises(FileError, match="memory"):
        load_proto(path)


def test_a_format_that_onnx_does_not_know_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(weights()))
    load_proto(path.rename(tmp_path / "model"), input_format="onnx")
    with pytest.raises(FileError, match="'xml' is no format"):
        load_proto(tmp_path / "model", input_format="xml")
