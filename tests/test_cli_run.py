"""``onnx-inline run``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import onnx
import pytest
from cli_helpers import run, saved

from onnx_inline.cli import main


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path)


def test_a_chain_runs_from_file_to_file_and_says_what_each_pass_did(source: Path) -> None:
    out = source.with_name("out.onnx")
    outcome = run("run", source, out, "--passes", "inline-functions,remove-unused-nodes")
    assert outcome.code == 0
    assert outcome.out.startswith("ran 2 passes: 6 -> 5 nodes in ")
    assert [line.split()[0] for line in outcome.err.splitlines()] == [
        "pass", "inline-functions", "remove-unused-nodes",
    ]  # fmt: skip
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Abs", "Add", "Neg", "Abs", "Add"]


def test_without_an_output_nothing_is_written(source: Path) -> None:
    outcome = run("run", source, "--passes", "inline-functions", "--json")
    facts = json.loads(outcome.out)
    assert facts["target"] is None
    assert [one["text"] for one in facts["passes"]] == ["inline-functions"]
    assert list(source.parent.iterdir()) == [source]


def test_passes_can_be_left_out_of_a_chain(source: Path) -> None:
    facts = json.loads(
        run(
            "run",
            source,
            "--passes",
            "inline-functions,topological-sort",
            "--skip",
            "inline-functions",
            "--json",
        ).out
    )
    assert [one["text"] for one in facts["passes"]] == ["topological-sort"]


def test_the_chain_can_stand_in_pyproject(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(source.parent)
    Path("pyproject.toml").write_text('[tool.onnx-inline.run]\npasses = "inline-functions"\n')
    assert main(["run", "in.onnx"]) == 0
    assert capsys.readouterr().out.startswith("ran 1 passes")


def test_a_diff_shows_what_each_pass_changes_and_writes_nothing(source: Path) -> None:
    out = source.with_name("out.onnx")
    outcome = run("run", source, out, "--passes", "inline-functions,topological-sort", "--diff")
    assert outcome.code == 0
    assert "+++ after inline-functions" in outcome.out
    assert "topological-sort" not in outcome.out
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--passes", "inline-functoins"], "there is no pass 'inline-functoins'"),
        (["--passes", "inline-functions{depht=1}"], "depht"),
        (["--passes", "inline-functions{"], "error: "),
        (["--passes", "inline-functions", "--skip", "nope"], "there is no pass 'nope'"),
        ([], "Missing option '--passes'"),
    ],
)
def test_a_chain_that_cannot_be_read_is_an_error(
    arguments: list[str], message: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(source), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_a_pass_that_fails_is_named_with_the_command_that_reproduces_it(source: Path) -> None:
    out, dump = source.with_name("out.onnx"), source.with_name("dump.onnx")
    chain = "topological-sort,inline-functions{max_nodes=1}"
    outcome = run("run", source, out, "--passes", chain, "--dump-on-failure", dump)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert "inline-functions" in outcome.err
    assert f"onnx-inline run {dump} --passes " in outcome.err
    assert not out.exists()
    assert onnx.load(dump).functions


def test_bisect_names_the_pass_and_the_node_that_go_wrong(source: Path) -> None:
    out = source.with_name("bad.onnx")
    has_functions = "import onnx, sys; sys.exit(not onnx.load(sys.argv[1]).functions)"
    by = f"{shlex.quote(sys.executable)} -c {shlex.quote(has_functions)}"
    chain = "topological-sort,inline-functions"
    outcome = run("bisect", source, "--passes", chain, "--by", by, "-o", out, "--json")
    facts = json.loads(outcome.out)
    assert outcome.code == 1
    assert (facts["reproduced"], facts["index"], facts["count"]) == (True, 2, 2)
    assert facts["pass"] == "inline-functions"
    assert out.exists()
    assert "onnx-inline run " in facts["reproduce"]


def test_bisect_says_when_there_is_nothing_to_find(source: Path) -> None:
    outcome = run("bisect", source, "--passes", "inline-functions", "--by", "checker")
    assert outcome.code == 0
    assert "good after the last pass" in outcome.out


def test_bisect_keeps_an_existing_file(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("bad.onnx")
    out.write_text("precious")
    assert main(["bisect", str(source), "--passes", "inline-functions", "-o", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "precious"


def test_bisect_of_a_model_that_is_bad_already_does_not_say_yes(source: Path) -> None:
    outcome = run("bisect", source, "--passes", "inline-functions", "--by", "false")
    assert (outcome.code, outcome.out) == (1, "nothing found: the model is bad before the first pass\n")


def test_a_pass_that_is_left_out_must_exist(source: Path) -> None:
    outcome = run("run", source, "--passes", "inline-functions", "--skip", "xyz")
    assert outcome.code == 2
    assert outcome.err == "error: there is no pass 'xyz'\nhint: onnx-inline passes lists them\n"
