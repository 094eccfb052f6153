"""Commands that look and change nothing: inspect --target, targets, passes, check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from cli_helpers import environment, evil_model, model, run, saved

from onnx_inline.cli import main
from onnx_inline.targets import list_targets

UNTRAINABLE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Mul (x, w) b = Abs (a) y = Atan (b) }"""

TRAINABLE = UNTRAINABLE.replace("Atan", "Relu").replace("Abs", "Tanh")


def test_inspect_marks_what_a_target_lacks(tmp_path: Path) -> None:
    path = saved(tmp_path, model(UNTRAINABLE))
    outcome = run("inspect", path, "--target", "ort-training")
    assert outcome.code == 0
    assert "Atan  (the target lacks it)" in outcome.out
    assert "main graph  lacks Atan" in outcome.out
    assert json.loads(run("inspect", path, "--target", "ort-training", "--json").out)["missing"] == ["Atan"]
    assert json.loads(run("inspect", path, "--json").out)["missing"] == []


def test_an_unknown_target_is_an_error_that_names_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(saved(tmp_path))
    for command in (
        ["inspect", path, "--target", "nope"],
        ["check", path, "--target", "nope"],
        ["targets", "nope"],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert "nope" in error
        assert "ort-training" in error


def test_targets_lists_all_of_them_and_what_one_takes() -> None:
    listed = run("targets").out
    assert all(f"\n{name} " in listed for name in list_targets())
    facts = json.loads(run("targets", "--json").out)["targets"]
    assert tuple(target["name"] for target in facts) == list_targets()
    only = run("targets", "ort-training").out
    assert "takes " in only
    assert "Gelu" in only
    assert "tinygrad" not in only


def test_passes_lists_ours_and_those_of_others_with_their_options() -> None:
    facts = {entry["name"]: entry for entry in json.loads(run("passes", "--json").out)["passes"]}
    assert [option["name"] for option in facts["inline-functions"]["options"]][:2] == ["only", "keep"]
    assert facts["topological-sort"]["origin"] == "onnx_ir"
    assert "inline-functions" in run("passes").out


def test_check_says_no_with_the_cure_and_exit_code_1(tmp_path: Path) -> None:
    path = saved(tmp_path, model(UNTRAINABLE))
    outcome = run("check", path)
    assert outcome.code == 1
    assert outcome.out.startswith(
        "not ready for ort-training: 1 finding in the way; 3 of 3 nodes on the way\n"
    )
    assert "blocks" in outcome.out
    assert "Atan" in outcome.out
    facts = json.loads(run("check", path, "--json").out)
    assert facts["ok"] is False
    assert facts["findings"][0]["subject"] == "Atan"


def test_check_says_yes_with_exit_code_0(tmp_path: Path) -> None:
    outcome = run("check", saved(tmp_path, model(TRAINABLE)), "--target", "ort-training", "--trainable", "w")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "ready for ort-training: 3 of 3 nodes on the way\n"


def test_a_name_to_train_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(saved(tmp_path, model(TRAINABLE))), "--trainable", "v"]) == 2
    assert "'v'" in capsys.readouterr().err


def test_findings_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    outcome = run("check", saved(tmp_path, evil_model()))
    assert outcome.code == 1
    assert not set("\x1b\x07\u202e") & set(outcome.out + outcome.err)


def test_a_hundred_gigabytes_of_weights_are_inspected_without_being_read(tmp_path: Path) -> None:
    proto, size = model(), 100 << 30
    big = proto.graph.initializer.add(name="big", data_type=onnx.TensorProto.FLOAT, dims=[size // 4])
    big.data_location = onnx.TensorProto.EXTERNAL
    big.external_data.add(key="location", value="big.bin")
    try:
        with (tmp_path / "big.bin").open("wb") as file:
            file.truncate(size)
    except OSError as error:
        pytest.skip(f"no sparse files here: {error}")
    outcome = run("inspect", saved(tmp_path, proto))
    assert outcome.code == 0
    assert "100.0 GiB" in outcome.out.splitlines()[0]


def test_json_and_a_drawing_cannot_both_have_stdout(tmp_path: Path) -> None:
    outcome = run("inspect", saved(tmp_path), "--json", "--dot", "-")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: stdout holds the drawing, so the JSON needs a file: --report PATH")


def test_every_pass_of_the_list_is_described_by_itself_and_not_by_its_base_class() -> None:
    summaries = [entry["summary"] for entry in json.loads(run("passes", "--json").out)["passes"]]
    assert len(summaries) == len(set(summaries))
    assert not any(summary.startswith("A pass that") for summary in summaries)


def test_a_quiet_check_answers_by_its_exit_code_alone(tmp_path: Path) -> None:
    outcome = run("check", saved(tmp_path, model(UNTRAINABLE)), "-q")
    assert (outcome.code, outcome.out, outcome.err) == (1, "", "")


def test_a_list_that_does_not_fit_on_the_terminal_is_printed_whole_as_paragraphs() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "onnx_inline", "targets"],
        stdout=theirs,
        env=environment(COLUMNS="60", TERM="xterm", NO_COLOR="1"),
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode().replace("\r\n", "\n")
    os.close(ours)
    assert done.returncode == 0
    assert "onnx-ad\n  reader: onnx-ad" in shown
    assert "summary: ONNX in tinygrad" in shown
