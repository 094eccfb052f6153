"""One look over graphs that see each other: names, operators, sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from onnx_inline.errors import InvalidModelError
from onnx_inline.identifiers import OperatorId, normalized_domain

#: Graphs nested deeper cannot even be copied: protobuf stops at 100 levels, and a graph takes three.
DEEPEST = 32
TOO_DEEP = (
    f"graphs are nested more than {DEEPEST} deep, which no file can hold; make the inner ones functions"
)


@dataclass
class Survey:
    """What is in some graphs, their subgraphs included.

    Attributes:
        where: what was looked over, for messages.
        values: all names of values.
        labels: all names of nodes.
        operators: how often each operator is used.
        depth: how deep the deepest graph is nested.
    """

    where: str
    values: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    operators: Counter[OperatorId] = field(default_factory=Counter)
    depth: int = 0

    def enter(self, depth: int) -> None:
        """Note a graph at a depth.

        Raises:
            InvalidModelError: it is too deep.
        """
        if depth > DEEPEST:
            raise self.error(TOO_DEEP)
        self.depth = max(self.depth, depth)

    def add(self, other: Survey) -> None:
        """Take in what another survey found."""
        self.values += other.values
        self.labels += other.labels
        self.operators += other.operators
        self.depth = max(self.depth, other.depth)

    def domains(self, gone: Collection[OperatorId]) -> frozenset[str]:
        """Return the domains of the operators used, those that go excepted."""
        return frozenset(op.domain for op in self.operators if op not in gone)

    def refuse_twice(self, names: list[str], what: str) -> None:
        """Raise if one of the names of a scope is there twice."""
        if len(set(names)) == len(names):
            return
        twice = next((name for name, count in Counter(names).items() if count > 1 and name), None)
        if twice is not None:
            raise self.error(f"{what} {twice!r} is defined twice; rename or remove one of the definitions")

    def error(self, message: str) -> InvalidModelError:
        """Return an error about what is being looked over."""
        return InvalidModelError(f"{self.where}: {message}")


def agreed_imports(imports: Iterable[tuple[str, int]], where: str, function: str | None) -> dict[str, int]:
    """Return opset imports by normalized domain.

    Raises:
        InvalidModelError: a domain is imported in two versions, perhaps once as '' and once as 'ai.onnx'.
    """
    found: dict[str, int] = {}
    for domain, version in imports:
        known = found.setdefault(normalized_domain(domain), version)
        if known != version:
            raise InvalidModelError(
                f"{where}: domain {domain or 'ai.onnx'!r} is imported in versions {known} and {version}; "
                "remove one of the imports",
                function=function,
            )
    return found


def defined_twice(identifier: OperatorId) -> InvalidModelError:
    """Return an error about two functions that have one identifier."""
    return InvalidModelError(
        f"function {identifier} is defined twice, with different bodies; rename or remove one",
        function=str(identifier),
    )
