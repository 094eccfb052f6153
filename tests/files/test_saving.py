"""Saving: where the data go, what stays untouched, and that nothing is lost on the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_inline import load, load_proto, save, save_proto
from onnx_inline.errors import (
    ExternalDataError,
    FileError,
    SourceChangedError,
    UnboundInitializersError,
    WriteError,
)
from onnx_inline.files import detached, plan, publish, system
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.writer import copy_model, write_model
from tests.files.models import WEIGHTS, external, model_with, names, values, weights, write_data, written

pytestmark = pytest.mark.usefixtures("reader")


def pair(folder: Path, name: str = "m.onnx", data: str = "w.bin", scale: float = 1) -> Path:
    """Write a model with external data."""
    write_data(folder, data, scale)
    return written(folder, model_with(external(data)), name)


# ---- inside


def test_what_was_read_is_written_as_protobuf_writes_it(tmp_path: Path) -> None:
    model = model_with(weights(), weights("v", 2))
    save_proto(load_proto(written(tmp_path, model)), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()
    assert names(tmp_path) == ["m.onnx", "out.onnx"]


def test_nodes_given_as_bytes_take_the_place_of_the_models_own(tmp_path: Path) -> None:
    model = model_with(weights())
    nodes = onnx.GraphProto(node=[helper.make_node("Neg", ["x"], ["y"])]).SerializeToString()
    skeleton = read_skeleton(written(tmp_path, model))
    write_model(tmp_path / "out.onnx", skeleton.model, nodes=[nodes, nodes], source=skeleton)
    del model.graph.node[:]
    model.graph.node.extend([helper.make_node("Neg", ["x"], ["y"])] * 2)
    assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()


def constant_model(tensor: TensorProto) -> onnx.ModelProto:
    model = model_with()
    model.graph.node.append(helper.make_node("Constant", [], ["c"]))
    model.graph.node[-1].attribute.append(helper.make_attribute("value", tensor))
    return model


def test_references_in_nodes_given_as_bytes_are_replaced_too(tmp_path: Path) -> None:
    write_data(tmp_path)
    for tensor in (weights(), external()):
        model = constant_model(tensor)
        skeleton = read_skeleton(written(tmp_path, model))
        chunks = [onnx.GraphProto(node=[node]).SerializeToString() for node in skeleton.model.graph.node]
        write_model(tmp_path / "out.onnx", skeleton.model, nodes=chunks, source=skeleton)
        assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()


def test_tensors_everywhere_survive(tmp_path: Path) -> None:
    constant = constant_model(weights("a")).graph.node[-1]
    branch = helper.make_graph([constant], "b", [], [], [weights("in_branch")])
    model = model_with(
        weights(),
        functions=(helper.make_function("d", "f", [], ["c"], [constant], [helper.make_opsetid("", 18)]),),
    )
    model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch))
    model.graph.sparse_initializer.add(
        values=helper.make_tensor("s", TensorProto.FLOAT, [4], [1.0, 2, 3, 4]),
        indices=helper.make_tensor("i", TensorProto.INT64, [4], [1, 2, 3, 4]),
        dims=[9],
    )
    model.training_info.add().initialization.CopyFrom(
        helper.make_graph([], "t", [], [], [weights("trained")])
    )
    model.graph.initializer.add(name="typed", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2, 3])
    model.graph.initializer.append(weights("explicit"))
    model.graph.initializer[-1].data_location = TensorProto.DEFAULT
    save_proto(load_proto(written(tmp_path, model)), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()


def test_a_model_is_saved_over_the_file_it_came_from_any_number_of_times(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(weights()))
    expected = path.read_bytes()
    model = load_proto(path)
    for _ in range(3):
        save_proto(model, path)
        assert path.read_bytes() == expected
    lazy = load(path)
    for _ in range(3):
        save(lazy, path)
        assert np.array_equal(values(path), WEIGHTS)
    assert names(tmp_path) == ["m.onnx"]


def test_a_model_without_changes_is_copied_byte_for_byte(tmp_path: Path) -> None:
    odd = b"\x08\x8a\x80\0" + model_with(weights()).SerializeToString()[2:]
    (tmp_path / "m.onnx").write_bytes(odd)
    report = copy_model(tmp_path / "out.onnx", read_skeleton(tmp_path / "m.onnx"))
    assert (tmp_path / "out.onnx").read_bytes() == odd
    assert report.size == len(odd)
    copy_model(tmp_path / "m.onnx", read_skeleton(tmp_path / "m.onnx"))
    assert (tmp_path / "m.onnx").read_bytes() == odd


def test_permissions_stay_and_a_new_file_gets_the_usual_ones(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(weights()))
    path.chmod(0o640)
    save_proto(load_proto(path), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    save_proto(load_proto(path), tmp_path / "out.onnx")
    (tmp_path / "usual").touch()
    assert (tmp_path / "out.onnx").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_an_output_that_is_a_link_stays_one_and_its_target_is_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(weights()))
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    save_proto(model_with(weights("w", 3)), tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink()
    assert np.array_equal(values(path), WEIGHTS * 3)


def test_an_output_that_is_a_second_name_of_the_input_leaves_the_input_alone(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(weights()))
    (tmp_path / "second.onnx").hardlink_to(path)
    before = path.read_bytes()
    save_proto(model_with(weights("w", 3)), tmp_path / "second.onnx")
    assert path.read_bytes() == before
    assert np.array_equal(values(tmp_path / "second.onnx"), WEIGHTS * 3)


def test_names_of_255_bytes_are_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".onnx")
    save_proto(model_with(weights()), path)
    save_proto(model_with(weights()), path, external_data="d", size_threshold_bytes=0)
    (tmp_path / "in").mkdir()
    save_proto(load_proto(path), tmp_path / "in" / path.name)
    assert np.array_equal(values(tmp_path / "in" / path.name), WEIGHTS)


@pytest.mark.parametrize("suffix", [".onnxtxt", ".textproto", ".json", ".onnx"])
def test_the_text_forms_are_written_and_read_by_suffix(tmp_path: Path, suffix: str) -> None:
    model = load_proto(written(tmp_path, model_with(weights())))
    save_proto(model, tmp_path / f"out{suffix}")
    (tensor,) = load(tmp_path / f"out{suffix}").graph.initializers.values()
    assert tensor.const_value is not None
    assert np.array_equal(tensor.const_value.numpy(), WEIGHTS)
    read = load_proto(tmp_path / f"out{suffix}")
    assert [node.op_type for node in read.graph.node] == ["Add", "Identity"]


# ---- refusals


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_an_output_that_is_no_file_is_refused_before_any_work(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "out")
    with pytest.raises(FileError, match="not a file"):
        save_proto(model_with(weights()), tmp_path / "out")
    assert names(tmp_path) == ["out"]


def test_an_output_in_no_folder_is_refused(tmp_path: Path) -> None:
    for name in ("missing/out.onnx", "file/out.onnx", "a\0b"):
        (tmp_path / "file").touch()
        with pytest.raises(FileError):
            save_proto(model_with(weights()), tmp_path / name)


def test_a_file_that_exists_is_replaced_by_force_only(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(weights()))
    skeleton = read_skeleton(path)
    write_model(path, skeleton.model, source=skeleton, force=False)
    (tmp_path / "other.onnx").write_bytes(b"precious")
    with pytest.raises(FileError, match="exists already"):
        write_model(tmp_path / "other.onnx", skeleton.model, source=skeleton, force=False)
    assert (tmp_path / "other.onnx").read_bytes() == b"precious"


def test_a_model_with_unbound_initializers_is_refused(tmp_path: Path) -> None:
    model = model_with(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3]))
    with pytest.raises(UnboundInitializersError, match="bind"):
        save_proto(model, tmp_path / "out.onnx")
    with pytest.raises(UnboundInitializersError, match="bind"):
        save(ir.serde.deserialize_model(model), tmp_path / "out.onnx")
    assert names(tmp_path) == []


def large_pair(folder: Path) -> Path:
    path = pair(folder)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer.append(weights("v"))
    return written(folder, model)


@pytest.mark.parametrize("changed", ["m.onnx", "w.bin"])
def test_a_file_that_changed_since_it_was_read_is_noticed(tmp_path: Path, changed: str) -> None:
    skeleton = read_skeleton(large_pair(tmp_path))
    (tmp_path / "out.onnx").write_bytes(b"old")
    (tmp_path / changed).write_bytes(bytes(range(24)) * 30)
    with pytest.raises(SourceChangedError, match=changed):
        write_model(tmp_path / "out.onnx", skeleton.model, source=skeleton, external="inline")
    (tmp_path / changed).unlink()
    with pytest.raises(SourceChangedError, match="gone"):
        write_model(tmp_path / "out.onnx", skeleton.model, source=skeleton, external="inline")
    assert (tmp_path / "out.onnx").read_bytes() == b"old"
    assert [name for name in names(tmp_path) if name.startswith(".")] == []


def test_a_stamp_in_a_file_is_refused(tmp_path: Path) -> None:
    path = pair(tmp_path)
    (tmp_path / "copy.onnx").write_bytes(load_proto(path).SerializeToString())
    with pytest.raises(FileError, match="save_proto"):
        load_proto(tmp_path / "copy.onnx")


# ---- external data stay, follow, go inside


def test_in_the_same_folder_the_data_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    path = pair(tmp_path)
    before = path.read_bytes()
    (tmp_path / "w.bin").chmod(0)
    status = (tmp_path / "w.bin").stat()
    for target in (path, tmp_path / "other.onnx"):
        report = save_proto(load_proto(path), target)
        assert target.read_bytes() == before
        assert report.data_path is None
    after = (tmp_path / "w.bin").stat()
    assert (after.st_mtime_ns, after.st_atime_ns, after.st_ino) == (
        status.st_mtime_ns,
        status.st_atime_ns,
        status.st_ino,
    )


def test_into_another_folder_the_data_follow_under_a_free_name(tmp_path: Path) -> None:
    path = pair(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "m.onnx.data").write_bytes(b"precious")
    report = save_proto(load_proto(path), tmp_path / "out" / "m.onnx")
    assert report.data_path == str(tmp_path / "out" / "m.onnx.2.data")
    assert "copied" in report.notes[0]
    assert np.array_equal(values(tmp_path / "out" / "m.onnx"), WEIGHTS)
    assert (tmp_path / "out" / "m.onnx.data").read_bytes() == b"precious"


def test_external_data_are_kept_by_reference_or_put_inside_on_request(tmp_path: Path) -> None:
    path = pair(tmp_path)
    (tmp_path / "out").mkdir()
    save_proto(load_proto(path), tmp_path / "out" / "kept.onnx", external="keep")
    save_proto(load_proto(path), tmp_path / "out" / "inside.onnx", external="inline")
    assert names(tmp_path / "out") == ["inside.onnx", "kept.onnx"]
    assert np.array_equal(values(tmp_path / "out" / "inside.onnx"), WEIGHTS)
    assert (tmp_path / "out" / "kept.onnx").read_bytes() == path.read_bytes()
    save_proto(load_proto(path), tmp_path / "copy.onnx", external="copy")
    assert np.array_equal(values(tmp_path / "copy.onnx"), WEIGHTS)
    assert names(tmp_path) == ["copy.onnx", "copy.onnx.data", "m.onnx", "out", "w.bin"]


def test_linked_data_are_copied_where_a_reader_would_refuse_the_link(tmp_path: Path) -> None:
    for folder in ("blobs", "snapshot"):
        (tmp_path / folder).mkdir()
    written(tmp_path / "blobs", model_with(external()), "abc")
    write_data(tmp_path / "blobs", "def")
    (tmp_path / "snapshot" / "m.onnx").symlink_to("../blobs/abc")
    (tmp_path / "snapshot" / "w.bin").symlink_to("../blobs/def")
    report = save_proto(load_proto(tmp_path / "snapshot" / "m.onnx"), tmp_path / "snapshot" / "out.onnx")
    assert report.data_path == str(tmp_path / "snapshot" / "out.onnx.data")
    assert np.array_equal(values(tmp_path / "snapshot" / "out.onnx"), WEIGHTS)


def test_two_tensors_in_the_same_bytes_are_copied_once(tmp_path: Path) -> None:
    write_data(tmp_path)
    path = written(tmp_path, model_with(external(), external(name="v")))
    (tmp_path / "out").mkdir()
    assert save_proto(load_proto(path), tmp_path / "out" / "m.onnx").data_size == 24


def test_two_models_that_share_a_data_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    a, b = pair(tmp_path, "a.onnx"), pair(tmp_path, "b.onnx")
    for _ in range(3):
        save_proto(load_proto(a), a, external="copy")
    save_proto(load_proto(a), a, external="inline")
    assert np.array_equal(values(a), WEIGHTS)
    assert np.array_equal(values(b), WEIGHTS)
    assert names(tmp_path) == ["a.onnx", "b.onnx", "w.bin"]


def test_data_that_no_model_names_any_more_are_removed(tmp_path: Path) -> None:
    path = pair(tmp_path)
    (tmp_path / "notes.txt").touch()
    save_proto(load_proto(path), path, external="inline")
    assert names(tmp_path) == ["m.onnx", "notes.txt"]


# ---- a data file is made


def test_initializers_of_the_threshold_and_more_go_into_the_data_file(tmp_path: Path) -> None:
    model = model_with(weights(), weights("v", 2), raw_bytes("small", 4))
    report = save_proto(model, tmp_path / "m.onnx", external_data="d.bin", size_threshold_bytes=5)
    assert names(tmp_path) == ["d.bin", "m.onnx"]
    assert (report.data_path, report.data_size) == (str(tmp_path / "d.bin"), 64 + 24)
    saved = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert [len(t.external_data) for t in saved.graph.initializer] == [3, 3, 0]
    assert np.array_equal(values(tmp_path / "m.onnx", "v"), WEIGHTS * 2)


def raw_bytes(name: str, count: int) -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.UINT8, dims=[count], raw_data=bytes(count))


def test_typed_floats_go_into_the_data_file_and_typed_integers_stay(tmp_path: Path) -> None:
    floats = TensorProto(name="f", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2, 3])
    integers = TensorProto(name="i", data_type=TensorProto.INT64, dims=[3], int64_data=[1, 2, 3])
    path = written(tmp_path, model_with(floats, integers))
    save_proto(load_proto(path), path, external_data="d.bin", size_threshold_bytes=1)
    assert (tmp_path / "d.bin").read_bytes() == np.array([1, 2, 3], np.float32).tobytes()
    assert values(path, "f").tolist() == values(path, "i").tolist() == [1, 2, 3]


def test_no_data_file_is_made_when_nothing_goes_into_it(tmp_path: Path) -> None:
    model = model_with(raw_bytes("small", 4), raw_bytes("empty", 0))
    for threshold in (1024, 5):
        save_proto(model, tmp_path / "m.onnx", external_data="d.bin", size_threshold_bytes=threshold)
        assert names(tmp_path) == ["m.onnx"]


def test_a_fixed_data_name_is_used_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for scale in range(1, 4):
        save_proto(model_with(weights("w", scale)), path, external_data="d.bin", size_threshold_bytes=1)
        assert names(tmp_path) == ["d.bin", "m.onnx"]
        assert np.array_equal(values(path), WEIGHTS * scale)


def test_a_model_is_saved_over_its_own_data_any_number_of_times(tmp_path: Path) -> None:
    path = pair(tmp_path)
    model, lazy = load_proto(path), load(path)
    lazy.graph.register_initializer(
        ir.Value(name="more", const_value=ir.tensor(np.full(500, 7, np.float32), name="more"))
    )
    for _ in range(3):
        save_proto(model, path, external_data="w.bin", size_threshold_bytes=1, external="copy")
        assert np.array_equal(values(path), WEIGHTS)
        save(lazy, path, external_data="w.bin", size_threshold_bytes=1)
        assert np.array_equal(values(path), WEIGHTS)
        assert values(path, "more").tolist() == [7] * 500
        assert names(tmp_path) == ["m.onnx", "w.bin"]


def test_data_already_under_the_name_asked_for_are_left_alone(tmp_path: Path) -> None:
    path = pair(tmp_path)
    before = (tmp_path / "w.bin").stat()
    save_proto(load_proto(path), path, external_data="w.bin", size_threshold_bytes=1)
    assert (tmp_path / "w.bin").stat().st_ino == before.st_ino


@pytest.mark.parametrize("name", ["", ".", "..", "../d", "/d", "sub/d", "a\\b", "c:d", "m.onnx"])
def test_a_data_name_that_is_no_name_in_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(ExternalDataError):
        save_proto(model_with(weights()), tmp_path / "m.onnx", external_data=name, size_threshold_bytes=1)
    assert names(tmp_path) == ["sub"]


def test_the_data_of_another_model_are_never_overwritten(tmp_path: Path) -> None:
    pair(tmp_path, "other.onnx", "d.bin")
    pair(tmp_path, "m.onnx", "d.bin")
    with pytest.raises(ExternalDataError, match=r"other\.onnx"):
        save_proto(
            model_with(weights("w", 5)), tmp_path / "m.onnx", external_data="d.bin", size_threshold_bytes=1
        )
    assert np.array_equal(values(tmp_path / "other.onnx"), WEIGHTS)


def test_a_planted_link_is_never_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "d.bin").symlink_to("../victim")
    (tmp_path / "out" / "m.onnx.data").symlink_to("../victim")
    with pytest.raises(ExternalDataError, match="is a link"):
        save_proto(
            model_with(weights()), tmp_path / "out" / "m.onnx", external_data="d.bin", size_threshold_bytes=1
        )
    assert names(tmp_path / "out") == ["d.bin", "m.onnx.data"]
    save_proto(load_proto(pair(tmp_path)), tmp_path / "out" / "m.onnx")
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_a_file_of_somebody_else_is_not_overwritten_by_data(tmp_path: Path) -> None:
    (tmp_path / "d.bin").write_bytes(b"precious")
    with pytest.raises(ExternalDataError, match="does not use it"):
        save_proto(model_with(weights()), tmp_path / "m.onnx", external_data="d.bin", size_threshold_bytes=1)
    (tmp_path / "d.bin").unlink()
    (tmp_path / "d.bin").mkdir()
    with pytest.raises(ExternalDataError, match="is no file"):
        save_proto(model_with(weights()), tmp_path / "m.onnx", external_data="d.bin", size_threshold_bytes=1)


def test_a_result_over_the_limit_goes_external_by_itself_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1000], raw_data=bytes(4000))
    path = written(tmp_path, model_with(big))
    monkeypatch.setattr(plan, "LIMIT", 2000)
    report = save_proto(load_proto(path), tmp_path / "out.onnx")
    assert report.data_path == str(tmp_path / "out.onnx.data")
    assert "2 GiB" in report.notes[0]
    assert not values(tmp_path / "out.onnx").any()
    monkeypatch.setattr(plan, "LIMIT", 100)
    with pytest.raises(FileError, match="2 GiB"):
        save_proto(load_proto(path), tmp_path / "small.onnx")
    assert names(tmp_path) == ["m.onnx", "out.onnx", "out.onnx.data"]


# ---- onnx_ir


def test_an_ir_model_made_in_memory_is_saved_and_stays_as_it_was(tmp_path: Path) -> None:
    model = ir.serde.deserialize_model(model_with(weights()))
    big = ir.tensor(np.arange(1000, dtype=np.float32), name="big")
    model.graph.register_initializer(ir.Value(name="big", const_value=big))
    save(model, tmp_path / "in.onnx")
    save(model, tmp_path / "out.onnx", external_data="d")
    assert names(tmp_path) == ["d", "in.onnx", "out.onnx"]
    assert model.graph.initializers["big"].const_value is big
    for name in ("in.onnx", "out.onnx"):
        assert np.array_equal(values(tmp_path / name, "big"), np.arange(1000, dtype=np.float32))
        assert np.array_equal(values(tmp_path / name), WEIGHTS)


def test_a_model_loaded_by_onnx_ir_is_saved_with_its_data(tmp_path: Path) -> None:
    model = ir.load(pair(tmp_path))
    (tmp_path / "out").mkdir()
    save(model, tmp_path / "out" / "m.onnx")
    assert np.array_equal(values(tmp_path / "out" / "m.onnx"), WEIGHTS)


def test_lazy_tensors_give_their_values(tmp_path: Path) -> None:
    fours = TensorProto(name="fours", data_type=TensorProto.INT4, dims=[31], raw_data=bytes(range(16)))
    floats = TensorProto(name="floats", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2, 3])
    path = written(tmp_path, model_with(weights(), fours, floats))
    expected = ir.load(path).graph.initializers
    for name, value in load(path).graph.initializers.items():
        tensor, known = value.const_value, expected[name].const_value
        assert tensor is not None
        assert known is not None
        assert np.array_equal(tensor.numpy(), known.numpy())
        assert tensor.tobytes() == known.tobytes()
        with (tmp_path / "file").open("wb") as file:
            tensor.tofile(file)
        assert (tmp_path / "file").read_bytes() == known.tobytes()


# ---- machines


def test_what_the_system_refuses_is_one_error_with_path_and_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(system, "sync", full)
    with pytest.raises(
        WriteError, match=r"out\.onnx.*No space left.*bytes are needed.*free some space"
    ) as caught:
        save_proto(model_with(weights()), tmp_path / "out.onnx")
    assert caught.value.errno == 28
    assert names(tmp_path) == []


def test_litter_of_the_dead_is_removed_and_that_of_the_living_is_not(tmp_path: Path) -> None:
    dead, alive, other = (tmp_path / f".onnx-inline-{n * 16}.tmp" for n in "0ab")
    dead.write_bytes(b"x")
    alive.write_bytes(b"x")
    other.symlink_to("alive")
    orphan, used = tmp_path / "orphan.data", tmp_path / "used.data"
    for final, number in ((orphan, "c"), (used, "d")):
        final.write_bytes(WEIGHTS.tobytes())
        (tmp_path / f".onnx-inline-{number * 16}{publish.tag_of(final.stat())}.tmp").touch()
    written(tmp_path, model_with(external("used.data")), "uses.onnx")
    descriptor = os.open(alive, os.O_RDWR)
    assert system.try_lock(descriptor)
    save_proto(model_with(weights()), tmp_path / "out.onnx")
    os.close(descriptor)
    assert names(tmp_path) == [alive.name, other.name, "out.onnx", "used.data", "uses.onnx"]


# ---- more than protobuf holds


def test_a_model_over_2_gib_in_memory_is_saved_with_its_data_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = TensorProto(name="big", data_type=TensorProto.UINT8, dims=[4000], raw_data=bytes(range(250)) * 16)
    model = model_with(weights(), big)
    too_large = model.SerializeToString()

    def whole(proto: onnx.ModelProto) -> bytes | None:
        data = proto.SerializeToString()
        return None if len(data) >= len(too_large) else data

    monkeypatch.setattr(detached, "whole", whole)
    save_proto(model, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == too_large
    monkeypatch.setattr(plan, "LIMIT", 2000)
    save_proto(model, tmp_path / "m.onnx")
    assert values(tmp_path / "m.onnx", "big").tobytes() == big.raw_data
    assert np.array_equal(values(tmp_path / "m.onnx"), WEIGHTS)
    unknown = onnx.ModelProto.FromString(too_large + b"\xd8\x06\x07")
    with pytest.raises(FileError, match="would be lost"):
        save_proto(unknown, tmp_path / "out.onnx")
    documented = model_with()
    documented.doc_string = "x" * 5000
    with pytest.raises(FileError, match="even without its initializers"):
        save_proto(documented, tmp_path / "out.onnx")
