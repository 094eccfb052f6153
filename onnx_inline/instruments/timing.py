"""Time and memory of each pass."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from onnx_inline.manager import Instrument, Step


@dataclass(frozen=True)
class PassTime:
    """What a pass took.

    Attributes:
        step: the pass.
        seconds: time on the wall.
        memory: how much the memory of the process grew, in bytes; None where the system does not say.
    """

    step: Step
    seconds: float
    memory: int | None

    def __str__(self) -> str:
        memory = "" if self.memory is None else f", {self.memory / 2**20:+.1f} MiB"
        return f"{self.step}: {self.seconds:.3g} s{memory}"


@dataclass
class Timing(Instrument):
    """Takes the time and the growth of memory of each pass.

    Attributes:
        times: what each pass took, in order.

    Example:
        >>> timing = Timing()
        >>> result = PassManager("inline-functions", instruments=[timing])(model)  # doctest: +SKIP
        >>> print(timing)  # doctest: +SKIP
        inline-functions: 0.0123 s, +1.5 MiB
    """

    times: list[PassTime] = field(default_factory=list)

    def start(self, model: ir.Model, count: int) -> None:
        """Forget what earlier runs took."""
        self.times.clear()

    def before(self, step: Step, model: ir.Model) -> None:
        """Look at the clock."""
        self._memory = resident_bytes()
        self._started = time.perf_counter()

    def after(self, step: Step, model: ir.Model, modified: bool) -> None:
        """Look at it again."""
        seconds = time.perf_counter() - self._started
        now, then = resident_bytes(), self._memory
        self.times.append(PassTime(step, seconds, None if now is None or then is None else now - then))

    def __str__(self) -> str:
        return "\n".join(map(str, self.times))


def resident_bytes() -> int | None:
    """Return the memory that the process holds now, in bytes, or None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
