"""Where gradients go: the nodes between what is trained and what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from onnx_inline.inference import element_type, subgraphs
from onnx_inline.targets import GradientRules

#: The element types that have gradients: FLOAT, FLOAT16, DOUBLE, BFLOAT16; 0 is a type that is not known.
DIFFERENTIABLE = frozenset([0, 1, 10, 11, 16])


@dataclass
class Paths:
    """What lies on the way of gradients.

    Attributes:
        nodes: the nodes on a path, in the order of the graph, those in subgraphs after the node around them.
        reached: the values that depend on a source.
        wanted: the values that a gradient comes to from a sink.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    reached: set[ir.Value] = field(default_factory=set)
    wanted: set[ir.Value] = field(default_factory=set)


def gradient_paths(
    graph: ir.Graph | ir.Function,
    rules: GradientRules,
    types: Mapping[ir.Value, onnx.TypeProto],
    sources: Iterable[ir.Value],
    sinks: Iterable[ir.Value],
) -> Paths:
    """Follow gradients from sinks back to sources.

    Args:
        graph: a graph whose nodes are sorted.
        rules: which inputs carry gradients.
        types: the types of values; a gradient goes through floating-point values only.
        sources: what is trained.
        sinks: what gradients are asked of.

    Returns:
        The paths; the cost is linear in the size of the graph.
    """
    return _Follower(rules, types).follow(graph, sources, sinks)


class _Follower:
    def __init__(self, rules: GradientRules, types: Mapping[ir.Value, onnx.TypeProto]) -> None:
        self._rules, self._types = rules, types
        self._paths = Paths()

    def follow(
        self, graph: Iterable[ir.Node], sources: Iterable[ir.Value], sinks: Iterable[ir.Value]
    ) -> Paths:
        paths = self._paths
        paths.wanted.update(filter(self._carries, sinks))
        self._backward(list(graph))
        paths.reached.update(filter(self._carries, sources))
        self._forward(graph)
        return paths

    def _carries(self, value: ir.Value) -> bool:
        return element_type(self._types, value) in DIFFERENTIABLE

    def _carrying(self, node: ir.Node) -> Iterator[ir.Value]:
        """Yield the inputs that a gradient of the outputs goes to, captured values included."""
        for place, value in enumerate(node.inputs):
            if value is not None and self._rules.carries(node.op_type, place) and self._carries(value):
                yield value
        if node.op_type not in self._rules.without:
            for graph in subgraphs(node):
                yield from filter(self._carries, captured(graph))

    def _backward(self, nodes: list[ir.Node]) -> None:
        wanted = self._paths.wanted
        for node in reversed(nodes):
            if any(value in wanted for value in node.outputs):
                for graph in subgraphs(node):
                    wanted.update(filter(self._carries, graph.outputs))
                    self._backward(list(graph))
                wanted.update(self._carrying(node))

    def _forward(self, nodes: Iterable[ir.Node]) -> None:
        reached, wanted = self._paths.reached, self._paths.wanted
        for node in nodes:
            if not any(value in reached for value in self._carrying(node)):
                continue
            reached.update(filter(self._carries, node.outputs))
            if any(value in wanted for value in node.outputs if self._carries(value)):
                self._paths.nodes.append(node)
            for graph in subgraphs(node):
                # What a loop carries comes round again, so all inputs of its body count.
                reached.update(filter(self._carries, graph.inputs))
                self._forward(graph)


def captured(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that a subgraph reads from outside, in order, each once."""
    defined = {*graph.inputs, *graph.initializers.values()}
    seen: set[ir.Value] = set()
    reads: list[ir.Value | None] = []
    for node in graph:
        reads += node.inputs
        for inner in subgraphs(node):
            reads += captured(inner)
        defined.update(node.outputs)
    for value in (*reads, *graph.outputs):
        if value is not None and value not in defined and value not in seen:
            seen.add(value)
            yield value
