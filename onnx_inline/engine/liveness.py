"""Which nodes of a body matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from onnx_inline.engine.body import Graphs, Node, Slot, Subgraph


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
        needed.update(graph.outputs)
        return replace(graph, nodes=live_nodes(graph.nodes, needed, is_pure))

    return replace(
        node,
        attributes=tuple(
            a._replace(graphs=tuple(live_graph(g) for g in a.graphs)) if isinstance(a, Graphs) else a
            for a in node.attributes
        ),
    )
