"""Every command and code block of the README, and every command of the other pages, does what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import environment

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "_build" not in path.parts
}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = _BLOCK.findall(PAGES["README.md"])

#: The two set-up commands.  What the first installs is tested here, the second is what runs this test.
SET_UP = [text.strip() for language, text in BLOCKS if language == "sh"]


def transcripts(page: str) -> list[tuple[str, str]]:
    """Return each command of a page's console blocks with the output that the page shows."""
    found = []
    for language, text in _BLOCK.findall(PAGES[page]):
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append((command, output))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that holds the fixtures, so that nothing is written into the checkout."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures", target_is_directory=True)
    return tmp_path


def shell(command: str, folder: Path) -> str:
    """Run a command of the README with this Python's onnx-inline; return what a terminal would show."""
    arguments = [sys.executable, "-m", "onnx_inline", *shlex.split(command)[1:]]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment(PYTHONPATH=path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.decode()


def same_but_for_seconds(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines()]
    return re.sub(r"in \d[\d.e-]* s\b", "in N s", "\n".join(lines).strip())


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {language for language, _ in BLOCKS} <= {"console", "python", "sh", "text"}
    assert transcripts("README.md")
    assert all(command.startswith("onnx-inline ") for page in PAGES for command, _ in transcripts(page))


@pytest.mark.parametrize("page", [page for page in PAGES if transcripts(page)])
def test_the_commands_of_a_page_print_what_the_page_shows(page: str, folder: Path) -> None:
    for command, output in transcripts(page):
        assert same_but_for_seconds(shell(command, folder)) == same_but_for_seconds(output), command


@pytest.mark.parametrize("source", [text for language, text in BLOCKS if language == "python"])
def test_a_code_block_runs(source: str, folder: Path) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=folder,
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    install_and_run, install_and_test = SET_UP
    assert install_and_run.startswith("pip install .")
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == install_and_test


def test_the_first_set_up_command_runs_the_main_job_on_a_fixture(folder: Path) -> None:
    command = SET_UP[0].split(" && ")[1]
    assert shell(command, folder).startswith("inlined ")
    assert (folder / command.split()[-1]).stat().st_size
