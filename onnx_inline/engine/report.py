"""What inlining did."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from onnx_inline.engine.conversion import Conversion


@dataclass(frozen=True)
class LeftCalls:
    """Calls that were left although they were chosen."""

    function: str
    calls: int
    reason: str


@dataclass(frozen=True)
class InlineReport:
    """What an inlining did.

    Attributes:
        calls: the number of calls inlined, by function.
        nodes_before: nodes in the graphs before, subgraphs included; function bodies do not count.
        nodes_after: nodes in the graphs afterwards.
        functions_before: the number of local functions before.
        removed: the functions that are gone.
        left: chosen calls that were left, with reasons.
        conversions: operators converted to the opset of the graph that they went into.
        opset_imports: the model's opset imports afterwards, by domain.
        seconds: how long it took.
        notes: what was done to files without being asked for, a sentence each.
    """

    calls: Mapping[str, int] = field(default_factory=dict)
    nodes_before: int = 0
    nodes_after: int = 0
    functions_before: int = 0
    removed: tuple[str, ...] = ()
    left: tuple[LeftCalls, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    opset_imports: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def timed(self, started: float) -> InlineReport:
        """Return the report with the seconds since ``started``, a reading of :func:`time.perf_counter`."""
        return replace(self, seconds=time.perf_counter() - started)

    @property
    def modified(self) -> bool:
        """Whether anything changed."""
        return bool(self.calls or self.removed)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        plain = asdict(self)
        for key in ("removed", "left", "conversions", "notes"):
            plain[key] = list(plain[key])
        return plain

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [f"  left {x.calls:,} calls of {x.function}: {x.reason}" for x in self.left]
        lines += [
            f"  converted {c.operator} in {c.function} from {c.domain or 'ai.onnx'} {c.needs} to {c.has}"
            for c in self.conversions
        ]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def _headline(self) -> str:
        if not self.modified:
            return f"nothing to inline: {self.nodes_before:,} nodes, {self.functions_before:,} functions"
        return (
            f"inlined {sum(self.calls.values()):,} calls of {len(self.calls):,} functions: "
            f"{self.nodes_before:,} -> {self.nodes_after:,} nodes in {self.seconds:.2g} s"
        )
