"""bind_initializers gives data to what has none, checks it, and reports all that does not fit together."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_inline.binding import BindReport, bind_initializers
from onnx_inline.errors import BindingError, FileError
from onnx_inline.unbound import unbound_initializers

HEADER = '<ir_version: 10, opset_import: ["": 18]>'
WEIGHTLESS = f"""{HEADER} g (bool c, float[2] x) => (float[2] y) <float[2] w> {{
    y = If (c) <
        then_branch = t () => (float[2] a) {{ a = Add (x, w) }},
        else_branch = e () => (float[2] b) {{ b = Sub (w, v) }}
    >
}}"""
W, V = np.array([1, 2], np.float32), np.array([3, 4], np.float32)


def weightless() -> onnx.ModelProto:
    return onnx.parser.parse_model(WEIGHTLESS)


def lacking(type_: int, dims: list[int], name: str = "w") -> onnx.ModelProto:
    """A model whose output is an initializer of that type and shape, without data."""
    output = onnx.helper.make_tensor_value_info("y", type_, dims)
    tensor = onnx.TensorProto(name=name, data_type=type_, dims=dims)
    node = onnx.helper.make_node("Identity", [name], ["y"])
    graph = onnx.helper.make_graph([node], "g", [], [output], [tensor])
    return onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)])


def values(model: onnx.ModelProto | ir.Model) -> dict[str, np.ndarray[Any, Any]]:
    proto = model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)
    return {tensor.name: ir.serde.deserialize_tensor(tensor).numpy() for tensor in proto.graph.initializer}


def outputs(model: onnx.ModelProto | ir.Model, condition: bool) -> list[float]:
    proto = model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)
    session = ReferenceEvaluator(proto)
    (result,) = session.run(None, {"c": np.array(condition), "x": np.array([10, 20], np.float32)})
    return list(result)


@pytest.mark.parametrize("form", ["proto", "ir"])
def test_names_that_nothing_defines_become_initializers(form: str) -> None:
    model = weightless() if form == "proto" else ir.from_proto(weightless())
    bound = bind_initializers(model, {"w": W, "v": V})
    assert unbound_initializers(bound) == ()
    assert [outputs(bound, condition) for condition in (True, False)] == [[11, 22], [-2, -2]]
    onnx.checker.check_model(bound if form == "proto" else ir.to_proto(bound), full_check=True)


def test_a_proto_is_copied_and_an_ir_model_is_changed_in_place() -> None:
    proto, model = weightless(), ir.from_proto(weightless())
    bind_initializers(proto, {"w": W, "v": V})
    assert proto == weightless()
    assert bind_initializers(model, {"w": W, "v": V}) is model
    assert unbound_initializers(model) == ()


def test_everything_that_does_not_fit_is_reported_in_one_error() -> None:
    model = ir.from_proto(lacking(1, [2, 3]))
    model.graph.register_initializer(ir.Value(name="k", const_value=ir.tensor(W)))
    model.graph.initializers["k"].const_value = None
    with pytest.raises(BindingError) as caught:
        bind_initializers(model, {"w": np.zeros((3, 2)), "a": W, "b": W})
    error = caught.value
    assert ([lack.name for lack in error.unbound], error.unused) == (["k"], ("a", "b"))
    assert [str(one) for one in error.mismatched] == ["w (declared FLOAT[2,3], given DOUBLE[3,2])"]
    assert "1 in no source: k (" in str(error) and "2 of no initializer: a, b" in str(error)
    assert "w (declared FLOAT[2,3], given DOUBLE[3,2])" in str(error)


@pytest.mark.parametrize(
    "given", [np.zeros(3, np.float32), np.zeros((1, 2), np.float32), W.astype(np.float64)]
)
def test_another_shape_rank_or_type_does_not_fit_and_nothing_is_bound(given: np.ndarray[Any, Any]) -> None:
    model = ir.from_proto(lacking(1, [2]))
    with pytest.raises(BindingError):
        bind_initializers(model, {"w": given})
    assert [lack.name for lack in unbound_initializers(model)] == ["w"]


def test_one_wrong_weight_leaves_the_right_ones_unbound_too() -> None:
    model = ir.from_proto(weightless())
    with pytest.raises(BindingError):
        bind_initializers(model, {"w": W, "v": V, "z": V.copy()})
    assert [lack.name for lack in unbound_initializers(model)] == ["w", "v"]


def test_not_strict_binds_what_fits_and_reports_the_rest() -> None:
    model, report = bind_initializers(weightless(), {"w": W, "z": V}, strict=False, with_report=True)
    assert isinstance(report, BindReport) and not report.fits
    assert (report.bound, report.unused, report.mismatched) == (("w",), ("z",), ())
    assert (
        [lack.name for lack in report.unbound] == ["v"] == [lack.name for lack in unbound_initializers(model)]
    )


def test_not_strict_and_without_a_report_the_rest_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"1 in no source: v .*1 of no initializer: z"):
        bind_initializers(weightless(), {"w": W, "z": V}, strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bind_initializers(weightless(), {"w": W, "v": V}, strict=False)


def test_the_first_source_with_a_name_counts_and_pairs_are_a_source() -> None:
    bound = bind_initializers(weightless(), iter([("w", W)]), {"w": V, "v": V})
    assert values(bound)["w"].tolist() == [1, 2]


def test_data_that_is_there_is_kept_and_a_second_run_changes_nothing() -> None:
    once = bind_initializers(weightless(), {"w": W, "v": V})
    twice, report = bind_initializers(once, {"w": V, "v": V}, with_report=True)
    assert twice == once
    assert (report.bound, report.already_bound, report.unused) == ((), ("w", "v"), ())


def test_a_name_tied_to_a_weight_in_use_is_of_use() -> None:
    model = lacking(1, [2])
    bind_initializers(model, {"tied": W, "w": W})
    with pytest.raises(BindingError) as caught:
        bind_initializers(model, {"equal": W.copy(), "w": W})
    assert caught.value.unused == ("equal",)


def test_what_the_model_does_not_say_is_not_checked() -> None:
    model = ir.from_proto(lacking(1, [2]))
    value = model.graph.initializers["w"]
    value.const_value, value.shape = None, ir.Shape(["N"])
    bind_initializers(model, {"w": np.zeros(5, np.float32)})
    assert values(model)["w"].shape == (5,)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "int4", "uint4"]
)
@pytest.mark.parametrize("form", ["proto", "ir"])
def test_types_that_numpy_lacks_keep_their_bits(dtype: str, form: str) -> None:
    array = np.array([1, 2, 3], getattr(ml_dtypes, dtype))
    type_ = ir.DataType.from_numpy(array.dtype)
    model = lacking(type_, [3])
    bound = bind_initializers(model if form == "proto" else ir.from_proto(model), {"w": array})
    assert values(bound)["w"].dtype == array.dtype and values(bound)["w"].tolist() == array.tolist()


def test_float16_and_big_endian_and_strided_arrays_keep_their_values() -> None:
    for given in (np.array([1, 2], ">f4"), np.array([1, 0, 2, 0], np.float32)[::2]):
        assert values(bind_initializers(lacking(1, [2]), {"w": given}))["w"].tolist() == [1, 2]
    half = np.array([1.5, 2], np.float16)
    assert values(bind_initializers(lacking(10, [2]), {"w": half}))["w"].tolist() == [1.5, 2]


def test_strings_and_scalars_are_bound() -> None:
    strings = bind_initializers(lacking(8, [2]), {"w": np.array(["a", "ö"])})
    assert list(strings.graph.initializer[0].string_data) == [b"a", "ö".encode()]
    assert values(bind_initializers(lacking(7, []), {"w": np.int64(5)}))["w"] == 5


def test_what_is_no_tensor_at_all_is_a_mismatch_that_says_so() -> None:
    with pytest.raises(BindingError, match="an array of objects that are not strings"):
        bind_initializers(lacking(1, [2]), {"w": np.array([{}, None], object)})
    with pytest.raises(BindingError, match="no element type for the numpy type datetime64"):
        bind_initializers(lacking(1, [1]), {"w": np.array(["2020-01-01"], "datetime64[D]")})


def test_a_model_of_either_form_is_a_source() -> None:
    full = bind_initializers(weightless(), {"w": W, "v": V})
    for source in (full, ir.from_proto(full)):
        assert bind_initializers(weightless(), source) == full


def test_npz_files_hold_weights_also_of_types_that_numpy_writes_as_void(tmp_path: Path) -> None:
    array = np.array([1, 2], ml_dtypes.bfloat16)
    np.savez(tmp_path / "w.npz", w=array)
    bound = bind_initializers(lacking(16, [2]), tmp_path / "w.npz")
    assert values(bound)["w"].dtype == ml_dtypes.bfloat16 and values(bound)["w"].tolist() == [1, 2]


def test_an_npz_file_with_pickled_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=np.array([{}], object))
    with pytest.raises(BindingError, match="holds no plain array"):
        bind_initializers(lacking(1, [1]), tmp_path / "w.npz")


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors"])
@pytest.mark.parametrize(
    "content", [b"", b"not weights at all", b"PK\x03\x04", b"\xff" * 64, b"\x02" + bytes(7) + b"[]"]
)
def test_a_file_that_is_no_weight_file_is_refused_by_name(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=name):
        bind_initializers(weightless(), path)


def test_an_npz_file_whose_data_is_damaged_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=W)
    content = bytearray((tmp_path / "w.npz").read_bytes())
    content[content.index(W.tobytes())] ^= 1
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(FileError, match=r"w\.npz: Bad CRC-32"):
        bind_initializers(lacking(1, [2]), tmp_path / "w.npz")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FileError, match=r"there is no such file"):
        bind_initializers(weightless(), "nowhere.safetensors")


@pytest.mark.parametrize("source", [5, [1, 2], ["ab", "c"], object()])
def test_what_is_no_source_is_refused_with_what_is_one(source: Any) -> None:
    with pytest.raises(TypeError, match="a source of weights is a mapping, pairs, a path or a model, not a"):
        bind_initializers(weightless(), source)


def test_a_declared_type_that_nobody_knows_is_a_mismatch() -> None:
    with pytest.raises(BindingError, match=r"w \(declared 99\[2\], given anything, but its declared type"):
        bind_initializers(lacking(99, [2]), {"w": W})
