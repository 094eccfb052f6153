"""``onnx-inline decompose``."""

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
