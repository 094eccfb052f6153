"""Weights bound from files stay in the files until the model is saved, and are all there then."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnx_inline import BindingError, UnboundInitializersError, bind_initializers, load, load_proto, save
from tests.binding.test_binding import HEADER, W, lacking, values

safetensors_numpy = pytest.importorskip("safetensors.numpy")


@pytest.fixture
def weightless(tmp_path: Path) -> Path:
    """A model file with an initializer ``w`` without data, and one with 20 MiB of zeros."""
    model = lacking(1, [2])
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(5 << 20, np.float32), "large"))
    onnx.save(model, tmp_path / "weightless.onnx")
    return tmp_path / "weightless.onnx"


def saved_values(path: Path) -> dict[str, list[float]]:
    return {name: array[:2].tolist() for name, array in values(onnx.load(path)).items()}


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_a_lazily_loaded_model_is_bound_from_safetensors_and_saved(weightless: Path, folder: str) -> None:
    safetensors_numpy.save_file({"w": W}, weightless.with_name("w.safetensors"))
    model = bind_initializers(load(weightless), weightless.with_name("w.safetensors"))
    target = weightless.parent / folder / "bound.onnx"
    target.parent.mkdir(exist_ok=True)
    save(model, target)
    assert saved_values(target) == {"w": [1, 2], "large": [0, 0]}
    assert not [name for name in target.parent.iterdir() if name.suffix == ".tmp"]


def test_what_was_loaded_without_weights_is_a_source_in_either_form(tmp_path: Path, weightless: Path) -> None:
    full = onnx.load(weightless)
    full.graph.initializer[0].raw_data = W.tobytes()
    onnx.save(full, tmp_path / "full.onnx", save_as_external_data=True, location="data", size_threshold=0)
    for source in (tmp_path / "full.onnx", load(tmp_path / "full.onnx"), load_proto(tmp_path / "full.onnx")):
        assert values(bind_initializers(lacking(1, [2]), source, strict=False, with_report=True)[0])[
            "w"
        ].tolist() == [1, 2]


def test_external_data_that_is_not_there_is_a_mismatch_that_names_the_file(tmp_path: Path) -> None:
    tensor = ir.ExternalTensor(
        "gone", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path
    )
    with pytest.raises(BindingError, match=r"its data should be in .*gone, which is no file"):
        bind_initializers(ir.from_proto(lacking(1, [2])), {"w": tensor})


def test_saving_unbound_is_refused_and_leaves_the_old_file(weightless: Path) -> None:
    before = weightless.read_bytes()
    with pytest.raises(
        UnboundInitializersError, match=r"initializers without data \(1\): w \(FLOAT\[2\]: it has no data"
    ):
        save(load(weightless), weightless)
    assert weightless.read_bytes() == before


def test_bfloat16_in_safetensors_keeps_its_bits_through_a_save(tmp_path: Path) -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    header = b'{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())
    model = ir.from_proto(lacking(16, [2]))
    save(bind_initializers(model, tmp_path / "w.safetensors"), tmp_path / "bound.onnx", external="inline")
    assert values(onnx.load(tmp_path / "bound.onnx"))["w"].tolist() == [1.5, -2]


def test_a_name_that_nothing_defines_is_bound_in_a_file_too(tmp_path: Path) -> None:
    text = f"{HEADER} g (float[2] x) => (float[2] y) {{ y = Add (x, w) }}"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "weightless.onnx")
    save(bind_initializers(load(tmp_path / "weightless.onnx"), {"w": W}), tmp_path / "bound.onnx")
    onnx.checker.check_model(tmp_path / "bound.onnx", full_check=True)
