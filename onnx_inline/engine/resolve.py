"""Which calls go: everything is decided, and refused, here, before anything is changed."""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_inline.engine.body import Node, Signature, all_nodes
from onnx_inline.engine.liveness import is_pure, is_pure_operator, live_nodes
from onnx_inline.engine.selection import Patterns, Selection, select
from onnx_inline.errors import FunctionCycleError, InvalidModelError, ModelTooLargeError
from onnx_inline.identifiers import OperatorId

#: Graphs nested deeper than this cannot be read back: protobuf stops at 100 levels, and a graph takes three.
DEEPEST_GRAPH = 30

#: A result of up to this many nodes is planned even if fewer are allowed: then the number refused is exact,
#: what conversions and graph attributes add included.
ALWAYS_PLANNED = 100_000

Calls = Counter[OperatorId]


@dataclass(frozen=True)
class Facts:
    """What matters of a function that goes: live nodes of its own, calls that go, depth of its graphs."""

    nodes: int
    calls: Calls
    depth: Mapping[OperatorId | None, int]


@dataclass(frozen=True)
class Resolution:
    """What is going to happen.

    ``functions`` are the functions that go and are reached; ``wanted`` also those that nothing calls;
    ``left`` says why a chosen function is left; ``nodes`` is the number of nodes that expansion adds, before
    conversions; ``multipliers`` are the functions that make it large.
    """

    functions: Mapping[OperatorId, Signature]
    wanted: frozenset[OperatorId]
    pure: frozenset[OperatorId]
    left: Mapping[OperatorId, str]
    nodes: int
    multipliers: tuple[str, ...]


@dataclass
class Resolver:
    """Decides on the functions of one model.

    ``functions`` are the form's own function objects, ``read`` makes a signature of one, ``calls`` counts the
    operators that one uses, ``roots`` those that the graphs outside functions use; ``depth`` is how deep the
    deepest of those graphs is nested.
    """

    functions: Mapping[OperatorId, Any]
    read: Callable[[Any], Signature]
    calls: Callable[[OperatorId], Calls]
    roots: Calls
    existing: int
    depth: int
    _signatures: dict[OperatorId, Signature] = field(default_factory=dict)

    def choose(self, only: Patterns, keep: Patterns) -> Selection:
        """Return the functions that the caller's patterns choose."""
        return select(self.functions, only, keep)

    def resolve(self, selection: Selection, left: Mapping[OperatorId, str], max_nodes: int) -> Resolution:
        """Decide what happens to the chosen functions, those in ``left`` excepted.

        Raises:
            FunctionCycleError: functions that go call each other in a circle.
            InvalidModelError: a body that goes is not well formed.
            ModelTooLargeError: the result would have more than ``max_nodes`` nodes.
        """
        wanted = selection.wanted - left.keys()
        roots = self._root_calls(wanted)
        functions = self._reached(roots, wanted)
        order = _order(functions)
        pure = self._pure(order, functions)
        facts = {f: self._facts(functions[f], wanted, pure) for f in order}
        added, multipliers = self._size(order, facts, roots, max_nodes)
        return Resolution(functions, wanted, pure, left, added, multipliers)

    def signature(self, function: OperatorId) -> Signature:
        """Return a function's signature, read once."""
        if function not in self._signatures:
            self._signatures[function] = self.read(self.functions[function])
        return self._signatures[function]

    def _root_calls(self, wanted: Collection[OperatorId]) -> Calls:
        """Return the calls from all graphs and from the functions that stay."""
        roots = Counter(self.roots)
        for identifier in self.functions:
            if identifier not in wanted:
                roots.update(self.calls(identifier))
        return Counter({op: count for op, count in roots.items() if op in wanted})

    def _reached(
        self, roots: Iterable[OperatorId], wanted: Collection[OperatorId]
    ) -> dict[OperatorId, Signature]:
        found: dict[OperatorId, Signature] = {}
        pending = list(roots)
        while pending:
            identifier = pending.pop()
            if identifier not in found:
                found[identifier] = signature = self.signature(identifier)
                pending.extend(node.op for node in signature.nodes() if node.op in wanted)
        return found

    def _pure(
        self, order: Iterable[OperatorId], functions: Mapping[OperatorId, Signature]
    ) -> frozenset[OperatorId]:
        pure: set[OperatorId] = set()
        for identifier in order:
            if all(is_pure_operator(n.op, self.functions, pure) for n in functions[identifier].nodes()):
                pure.add(identifier)
        return frozenset(pure)

    def _facts(
        self, signature: Signature, wanted: Collection[OperatorId], pure: Collection[OperatorId]
    ) -> Facts:
        body = signature.body
        needed = {slot for slot in body.outputs if slot is not None}
        live = live_nodes(body.nodes, needed, lambda node: is_pure(node, self.functions, pure))
        nodes = list(all_nodes(live))
        calls = Counter(node.op for node in nodes if node.op in wanted)
        distinct = set(body.outputs) - set(body.inputs)
        identities = len(body.outputs) - len(distinct)
        return Facts(len(nodes) - calls.total() + identities, calls, _depths(live, wanted))

    def _size(
        self, order: list[OperatorId], facts: Mapping[OperatorId, Facts], roots: Calls, max_nodes: int
    ) -> tuple[int, tuple[str, ...]]:
        """Return how many nodes expansion adds, and what multiplies them; refuse too many or too deep."""
        size: dict[OperatorId, int] = {}
        depth: dict[OperatorId, int] = {}
        for function in order:
            fact = facts[function]
            size[function] = fact.nodes + sum(size[callee] * n for callee, n in fact.calls.items())
            depth[function] = max(d + (depth[callee] if callee else 0) for callee, d in fact.depth.items())
        added = sum(size[function] * n for function, n in roots.items())
        staying = self.existing - sum(self.roots[function] for function in order)
        multipliers = _multipliers(order, facts, size)
        if staying + added > max(max_nodes, ALWAYS_PLANNED):
            raise ModelTooLargeError(nodes=staying + added, limit=max_nodes, functions=multipliers)
        deepest = max(roots, key=lambda function: depth[function], default=None)
        if deepest is not None and self.depth + depth[deepest] > DEEPEST_GRAPH:
            raise InvalidModelError(
                f"cannot inline {deepest}: graphs would be nested {self.depth + depth[deepest]} deep, "
                f"and a file can be read only to {DEEPEST_GRAPH}; keep a function on the way down",
                function=str(deepest),
            )
        return added, multipliers


def _order(functions: Mapping[OperatorId, Signature]) -> list[OperatorId]:
    """Return the functions, callees first."""
    graph = {
        identifier: [node.op for node in signature.nodes() if node.op in functions]
        for identifier, signature in functions.items()
    }
    try:
        return list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        # graphlib gives the way from callee to caller.
        raise FunctionCycleError([str(function) for function in reversed(error.args[1])]) from None


def _depths(
    nodes: Iterable[Node], wanted: Collection[OperatorId], here: int = 0
) -> dict[OperatorId | None, int]:
    """Return how deep the graphs in nodes are nested at most, and how deep each call is (None: no call)."""
    deepest: dict[OperatorId | None, int] = {None: here}
    for node in nodes:
        inner = (
            _depths((n for g in node.subgraphs() for n in g.nodes), wanted, here + 1)
            if node.attributes
            else {}
        )
        if node.op in wanted:
            inner[node.op] = max(here, inner.get(node.op, 0))
        if not any(True for _ in node.subgraphs()):
            inner.pop(None, None)
        for callee, depth in inner.items():
            deepest[callee] = max(depth, deepest.get(callee, 0))
    return deepest


def _multipliers(
    order: list[OperatorId], facts: Mapping[OperatorId, Facts], size: Mapping[OperatorId, int]
) -> tuple[str, ...]:
    """Return up to five functions that call others more than once, the largest first."""
    several = [function for function in order if facts[function].calls.total() > 1] or order
    return tuple(str(function) for function in sorted(several, key=lambda f: -size[f])[:5])
