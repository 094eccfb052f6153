"""``onnx-inline decompose`` and ``prepare``."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from cli_helpers import model, run, saved

from onnx_inline.cli import main

SOFTSIGN = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) { a = Softsign (x) y = Elu (a) }"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path, model(SOFTSIGN))


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_operators_that_a_target_lacks_are_replaced(source: Path) -> None:
    out = source.with_name("out.onnx")
    outcome = run("decompose", source, out, "--target", "ort-training")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("decomposed 2 nodes of 2 operators\n")
    assert not operators(out) & {"Softsign", "Elu"}
    assert run("verify", source, out, "-q").code == 0


def test_operators_can_be_named(source: Path) -> None:
    out = source.with_name("out.onnx")
    assert run("decompose", source, out, "--operator", "Softsign").code == 0
    assert "Elu" in operators(out)
    assert "Softsign" not in operators(out)


def test_without_an_output_nothing_is_written(source: Path) -> None:
    facts = json.loads(run("decompose", source, "--json").out)
    assert facts["expanded"] == {"Elu": 1, "Softsign": 1}
    assert "+" in run("decompose", source, "--diff").out
    assert list(source.parent.iterdir()) == [source]


def test_an_unknown_operator_is_an_error(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decompose", str(source), "--operator", "Softsing"]) == 2
    assert "Softsing" in capsys.readouterr().err


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    return saved(tmp_path, model(), "nested.onnx")


def test_prepare_inlines_and_leaves_a_model_that_check_takes(nested: Path) -> None:
    out = nested.with_name("out.onnx")
    outcome = run("prepare", nested, "-o", out, "--target", "ort-training", "--check", "1")
    assert outcome.code == 0
    assert outcome.out.startswith("ready for ort-training: ")
    assert "compute the same" in outcome.err
    assert any(line.split() == ["functions", "2", "0"] for line in outcome.err.splitlines())
    assert run("check", out, "--target", "ort-training").code == 0


def test_prepare_names_outputs(nested: Path) -> None:
    out = nested.with_name("out.onnx")
    assert run("prepare", nested, out, "--output-name", "result").code == 0
    assert [value.name for value in onnx.load(out).graph.output] == ["result"]
    outcome = run("prepare", nested, out, "--force", "--output-name", "z", "--check", "1")
    assert outcome.code == 2
    assert "goes without --output-name" in outcome.err


def test_what_still_blocks_is_said_with_exit_code_1(tmp_path: Path) -> None:
    text = SOFTSIGN.replace("<float[2] w = {1, 2}>", "").replace("y = Elu (a)", "y = Atan (a)")
    outcome = run("prepare", saved(tmp_path, model(text)), "--json")
    facts = json.loads(outcome.out)
    assert outcome.code == 1
    assert facts["ok"] is False
    assert [finding["subject"] for finding in facts["check"]["findings"] if finding["blocks"]] == ["Atan"]


def test_prepare_without_an_output_writes_nothing(nested: Path) -> None:
    outcome = run("prepare", nested)
    assert "nothing written" in outcome.out
    assert list(nested.parent.iterdir()) == [nested]
