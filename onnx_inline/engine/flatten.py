"""Templates: specialised bodies with all their calls expanded, ready to be stamped.

A body that is called in one place only is walked where it is called; one that is called in several has a
template of its own, which is copied.  So no node is handled more often than it appears in the result (up
to a small factor), however deep the calls are nested, and nothing here recurses over calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from onnx_inline.engine.body import Attribute, Body, CallPath, Graphs, Node, Slot, Subgraph
from onnx_inline.engine.specialise import Specialiser, Way, called_ways
from onnx_inline.identifiers import OperatorId
from onnx_inline.names import NameScope, joined


class Name(NamedTuple):
    """A name inside a template: the path of calls to it, and the last part."""

    path: str
    leaf: str

    def __str__(self) -> str:
        return f"{self.path}/{self.leaf}" if self.path else self.leaf


@dataclass(slots=True)
class Template:
    """A call-free body.

    Slots count inputs first, then outputs, then the values inside; ``names[k]`` is the name, relative to
    the call site, of value ``inputs + outputs + k``, and ``labels[k]`` that of node number k (nodes in
    subgraphs count too, each after the node that holds it).  ``annotations`` are value_info entries for
    slots; ``calls`` counts the calls that were expanded, by function.
    """

    function: OperatorId
    inputs: int
    outputs: int
    nodes: list[Node] = field(default_factory=list)
    names: list[Name] = field(default_factory=list)
    labels: list[Name] = field(default_factory=list)
    annotations: list[tuple[Slot, Any]] = field(default_factory=list)
    calls: Counter[OperatorId] = field(default_factory=Counter)


@dataclass
class Flattener:
    """Makes and keeps the templates of ways of calling."""

    specialiser: Specialiser
    templates: dict[Way, Template] = field(default_factory=dict)

    def prepare(self, ways: Iterable[Way]) -> None:
        """Make the templates of the ways that call sites use, and of those that they share."""
        roots = dict.fromkeys(ways)
        order, sites = self._order(roots)
        for way in order:
            if sites[way] > 1 or way in roots:
                self.templates[way] = _Flattening(self, way).run()

    def _order(self, roots: Iterable[Way]) -> tuple[list[Way], Counter[Way]]:
        """Return the ways, callees first, and in how many places of bodies each is called."""
        sites: Counter[Way] = Counter()
        order: dict[Way, None] = {}
        entered: set[Way] = set()
        for root in roots:
            stack = [root]
            while stack:
                way = stack[-1]
                if way in entered:
                    order[stack.pop()] = None
                    continue
                entered.add(way)
                callees = list(called_ways(self.specialiser.body(way).nodes))
                sites.update(callees)
                stack.extend(callee for callee in dict.fromkeys(callees) if callee not in entered)
        return list(order), sites


class _Frame(NamedTuple):
    """One call being expanded: what its slots are, and the way to it."""

    body: Body
    slots: dict[Slot, Slot]
    path: str
    calls: CallPath | None
    metadata: Mapping[str, str]


class _Flattening:
    """The making of one template."""

    def __init__(self, flattener: Flattener, way: Way) -> None:
        self._flattener, self._way = flattener, way
        self._body = flattener.specialiser.bodies[way]
        outputs = [slot for slot in self._body.outputs if slot is not None]
        self._template = Template(way.function, len(self._body.inputs), len(outputs))
        self._slots = {slot: n for n, slot in enumerate([*self._body.inputs, *outputs])}
        self._values, self._labels, self._sites = NameScope(), NameScope(), NameScope()

    def run(self) -> Template:
        """Return the template."""
        template = self._template
        template.calls[self._way.function] += 1
        for slot, n in self._slots.items():
            self._annotate(self._body, slot, n)
        frame = _Frame(self._body, self._slots, "", None, {})
        template.nodes = self._expanded(self._body.nodes, frame)
        return template

    def _expanded(self, nodes: Iterable[Node], frame: _Frame) -> list[Node]:
        """Return the nodes of one graph with its calls expanded, in the template's slots."""
        out: list[Node] = []
        stack: list[tuple[Iterator[Node], _Frame]] = [(iter(nodes), frame)]
        while stack:
            iterator, frame = stack[-1]
            node = next(iterator, None)
            if node is None:
                stack.pop()
            elif not isinstance(node.callee, Way):
                out.append(self._placed(node, frame))
            elif (template := self._flattener.templates.get(node.callee)) is not None:
                out.extend(self._copied(template, self._entered(node, node.callee, frame)))
            else:
                entered = self._entered(node, node.callee, frame)
                self._template.calls[node.op] += 1
                stack.append((iter(entered.body.nodes), entered))
        return out

    # --------------------------------------------------------------- entering

    def _entered(self, call: Node, way: Way, frame: _Frame) -> _Frame:
        """Return the frame of a call: its body's inputs and outputs bound to the call's."""
        body = self._flattener.specialiser.bodies[way]
        slots = {
            formal: frame.slots[s]
            for formal, s in zip(body.inputs, call.inputs, strict=True)
            if s is not None
        }
        made = [slot for slot in body.outputs if slot is not None]
        given = [slot for slot in call.outputs if slot is not None]
        for formal, slot in zip(made, given, strict=True):
            slots[formal] = self._defined(slot, frame)
        for formal, number in slots.items():
            self._annotate(body, formal, number)
        site = (call.label or call.op.name).strip("/")
        wanted = joined(frame.path, site)
        path = self._sites.claim(wanted)
        calls = CallPath(frame.calls, site + path[len(wanted) :], call.op)
        metadata = {**frame.metadata, **call.metadata} if call.metadata else frame.metadata
        return _Frame(body, slots, path, calls, metadata)

    def _defined(self, slot: Slot, frame: _Frame) -> Slot:
        """Return the template's slot for a value that a node of the frame makes."""
        if slot not in frame.slots:
            frame.slots[slot] = number = self._new(frame.path, frame.body.labels[slot])
            self._annotate(frame.body, slot, number)
        return frame.slots[slot]

    def _new(self, path: str, leaf: str) -> Slot:
        template = self._template
        template.names.append(_claimed(self._values, path, leaf.strip("/") or "value"))
        return template.inputs + template.outputs + len(template.names) - 1

    def _label(self, path: str, leaf: str) -> None:
        self._template.labels.append(_claimed(self._labels, path, leaf))

    def _annotate(self, body: Body, slot: Slot, number: Slot) -> None:
        if body.annotations and slot in body.annotations:
            self._template.annotations.append((number, body.annotations[slot]))

    # ---------------------------------------------------------------- placing

    def _placed(self, node: Node, frame: _Frame) -> Node:
        """Return a node of the frame's body in the template's slots."""
        self._label(frame.path, (node.label or node.op.name).strip("/") or node.op.name)
        slots = frame.slots
        inputs = tuple([None if slot is None else slots[slot] for slot in node.inputs])
        attributes = node.attributes
        if any(isinstance(a, Graphs) for a in attributes):
            attributes = tuple(self._placed_attribute(a, frame) for a in attributes)
        outputs = tuple([None if slot is None else self._defined(slot, frame) for slot in node.outputs])
        metadata = {**frame.metadata, **node.metadata} if frame.metadata else node.metadata
        return Node(
            node.op, inputs, outputs, attributes, "", node.source, node.imports, metadata, None, frame.calls
        )

    def _placed_attribute(self, attribute: Attribute, frame: _Frame) -> Attribute:
        if not isinstance(attribute, Graphs):
            return attribute
        return attribute._replace(graphs=tuple(self._placed_graph(g, frame) for g in attribute.graphs))

    def _placed_graph(self, graph: Subgraph, frame: _Frame) -> Subgraph:
        inputs = tuple(self._defined(slot, frame) for slot in graph.inputs)
        initializers = tuple((self._defined(slot, frame), tensor) for slot, tensor in graph.initializers)
        nodes = self._expanded(graph.nodes, frame)
        slots = frame.slots
        return Subgraph(
            inputs=inputs,
            outputs=tuple(slots[slot] for slot in graph.outputs),
            nodes=nodes,
            initializers=initializers,
            typed=tuple((slots[slot], entry) for slot, entry in graph.typed if slot in slots),
            quantized=tuple(
                (slots[slot], entry, {n: None if s is None else slots.get(s) for n, s in named.items()})
                for slot, entry, named in graph.quantized
                if slot in slots
            ),
            source=graph.source,
        )

    # ---------------------------------------------------------------- copying

    def _copied(self, template: Template, frame: _Frame) -> list[Node]:
        """Return the nodes of a template copied into this one, as a call expands."""
        self._template.calls.update(template.calls)
        body = frame.body
        formal = [*body.inputs, *(slot for slot in body.outputs if slot is not None)]
        slots = [frame.slots[slot] for slot in formal]
        paths: dict[str, str] = {"": frame.path}
        for name in template.names:
            slots.append(self._new(self._path(name.path, frame, paths), name.leaf))
        for label in template.labels:
            self._label(self._path(label.path, frame, paths), label.leaf)
        self._template.annotations += [(slots[slot], entry) for slot, entry in template.annotations]
        calls: dict[int, CallPath | None] = {id(None): frame.calls}
        return [_Copy(slots, calls, frame.metadata).node(node) for node in template.nodes]

    def _path(self, path: str, frame: _Frame, known: dict[str, str]) -> str:
        if path not in known:
            known[path] = joined(frame.path, path)
        return known[path]


def _claimed(scope: NameScope, path: str, leaf: str) -> Name:
    """Return a name that is free; if it had to be numbered, the number is part of the leaf."""
    full = f"{path}/{leaf}" if path else leaf
    claimed = scope.claim(full)
    return Name(path, leaf if claimed == full else claimed[len(path) + 1 if path else 0 :])


class _Copy(NamedTuple):
    """A template's nodes, renumbered, under another call."""

    slots: list[Slot]
    calls: dict[int, CallPath | None]
    metadata: Mapping[str, str]

    def node(self, node: Node) -> Node:
        slots = self.slots
        attributes = node.attributes
        if any(isinstance(a, Graphs) for a in attributes):
            attributes = tuple(
                a._replace(graphs=tuple(self.graph(g) for g in a.graphs)) if isinstance(a, Graphs) else a
                for a in attributes
            )
        metadata = {**self.metadata, **node.metadata} if self.metadata else node.metadata
        return Node(
            node.op,
            tuple([None if slot is None else slots[slot] for slot in node.inputs]),
            tuple([None if slot is None else slots[slot] for slot in node.outputs]),
            attributes,
            "",
            node.source,
            node.imports,
            metadata,
            None,
            self.path(node.calls),
        )

    def graph(self, graph: Subgraph) -> Subgraph:
        slots = self.slots
        return replace(
            graph,
            inputs=tuple(slots[s] for s in graph.inputs),
            outputs=tuple(slots[s] for s in graph.outputs),
            nodes=[self.node(node) for node in graph.nodes],
            initializers=tuple((slots[s], tensor) for s, tensor in graph.initializers),
            typed=tuple((slots[s], entry) for s, entry in graph.typed),
            quantized=tuple(
                (slots[s], e, {n: None if t is None else slots[t] for n, t in named.items()})
                for s, e, named in graph.quantized
            ),
        )

    def path(self, calls: CallPath | None) -> CallPath | None:
        """Return the calls from the outer template's call site down, sharing what they share."""
        chain = []
        while id(calls) not in self.calls:
            assert calls is not None
            chain.append(calls)
            calls = calls.parent
        found = self.calls[id(calls)]
        for link in reversed(chain):
            self.calls[id(link)] = found = CallPath(found, link.site, link.function)
        return found
