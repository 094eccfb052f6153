"""The code of the page on modules gives what the page shows."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_on_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "how-to" / "modules.md").read_text(encoding="utf-8").replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, "modules.md", "modules.md", 0)
    assert len(example.examples) > 15
    problems: list[str] = []
    doctest.DocTestRunner().run(example, out=problems.append)
    assert not problems, "".join(problems)
