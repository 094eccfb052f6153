"""What is left: models replaced while they are read, savers in each other's way, odd tensors, streams."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_inline import load, load_proto, save, save_proto
from onnx_inline.errors import ExternalDataError, FileError
from onnx_inline.files import data_files, detached, publish, skeleton, system, writer
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.writer import copy_model, write_model
from tests.files.models import WEIGHTS, external, model_with, names, values, weights, write_data, written


def old_and_new(folder: Path) -> Callable[[], None]:
    """Write a model with data; return what replaces both, as another process might."""
    write_data(folder, "old.bin")
    written(folder, model_with(external("old.bin")))

    def replace() -> None:
        write_data(folder, "new.bin", 2)
        written(folder, model_with(external("new.bin")), "new").replace(folder / "m.onnx")
        (folder / "old.bin").unlink(missing_ok=True)

    return replace


def while_read(patch: pytest.MonkeyPatch, happens: Callable[[], None], times: int) -> None:
    """Let something happen after a model file is read and before its data are looked for."""
    left = [times]
    real = skeleton.check_complete

    def check(model: onnx.ModelProto, path: str) -> None:
        real(model, path)
        if left[0]:
            left[0] -= 1
            happens()

    patch.setattr(skeleton, "check_complete", check)


def test_a_model_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_read(monkeypatch, old_and_new(tmp_path), 1)
    tensor = load(tmp_path / "m.onnx").graph.initializers["w"].const_value
    assert tensor is not None
    assert np.array_equal(tensor.numpy(), WEIGHTS * 2)


def test_a_model_replaced_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_read(monkeypatch, old_and_new(tmp_path), 1_000_000)
    with pytest.raises(FileError, match="faster than it can be read"):
        load_proto(tmp_path / "m.onnx")


def test_a_model_removed_while_it_is_read_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_and_new(tmp_path)
    while_read(monkeypatch, (tmp_path / "m.onnx").unlink, 1)
    with pytest.raises(FileError, match="No such file"):
        load_proto(tmp_path / "m.onnx")


def test_a_fixed_name_that_cannot_be_had_alone_is_left_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path)
    path = written(tmp_path, model_with(external()))
    monkeypatch.setattr(publish, "_PATIENCE", 2)
    folder = os.open(tmp_path, os.O_RDONLY)
    assert system.try_lock(folder)
    model = model_with(weights("w", 2))
    report = save_proto(model, path, external_data="w.bin", size_threshold_bytes=1)
    os.close(folder)
    assert report.data_path == str(tmp_path / "w.2.bin")
    assert "another process saves there" in report.notes[0]
    assert np.array_equal(values(path), WEIGHTS * 2)
    save_proto(model, path)
    assert names(tmp_path) == ["m.onnx"]


def test_data_that_are_gone_already_need_no_clean_up(tmp_path: Path) -> None:
    path = written(tmp_path, model_with(external("missing.bin")))
    save_proto(model_with(weights()), path)
    assert names(tmp_path) == ["m.onnx"]
    assert data_files.settle(str(tmp_path), "missing.bin")


def test_a_system_without_fchmod_saves_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, model_with(weights()))
    monkeypatch.delattr(os, "fchmod")
    save_proto(model_with(weights("w", 2)), path)
    assert np.array_equal(values(path), WEIGHTS * 2)


def test_tensors_of_all_sorts_are_looked_at(tmp_path: Path) -> None:
    sparse = helper.make_sparse_tensor(weights("values"), helper.make_tensor("i", 7, [6], range(6)), [9])
    sparse.values.dims[:] = [6]
    model = model_with(
        weights("n" * 200),
        weights(""),
        TensorProto(name="text", data_type=TensorProto.STRING, dims=[0]),
        TensorProto(name="one", data_type=TensorProto.STRING, dims=[1], string_data=[b"x"]),
    )
    model.graph.node.append(helper.make_node("Constant", [], ["c"], sparse_value=sparse))
    save_proto(load_proto(written(tmp_path, model)), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == model.SerializeToString()
    save_proto(model, tmp_path / "pair.onnx", external_data="d", size_threshold_bytes=1)
    saved = {t.name: t for t in onnx.load(tmp_path / "pair.onnx").graph.initializer}
    assert saved["one"].string_data == [b"x"]
    assert saved["n" * 200].raw_data == WEIGHTS.tobytes()


def test_a_graph_of_nodes_only_is_laid_out(tmp_path: Path) -> None:
    model = onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 18)])
    model.graph.node.append(helper.make_node("Abs", ["x"], ["y"]))
    nodes = onnx.GraphProto(node=[helper.make_node("Neg", ["x"], ["y"])]).SerializeToString()
    write_model(tmp_path / "m.onnx", model, nodes=[nodes])
    assert [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node] == ["Neg"]


def test_references_to_attributes_stay_when_tensors_are_external(tmp_path: Path) -> None:
    write_data(tmp_path)
    function = helper.make_function(
        "d", "f", [], ["c"], [helper.make_node("Constant", [], ["c"])], [helper.make_opsetid("", 18)], ["k"]
    )
    function.node[0].attribute.add(name="value", ref_attr_name="k", type=onnx.AttributeProto.TENSOR)
    model = load(written(tmp_path, model_with(external(), functions=(function,))))
    save(model, tmp_path / "out.onnx")
    saved = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert saved.functions[0].node[0].attribute[0].ref_attr_name == "k"


def test_what_protobuf_cannot_serialise_is_more_than_it_can() -> None:
    class Large:
        def SerializeToString(self) -> bytes:
            raise ValueError("exceeds maximum protobuf size of 2GB")

    assert detached.whole(Large()) is None  # type: ignore[arg-type] # a model of that size takes too long


def test_streams_are_refused_what_needs_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, model_with(weights()))
    for options in ({"external": "copy"}, {"external_data": "d"}):
        with pytest.raises(FileError, match="name an output file"):
            write_model("-", load_proto(path), **options)  # type: ignore[arg-type]
    with pytest.raises(ExternalDataError):
        copy_model(tmp_path / "out.onnx", read_skeleton(path), external_data="../d")
    with (tmp_path / "stream").open("wb") as stream:
        monkeypatch.setattr(writer.sys, "stdout", stream)
        copy_model("-", read_skeleton(path))
    assert (tmp_path / "stream").read_bytes() == path.read_bytes()


def test_standard_input_is_read_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, model_with(weights()))
    with path.open("rb") as file:
        monkeypatch.setattr(skeleton.sys, "stdin", SimpleNamespace(buffer=file))
        save_proto(load_proto("-"), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == path.read_bytes()


def test_the_data_of_attributes_of_another_library_are_kept_by_name(tmp_path: Path) -> None:
    """onnx_ir tells the place of its external tensors for initializers only."""
    write_data(tmp_path)
    model = model_with()
    model.graph.node.append(helper.make_node("Constant", [], ["c"]))
    model.graph.node[-1].attribute.append(helper.make_attribute("value", external()))
    save(ir.load(written(tmp_path, model)), tmp_path / "out.onnx")
    saved = onnx.load(tmp_path / "out.onnx")
    assert saved.graph.node[-1].attribute[0].t.raw_data == WEIGHTS.tobytes()
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ExternalDataError, match="put the data file beside the model"):
        save(ir.load(tmp_path / "m.onnx"), tmp_path / "elsewhere" / "m.onnx")
    assert names(tmp_path / "elsewhere") == []
