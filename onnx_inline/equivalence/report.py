"""What a comparison of two models found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

#: same, different, or unable: the engine cannot run the models
Verdict = Literal["same", "different", "unable"]


@dataclass(frozen=True)
class FirstDifference:
    """The first value, in the order of computation, that both models have and that differs.

    Attributes:
        value: its name.
        node_a: the node that computes it in the first model, as text.
        node_b: likewise in the second.
        compared: how many values of the same name both models have.
    """

    value: str
    node_a: str
    node_b: str
    compared: int

    def __str__(self) -> str:
        nodes = f"\n      a: {self.node_a}\n      b: {self.node_b}"
        return f"{self.value!r} (of {self.compared} values in both){nodes}"


@dataclass(frozen=True)
class EngineReport:
    """What one engine computed.

    Attributes:
        engine: ``onnxruntime`` or ``reference``.
        version: its version.
        verdict: ``same``, ``different``, or ``unable`` if it cannot run the models.
        reason: why it is unable, or what differs.
        samples: how many sets of inputs were compared.
        outputs: how many outputs were compared in each.
        largest_absolute: the largest absolute difference of two numbers.
        largest_relative: the largest difference relative to the first model's number.
        output: the output that differs, empty if none does.
        seed: the seed of the inputs for which it differs.
        first: the first differing value inside, None if none was found.
    """

    engine: str
    version: str
    verdict: Verdict
    reason: str = ""
    samples: int = 0
    outputs: int = 0
    largest_absolute: float = 0.0
    largest_relative: float = 0.0
    output: str = ""
    seed: int | None = None
    first: FirstDifference | None = None

    def __str__(self) -> str:
        name = f"{self.engine} {self.version}".strip()
        if self.verdict == "unable":
            return f"{name}: unable: {self.reason}"
        numbers = (
            f"{self.samples} sets of inputs, {self.outputs} outputs, largest difference "
            f"{self.largest_absolute:.3g} absolute, {self.largest_relative:.3g} relative"
        )
        if self.verdict == "same":
            return f"{name}: same: {numbers}"
        where = f"output {self.output!r}" if self.output else "the models"
        seed = "" if self.seed is None else f" with seed {self.seed}"
        first = f"\n    the first value that differs: {self.first}" if self.first else ""
        return f"{name}: different: {where}{seed}: {self.reason}; {numbers}{first}"


@dataclass(frozen=True)
class VerifyReport:
    """Whether two models have the same interface and compute the same.

    Attributes:
        a: the first model: its path, or ``a``.
        b: the second.
        interface: what differs between the interfaces, a line each; empty if they are the same.
        engines: what each engine found.
        inputs: how inputs were made.
        rtol: the relative tolerance.
        atol: the absolute tolerance.
        seed: the seed of the first set of inputs; each next set has the next one.
    """

    a: str
    b: str
    interface: tuple[str, ...]
    engines: tuple[EngineReport, ...]
    inputs: str
    rtol: float
    atol: float
    seed: int

    @property
    def compared(self) -> bool:
        """Whether an engine ran both models."""
        return any(engine.verdict != "unable" for engine in self.engines)

    @property
    def same(self) -> bool:
        """Whether the interface is the same, an engine ran both models, and none found a difference."""
        different = any(engine.verdict == "different" for engine in self.engines)
        return self.compared and not different and not self.interface

    def __bool__(self) -> bool:
        return self.same

    @property
    def largest_absolute(self) -> float:
        """The largest absolute difference that an engine found."""
        return max((engine.largest_absolute for engine in self.engines), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        plain = asdict(self)
        plain["interface"], plain["engines"] = list(self.interface), list(plain["engines"])
        return {"same": self.same, "compared": self.compared, **plain}

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {line}" for line in self._lines())])

    def _headline(self) -> str:
        if self.interface:
            return f"{self.a} and {self.b} differ in their interface"
        if not self.compared:
            return f"{self.a} and {self.b} could not be compared: no engine ran both"
        verdict = "compute the same" if self.same else "compute different results"
        return f"{self.a} and {self.b} {verdict}"

    def _lines(self) -> list[str]:
        made = f"inputs: {self.inputs}; seed {self.seed}; rtol {self.rtol:g}, atol {self.atol:g}"
        return [*self.interface, *map(str, self.engines), made]
