"""Tensors of a .safetensors file are bound as references to its bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_inline.binding import bind_initializers
from onnx_inline.errors import FileError
from tests.binding.test_binding import W, lacking, values

safetensors_numpy = pytest.importorskip("safetensors.numpy")


def write(path: Path, header: object, data: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: str, shape: list[Any], offsets: list[Any]) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_a_tensor_stays_on_disk_in_an_ir_model(tmp_path: Path) -> None:
    safetensors_numpy.save_file({"other": np.zeros(3), "w": W}, tmp_path / "w.safetensors")
    model, report = bind_initializers(
        ir.from_proto(lacking(1, [2])), tmp_path / "w.safetensors", strict=False, with_report=True
    )
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor) and tensor.raw is None
    assert tensor.numpy().tolist() == [1, 2] and report.unused == ("other",)


def test_a_proto_gets_the_bytes(tmp_path: Path) -> None:
    safetensors_numpy.save_file({"w": W}, tmp_path / "w.safetensors")
    assert values(bind_initializers(lacking(1, [2]), tmp_path / "w.safetensors"))["w"].tolist() == [1, 2]


def test_a_link_to_the_file_reads_the_file(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    safetensors_numpy.save_file({"w": W}, tmp_path / "blobs" / "0abc")
    (tmp_path / "w.safetensors").symlink_to(tmp_path / "blobs" / "0abc")
    assert values(bind_initializers(lacking(1, [2]), tmp_path / "w.safetensors"))["w"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("spelt", "dtype"),
    [
        ("BF16", "bfloat16"),
        ("F8_E4M3", "float8_e4m3fn"),
        ("F8_E5M2", "float8_e5m2"),
        ("U8", "float8_e4m3fnuz"),
    ],
)
def test_types_of_one_and_two_bytes(tmp_path: Path, spelt: str, dtype: str) -> None:
    array = np.array([1, 2, 3], getattr(ml_dtypes, dtype))
    path = write(tmp_path / "w.safetensors", {"w": entry(spelt, [3], [0, array.nbytes])}, array.tobytes())
    bound = bind_initializers(lacking(ir.DataType.from_numpy(array.dtype), [3]), path)
    assert values(bound)["w"].dtype == array.dtype and values(bound)["w"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("spelt", ["U8", "F4"])
def test_types_of_half_a_byte_come_packed(tmp_path: Path, spelt: str) -> None:
    path = write(tmp_path / "w.safetensors", {"w": entry(spelt, [2], [0, 2])}, b"\x21\x03")
    assert values(bind_initializers(lacking(ir.DataType.INT4, [3]), path))["w"].tolist() == [1, 2, 3]


def test_files_that_onnx_ir_writes_are_read_back(tmp_path: Path) -> None:
    array = np.array([1, -2, 3], ml_dtypes.int4)
    model = bind_initializers(ir.from_proto(lacking(ir.DataType.INT4, [3])), {"w": array})
    ir.save_safetensors(model, tmp_path / "m.onnx", size_threshold_bytes=0)
    bound = bind_initializers(lacking(ir.DataType.INT4, [3]), tmp_path / "m.safetensors")
    assert values(bound)["w"].tolist() == [1, -2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        entry("F32", [2], [0, 9]),
        entry("F32", [2], [8, 0]),
        entry("F32", [2], [-8, 0]),
        entry("F32", [3], [0, 8]),
        entry("F32", [-2], [0, 8]),
        entry("F32", [True, 2], [0, 8]),
        entry("F32", [2], [0, 8.0]),
        entry("F32", [2], [0]),
        entry("F32", "ab", [0, 8]),
        {"dtype": "F32"},
        [],
    ],
)
def test_offsets_and_shapes_that_do_not_add_up_are_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(FileError, match=r"w\.safetensors is not a readable"):
        bind_initializers(lacking(1, [2]), write(tmp_path / "w.safetensors", {"w": wrong}, bytes(8)))


def test_a_header_longer_than_the_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(FileError, match="its header has 4611686018427387904 bytes, the file 10"):
        bind_initializers(lacking(1, [2]), path)
