"""What the engine works on: function bodies in which every value has a number.

Reading a body resolves each name to the value it means in its scope, once.  From then on a value is a
*slot*, a small integer that is unique in the body, and substitution cannot capture anything: names are
chosen again only when a body is stamped.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from onnx_inline.identifiers import OperatorId

Slot = int
#: the type of an attribute that is a graph or a list of graphs (AttributeProto.GRAPH, GRAPHS)
GRAPH_TYPES = (5, 10)


class Plain(NamedTuple):
    """An attribute whose value the engine does not look into; ``payload`` is an AttributeProto or ir.Attr."""

    name: str
    payload: Any


class Reference(NamedTuple):
    """An attribute of a body's node that takes the value of the function's attribute ``ref``.

    ``sure`` says that the attribute has a default, so that the value is never absent.
    """

    name: str
    ref: str
    type: int
    payload: Any
    sure: bool = False


class Graphs(NamedTuple):
    """An attribute holding one graph, or several."""

    name: str
    graphs: tuple[Subgraph, ...]
    payload: Any


Attribute = Plain | Reference | Graphs


class CallPath(NamedTuple):
    """The calls that a node came through, innermost first; linked, as paths share their beginnings."""

    parent: CallPath | None
    site: str
    function: OperatorId


@dataclass(slots=True)
class Node:
    """A node of a body; ``inputs`` and ``outputs`` are slots, None where the value is absent.

    ``source`` is the NodeProto or ir.Node that it was read from (None for nodes made here), ``imports`` the
    opset imports it was written for.  Specialisation sets ``callee`` on a call that is going to be inlined,
    flattening sets ``calls``, the way down to the node.
    """

    op: OperatorId
    inputs: tuple[Slot | None, ...]
    outputs: tuple[Slot | None, ...]
    attributes: tuple[Attribute, ...]
    label: str
    source: Any
    imports: Mapping[str, int]
    metadata: Mapping[str, str] = field(default_factory=dict)
    callee: Hashable | None = None
    calls: CallPath | None = None

    def subgraphs(self) -> Iterator[Subgraph]:
        """Yield the graphs in the node's attributes."""
        for attribute in self.attributes:
            if isinstance(attribute, Graphs):
                yield from attribute.graphs


@dataclass(slots=True)
class Subgraph:
    """A graph in an attribute; its slots belong to the numbering of the body around it.

    ``initializers`` are pairs of slot and tensor, ``typed`` pairs of slot and value_info entry,
    ``quantized`` triples of slot, annotation, and the slots that the annotation names, None if absent.
    """

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    nodes: list[Node]
    initializers: tuple[tuple[Slot, Any], ...]
    typed: tuple[tuple[Slot, Any], ...]
    quantized: tuple[tuple[Slot, Any, Mapping[str, Slot | None]], ...]
    source: Any

    def defined(self) -> Iterator[Slot]:
        """Yield every slot that the graph or a graph nested in it defines."""
        yield from self.inputs
        for slot, _ in self.initializers:
            yield slot
        for node in self.nodes:
            yield from (slot for slot in node.outputs if slot is not None)
            for graph in node.subgraphs():
                yield from graph.defined()

    def returned(self) -> Iterator[Slot]:
        """Yield what the graph reads besides its nodes: its outputs, and what annotations name."""
        yield from self.outputs
        for _, _, named in self.quantized:
            yield from (slot for slot in named.values() if slot is not None)


@dataclass(slots=True)
class Body:
    """A function's body, or what a call site's graph attributes need of their surroundings.

    ``labels[slot]`` is the name a value was read under; ``annotations`` maps slots to value_info entries.
    """

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot | None, ...]
    nodes: list[Node]
    labels: list[str]
    annotations: dict[Slot, Any] = field(default_factory=dict)

    def fresh(self, label: str) -> Slot:
        """Return a new slot."""
        self.labels.append(label)
        return len(self.labels) - 1


@dataclass(frozen=True, slots=True)
class Signature:
    """A model-local function as the engine sees it: what a call may give, and the body.

    ``defaults`` maps an attribute's name to its default value, ``declared`` lists all attributes.
    """

    id: OperatorId
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    declared: tuple[str, ...]
    defaults: Mapping[str, Plain | Graphs]
    imports: Mapping[str, int]
    body: Body
    source: Any

    def nodes(self) -> Iterator[Node]:
        """Yield every node that a call can bring: those of the body and of graphs that are defaults."""
        yield from all_nodes(self.body.nodes)
        for default in self.defaults.values():
            if isinstance(default, Graphs):
                yield from all_nodes(node for graph in default.graphs for node in graph.nodes)


def all_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes and those in their subgraphs, outermost first."""
    for node in nodes:
        yield node
        for graph in node.subgraphs():
            yield from all_nodes(graph.nodes)


def nesting(nodes: Iterable[Node]) -> int:
    """Return how deep the graphs in nodes are nested."""
    return max(
        (1 + nesting(g.nodes) for node in nodes if node.attributes for g in node.subgraphs()), default=0
    )


def reads(node: Node) -> Iterator[Slot]:
    """Yield each slot that a node or its subgraphs read."""
    yield from (slot for slot in node.inputs if slot is not None)
    for graph in node.subgraphs():
        for inner in graph.nodes:
            yield from reads(inner)
        yield from graph.returned()


def captures(graphs: Iterable[Subgraph]) -> tuple[Slot, ...]:
    """Return the slots that the graphs read from outside themselves, in order of first use."""
    found: dict[Slot, None] = {}
    for graph in graphs:
        own = set(graph.defined())
        inner = [slot for node in graph.nodes for slot in reads(node)]
        found.update(dict.fromkeys(slot for slot in [*inner, *graph.returned()] if slot not in own))
    return tuple(found)


def renumbered(node: Node, slots: Mapping[Slot, Slot | None], **changes: Any) -> Node:
    """Return a copy of the node, and of its subgraphs, with other slots."""
    return replace(
        node,
        inputs=tuple(None if s is None else slots[s] for s in node.inputs),
        outputs=tuple(None if s is None else slots[s] for s in node.outputs),
        attributes=tuple(
            a._replace(graphs=tuple(renumbered_graph(g, slots, **changes) for g in a.graphs))
            if isinstance(a, Graphs)
            else a
            for a in node.attributes
        ),
        **changes,
    )


def renumbered_graph(graph: Subgraph, slots: Mapping[Slot, Slot | None], **changes: Any) -> Subgraph:
    """Return a copy of the graph with other slots."""

    def known(slot: Slot) -> Slot:
        found = slots[slot]
        assert found is not None, "a value that a graph defines or returns is never absent"
        return found

    return Subgraph(
        inputs=tuple(known(s) for s in graph.inputs),
        outputs=tuple(known(s) for s in graph.outputs),
        nodes=[renumbered(node, slots, **changes) for node in graph.nodes],
        initializers=tuple((known(s), tensor) for s, tensor in graph.initializers),
        # What is said of values may be there longer than what made them.
        typed=tuple((known(s), entry) for s, entry in graph.typed if s in slots),
        quantized=tuple(
            (known(s), entry, {n: None if t is None else slots.get(t) for n, t in named.items()})
            for s, entry, named in graph.quantized
            if s in slots
        ),
        source=graph.source,
    )
