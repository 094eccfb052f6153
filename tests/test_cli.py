"""The command line as a whole: help, exit codes, error lines, signals, pipes, colours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from cli_helpers import EVIL, environment, evil_model, run, saved
from click.testing import CliRunner

from onnx_inline import __version__
from onnx_inline.cli import main
from onnx_inline.cli.group import COMMANDS, cli
from onnx_inline.cli.running import error_lines, exit_code
from onnx_inline.errors import FileError, UnknownNameError


def test_help_lists_every_command_with_one_line() -> None:
    outcome = run("--help")
    assert outcome.code == 0
    assert outcome.err == ""
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.out


def test_without_arguments_the_help_is_printed() -> None:
    assert run().out == run("-h").out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example_that_names_it(command: str) -> None:
    outcome = CliRunner().invoke(cli, [command, "--help"])
    assert outcome.exit_code == 0
    assert "Example:" in outcome.output
    assert f"onnx-inline {command}" in outcome.output.split("Example:")[1]


@pytest.mark.parametrize("command", ["--help", "--version", *(f"{command} --help" for command in COMMANDS)])
def test_help_imports_nothing_slow(command: str) -> None:
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "onnx_inline", *command.split()],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in traced.stderr.splitlines()}
    assert "click" in imported
    assert not {"onnx", "onnx_ir", "numpy", "rich", "networkx", "onnxruntime", "torch"} & imported


def test_the_version_line_names_what_results_depend_on() -> None:
    line = run("--version").out
    assert line.startswith(f"onnx-inline {__version__} (onnx ")
    assert all(name in line for name in ("onnx-ir", "onnxscript", "onnxruntime", "Python 3."))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str) -> None:
    outcome = run("--show-completion", shell)
    assert outcome.code == 0
    assert "_ONNX_INLINE_COMPLETE" in outcome.out


def test_the_shell_completes_commands() -> None:
    environ = {"_ONNX_INLINE_COMPLETE": "bash_complete", "COMP_WORDS": "onnx-inline insp", "COMP_CWORD": "1"}
    assert run(**environ).out == "plain,inspect\n"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["inspct"], "error: no command 'inspct'; did you mean inspect?", "hint: see onnx-inline --help"),
        (["frobnicate"], "error: no command 'frobnicate'; there are ", "hint: see onnx-inline --help"),
        (["inspect"], "error: Missing argument 'IN'", "hint: see onnx-inline inspect --help"),
        (["inspect", "m", "--dpth", "3"], "error: No such option", "hint: see onnx-inline inspect --help"),
        (["inspect", "m", "--depth", "-1"], "error: Invalid value for '--depth'", "hint: see onnx-inline "),
        (["inspect", "m", "n"], "error: Got unexpected extra argument (n)", "hint: see onnx-inline inspect"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_error_and_one_hint(
    arguments: list[str], error: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = captured.err.splitlines()
    assert first.startswith(error)
    assert second.startswith(hint)


def test_a_model_in_place_of_a_command_is_taken_for_a_forgotten_inline(tmp_path: Path) -> None:
    path = saved(tmp_path)
    outcome = run(path, "out.onnx")
    assert outcome.code == 2
    assert f"did you mean onnx-inline inline {path} out.onnx?" in outcome.err


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"\xff" * 100, "no ONNX model"),
        (b"ORTM" * 10, "onnxruntime"),
    ],
)
def test_what_is_no_model_is_refused_by_name_without_a_traceback(
    data: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.onnx"
    if data is not None:
        path.write_bytes(data)
    outcome = run("inspect", path)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith(f"error: {path}: ")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    outcome = run("inspect", path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {path}: ")


def test_our_own_fault_is_one_line_and_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("oops\x1b")

    monkeypatch.setattr("onnx_inline.reports.installation.examine", broken)
    assert main(["doctor"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    error, hint = captured.err.splitlines()
    assert error == "error: a fault of onnx-inline itself: KeyError: 'oops\\x1b'"
    assert "--traceback" in hint
    assert "onnx-inline doctor" in hint

    assert main(["doctor", "--traceback"]) == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (FileError("is cut short", path="m.onnx", hint="fetch it again"), 2,
         ["error: m.onnx: is cut short", "hint: fetch it again"]),
        (UnknownNameError("no pass 'x'", close=["y"]), 2, ["error: no pass 'x'", "hint: did you mean y?"]),
        (PermissionError(13, "Permission denied", "out.onnx"), 2, ["error: out.onnx: Permission denied"]),
        (MemoryError(), 2, ["error: out of memory", "hint: close other programs, or raise the memory limit"]),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 2,
         ["error: this needs torch, which is not installed", "hint: pip install torch"]),
        (click.UsageError("no"), 2, ["error: no", "hint: see onnx-inline --help"]),
        (KeyboardInterrupt(), 130, []),
        (click.Abort(), 130, []),
    ],
)  # fmt: skip
def test_each_kind_of_error_has_its_code_and_lines(error: BaseException, code: int, lines: list[str]) -> None:
    assert exit_code(error) == code
    assert error_lines(error) == lines


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_with_its_code_and_no_traceback(number: int, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "onnx_inline", "inspect", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # A shell lets what it starts in the background ignore SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        # More than a pipe holds: once it is written, the command is reading.
        process.stdin.write(bytes(200_000))
        process.stdin.flush()
        time.sleep(0.1)
        process.send_signal(number)
        ended = process.wait(timeout=60)
        # click ends the line on which the terminal shows ^C
        assert (ended, process.stdout.read(), process.stderr.read().strip()) == (code, b"", b"")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="POSIX pipes")
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["inspect", "{}"], ["inspect", "{}", "--json"]]
)
def test_a_closed_pipe_ends_silently(arguments: list[str], tmp_path: Path) -> None:
    path = str(saved(tmp_path))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "onnx_inline", *(argument.replace("{}", path) for argument in arguments)],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_from_a_model_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    path = saved(tmp_path, evil_model())
    for arguments in ((), ("--json",), ("--dot", "-")):
        shown = run("inspect", path, *arguments, FORCE_COLOR="")
        assert shown.code == 0
        assert not set("\x1b\x07\u202e") & set(shown.out + shown.err)
    assert "l::e\\x1b]0;owned\\x07[red]\\u202ex" in run("inspect", path).out
    assert "l::" + EVIL in json.loads(run("inspect", path, "--json").out)["main"]["callees"]


def test_colours_are_for_terminals_unless_forced_and_never_against_no_color(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert "\x1b[" not in run("inspect", path).out
    assert "\x1b[" in run("inspect", path, FORCE_COLOR="1").out
    assert "\x1b[" not in run("inspect", path, FORCE_COLOR="1", NO_COLOR="1").out
    assert "\x1b[" not in run("inspect", path, "--no-color", FORCE_COLOR="1").out


def test_a_stream_without_box_characters_gets_none(tmp_path: Path) -> None:
    outcome = run("inspect", saved(tmp_path), PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert outcome.code == 0
    assert outcome.out.isascii()
    assert "|-- l::outer" in outcome.out


def test_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    path = saved(tmp_path)
    outcome = run("inspect", path, "--json")
    facts = json.loads(outcome.out)
    assert (facts["schema_version"], facts["onnx_inline"], facts["command"]) == (1, __version__, "inspect")
    assert facts["main"]["flat_nodes"] == 5


def test_a_json_report_goes_to_a_file_beside_the_printed_answer(tmp_path: Path) -> None:
    path, report = saved(tmp_path), tmp_path / "r.json"
    assert run("inspect", path, "--report", report).out.startswith(f"{path}: 2 functions")
    first = json.loads(report.read_text())
    report.unlink()
    assert run("inspect", path, f"--json={report}").code == 0
    assert json.loads(report.read_text()) == first


def test_quiet_prints_no_answer_line(tmp_path: Path) -> None:
    assert not run("inspect", saved(tmp_path), "-q").out.startswith(str(tmp_path))


def test_doctor_finds_what_it_needs() -> None:
    outcome = run("doctor", "--json")
    parts = {part["name"]: part for part in json.loads(outcome.out)["parts"]}
    assert outcome.code == 0
    assert parts["onnx"]["version"]
    assert parts["onnx"]["fault"] is None
    assert run("doctor").out.startswith("onnx-inline ")


def test_doctor_says_no_if_something_needed_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    assert main(["doctor"]) == 1
    assert "no: not installed (onnx_ir)" in capsys.readouterr().out
