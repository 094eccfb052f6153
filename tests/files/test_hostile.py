"""Files that are wrong, by accident or on purpose: each gets one clear error; what is only odd is read."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from onnx_inline import load, load_proto
from onnx_inline.errors import ExternalDataError, FileError, NotAModelError, TensorDataError
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.wire import encode_varint, fields, header
from tests.files.models import WEIGHTS, external, model_with, weights, write_data, written

pytestmark = pytest.mark.usefixtures("reader")


def refused(path: Path, kind: type[FileError], *words: str) -> FileError:
    """Check that reading a file is refused at once, naming the file and what is asked for."""
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(kind) as caught:
        load_proto(path)
    assert time.perf_counter() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    for word in (str(path), *words):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


# ---- location


def test_external_data_beside_the_model_are_read(tmp_path: Path) -> None:
    write_data(tmp_path)
    path = written(tmp_path, model_with(external(offset=0, length=24)))
    assert np.array_equal(tensor_of(path), WEIGHTS)


def tensor_of(path: Path) -> np.ndarray:
    tensor = load(path).graph.initializers["w"].const_value
    assert tensor is not None
    return tensor.numpy()


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../w.bin",
        "sub/../../w.bin",
        "sub/../w.bin",
        "..",
        "..\\w.bin",
        "sub\\w.bin",
        "\\\\server\\share\\w.bin",
        "//server/share",
        "C:w.bin",
        "C:/w.bin",
        "w\0.bin",
        "",
        None,
        "w" * (1 << 20),
        "w" * 300,
        "missing.bin",
        ".",
        "sub",
        "sub/",
        "m.onnx",
        "./m.onnx",
        "w.bin/",
        "w.bin/w.bin",
    ],
)
def test_a_location_outside_the_folder_or_of_no_file_is_refused(tmp_path: Path, location: str | None) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    write_data(tmp_path)
    write_data(tmp_path / "in")
    path = written(tmp_path / "in", model_with(external(location)))
    error = refused(path, ExternalDataError, "'w'")
    assert (error.path, error.tensor, error.field) == (str(path), "w", "external_data.location")
    assert len(str(error)) < 1000


def test_a_location_in_a_branch_or_a_function_is_checked_as_well(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute("value", external("../x", name="inner")))
    branch = helper.make_graph([constant], "b", [], [])
    model = model_with(weights())
    model.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch))
    refused(written(tmp_path, model), ExternalDataError, "'inner'")
    function = helper.make_function("d", "f", [], ["c"], [constant], [helper.make_opsetid("", 18)])
    refused(written(tmp_path, model_with(functions=(function,))), ExternalDataError, "'inner'")


def test_a_link_to_a_file_in_the_same_folder_is_read(tmp_path: Path) -> None:
    write_data(tmp_path, "real.bin")
    (tmp_path / "w.bin").symlink_to("real.bin")
    assert np.array_equal(tensor_of(written(tmp_path, model_with(external()))), WEIGHTS)


def test_a_second_name_of_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").hardlink_to(write_data(tmp_path, "other.bin"))
    assert np.array_equal(tensor_of(written(tmp_path, model_with(external()))), WEIGHTS)


def test_a_download_cache_of_links_into_one_folder_is_read(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    written(blobs, model_with(external()), "abc")
    write_data(blobs, "def")
    (snapshot / "model.onnx").symlink_to("../../blobs/abc")
    (snapshot / "w.bin").symlink_to("../../blobs/def")
    assert np.array_equal(tensor_of(snapshot / "model.onnx"), WEIGHTS)


def test_a_link_out_of_the_folder_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "in" / "w.bin").symlink_to(write_data(tmp_path / "store"))
    path = written(tmp_path / "in", model_with(external()))
    refused(path, ExternalDataError, "leads out of the model's folder", "external_root")
    load_proto(path, external_root=str(tmp_path / "store"))


def test_links_that_lead_nowhere_or_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").symlink_to("w.bin")
    refused(written(tmp_path, model_with(external())), ExternalDataError, "w.bin")
    (tmp_path / "v.bin").symlink_to("nowhere")
    refused(written(tmp_path, model_with(external("v.bin"))), ExternalDataError, "v.bin")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, a_socket, zeros, Path.mkdir])
def test_what_is_no_file_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "w.bin")
    refused(written(tmp_path, model_with(external())), ExternalDataError, "'w'", "w.bin")
    make(tmp_path / "model.onnx")
    refused(tmp_path / "model.onnx", FileError)


# ---- range


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ({"offset": 4, "length": 24}, "length"),
        ({"offset": 25}, "length"),
        ({"offset": 1 << 62, "length": 24}, "length"),
        ({"offset": -1}, "offset"),
        ({"length": -1}, "length"),
        ({"length": 0}, "length"),
        ({"length": 20}, "length"),
        ({"length": 1 << 63}, "length"),
        ({"offset": "none"}, "offset"),
        ({"offset": ""}, "offset"),
        ({"offset": "0x0"}, "offset"),
        ({"offset": "0.0"}, "offset"),
        ({"offset": "+0"}, "offset"),
        ({"offset": " 0"}, "offset"),
        ({"offset": "0_0"}, "offset"),
        ({"offset": "٠"}, "offset"),
        ({"offset": "0\n"}, "offset"),
        ({"offset": "9" * 100_000}, "offset"),
        ({"length": "9" * 21}, "length"),
    ],
)
def test_a_range_that_is_not_in_the_file_is_refused(
    tmp_path: Path, entries: dict[str, str | int], field: str
) -> None:
    write_data(tmp_path)
    error = refused(written(tmp_path, model_with(external(**entries))), ExternalDataError, "'w'")
    assert error.field == f"external_data.{field}"


def test_an_entry_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    write_data(tmp_path)
    tensor = external()
    tensor.external_data.add(key="location", value="other.bin")
    refused(written(tmp_path, model_with(tensor)), FileError, "twice")


@pytest.mark.parametrize("entries", [{}, {"offset": 0}, {"length": 24}, {"offset": "00", "length": "024"}])
def test_offset_and_length_are_optional(tmp_path: Path, entries: dict[str, str | int]) -> None:
    write_data(tmp_path)
    assert np.array_equal(tensor_of(written(tmp_path, model_with(external(**entries)))), WEIGHTS)


def test_gigabytes_of_sparse_weights_are_never_read(tmp_path: Path) -> None:
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(8 << 30)
    tensor = external(offset=0, length=8 << 30)
    tensor.dims[:] = [2 << 30]
    start = time.perf_counter()
    assert load(written(tmp_path, model_with(tensor))).graph.initializers["w"].const_value.nbytes == 8 << 30
    assert time.perf_counter() - start < 2


# ---- shape


def raw(data: bytes, dims: list[int], data_type: int = TensorProto.FLOAT) -> TensorProto:
    return TensorProto(name="w", data_type=data_type, dims=dims, raw_data=data)


@pytest.mark.parametrize(
    "tensor",
    [
        raw(b"", [1 << 32, 1 << 32]),
        TensorProto(name="w", data_type=1, dims=[1 << 32, 1 << 32]),
        raw(b"", [1 << 62, 4]),
        raw(bytes(24), [2, 4]),
        raw(bytes(24), [5]),
        raw(bytes(24), [-6]),
        raw(bytes(24), [-2, -3]),
        raw(bytes(24), [6], 99),
        raw(bytes(24), [6], TensorProto.UNDEFINED),
        raw(bytes(24), [6], TensorProto.STRING),
        raw(bytes(4), [9], TensorProto.INT4),
        raw(bytes(24), [1] * 100_000 + [7]),
        TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[10**10], int32_data=[1]),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2]),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], double_data=[1, 2, 3]),
        TensorProto(name="w", data_type=TensorProto.COMPLEX64, dims=[3], float_data=[1, 2, 3]),
        TensorProto(name="w", data_type=TensorProto.STRING, dims=[3], string_data=[b"a"]),
        TensorProto(
            name="w", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2, 3], raw_data=bytes(12)
        ),
        TensorProto(name="w", data_type=TensorProto.INT64, dims=[1], int64_data=[1], float_data=[1]),
    ],
)
def test_data_that_do_not_fit_type_and_shape_are_refused(tmp_path: Path, tensor: TensorProto) -> None:
    error = refused(written(tmp_path, model_with(tensor)), TensorDataError, "'w'")
    assert error.tensor == "w"


def test_external_data_must_fit_the_shape_as_well(tmp_path: Path) -> None:
    write_data(tmp_path)
    for dims, data_type in (([1 << 32, 1 << 32], 1), ([2, 4], 1), ([6], 99), ([6], TensorProto.STRING)):
        tensor = external()
        tensor.dims[:] = dims
        tensor.data_type = data_type
        refused(written(tmp_path, model_with(tensor)), FileError, "'w'")
    tensor = external()
    tensor.raw_data = bytes(24)
    refused(written(tmp_path, model_with(tensor)), TensorDataError, "'w'", "at once")


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2, 3]),
        TensorProto(name="w", data_type=TensorProto.DOUBLE, dims=[3], double_data=[1, 2, 3]),
        TensorProto(name="w", data_type=TensorProto.INT64, dims=[3], int64_data=[1, 2, -3]),
        TensorProto(name="w", data_type=TensorProto.UINT32, dims=[3], uint64_data=[1, 2, 3]),
        TensorProto(name="w", data_type=TensorProto.INT8, dims=[3], int32_data=[1, 2, -3]),
        TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], int32_data=[0x21, 3]),
        TensorProto(name="w", data_type=TensorProto.COMPLEX64, dims=[1], float_data=[1, 2]),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[0], raw_data=b""),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[0, 5]),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[], raw_data=bytes(4)),
        TensorProto(name="w", data_type=TensorProto.INT4, dims=[17], raw_data=bytes(9)),
    ],
)
def test_typed_data_and_empty_tensors_are_read(tmp_path: Path, tensor: TensorProto) -> None:
    path = written(tmp_path, model_with(tensor))
    expected = ir.serde.TensorProtoTensor(tensor).numpy() if tensor.dims[:1] != [0] else None
    found = load(path).graph.initializers["w"].const_value
    assert found is not None
    if expected is not None:
        assert np.array_equal(found.numpy(), expected)


# ---- wire

GOOD = model_with(weights()).SerializeToString()


def with_extra(data: bytes) -> bytes:
    """Put bytes between the fields of the model, where they must be fields."""
    ends = [last for *_, last in fields(GOOD)]
    return GOOD[: ends[0]] + data + GOOD[ends[0] :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff" * 100,
        GOOD[:-1],
        GOOD[: len(GOOD) // 2],
        GOOD + b"\x80",
        with_extra(b"\x0f"),
        with_extra(b"\x0e"),
        with_extra(b"\x3a" + encode_varint(1 << 62)),
        with_extra(b"\x3a\xff\xff\xff\xff\x07"),
        with_extra(encode_varint(99 << 3 | 4)),
        with_extra(encode_varint(99 << 3 | 3)),
        with_extra(encode_varint(99 << 3 | 3) * 50_000),
        with_extra(encode_varint(99 << 3 | 3) + encode_varint(98 << 3 | 4)),
        with_extra(b"\x0a" + b"\xff" * 12),
        b"\x18\0\0\0ORTM" + bytes(100),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n",
        b"PK\x03\x04" + bytes(50),
        b'<ir_version: 10, opset_import: ["": 18]> g (float x) => (float y) { y = Abs (x) }',
        b'{"irVersion": "10"}',
        onnx.ModelProto(ir_version=10).SerializeToString(),
        GOOD[: next(last for number, _, _, last in fields(GOOD) if number == 7)],
    ],
    ids=range(22),
)
def test_what_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    refused(tmp_path / "m.onnx", NotAModelError)


def test_the_error_says_what_a_file_is_instead(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    refused(tmp_path / "m.onnx", NotAModelError, "git lfs pull")


def test_a_model_cut_before_the_import_of_its_functions_domain_is_refused(tmp_path: Path) -> None:
    model = model_with(weights())
    model.graph.node.append(helper.make_node("f", ["x"], ["z"], domain="d"))
    refused(written(tmp_path, model), NotAModelError, "'d'", "cut short")
    model.opset_import.append(helper.make_opsetid("d", 1))
    load_proto(written(tmp_path, model))


def test_messages_nested_deeper_than_protobuf_goes_are_refused(tmp_path: Path) -> None:
    graph = b""
    for _ in range(2000):
        attribute = header(6, len(graph)) + graph
        node = header(5, len(attribute)) + attribute
        graph = header(1, len(node)) + node
    (tmp_path / "m.onnx").write_bytes(with_extra(header(7, len(graph)) + graph))
    refused(tmp_path / "m.onnx", NotAModelError)


def test_an_odd_but_valid_number_is_read(tmp_path: Path) -> None:
    assert GOOD.startswith(b"\x08\x0a")
    (tmp_path / "m.onnx").write_bytes(b"\x08\x8a" + b"\x80" * 8 + b"\0" + GOOD[2:])
    assert load_proto(tmp_path / "m.onnx").ir_version == 10


def test_unknown_fields_are_kept_groups_too(tmp_path: Path) -> None:
    group = encode_varint(99 << 3 | 3) + b"\x08\x01" + encode_varint(99 << 3 | 4)
    (tmp_path / "m.onnx").write_bytes(with_extra(group))
    assert group in load_proto(tmp_path / "m.onnx").SerializeToString()


def test_a_graph_written_in_two_parts_is_one_graph(tmp_path: Path) -> None:
    model = model_with(weights())
    second = onnx.GraphProto(initializer=[weights("v", 2)]).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString() + header(7, len(second)) + second)
    read = read_skeleton(tmp_path / "m.onnx").model
    assert [tensor.name for tensor in read.graph.initializer] == ["w", "v"]
    assert len(read.graph.node) == len(model.graph.node)


# ---- text


def test_text_nested_too_deep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnxtxt").write_text("(" * 100_000)
    refused(tmp_path / "m.onnxtxt", NotAModelError)
    (tmp_path / "m.textproto").write_text("graph { node { attribute { g { " * 50_000)
    refused(tmp_path / "m.textproto", NotAModelError)
    (tmp_path / "m.json").write_text('{"graph":' * 50_000)
    refused(tmp_path / "m.json", NotAModelError)
    (tmp_path / "n.json").write_text("[" * 500_000)
    refused(tmp_path / "n.json", NotAModelError)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnxtxt").write_bytes(b"\xff\xfe")
    refused(tmp_path / "m.onnxtxt", NotAModelError)


def test_a_name_with_control_characters_is_printed_harmlessly(tmp_path: Path) -> None:
    error = refused(written(tmp_path, model_with(external("../x", name="\x1b[31mred\n"))), ExternalDataError)
    assert "\\x1b[31mred\\n" in str(error)


# ---- names


def calling(name: str = "f", opset: int = 18) -> onnx.ModelProto:
    """Return a model that calls a function of that name."""
    opsets = [helper.make_opsetid("", opset)]
    function = helper.make_function("d", name, ["a"], ["b"], [helper.make_node("Abs", ["a"], ["b"])], opsets)
    model = model_with(functions=(function,))
    model.graph.node.append(helper.make_node(name, ["x"], ["z"], domain="d"))
    return model


@pytest.mark.parametrize("place", ["function", "node", "input", "attribute", "graph input", "branch"])
def test_a_name_that_is_no_text_is_refused_where_there_are_functions(tmp_path: Path, place: str) -> None:
    mark, model = "QQQQ", calling()
    branch = helper.make_graph(
        [helper.make_node(mark if place == "branch" else "Abs", ["x"], ["o"])], "b", [], []
    )
    conditional = helper.make_node("If", ["x"], ["o"], then_branch=branch, else_branch=branch)
    model.functions[0].node.append(conditional)
    if place == "function":
        model.functions[0].name = mark
    elif place == "node":
        model.graph.node[0].op_type = mark
    elif place == "input":
        model.functions[0].node[0].input[0] = mark
    elif place == "attribute":
        model.functions[0].node[0].attribute.add(name=mark, type=2, i=1)
    elif place == "graph input":
        model.graph.input[0].name = mark
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ"))
    error = refused(tmp_path / "m.onnx", NotAModelError, "no UTF-8 text", "Q\\xff\\xfeQ")
    assert error.field


def test_graphs_in_lists_are_looked_at_as_well(tmp_path: Path) -> None:
    model = calling()
    graphs = [helper.make_graph([helper.make_node("QQQQ", [], ["o"])], "b", [], [])]
    model.graph.node[0].attribute.append(helper.make_attribute("graphs", graphs))
    load_proto(written(tmp_path, model))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ"))
    refused(tmp_path / "m.onnx", NotAModelError, "NodeProto")


def test_a_model_without_functions_is_copied_whatever_its_names_are(tmp_path: Path) -> None:
    model = model_with(weights())
    model.graph.node[0].name = "QQQQ"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ"))
    assert load_proto(tmp_path / "m.onnx").graph.node[0].op_type == "Add"


@pytest.mark.parametrize("version", [1 << 31, 1 << 40, -(1 << 63)])
def test_a_version_that_no_operator_set_has_is_refused(tmp_path: Path, version: int) -> None:
    error = refused(written(tmp_path, calling(opset=version)), NotAModelError, f"version {version}")
    assert error.field == "opset_import"
