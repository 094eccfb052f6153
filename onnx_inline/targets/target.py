"""A reader of models: which operators it takes, and which of them it can differentiate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onnx_inline.identifiers import OperatorId, normalized_domain


class OpsetRange(NamedTuple):
    """Versions of a domain from ``low`` to ``high``, both included; ``high`` None has no end.

    Example:
        >>> 13 in OpsetRange(11, None), OpsetRange(1, 10).holds(13)
        (False, False)
    """

    low: int
    high: int | None

    def holds(self, version: int) -> bool:
        """Say whether a version lies in the range."""
        return self.low <= version and (self.high is None or version <= self.high)

    def __str__(self) -> str:
        return f"{self.low}-{'' if self.high is None else self.high}"


@dataclass(frozen=True)
class GradientRules:
    """How a gradient builder treats operators; an operator is named without its domain.

    Attributes:
        ignores_domain: it looks operators up by name alone, so that a function or custom operator called
            ``Sigmoid`` gets the gradient of ONNX's.
        without: operators that it takes and whose outputs have no gradient (``Shape``, ``Equal``).
        stops: the inputs, by position, that no gradient goes to.
        inputs: how many inputs an operator must have where the schema asks for fewer.
        outputs: how many outputs an operator must have where the schema asks for fewer.
        attributes: values that integer attributes must have.
        reserved_suffix: it defines ``<value><suffix>`` for values on the way, so these must not exist.
        unique_node_names: it refuses two nodes of one name; nodes without name are fine.
        leaf_used_twice: a leaf (an initializer or input) may go into one node twice.
        leaf_used_once: operators whose gradient defines that of every input, whether it was asked for or not,
            so that a leaf may go into one node of these only.
    """

    ignores_domain: bool = False
    without: frozenset[str] = frozenset()
    stops: Mapping[str, frozenset[int]] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reserved_suffix: str = ""
    unique_node_names: bool = False
    leaf_used_twice: bool = True
    leaf_used_once: frozenset[str] = frozenset()

    def carries(self, operator: str, position: int) -> bool:
        """Say whether a gradient goes from an operator's outputs to the input at a position."""
        return operator not in self.without and position not in self.stops.get(operator, ())


@dataclass(frozen=True)
class Target:
    """A reader of models, and what it takes.

    Attributes:
        name: what the target is called.
        reader: the reader and the version that was asked or probed.
        summary: one line about it.
        operators: the operators that it takes, each with the versions of its domain in which it does; of a
            gradient builder, those that it can go through.
        max_opset: the newest version of a domain that it loads; a domain that is missing has no limit.
        max_ir_version: the newest IR version that it loads, None for no limit.
        local_functions: it takes models with local functions.
        expands_schema_functions: it expands by itself what has a function body in its schema.
        gradients: the rules of a gradient builder, None for readers that only compute.
    """

    name: str
    reader: str = ""
    summary: str = ""
    operators: Mapping[OperatorId, tuple[OpsetRange, ...]] = field(default_factory=dict)
    max_opset: Mapping[str, int] = field(default_factory=dict)
    max_ir_version: int | None = None
    local_functions: bool = False
    expands_schema_functions: bool = False
    gradients: GradientRules | None = None

    def supports(self, operator: OperatorId, version: int) -> bool:
        """Say whether the reader takes an operator in a version of its domain.

        Args:
            operator: the operator.
            version: the version of its domain that the model imports.

        Example:
            >>> from onnx_inline.targets import load_target
            >>> load_target("ort-training").supports(OperatorId("", "Gelu"), 20)
            True
        """
        plain = OperatorId(normalized_domain(operator.domain), operator.name)
        return any(span.holds(version) for span in self.operators.get(plain, ()))

    def knows(self, name: str) -> bool:
        """Say whether the reader takes an operator of this name in any domain."""
        return any(operator.name == name for operator in self.operators)

    def __str__(self) -> str:
        kind = "gradients" if self.gradients else "inference"
        return f"{self.name} ({self.reader}, {kind}, {len(self.operators)} operators)"
