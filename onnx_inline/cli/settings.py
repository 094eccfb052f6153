"""What the common options say: how much is printed, where, in which colours."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

from onnx_inline.reports.text import escaped

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: The width of what is piped: no cell is cut or wrapped.
UNLIMITED_WIDTH = 10_000


@dataclass
class Settings:
    """The common options of one run; filled by click, read by the commands and by the error printer."""

    quiet: bool = False
    verbose: int = 0
    no_color: bool = False
    no_progress: bool = False
    traceback: bool = False
    show_config: bool = False
    stdout_taken: bool = False

    def colored(self, stream: IO[str]) -> bool:
        """Say if ``stream`` gets colours: the option decides, then NO_COLOR, FORCE_COLOR, the terminal."""
        if self.no_color or os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        return stream.isatty() and os.environ.get("TERM") != "dumb"

    def console(self, stream: IO[str]) -> Console:
        """Return a rich console on ``stream`` that takes names literally."""
        from onnx_inline.reports.console import LiteralConsole

        colored = self.colored(stream)
        return LiteralConsole(
            file=stream,
            width=None if stream.isatty() else UNLIMITED_WIDTH,
            force_terminal=colored,
            no_color=not colored,
        )

    @staticmethod
    def unicode() -> bool:
        """Say whether stdout can print box characters."""
        return (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")

    @staticmethod
    def width() -> int | None:
        """Return the columns of the terminal that stdout is, or None."""
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    @property
    def answers(self) -> IO[str]:
        """The stream for the answer: stdout, unless stdout holds a model or JSON."""
        return sys.stderr if self.stdout_taken else sys.stdout

    def say(self, line: str) -> None:
        """Print the answer of a command, names in it escaped; nothing under ``--quiet``."""
        if not self.quiet:
            print(escaped(line), file=self.answers, flush=True)

    def show(self, table: RenderableType) -> None:
        """Print a table that goes with the answer on stderr; nothing under ``--quiet``."""
        if self.quiet:
            return
        if isinstance(table, str):
            print(table, file=sys.stderr)
        else:
            self.console(sys.stderr).print(table)

    def result(self, renderable: RenderableType) -> None:
        """Print a table or tree that *is* the answer on stdout."""
        self.console(sys.stdout).print(renderable)

    def listing(self, table: Table) -> None:
        """Print a table that *is* the answer; where it does not fit on the terminal, a paragraph a row."""
        from onnx_inline.reports.console import paragraphs

        console = self.console(sys.stdout)
        wanted = console.measure(table, options=console.options.update(max_width=UNLIMITED_WIDTH)).maximum
        console.print(table if wanted <= console.width else paragraphs(table))


def settings() -> Settings:
    """Return the settings of the command that is running."""
    return click.get_current_context().ensure_object(Settings)


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep the value of a common option in the settings."""
    setattr(context.ensure_object(Settings), str(parameter.name), value)


def common_options() -> list[click.Option]:
    """Return the options that every command has."""
    hidden: dict[str, Any] = {"expose_value": False, "callback": _store}
    return [
        click.Option(["-q", "--quiet"], is_flag=True, help="Print errors, and lists asked for.", **hidden),
        click.Option(["-v", "--verbose"], count=True, help="Print more; twice: log each step.", **hidden),
        click.Option(["--no-color"], is_flag=True, help="No colours, as with NO_COLOR set.", **hidden),
        click.Option(["--no-progress"], is_flag=True, help="No progress bar, even on a terminal.", **hidden),
        click.Option(["--show-config"], is_flag=True, help="Show all values and their origin.", **hidden),
        click.Option(["--traceback"], is_flag=True, help="Show the traceback of an error.", **hidden),
    ]
