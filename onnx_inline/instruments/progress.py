"""A progress bar for long chains, on a terminal only."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import IO

import onnx_ir as ir

from onnx_inline.manager import Instrument, Step


@dataclass
class Progress(Instrument):
    """Shows which pass is running, on a terminal, once the chain has taken ``delay`` seconds.

    Attributes:
        stream: where to; nothing is shown if it is no terminal.
        delay: seconds before anything is shown.
    """

    stream: IO[str] = field(default_factory=lambda: sys.stderr)
    delay: float = 1.0

    def start(self, model: ir.Model, count: int) -> None:
        """Wait for the delay in the background."""
        self._timer: threading.Timer | None = None
        if not self.stream.isatty():
            return
        # Imported only here: most runs are over before anything is shown.
        from rich.console import Console
        from rich.progress import Progress as Bar

        self._bar = Bar(console=Console(file=self.stream), transient=True)
        self._task = self._bar.add_task("passes", total=count)
        self._timer = threading.Timer(self.delay, self._bar.start)
        self._timer.daemon = True
        self._timer.start()

    def before(self, step: Step, model: ir.Model) -> None:
        """Show the pass."""
        if self._timer is not None:
            from rich.markup import escape

            self._bar.update(self._task, description=escape(str(step)), completed=step.index - 1)

    def finish(self, model: ir.Model | None) -> None:
        """Remove the bar."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._bar.stop()
