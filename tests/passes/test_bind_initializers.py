"""bind-initializers as a pass: in place, in a chain, refusing as onnx_ir expects it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_inline import BindingError, BindInitializersPass, unbound_initializers
from tests.helpers import assert_leaves, computed, parsed

MODEL = '<ir_version: 10, opset_import: ["": 18]> main (float[2] x) => (float[2] y) { y = Add (x, w) }'
W = np.array([1, 2], np.float32)


def test_it_binds_in_place_and_a_second_run_changes_nothing() -> None:
    model = parsed(MODEL)
    result = BindInitializersPass({"w": W})(model)
    assert result.model is model and result.modified and result.report.bound == ("w",)
    assert computed(model, {"x": W})[0].tolist() == [2, 4]
    assert_leaves(BindInitializersPass({"w": W}), model)


def test_several_sources_and_paths_are_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=W)
    assert BindInitializersPass(({}, str(tmp_path / "w.npz")))(parsed(MODEL)).modified
    assert BindInitializersPass(tmp_path / "w.npz")(parsed(MODEL)).modified


def test_a_refusal_comes_through_a_chain_of_passes_and_leaves_the_model() -> None:
    model = parsed(MODEL)
    with pytest.raises(BindingError, match="1 of no initializer: v") as caught:
        BindInitializersPass({"w": W, "v": W.copy()})(model)
    assert isinstance(caught.value, ir.passes.PreconditionError)
    assert caught.value.unused == ("v",)
    assert [weight.name for weight in unbound_initializers(model)] == ["w"]


def test_not_strict_reports() -> None:
    result = BindInitializersPass({"v": W}, strict=False)(parsed(MODEL))
    assert not result.modified and result.report.unused == ("v",)
    assert [weight.name for weight in result.report.unbound] == ["w"]
