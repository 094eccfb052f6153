"""A rich console that takes names literally and ends on a closed pipe as other programs do."""

from __future__ import annotations

from typing import Any

from rich.console import Console


class LiteralConsole(Console):
    """No markup, no emoji codes, no highlighting: a value may be called ``[red]x[/]``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def on_broken_pipe(self) -> None:
        """Let the caller decide; rich would leave with exit code 1."""
        raise BrokenPipeError
