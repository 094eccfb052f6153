"""``onnx-inline bind``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_helpers import model, run, saved

UNBOUND = """<ir_version: 10, opset_import: ["": 18]>
g (float[2] x) => (float[2] y) { t = Add (x, w) y = Mul (t, v) }"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path, model(UNBOUND))


def weights(source: Path, *names: str) -> Path:
    path = source.with_name("_".join(names) + ".npz")
    np.savez(path, **{name: np.ones(2, np.float32) for name in names})
    return path


def test_without_weights_what_is_missing_is_listed_and_the_answer_is_no(source: Path) -> None:
    outcome = run("bind", source)
    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == "2 initializers without data"
    assert "  w: " in outcome.out
    assert run("bind", saved(source.parent, model(), "full.onnx")).code == 0


def test_weights_are_bound_by_name_from_several_files(source: Path) -> None:
    out = source.with_name("out.onnx")
    outcome = run("bind", source, weights(source, "w"), weights(source, "v"), "-o", out)
    assert (outcome.code, outcome.out) == (0, "bound 2 initializers; 0 initializers without data\n")
    assert outcome.err == ""
    bound = onnx.load(out)
    assert {tensor.name for tensor in bound.graph.initializer} == {"w", "v"}
    onnx.checker.check_model(bound)


def test_what_does_not_fit_is_an_error_and_nothing_is_written(source: Path) -> None:
    out = source.with_name("out.onnx")
    outcome = run("bind", source, weights(source, "w", "z"), "-o", out)
    assert outcome.code == 2
    assert outcome.err.startswith("error: the weights do not fit the model")
    assert not out.exists()


def test_not_strict_binds_what_fits_and_says_what_does_not(source: Path) -> None:
    outcome = run("bind", source, weights(source, "w", "z"), "--no-strict", "--json")
    facts = json.loads(outcome.out)
    assert outcome.code == 1
    assert (facts["bound"], facts["unused"], facts["target"]) == (["w"], ["z"], None)
    assert [one["name"] for one in facts["unbound"]] == ["v"]


def test_what_libraries_log_is_shown_on_request_only(source: Path) -> None:
    assert run("bind", source).err == ""
    assert "WARNING: onnx_ir" in run("bind", source, "-v").err
