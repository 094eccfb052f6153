"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from onnx_inline.errors import listed

#: How many places a line of the report names.
MOST_PLACES = 3


@dataclass(frozen=True)
class GradientFinding:
    """One thing that a reader refuses, or gets wrong.

    Attributes:
        kind: ``operator`` (no gradient, or not taken), ``function`` (a call that the reader does not take),
            ``collision`` (a name that means another operator), ``call`` (inputs, outputs or attributes that
            the reader needs), ``used-twice``, ``no-path``, ``node-name``, ``value-name``, ``opset`` or
            ``ir-version``.
        subject: the operator, function, value or domain concerned.
        message: what is wrong.
        cure: what to do about it.
        places: where, as paths of calls down to the node.
        blocks: whether the reader fails, or gives wrong gradients.
    """

    kind: str
    subject: str
    message: str
    cure: str
    places: tuple[str, ...] = ()
    blocks: bool = True

    def __str__(self) -> str:
        where = f" at {listed(self.places, MOST_PLACES)}" if self.places else ""
        return f"{self.message}{where}\n    cure: {self.cure}"


@dataclass(frozen=True)
class GradientReport:
    """What stands between a model and a reader.

    Attributes:
        target: the target's name.
        trainable: what gradients are asked for.
        outputs: what gradients are asked of.
        nodes: the number of nodes, functions inlined.
        nodes_on_paths: how many of them lie on a path from a trainable value to an output.
        findings: everything found, what blocks first.
    """

    target: str
    trainable: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    nodes: int = 0
    nodes_on_paths: int = 0
    findings: tuple[GradientFinding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing blocks."""
        return not self.blocking

    @property
    def blocking(self) -> tuple[GradientFinding, ...]:
        """The findings with which the reader fails or is wrong."""
        return tuple(finding for finding in self.findings if finding.blocks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        plain = asdict(self)
        for key in ("trainable", "outputs", "findings"):
            plain[key] = list(plain[key])
        for finding in plain["findings"]:
            finding["places"] = list(finding["places"])
        return {"ok": self.ok, **plain}

    def __str__(self) -> str:
        what = f"{self.nodes_on_paths:,} of {self.nodes:,} nodes on gradient paths"
        if self.ok:
            head = f"ready for {self.target}: {what}"
        else:
            things = "1 thing blocks" if len(self.blocking) == 1 else f"{len(self.blocking):,} things block"
            head = f"not ready for {self.target}: {things}; {what}"
        lines = [f"  {'' if finding.blocks else 'note: '}{finding}" for finding in self.findings]
        return "\n".join([head, *lines])
