"""``onnx-inline inline``: forms of input and output, choosing functions, reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from cli_helpers import EVIL, environment, evil_model, model, run, saved

from onnx_inline.cli import main


def loaded(path: Path) -> onnx.ModelProto:
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    return proto


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return saved(tmp_path)


@pytest.mark.parametrize("form", ["{in} {out}", "{in} -o {out}", "{in} --output={out}", "-o {out} {in}"])
def test_each_form_of_output_writes_the_flat_model_and_answers_first(form: str, source: Path) -> None:
    out = source.with_name("out.onnx")
    arguments = form.replace("{in}", str(source)).replace("{out}", str(out)).split()
    outcome = run("inline", *arguments)
    assert outcome.code == 0
    assert outcome.out.startswith("inlined 3 calls of 2 functions: 2 -> 5 nodes in ")
    assert outcome.out.count("\n") == 1
    assert [node.op_type for node in loaded(out).graph.node] == ["Abs", "Add", "Neg", "Abs", "Add"]
    assert not loaded(out).functions


def test_the_table_on_stderr_shows_before_and_after(source: Path) -> None:
    lines = run("inline", source, source.with_name("out.onnx")).err.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "before after",
        "functions 2 0",
        "nodes 2 5",
        "calls of l::inner 2 0",
        "calls of l::outer 1 0",
    ]


def test_without_an_output_nothing_is_written_and_the_answer_says_so(source: Path) -> None:
    for arguments in ((), ("--dry-run",), ("-o", source.with_name("out.onnx"), "--dry-run")):
        outcome = run("inline", source, *arguments)
        assert outcome.code == 0
        assert "inlined 3 calls" in outcome.out
        assert "nothing written" in outcome.out
    assert list(source.parent.iterdir()) == [source]


def test_in_place_writes_over_the_input(source: Path) -> None:
    assert run("inline", source, "--in-place").code == 0
    assert not loaded(source).functions
    before = source.read_bytes()
    again = run("inline", source, "--in-place")
    assert again.out.startswith("nothing to inline: 5 nodes, 0 functions")
    assert source.read_bytes() == before


def test_the_input_may_be_named_as_the_output_also_by_another_path(source: Path) -> None:
    assert run("inline", source, source.parent / "." / source.name).code == 0
    assert not loaded(source).functions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("in.onnx out.onnx -o other.onnx", "one output, please"),
        ("in.onnx out.onnx --in-place", "one output, please"),
        ("- --in-place", "stdin cannot be changed in place"),
        ("in.onnx -o - --json", "stdout holds the model"),
        ("in.onnx --diff --json", "stdout holds the diff"),
        ("in.onnx a b c", "unexpected extra argument"),
        ("in.onnx --names pretty", "Invalid value for '--names'"),
        ("in.onnx --max-nodes many", "Invalid value for '--max-nodes'"),
        ("in.onnx --external maybe", "Invalid value for '--external'"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_read(
    arguments: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["inline", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_forced(source: Path) -> None:
    out = source.with_name("out.onnx")
    out.write_text("precious")
    refused = run("inline", source, out)
    assert refused.code == 2
    assert refused.err.splitlines() == [
        f"error: {out}: exists and is not the input",
        "hint: --force writes over it",
    ]
    assert out.read_text() == "precious"
    assert run("inline", source, out, "--force").code == 0
    assert not loaded(out).functions


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "symlink"), reason="needs links")
def test_a_dangling_link_counts_as_an_existing_file(source: Path) -> None:
    out = source.with_name("out.onnx")
    out.symlink_to(source.with_name("elsewhere.onnx"))
    assert run("inline", source, out).code == 2
    assert not source.with_name("elsewhere.onnx").exists()


def test_stdin_and_stdout_hold_models_and_the_answer_moves_to_stderr(source: Path) -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "onnx_inline", "inline", "-", "-o", "-"],
        input=source.read_bytes(),
        capture_output=True,
        env=environment(),
    )
    assert piped.returncode == 0
    assert piped.stderr.decode().startswith("inlined 3 calls")
    out = source.with_name("out.onnx")
    assert run("inline", source, out).code == 0
    assert piped.stdout == out.read_bytes()


@pytest.mark.parametrize("form", ["textproto", "onnxtxt", "json"])
def test_text_forms_go_in_and_out_by_suffix_and_by_option(form: str, source: Path) -> None:
    # Older onnx prints names with slashes as it cannot read them again.
    flat = ("--names", "flat")
    text = source.with_name(f"out.{form}")
    assert run("inline", source, text, *flat).code == 0
    piped = run("inline", "-", "-", *flat, "--format", form, stdin=source.read_bytes())
    assert piped.out == text.read_text(encoding="utf-8")
    back = source.with_name("back.onnx")
    assert run("inline", "-", back, "--input-format", form, stdin=text.read_bytes()).code == 0
    direct = source.with_name("direct.onnx")
    assert run("inline", source, direct, *flat).code == 0
    assert onnx.printer.to_text(loaded(back)) == onnx.printer.to_text(loaded(direct))


def test_only_and_keep_choose_functions_and_may_be_repeated(source: Path) -> None:
    out = source.with_name("out.onnx")
    run("inline", source, out, "--only", "l::outer", "--only", "nothing*", "--force")
    assert not out.exists()
    assert run("inline", source, out, "--only", "*::outer").code == 0
    assert [function.name for function in loaded(out).functions] == ["inner"]
    assert run("inline", source, out, "--keep", "outer", "--force").code == 0
    assert [function.name for function in loaded(out).functions] == ["outer"]


def test_an_unknown_function_is_an_error_with_close_matches(source: Path) -> None:
    outcome = run("inline", source, source.with_name("out.onnx"), "--only", "l::iner")
    assert outcome.code == 2
    assert outcome.err.startswith("error: no function matches 'l::iner'")
    assert "hint: did you mean l::inner" in outcome.err
    assert list(source.parent.iterdir()) == [source]


def test_too_large_a_result_is_refused_and_nothing_is_written(source: Path) -> None:
    outcome = run("inline", source, source.with_name("out.onnx"), "--max-nodes", "4")
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert "5" in outcome.err
    assert list(source.parent.iterdir()) == [source]


def test_an_output_that_cannot_be_written_is_an_error(source: Path) -> None:
    outcome = run("inline", source, source.parent / "no" / "such" / "out.onnx")
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert "out.onnx" in outcome.err
    assert "Traceback" not in outcome.err
    outcome = run("inline", source, source.parent, "--force")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_recursive_functions_are_an_error(tmp_path: Path) -> None:
    proto = model()
    proto.functions[1].node[0].op_type, proto.functions[1].node[0].domain = "outer", "l"
    proto.functions[1].node[0].input.append("q")
    outcome = run("inline", saved(tmp_path, proto), tmp_path / "out.onnx")
    assert outcome.code == 2
    assert "outer" in outcome.err
    assert "inner" in outcome.err


def test_json_holds_the_report(source: Path) -> None:
    out = source.with_name("out.onnx")
    facts = json.loads(run("inline", source, out, "--json").out)
    assert facts["schema_version"] == 1
    assert (facts["source"], facts["target"]) == (str(source), str(out))
    assert facts["calls"] == {"l::outer": 1, "l::inner": 2}
    assert (facts["nodes_before"], facts["nodes_after"]) == (2, 5)
    assert json.loads(run("inline", source, "--json").out)["target"] is None


def test_quiet_prints_nothing(source: Path) -> None:
    outcome = run("inline", source, source.with_name("out.onnx"), "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_a_diff_shows_what_would_change_and_writes_nothing(source: Path) -> None:
    outcome = run("inline", source, source.with_name("out.onnx"), "--diff")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == f"--- {source}"
    assert "-   a = l.outer (x, w)" in lines
    assert any(line.startswith("+") and "Neg" in line for line in lines)
    assert list(source.parent.iterdir()) == [source]


def test_a_diff_names_large_weights_by_their_hash(tmp_path: Path) -> None:
    proto = model()
    proto.graph.initializer[0].ClearField("float_data")
    proto.graph.initializer[0].dims[0] = 100
    proto.graph.initializer[0].raw_data = bytes(400)
    proto.graph.node[0].input.pop()
    proto.graph.node[0].input.append("x")
    text = run("inline", saved(tmp_path, proto), "--diff").out
    assert len(text) < 3000


def test_names_in_errors_and_tables_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    path = saved(tmp_path, evil_model())
    for arguments in ((), ("--diff",), ("--only", "nope"), ("--max-nodes", "1"), ("--only", EVIL)):
        outcome = run("inline", path, *arguments)
        assert not set("\x1b\x07\u202e") & set(outcome.out + outcome.err), arguments
        assert outcome.code in (0, 2)


def test_names_and_provenance_reach_the_result(source: Path) -> None:
    out = source.with_name("out.onnx")
    run("inline", source, out, "--names", "flat", "--provenance")
    assert all(node.metadata_props for node in loaded(out).graph.node)
    assert not any("/" in name for node in loaded(out).graph.node for name in node.output)


def test_external_data_options_reach_the_writer(source: Path) -> None:
    out = source.parent / "sub" / "out.onnx"
    out.parent.mkdir()
    proto = model()
    proto.graph.initializer[0].CopyFrom(
        onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], b"\0\0\0\0\0\0\0\0", raw=True)
    )
    onnx.save(proto, source, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert run("inline", source, out, "--external", "inline").code == 0
    assert list(out.parent.iterdir()) == [out]
    assert (
        run("inline", source, out, "--external-data", "x.bin", "--size-threshold", "0", "--force").code == 0
    )
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.onnx", "x.bin"]


def test_a_small_model_is_inlined_without_importing_onnx_ir(source: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "onnx_inline", "inline", source, f"{source}.out"]
    traced = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in traced.stderr.splitlines()}
    assert "onnx" in imported
    assert not {"onnx_ir", "rich", "networkx", "onnxruntime", "onnxscript", "sympy"} & imported
