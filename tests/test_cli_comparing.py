"""``onnx-inline verify`` and ``diff``, and ``inline --check``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_helpers import evil_model, model, run, saved

from onnx_inline.cli import main


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    proto = model()
    proto.functions[0].node[1].op_type = "Exp"
    return saved(tmp_path, proto, "wrong.onnx")


def test_models_that_compute_the_same_are_the_same(source: Path) -> None:
    flat = source.with_name("flat.onnx")
    run("inline", source, flat, "-q")
    outcome = run("verify", source, flat, "--engine", "reference", "--samples", "2")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"{source} and {flat} compute the same\n")
    assert "2 sets of inputs" in outcome.out


def test_models_that_do_not_are_told_apart_with_exit_code_1(source: Path, wrong: Path) -> None:
    outcome = run("verify", source, wrong, "--engine", "reference", "--json")
    facts = json.loads(outcome.out)
    assert outcome.code == 1
    assert (facts["same"], facts["compared"]) == (False, True)
    assert facts["engines"][0]["largest_absolute"] > 0
    loose = run("verify", source, wrong, "--engine", "reference", "--atol", "1e9", "--seed", "7", "-q")
    assert (loose.code, loose.out) == (0, "")


def test_inputs_can_be_given(source: Path, wrong: Path) -> None:
    zeros = source.with_name("zeros.npz")
    np.savez(zeros, x=np.zeros(2, np.float32))
    facts = json.loads(run("verify", source, wrong, "--input-data", zeros, "--json").out)
    assert facts["inputs"] == "as given"
    outcome = run("verify", source, wrong, "--input-data", source)
    assert outcome.code == 2
    assert "no .npz file" in outcome.err


def test_infinite_differences_are_json_all_the_same(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) {{ y = {} (x) }}'
    first, second = (saved(tmp_path, model(text.format(op)), f"{op}.onnx") for op in ("Abs", "Log"))
    zeros = tmp_path / "zeros.npz"
    np.savez(zeros, x=np.zeros(2, np.float32))
    outcome = run("verify", first, second, "--input-data", zeros, "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["same"] is False


def test_a_diff_of_equal_models_is_empty(source: Path) -> None:
    outcome = run("diff", source, source)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_a_diff_shows_text_on_stdout_and_counts_on_stderr(source: Path, wrong: Path) -> None:
    outcome = run("diff", source, wrong)
    assert outcome.code == 1
    assert outcome.out.splitlines()[:2] == [f"--- {source}", f"+++ {wrong}"]
    assert any(line.startswith("-") and "Neg (t)" in line for line in outcome.out.splitlines())
    assert any(line.split() == ["Neg", "1", "0"] for line in outcome.err.splitlines())
    facts = json.loads(run("diff", source, wrong, "--json").out)
    assert (facts["same"], facts["diff"]) == (False, outcome.out)


def test_a_checked_inlining_writes_the_same_bytes(source: Path) -> None:
    plain, checked = source.with_name("plain.onnx"), source.with_name("checked.onnx")
    run("inline", source, plain)
    outcome = run("inline", source, checked, "--check", "2")
    assert outcome.code == 0
    assert "compute the same" in outcome.err
    assert outcome.out.startswith("inlined 3 calls")
    assert checked.read_bytes() == plain.read_bytes()


def test_a_result_that_differs_is_not_written_and_the_answer_is_no(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnx_inline import api

    inline_functions = api.inline_functions

    def wrong(proto: onnx.ModelProto, **options: object) -> object:
        flat, report = inline_functions(proto, **options)
        flat.graph.node[2].op_type = "Exp"
        return flat, report

    monkeypatch.setattr(api, "inline_functions", wrong)
    out = source.with_name("out.onnx")
    assert main(["inline", str(source), str(out), "--check", "1"]) == 1
    captured = capsys.readouterr()
    assert not out.exists()
    assert captured.out == ""
    assert "before and after differ" in captured.err or "different" in captured.err


def test_names_in_comparisons_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    evil, plain = saved(tmp_path, evil_model(), "evil.onnx"), saved(tmp_path)
    for command in ("verify", "diff"):
        outcome = run(command, evil, plain)
        assert outcome.code in (0, 1)
        assert not set("\x1b\x07\u202e") & set(outcome.out + outcome.err)


@pytest.mark.parametrize("tolerance", ["-1", "nan", "inf"])
def test_a_tolerance_that_passes_everything_or_nothing_is_refused(source: Path, tolerance: str) -> None:
    outcome = run("verify", source, source, "--rtol", tolerance)
    assert outcome.code == 2
    assert "is no tolerance; give a number, 0 or more" in outcome.err


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"q": np.zeros(2, np.float32)}, "the model has no input 'q'; its inputs are x"),
        ({}, "holds no array for the input 'x'"),
        ({"x": np.zeros(2)}, "the array 'x' is float64, the input is float32"),
    ],
)
def test_given_inputs_must_be_those_of_the_model(
    source: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    given = source.with_name("given.npz")
    np.savez(given, **arrays)
    outcome = run("verify", source, source, "--input-data", given)
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, f"error: {given}: {message}")
