"""A rich console that takes names literally."""

from __future__ import annotations

from typing import Any

from rich.console import Console


class LiteralConsole(Console):
    """No markup, no emoji codes, no highlighting: a value may be called ``[red]x[/]``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
