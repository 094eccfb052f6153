"""The code of the pages that show a session of Python gives what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    page for page in sorted((ROOT / "docs").rglob("*.md")) if "```pycon" in page.read_text(encoding="utf-8")
]


def test_the_pages_on_modules_and_on_a_first_model_show_sessions() -> None:
    assert {"modules.md", "first-model.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_session_goes_as_the_page_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8").replace("```", "")
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, page.name, 0)
    problems: list[str] = []
    doctest.DocTestRunner().run(example, out=problems.append)
    assert not problems, "".join(problems)
