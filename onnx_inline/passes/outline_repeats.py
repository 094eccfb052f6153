"""Make functions of subgraphs that are repeated: the inverse of inlining."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import onnx_ir as ir

from onnx_inline.engine.collector import collector_paused
from onnx_inline.names import NameScope
from onnx_inline.passes.outlining import (
    Scope,
    Stretch,
    is_bound_to_its_place,
    is_idle,
    outline,
    scope_of,
    stretch,
)
from onnx_inline.passes.refold import has_provenance, refold
from onnx_inline.passes.repeats import repeats
from onnx_inline.passes.structure import Keys, callees_stay_first
from onnx_inline.passes.torch_modules import remove_call_paths, write_call_paths

#: A round finds the largest repeats that do not overlap; each next one works on what became smaller by it.
_ROUNDS = 32


@dataclass(frozen=True)
class OutlineRepeatsPass(ir.passes.InPlacePass):
    """Make functions of repeated subgraphs: same structure, other weights.

    Nodes that inlining with ``provenance=True`` left are folded back into the calls that they came through,
    by the functions' old names; nodes that torch's exporter wrote (``dynamo=True``), on request into the
    modules that they came through, by the modules' classes.

    Without provenance, stretches of consecutive nodes that do the same and are connected alike become calls
    of one function.  What they read from outside, weights included, becomes its inputs.  The repeats that
    save most nodes go first; a stretch repeated back to back is cut where the fewest values cross.

    What nodes say beyond the structure (types, shapes, metadata, doc strings) stays where all repeats agree
    on it.

    Before, with ``min_nodes=3``::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) <float[2] v = {1, 2}, float[2] w = {3, 4}> {
            ["first"] a = Mul (x, v) b = Add (a, v) c = Relu (b)
            ["second"] d = Mul (c, w) e = Add (d, w) y = Relu (e)
        }

    After::

        <ir_version: 10, opset_import: ["" : 18, "outlined" : 1]>
        main (float[2] x) => (float[2] y) <float[2] v = {1, 2}, float[2] w = {3, 4}> {
            ["Repeat_1"] c = outlined.Repeat_1 (x, v)
            ["Repeat_1_2"] y = outlined.Repeat_1 (c, w)
        }
        <domain: "outlined", opset_import: ["" : 18]>
        Repeat_1 (input, input_2) => (c) {
            ["first"] a = Mul (input, input_2) b = Add (a, input_2) c = Relu (b)
        }

    Attributes:
        by: what to go by: ``provenance``, torch's ``modules``, ``structure``, or ``auto``: by provenance if
            there is any, else by structure.
        min_nodes: the least number of nodes of a function made by structure.
        min_repeats: how often a subgraph must occur to become a function by structure.
        nested: look for repeats in the functions made as well.
        domain: the domain of the functions made by structure.
    """

    name: ClassVar[str] = "outline-repeats"

    by: Literal["auto", "provenance", "modules", "structure"] = "auto"
    min_nodes: int = 8
    min_repeats: int = 2
    nested: bool = False
    domain: str = "outlined"

    def __post_init__(self) -> None:
        if self.by not in (*_BY, "auto"):
            raise ValueError(f"by must be one of {', '.join(_BY)} and auto, not {self.by!r}")
        if self.min_nodes < 2 or self.min_repeats < 2:
            raise ValueError("min_nodes and min_repeats must be at least 2")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Outline by what was asked for."""
        by = self.by if self.by != "auto" else "provenance" if has_provenance(model) else "structure"
        with collector_paused(), callees_stay_first(model):
            changed = _BY[by](self, model)
        return ir.passes.PassResult(model, modified=changed)

    def _by_provenance(self, model: ir.Model) -> bool:
        return refold(model)

    def _by_modules(self, model: ir.Model) -> bool:
        write_call_paths(model.graph)
        changed = refold(model)
        remove_call_paths(model)
        return changed

    def _by_structure(self, model: ir.Model) -> bool:
        """Outline by structure, round after round, until nothing is left to save."""
        names = NameScope(function.name for function in model.functions.values())
        made = 0
        for _ in range(_ROUNDS):
            found = self._found(model)
            for stretches in found:
                made += 1
                outline(model, stretches, (self.domain, names.claim(f"Repeat_{made}"), ""))
            if not found:
                break
        return bool(made)

    def _found(self, model: ir.Model) -> list[list[Stretch]]:
        """Return repeats in the outermost graphs that have any: a stretch may hold whole subgraphs."""
        # What an earlier run made is left alone as well, so that a second run changes nothing.
        functions = [f for f in model.functions.values() if self.nested or f.domain != self.domain]
        owners: list[ir.Graph | ir.Function] = [model.graph, *functions]
        scopes = list(map(scope_of, owners))
        while scopes:
            if found := _found(scopes, self.min_nodes, self.min_repeats):
                return found
            scopes = [scope_of(graph, scope) for scope in scopes for graph in scope.subgraphs()]
        return []


_BY = {
    "provenance": OutlineRepeatsPass._by_provenance,
    "modules": OutlineRepeatsPass._by_modules,
    "structure": OutlineRepeatsPass._by_structure,
}


def _found(scopes: Sequence[Scope], min_nodes: int, min_repeats: int) -> list[list[Stretch]]:
    """Return groups of stretches that do the same; no two stretches overlap."""
    sequence = _Sequence(scopes)
    taken = bytearray(len(sequence.elements))
    groups = []
    for repeat in repeats(sequence.elements, sequence.cuts, min_nodes):
        starts = [start for start in repeat.starts if taken.find(1, start, start + repeat.length) < 0]
        stretches = _alike(sequence.stretches(starts, repeat.length))
        if len(stretches) >= max(2, min_repeats) and any(any(one.used) for one in stretches.values()):
            for start in stretches:
                taken[start : start + repeat.length] = b"\1" * repeat.length
            groups.append(list(stretches.values()))
    return groups


def _alike(stretches: Mapping[int, Stretch]) -> dict[int, Stretch]:
    """Return the largest group of those that are connected alike."""
    groups: dict[Hashable, dict[int, Stretch]] = {}
    for start, one in stretches.items():
        groups.setdefault(one.wiring, {})[start] = one
    return max(groups.values(), key=len, default={})


class _Sequence:
    """Scopes as one sequence of numbers, equal where nodes do the same, and what each cut costs."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self.elements: list[int] = []
        self.cuts: list[int] = []
        self._scopes = scopes
        self._first: list[int] = []
        self._numbers: dict[Hashable, int] = {}
        for scope in scopes:
            self._first.append(len(self.elements))
            self.elements += [self._number(scope, node) for node in scope.nodes]
            self.elements.append(self._unique())
            self.cuts += _crossing(scope)
        self.cuts.append(0)

    def stretches(self, starts: Sequence[int], length: int) -> dict[int, Stretch]:
        """Describe what lies at each of the places, leaving out what one call cannot stand for."""
        described = ((start, self._stretch(start, length)) for start in starts)
        return {start: one for start, one in described if one is not None}

    def _stretch(self, start: int, length: int) -> Stretch | None:
        number = bisect.bisect_right(self._first, start) - 1
        scope, begin = self._scopes[number], start - self._first[number]
        return stretch(scope, scope.nodes[begin : begin + length])

    def _number(self, scope: Scope, node: ir.Node) -> int:
        if is_bound_to_its_place(node) or is_idle(scope, node):
            return self._unique()
        key = Keys(scope.imports).operation(node)
        return self._numbers.setdefault(key, len(self._numbers))

    def _unique(self) -> int:
        return self._numbers.setdefault(("unique", len(self._numbers)), len(self._numbers))


def _crossing(scope: Scope) -> list[int]:
    """Return how many values cross the boundary before each node, and the one after the last."""
    steps = [0] * (len(scope.nodes) + 2)
    for index, node in enumerate(scope.nodes):
        for value in node.outputs:
            last = scope.readers.get(value, (index,))[-1]
            steps[index + 1] += 1
            steps[last + 1] -= 1
    return list(itertools.accumulate(steps[: len(scope.nodes) + 1]))
