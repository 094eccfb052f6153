"""A model without its weights is checked and inferred as with them, and nothing is changed on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.integrations import weight_files, weightless

TEXT = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "us", metadata_props: ["key": "value"]>
net (float[2, 20] x) => (float[20, 2] y)
<float[20, 20] w, int64[2] shape = {20, 2}>
{
    p = MatMul (x, w)
    y = Reshape (p, shape)
}
"""


def model_with(*weights: onnx.TensorProto) -> onnx.ModelProto:
    model = parser.parse_model(TEXT)
    model.graph.initializer.extend(weights)
    return model


def weight(name: str = "w", rows: int = 20) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.arange(rows * 20, dtype=np.float32).reshape(rows, 20), name)


def test_only_the_numbers_go() -> None:
    model = model_with(weight())
    skeleton = weightless.without_data(model, {"w"})
    expected = model_with(onnx.TensorProto(name="w", data_type=1, dims=[20, 20]))
    assert skeleton == expected
    assert weightless.is_weightless(skeleton.graph.initializer[-1])
    assert not weightless.is_weightless(weight())
    assert not weightless.is_weightless(onnx.TensorProto(name="empty", data_type=1, dims=[0, 4]))


def test_a_skeleton_is_checked_as_the_model_is() -> None:
    weightless.check(weightless.without_data(model_with(weight()), {"w"}))
    with pytest.raises(Exception, match="Incompatible dimensions"):
        weightless.check(weightless.without_data(model_with(weight(rows=7)), {"w"}))


def test_inference_gives_what_it_gives_with_the_weights() -> None:
    model = model_with(weight())
    skeleton = weightless.without_data(model, {"w"})
    before = skeleton.SerializeToString()
    inferred = weightless.infer(skeleton)
    assert skeleton.SerializeToString() == before
    assert inferred == weightless.without_data(onnx.shape_inference.infer_shapes(model), {"w"})


def test_weights_keep_their_place_among_the_initializers() -> None:
    first, last = weight("first"), weight("last")
    model = model_with(first, weight(), last)
    skeleton = weightless.without_data(model, {"w"})
    result = weightless.on_inputs(skeleton, lambda one: one)
    assert [tensor.name for tensor in result.graph.initializer] == ["shape", "first", "w", "last"]
    assert result == skeleton


def test_a_weight_in_a_file_is_referred_to_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_with(weight()), path, save_as_external_data=True, location="m.data", size_threshold=1024)
    tensor = read_skeleton(path).model.graph.initializer[-1]
    source = weight_files.file_of(tensor)
    assert source is not None
    entries = {entry.key: entry.value for entry in weight_files.reference(tensor, source).external_data}
    assert entries == {"location": str((tmp_path / "m.data").resolve()), "offset": "0", "length": "1600"}
    assert weight_files.loaded(tensor) == weight()


@pytest.mark.parametrize("kind", ["raw", "typed", "many"])
def test_a_weight_in_a_tensor_is_written_out_once(tmp_path: Path, kind: str) -> None:
    array = np.arange(400, dtype=np.int64).reshape(20, 20)
    tensors = {
        "raw": [onnx.numpy_helper.from_array(array, "a")],
        "typed": [onnx.helper.make_tensor("a", onnx.TensorProto.INT64, [20, 20], array.ravel())],
        "many": [onnx.numpy_helper.from_array(array + place, f"t{place}") for place in range(3)],
    }[kind]
    path = tmp_path / "weights.bin"
    for name, reference in weight_files.spilled(tensors, path).items():
        entries = {entry.key: entry.value for entry in reference.external_data}
        offset, length = int(entries["offset"]), int(entries["length"])
        stored = np.frombuffer(path.read_bytes()[offset : offset + length], np.int64)
        expected = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}[name]
        np.testing.assert_array_equal(stored.reshape(20, 20), expected)
        assert offset % weight_files.ALIGNMENT == 0
