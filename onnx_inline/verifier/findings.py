"""What the verifier found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from onnx_inline.verifier.scopes import Interface, Node, Scope

#: findings that a message lists before "and N more"
_MOST = 10


@dataclass(frozen=True)
class Finding:
    """A place at which a model breaks a rule.

    Attributes:
        rule: the rule's name.
        message: what is wrong.
        where: the scope and node.
        neighbourhood: the nodes around the place, one a line.
    """

    rule: str
    message: str
    where: str
    neighbourhood: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.where}: {self.message}", *(f"    {x}" for x in self.neighbourhood)]
        return "\n".join(lines)


@dataclass(frozen=True)
class StructureReport:
    """Which rules a model was held to, and where it breaks them.

    Attributes:
        rules: the rules looked at.
        findings: the places; empty if all is right.
        tolerated: rules that the model breaks, but the original broke already.
        interface: names and types of inputs and outputs, to compare another model with.
    """

    rules: tuple[str, ...]
    findings: tuple[Finding, ...]
    tolerated: tuple[str, ...]
    interface: Interface

    @property
    def broken(self) -> frozenset[str]:
        """The rules that the model breaks, tolerated ones included."""
        return frozenset([*(finding.rule for finding in self.findings), *self.tolerated])

    def __bool__(self) -> bool:
        """Whether there is nothing to complain of."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists and strings."""
        findings = [{**asdict(f), "neighbourhood": list(f.neighbourhood)} for f in self.findings]
        return {"rules": list(self.rules), "findings": findings, "tolerated": list(self.tolerated)}

    def __str__(self) -> str:
        tolerated = f"; as before, it breaks {', '.join(self.tolerated)}" if self.tolerated else ""
        if not self.findings:
            return f"the structure is right by {len(self.rules)} rules{tolerated}"
        count = f"{len(self.findings)} finding{'s' * (len(self.findings) > 1)}"
        lines = [f"{count}{tolerated}:", *map(str, self.findings[:_MOST])]
        if len(self.findings) > _MOST:
            lines.append(f"and {len(self.findings) - _MOST} more")
        return "\n".join(lines)


def at_node(rule: str, scope: Scope, index: int, message: str) -> Finding:
    """Return a finding about a node of a scope."""
    node = scope.nodes[index]
    near = range(max(index - 1, 0), min(index + 2, len(scope.nodes)))
    lines = tuple(f"{'>' if k == index else ' '} {scope.nodes[k]}" for k in near)
    return Finding(rule, message, f"{scope.title}, node {named(node, index)}", lines)


def in_scope(rule: str, scope: Scope, message: str) -> Finding:
    """Return a finding about a scope as a whole."""
    return Finding(rule, message, scope.title)


def named(node: Node, index: int) -> str:
    """Return what to call a node: its name, or operator and place."""
    return repr(node.name) if node.name else f"{node.op} at {index}"


def doubles(names: Iterable[str]) -> dict[str, int]:
    """Return the names that occur more than once, and how often, in the order of their second occurrence."""
    counts: dict[str, int] = {}
    twice: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1:
            twice[name] = counts[name]
    return twice
