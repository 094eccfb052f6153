"""Which nodes of a body matter."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from onnx_inline.engine.body import Graphs, Node, Slot, Subgraph, all_nodes
from onnx_inline.identifiers import OperatorId
from onnx_inline.opsets import STANDARD_DOMAINS


def live_nodes(nodes: list[Node], needed: set[Slot], is_pure: Callable[[Node], bool]) -> list[Node]:
    """Return the nodes that compute a needed slot or do anything else; ``needed`` grows by what they read."""
    live = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs) or not is_pure(node):
            live.append(_with_live_graphs(node, needed, is_pure))
            needed.update(slot for slot in node.inputs if slot is not None)
    live.reverse()
    return live


def _with_live_graphs(node: Node, needed: set[Slot], is_pure: Callable[[Node], bool]) -> Node:
    if not any(isinstance(a, Graphs) for a in node.attributes):
        return node

    def live_graph(graph: Subgraph) -> Subgraph:
        needed.update(graph.returned())
        return replace(graph, nodes=live_nodes(graph.nodes, needed, is_pure))

    return replace(
        node,
        attributes=tuple(
            a._replace(graphs=tuple(live_graph(g) for g in a.graphs)) if isinstance(a, Graphs) else a
            for a in node.attributes
        ),
    )


def is_pure(node: Node, local: Collection[OperatorId], pure: Collection[OperatorId]) -> bool:
    """Say whether a node does nothing but compute its outputs, given which local functions are pure."""
    # A function may compute the graphs that its call hands on, so they count for calls as well.
    return all(is_pure_operator(inner.op, local, pure) for inner in all_nodes([node]))


def is_pure_operator(op: OperatorId, local: Collection[OperatorId], pure: Collection[OperatorId]) -> bool:
    """Say the same of an operator, the graphs given to it excepted."""
    return op in pure if op in local else op.domain in STANDARD_DOMAINS
