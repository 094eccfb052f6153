"""One body for each way of calling a function.

A way of calling is the values of the attributes, which optional inputs are given and which outputs are
used.  In the specialised body attribute references are resolved, absent inputs are gone, operators mean
what they meant in the function's own opset, every output is made by a node of the body, and what computes
nothing that is used is dropped.  All the semantics of a call live here; calls that go are left as nodes
with their ``callee`` set, which ``flatten`` expands.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
import onnx.defs

from onnx_inline.engine.body import (
    Attribute,
    Body,
    Graphs,
    Node,
    Plain,
    Reference,
    Signature,
    Slot,
    Subgraph,
    all_nodes,
    captures,
    nesting,
    renumbered_graph,
)
from onnx_inline.engine.conversion import Converter
from onnx_inline.engine.form import Form
from onnx_inline.engine.liveness import is_pure, live_nodes
from onnx_inline.engine.survey import DEEPEST, TOO_DEEP
from onnx_inline.errors import CallSiteError, InvalidModelError, ModelTooLargeError
from onnx_inline.identifiers import OperatorId
from onnx_inline.opsets import input_is_required, schema_of

IDENTITY = OperatorId("", "Identity")


@dataclass(frozen=True, eq=False)
class Closure:
    """A graph attribute given by a call, with the labels of its slots and what it captures of its caller."""

    graphs: tuple[Subgraph, ...]
    labels: Sequence[str]
    captured: tuple[Slot, ...]
    payload: object


Binding = Plain | Reference | Closure


@dataclass(frozen=True)
class Way:
    """A way of calling a function; equal ways share one body."""

    function: OperatorId
    attributes: tuple[tuple[str, Hashable], ...]
    present: tuple[bool, ...]
    needed: tuple[bool, ...]
    target: int


@dataclass
class Specialiser:
    """Makes and keeps the body for each way of calling.

    ``functions`` are those that go, ``local`` all that the model has; ``pure`` those of them that do nothing
    but compute their outputs; ``targets`` the opset imports of the graphs that bodies can go into.
    ``most_handed`` is how many nodes may be copied because they are in graphs that calls hand on: such a
    graph can hold several copies of one that was handed on before.
    """

    form: Form
    functions: Mapping[OperatorId, Signature]
    local: Collection[OperatorId]
    pure: Collection[OperatorId]
    targets: Sequence[Mapping[str, int]]
    most_handed: int
    handed: int = 0
    bodies: dict[Way, Body] = field(default_factory=dict)
    _bindings: dict[Way, dict[str, Binding]] = field(default_factory=dict)

    _usual: dict[tuple[OperatorId, int, tuple[bool, ...], int], Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.converter = Converter(self.form)

    def way(
        self, node: Node, labels: Sequence[str], target: int, needed: Sequence[bool], where: str
    ) -> tuple[Way, tuple[Slot, ...]]:
        """Return a call's way of calling and its arguments: the inputs given, then captured values.

        Raises:
            CallSiteError: the call has more inputs or outputs than the function.
        """
        if node.attributes or None in node.inputs:
            return self._way(node, labels, target, needed, where)
        # Most calls give every input and no attribute: what they have in common is found without hashing it.
        key = (node.op, len(node.inputs), tuple(needed), target)
        if (way := self._usual.get(key)) is None:
            way = self._usual[key] = self._way(node, labels, target, needed, where)[0]
        return way, node.inputs  # type: ignore[return-value]  # None is not among them

    def _way(
        self, node: Node, labels: Sequence[str], target: int, needed: Sequence[bool], where: str
    ) -> tuple[Way, tuple[Slot, ...]]:
        signature = self.functions[node.op]
        check_arity(signature, len(node.inputs), len(node.outputs), where)
        bindings = {a.name: self._bound(a, labels) for a in node.attributes if a.name in signature.declared}
        missing = len(signature.inputs) - len(node.inputs)
        way = Way(
            function=node.op,
            attributes=tuple(sorted((name, self._key(binding)) for name, binding in bindings.items())),
            present=(*(slot is not None for slot in node.inputs), *[False] * missing),
            needed=(*needed, *[False] * (len(signature.outputs) - len(needed))),
            target=target,
        )
        self._bindings.setdefault(way, bindings)
        captured = [slot for b in _closures(self._bindings[way]) for slot in b.captured]
        return way, (*(slot for slot in node.inputs if slot is not None), *captured)

    def body(self, way: Way) -> Body:
        """Return the body for a way of calling; those that it calls are made as well."""
        pending = [way]
        while pending:
            current = pending.pop()
            if current in self.bodies:
                continue
            body = _Specialisation(self, current, self._bindings[current]).run()
            self.bodies[current] = body
            pending.extend(called_ways(body.nodes))
        return self.bodies[way]

    def is_pure(self, node: Node) -> bool:
        """Say whether a node does nothing but compute its outputs."""
        return is_pure(node, self.local, self.pure)

    def _bound(self, attribute: Attribute, labels: Sequence[str]) -> Binding:
        if isinstance(attribute, Graphs):
            return Closure(attribute.graphs, labels, captures(attribute.graphs), attribute.payload)
        return attribute

    def _key(self, binding: Binding) -> tuple[str, Hashable]:
        # The first item keeps kinds apart, so that keys of one name can always be sorted by name alone.
        if isinstance(binding, Plain):
            return "plain", self.form.key(binding.payload)
        return ("reference", binding.ref) if isinstance(binding, Reference) else ("graph", binding)


def called_ways(nodes: Iterable[Node]) -> Iterator[Way]:
    """Yield the way of each call that is going to be inlined."""
    for node in all_nodes(nodes):
        if isinstance(node.callee, Way):
            yield node.callee


def check_arity(signature: Signature, inputs: int, outputs: int, where: str) -> None:
    """Raise CallSiteError if a call gives or takes more than the function has."""
    for what, given, formal in (
        ("inputs", inputs, len(signature.inputs)),
        ("outputs", outputs, len(signature.outputs)),
    ):
        if given > formal:
            raise CallSiteError(
                f"the call has {given} {what}, the function has {formal}; drop the surplus",
                function=str(signature.id),
                site=where,
            )


def _closures(bindings: Mapping[str, Binding]) -> Iterator[Closure]:
    for name in sorted(bindings):
        if isinstance(binding := bindings[name], Closure):
            yield binding


class _Specialisation:
    """The making of one specialised body."""

    def __init__(self, specialiser: Specialiser, way: Way, bindings: Mapping[str, Binding]) -> None:
        self._all, self._way, self._bindings = specialiser, way, bindings
        self._signature = signature = specialiser.functions[way.function]
        self._name = str(signature.id)
        self._target = specialiser.targets[way.target]
        source = signature.body
        self._absent = {slot for slot, given in zip(source.inputs, way.present, strict=True) if not given}
        self._body = Body((), (), [], list(source.labels), source.annotations)
        self._hidden = {
            id(closure): [self._body.fresh(closure.labels[slot]) for slot in closure.captured]
            for closure in _closures(bindings)
        }
        self._constants: dict[Slot, Node] = {}

    def run(self) -> Body:
        """Return the body."""
        source, body = self._signature.body, self._body
        nodes = [new for node in source.nodes for new in self._rewritten(node)]
        outputs, identities = self._outputs()
        nodes += identities
        needed = {slot for slot in outputs if slot is not None}
        body.nodes = self._with_callees(live_nodes(nodes, needed, self._all.is_pure), needed)
        given = tuple(slot for slot in source.inputs if slot not in self._absent)
        body.inputs = (*given, *(slot for slots in self._hidden.values() for slot in slots))
        body.outputs = outputs
        return body

    # ------------------------------------------------------------------ nodes

    def _rewritten(self, node: Node) -> list[Node]:
        inputs, attributes = self._inputs(node), self._attributes(node)
        if inputs is not node.inputs or attributes is not node.attributes:
            node = replace(node, inputs=inputs, attributes=attributes)
        if node.op in self._all.local:
            return [node]
        if node.op == ("", "Constant", ""):
            self._constants.update((slot, node) for slot in node.outputs if slot is not None)
        return self._all.converter.converted(node, self._target, self._body, self._constants, self._name)

    def _inputs(self, node: Node) -> tuple[Slot | None, ...]:
        if not self._absent or self._absent.isdisjoint(node.inputs):
            return node.inputs
        inputs = [None if slot in self._absent else slot for slot in node.inputs]
        if node.op not in self._all.local:
            self._refuse_missing(node)
        while inputs and inputs[-1] is None:
            inputs.pop()
        return tuple(inputs)

    def _refuse_missing(self, node: Node) -> None:
        version = node.imports.get(node.op.domain, 1)
        for index, slot in enumerate(node.inputs):
            if slot in self._absent and (formal := input_is_required(node.op, version, index)):
                raise self._error(
                    f"input {self._body.labels[slot]!r} is not given, but {node.op} needs it "
                    f"as its input {formal}; give it at the call"
                )

    def _inner(self, attribute: Attribute) -> Attribute:
        if not isinstance(attribute, Graphs):
            return attribute
        return attribute._replace(graphs=tuple(self._rewritten_graph(g) for g in attribute.graphs))

    def _rewritten_graph(self, graph: Subgraph) -> Subgraph:
        nodes = [new for node in graph.nodes for new in self._rewritten(node)]
        absent = next((slot for slot in graph.outputs if slot in self._absent), None)
        if absent is not None:
            raise self._error(
                f"input {self._body.labels[absent]!r} is not given, but a graph in the body returns it"
            )
        quantized = tuple(
            (slot, entry, {name: None if s in self._absent else s for name, s in named.items()})
            for slot, entry, named in graph.quantized
        )
        return replace(graph, nodes=nodes, quantized=quantized)

    # ------------------------------------------------------------- attributes

    def _attributes(self, node: Node) -> tuple[Attribute, ...]:
        if all(isinstance(attribute, Plain) for attribute in node.attributes):
            return node.attributes
        resolved = (
            self._resolved(node, attribute) if isinstance(attribute, Reference) else self._inner(attribute)
            for attribute in node.attributes
        )
        return tuple(attribute for attribute in resolved if attribute is not None)

    def _resolved(self, node: Node, attribute: Reference) -> Attribute | None:
        """Return the value that a reference takes, None if it has none."""
        binding = self._bindings.get(attribute.ref, self._signature.defaults.get(attribute.ref))
        if binding is None:
            self._refuse_missing_attribute(node, attribute)
            return None
        self._refuse_other_type(node, attribute, binding)
        if isinstance(binding, Reference):
            self._refuse_lost_default(attribute, binding)
            payload = self._all.form.reference(attribute.payload, binding.ref)
            return Reference(attribute.name, binding.ref, attribute.type, payload, binding.sure)
        if isinstance(binding, Plain):
            return Plain(attribute.name, self._all.form.renamed(binding.payload, attribute.name))
        opened = self._opened(attribute, binding)
        # What a call gives was rewritten where it was written: its references and its opset are not ours.
        return opened if isinstance(binding, Closure) else self._inner(opened)

    def _refuse_missing_attribute(self, node: Node, attribute: Reference) -> None:
        schema_attribute = _schema_attribute(node, attribute.name)
        if schema_attribute is not None and schema_attribute.required:
            raise self._error(
                f"attribute {attribute.ref!r} is not given and has no default, but {node.op} needs it "
                f"as its attribute {attribute.name}; give it at the call"
            )

    def _refuse_other_type(self, node: Node, attribute: Reference, binding: Binding | Graphs) -> None:
        given = self._all.form.type_of(binding.payload)
        if given and attribute.type and given != attribute.type:
            kind = onnx.AttributeProto.AttributeType.Name
            raise self._error(
                f"attribute {attribute.ref!r} is given as {kind(given)}, but {node.op} takes it "
                f"as {kind(attribute.type)}; give it in that type"
            )

    def _refuse_lost_default(self, attribute: Reference, binding: Reference) -> None:
        # The value is known only when the function around the call is called; if it is not given then,
        # this function's default would hold, which a reference in the body can no longer express.
        if attribute.ref in self._signature.defaults and not binding.sure:
            raise self._error(
                f"attribute {attribute.ref!r} comes from attribute {binding.ref!r} of the kept function "
                "around the call, which may be absent, and then the default here would be lost; "
                "give that attribute a default, or keep this function too"
            )

    def _opened(self, attribute: Reference, value: Closure | Graphs) -> Graphs:
        """Return a copy of a graph that the call gave, its captures bound to the hidden inputs."""
        if isinstance(value, Graphs):  # a default; it is read in the function's own scope
            labels: Sequence[str] = self._signature.body.labels
            captured = captures(value.graphs)
            slots: dict[Slot, Slot | None] = dict(zip(captured, captured, strict=True))
        else:
            labels = value.labels
            slots = dict(zip(value.captured, self._hidden[id(value)], strict=True))
        self._count(value.graphs)
        for graph in value.graphs:
            slots.update((slot, self._body.fresh(labels[slot])) for slot in graph.defined())
        graphs = tuple(renumbered_graph(graph, slots) for graph in value.graphs)
        return Graphs(attribute.name, graphs, self._all.form.renamed(value.payload, attribute.name))

    def _count(self, graphs: Sequence[Subgraph]) -> None:
        """Refuse to copy graphs that grow too large, or too deep, by being handed on again and again."""
        specialiser, nodes = self._all, [node for graph in graphs for node in graph.nodes]
        if nesting(nodes) >= DEEPEST:
            raise self._error(TOO_DEEP)
        specialiser.handed += sum(1 for _ in all_nodes(nodes))
        if specialiser.handed > specialiser.most_handed:
            raise ModelTooLargeError(
                nodes=specialiser.handed, limit=specialiser.most_handed, functions=[self._name]
            )

    # ----------------------------------------------------- outputs and liveness

    def _outputs(self) -> tuple[tuple[Slot | None, ...], list[Node]]:
        """Return the used outputs, each made by one node of the body: Identity where none makes it."""
        taken = set(self._signature.body.inputs)
        outputs: list[Slot | None] = []
        identities = []
        for slot, needed in zip(self._signature.body.outputs, self._way.needed, strict=True):
            if not needed or slot is None:
                outputs.append(None)
                continue
            if slot in self._absent:
                raise self._error(
                    f"input {self._body.labels[slot]!r} is not given, but the function returns it; "
                    "give it at the call"
                )
            if slot in taken:
                slot, identity = self._identity(slot)
                identities.append(identity)
            taken.add(slot)
            outputs.append(slot)
        return tuple(outputs), identities

    def _identity(self, slot: Slot) -> tuple[Slot, Node]:
        output = self._body.fresh(self._body.labels[slot])
        return output, Node(IDENTITY, (slot,), (output,), (), "", None, self._signature.imports)

    def _with_callees(self, nodes: list[Node], needed: set[Slot]) -> list[Node]:
        """Return the nodes with each call that goes bound to the way it is called in."""
        return [self._with_callee(node, needed) for node in nodes]

    def _with_callee(self, node: Node, needed: set[Slot]) -> Node:
        if node.op not in self._all.functions:
            if all(not isinstance(a, Graphs) for a in node.attributes):
                return node
            # The graphs of a call that goes are bound where they are opened.
            attributes = tuple(self._graphs_with_callees(a, needed) for a in node.attributes)
            return replace(node, attributes=attributes)
        where = f"{node.label or node.op.name} in function {self._signature.id}"
        used = [slot is not None and slot in needed for slot in node.outputs]
        way, arguments = self._all.way(node, self._body.labels, self._way.target, used, where)
        outputs = tuple(slot if use else None for slot, use in zip(node.outputs, used, strict=True))
        return replace(node, callee=way, inputs=arguments, outputs=outputs)

    def _graphs_with_callees(self, attribute: Attribute, needed: set[Slot]) -> Attribute:
        if not isinstance(attribute, Graphs):
            return attribute
        graphs = tuple(replace(g, nodes=self._with_callees(g.nodes, needed)) for g in attribute.graphs)
        return attribute._replace(graphs=graphs)

    def _error(self, message: str) -> InvalidModelError:
        return InvalidModelError(f"cannot inline {self._name}: {message}", function=str(self._signature.id))


def _schema_attribute(node: Node, name: str) -> onnx.defs.OpSchema.Attribute | None:
    schema = schema_of(node.op, node.imports.get(node.op.domain, 1))
    return None if schema is None else schema.attributes.get(name)
