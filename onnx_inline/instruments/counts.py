"""Counts of nodes and functions after each pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.manager import Instrument, Step


@dataclass(frozen=True)
class PassCounts:
    """What a pass did to the number of nodes.

    Attributes:
        step: the pass.
        modified: whether it says that it changed something.
        nodes_before: nodes before, those in subgraphs and in functions included.
        nodes_after: nodes afterwards.
        functions_before: functions before.
        functions_after: functions afterwards.
        operators: how many nodes of each operator came (positive) or went (negative).
    """

    step: Step
    modified: bool
    nodes_before: int
    nodes_after: int
    functions_before: int
    functions_after: int
    operators: Mapping[str, int]

    def __str__(self) -> str:
        if not self.modified:
            return f"{self.step}: no change"
        return (
            f"{self.step}: {self.nodes_before:,} -> {self.nodes_after:,} nodes, "
            f"{self.functions_before:,} -> {self.functions_after:,} functions"
        )


@dataclass
class NodeCounts(Instrument):
    """Counts nodes, by operator, and functions around each pass.

    Attributes:
        counts: what each pass did, in order.
    """

    counts: list[PassCounts] = field(default_factory=list)

    def start(self, model: ir.Model, count: int) -> None:
        """Count before the first pass."""
        self.counts.clear()
        self._operators, self._functions = operator_counts(model), len(model.functions)

    def after(self, step: Step, model: ir.Model, modified: bool) -> None:
        """Count again."""
        # A pass that changed nothing is believed: counting is linear in the model.
        operators = operator_counts(model) if modified else self._operators
        before, after = self._operators, operators
        changed = {str(op): after[op] - before[op] for op in sorted({**before, **after})}
        counts = PassCounts(
            step,
            modified,
            before.total(),
            after.total(),
            self._functions,
            len(model.functions),
            {name: number for name, number in changed.items() if number},
        )
        self.counts.append(counts)
        self._operators, self._functions = operators, len(model.functions)

    def __str__(self) -> str:
        return "\n".join(map(str, self.counts))


def operator_counts(model: ir.Model) -> Counter[OperatorId]:
    """Return how often each operator is used, in the graph, in subgraphs and in functions."""
    return Counter(
        OperatorId(normalized_domain(node.domain), node.op_type, node.overload)
        for graph in (model.graph, *(function.graph for function in model.functions.values()))
        for node in graph.all_nodes()
    )
