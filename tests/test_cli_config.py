"""Options from pyproject.toml and onnx-inline.toml."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_helpers import saved

from onnx_inline.cli import main


def shown_config(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """Return what ``inspect --show-config`` prints in ``folder``, by option."""
    assert main(["inspect", "in.onnx", "--show-config", *arguments]) == 0
    return dict(line.split(" = ") for line in capsys.readouterr().out.splitlines())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    saved(tmp_path)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_line_wins_over_the_commands_table_and_that_over_the_shared_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.onnx-inline]\nsort = "bytes"\ndepth = 1\nverbose = 1\n[tool.onnx-inline.inspect]\ndepth = 2\n'
    )
    shown = shown_config(folder, capsys)
    assert (shown["sort"], shown["depth"], shown["json"]) == (
        "'bytes'  (file)",
        "2  (file)",
        "False  (default)",
    )
    assert shown_config(folder, capsys, "--depth", "3")["depth"] == "3  (commandline)"


def test_the_nearest_file_above_counts_and_our_own_before_pyproject(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text("[tool.onnx-inline]\ndepth = 1\n")
    (folder / "below" / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(folder / "below")
    assert shown_config(folder, capsys)["depth"] == "1  (file)"
    (folder / "onnx-inline.toml").write_text("depth = 7\n")
    assert shown_config(folder, capsys)["depth"] == "7  (file)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depht = 1", "onnx-inline has no option 'depht' that a file may set; did you mean depth?"),
        ("[inspect]\ndepht = 1", "inspect has no option 'depht' that a file may set; did you mean depth?"),
        ("[inspect]\ndot = 'x'", "inspect has no option 'dot' that a file may set"),
        ("depth = ", "Invalid value"),
        ("inspect = 1", "inspect must be a table of options"),
        ("[inspct]\ndepth = 1", "there is no command 'inspct' to set options of; did you mean inspect?"),
        ("depth = 'deep'", "Invalid value for '--depth'"),
    ],
)
def test_a_wrong_file_is_refused_by_name(
    text: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "onnx-inline.toml").write_text(text)
    assert main(["inspect", "in.onnx"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_help_is_there_even_with_a_wrong_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "onnx-inline.toml").write_text("depth = ")
    assert main(["inspect", "--help"]) == 0
    assert "Example:" in capsys.readouterr().out


def test_an_option_of_another_command_may_stand_in_the_shared_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "onnx-inline.toml").write_text("depth = 3\n")
    assert main(["doctor", "-q"]) == 0
