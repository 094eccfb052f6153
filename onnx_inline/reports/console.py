"""A rich console that takes names literally."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


class LiteralConsole(Console):
    """No markup, no emoji codes, no highlighting: a value may be called ``[red]x[/]``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)


def paragraphs(table: Table) -> str:
    """Return a table of text as one paragraph a row: the first cell, then each other cell after its title.

    Example:
        >>> table = Table("target", "reader", "opset")
        >>> table.add_row("mine", "my-reader 2.1", "")
        >>> print(paragraphs(table))
        mine
          reader: my-reader 2.1
    """
    titles = [str(column.header) for column in table.columns]
    lines = []
    for row in zip(*(column.cells for column in table.columns), strict=True):
        lines.append(str(row[0]))
        lines += [f"  {title}: {cell}" for title, cell in zip(titles[1:], row[1:], strict=True) if cell]
    return "\n".join(lines)
