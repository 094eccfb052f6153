"""The page on the JSON names the fields that the commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_helpers import run, saved

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.M))
EVERYWHERE = {"schema_version", "onnx_inline", "command", "source", "target"}

COMMANDS = {
    "inline": "IN",
    "check": "IN",
    "prepare": "IN",
    "decompose": "IN",
    "run": "IN --passes inline-functions",
    "bisect": "IN --passes inline-functions --by checker",
    "verify": "IN IN --engine reference",
    "diff": "IN IN",
    "bind": "IN",
    "inspect": "IN",
    "passes": "",
    "targets": "",
    "doctor": "",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_every_field_that_a_command_prints(command: str, tmp_path: Path) -> None:
    path = str(saved(tmp_path))
    arguments = [path if word == "IN" else word for word in COMMANDS[command].split()]
    facts = json.loads(run(command, *arguments, "--json").out)
    named = set(re.findall(r"`(\w+)`", ROWS[command]))
    assert set(facts) - EVERYWHERE <= named


def test_the_page_has_a_row_for_every_command() -> None:
    from onnx_inline.cli.group import COMMANDS as ALL

    assert set(ALL) == set(COMMANDS)
    assert set(ALL) <= set(ROWS)
