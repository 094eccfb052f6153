"""Stretches of nodes that do the same, and the function that takes their place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_inline.engine.read_ir import QUANTIZATION
from onnx_inline.names import NameScope
from onnx_inline.passes.structure import (
    Keys,
    all_attributes,
    all_nodes,
    attribute_graphs,
    captured,
    defined_within,
)


@dataclass(frozen=True)
class Scope:
    """The nodes of a graph or function, and where their values are read.

    Attributes:
        graph: the graph (a function's too).
        imports: the opset imports that hold there.
        nodes: its nodes in order; those of subgraphs are not among them.
        place: the index of each node.
        readers: the indices of the nodes that read a value, in order; one past the last for an output.
        names: names of nodes, those in subgraphs and in graphs around included.
        twins: what took the place of a value when its node was replaced, also in graphs around.
    """

    graph: ir.Graph
    imports: dict[str, int]
    nodes: Sequence[ir.Node]
    place: Mapping[ir.Node, int]
    readers: Mapping[ir.Value, Sequence[int]]
    names: NameScope
    twins: dict[ir.Value, ir.Value]

    def subgraphs(self) -> Iterator[ir.Graph]:
        """Yield the graphs in the attributes of the nodes."""
        for node in self.nodes:
            for attribute in node.attributes.values():
                yield from attribute_graphs(attribute)


def scope_of(owner: ir.Graph | ir.Function, around: Scope | None = None) -> Scope:
    """Look over a main graph, a function, or a subgraph of a scope ``around``."""
    nodes = tuple(owner)
    readers: dict[ir.Value, list[int]] = {}
    for index, node in enumerate(nodes):
        for value in reads(node):
            readers.setdefault(value, []).append(index)
    for value in owner.outputs:
        readers.setdefault(value, []).append(len(nodes))
    place = {node: index for index, node in enumerate(nodes)}
    graph = owner if isinstance(owner, ir.Graph) else owner.graph
    if around is not None:
        return Scope(graph, around.imports, nodes, place, readers, around.names, around.twins)
    names = NameScope(node.name for node in all_nodes(owner) if node.name)
    return Scope(graph, owner.opset_imports, nodes, place, readers, names, {})


def is_idle(scope: Scope, node: ir.Node) -> bool:
    """Say whether nothing reads what a node gives: inlined again, it would be gone."""
    return not any(value in scope.readers for value in node.outputs)


def is_bound_to_its_place(node: ir.Node) -> bool:
    """Say whether a node cannot be moved into a function.

    It may use attributes of the function around it; or be placed on devices, or give values with a
    quantization annotation, of which functions have none.
    """
    inner = list(all_nodes([node])) if node.attributes else [node]
    return (
        any(one.device_configurations for one in inner)
        or any(QUANTIZATION in value.meta for one in inner for value in one.outputs)
        or any(a.is_ref() for a in all_attributes(node))
    )


def reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values from outside that a node reads, its subgraphs included."""
    for value in node.inputs:
        if value is not None:
            yield value
    if node.attributes:
        yield from captured(node)


@dataclass(frozen=True)
class Stretch:
    """Nodes of a scope that are to become one call.

    Attributes:
        scope: where they are.
        nodes: the nodes, in order.
        parameters: the values from outside that they read, in the order of the first reading.
        used: for each output of each node in order, whether something outside reads it.
        wiring: how the nodes are connected; equal for stretches that do the same if their nodes do.
        name: the name of the call's node; empty to let one be chosen.
        metadata: of the call's node: what all the nodes agree on.
        path: what the names of values and nodes inside begin with, if it is not to be kept.
    """

    scope: Scope
    nodes: Sequence[ir.Node]
    parameters: tuple[ir.Value, ...]
    used: tuple[bool, ...]
    wiring: tuple[tuple[int, ...], ...]
    name: str
    metadata: dict[str, str]
    path: str = ""

    @property
    def arguments(self) -> list[ir.Value]:
        """The parameters, or what took their places in the meantime."""
        return [self.scope.twins.get(value, value) for value in self.parameters]

    @property
    def results(self) -> list[ir.Value]:
        """The outputs of all nodes, in order."""
        return [value for node in self.nodes for value in node.outputs]


def stretch(scope: Scope, nodes: Sequence[ir.Node], name: str = "") -> Stretch | None:
    """Describe nodes of a scope as a stretch, or return None if one call cannot take their place.

    The call stands where the first node stands, so that whatever it reads must be defined before.
    """
    keys = Keys()
    inside = {value for node in nodes for value in node.outputs}
    met: dict[ir.Value, None] = {}
    wiring = []
    for node in nodes:
        read = [*node.inputs, *captured(node)] if node.attributes else node.inputs
        wiring.append((*keys.numbers(read), -2, *keys.numbers(node.outputs)))
        met.update(dict.fromkeys(value for value in read if value is not None))
    parameters = tuple(value for value in met if value not in inside)
    start = scope.place[nodes[0]]
    if any(scope.place.get(p, -1) >= start for p in _producers(parameters)):
        return None
    members = frozenset(scope.place[node] for node in nodes)
    results = (value for node in nodes for value in node.outputs)
    used = tuple(not members.issuperset(scope.readers.get(value, ())) for value in results)
    return Stretch(scope, nodes, parameters, used, tuple(wiring), name, _common_metadata(nodes))


def _producers(values: Iterable[ir.Value]) -> Iterator[ir.Node]:
    return (producer for value in values if (producer := value.producer()) is not None)


# ---- the function


@dataclass(frozen=True)
class Outlined:
    """A function made of stretches, and which of the results of a stretch are its outputs."""

    function: ir.Function
    used: tuple[bool, ...]

    def can_stand_for(self, one: Stretch) -> bool:
        """Say whether the function gives all that a stretch that does the same is asked for."""
        return all(given or not wanted for given, wanted in zip(self.used, one.used, strict=True))


def outline(model: ir.Model, stretches: Sequence[Stretch], identifier: ir.OperatorIdentifier) -> Outlined:
    """Make a function of stretches that do the same, and put calls of it in their places.

    What the function says beyond the structure (types, shapes, metadata, doc strings) is what all stretches
    agree on.

    Args:
        model: the model, which gets the function.
        stretches: at least one; all with the same operations and wiring.
        identifier: domain, name and overload of the function, not yet in the model.
    """
    used = tuple(any(flags) for flags in zip(*(one.used for one in stretches), strict=True))
    function = _function(stretches, used, identifier)
    model.functions[identifier] = function
    model.opset_imports.setdefault(identifier[0], 1)
    outlined = Outlined(function, used)
    put_calls(outlined, stretches)
    return outlined


def put_calls(outlined: Outlined, stretches: Sequence[Stretch]) -> None:
    """Put calls of a function in the places of stretches that do what it does."""
    function = outlined.function
    for number, node in enumerate(function):
        _keep_common(node, [one.nodes[number] for one in stretches])
    for number, parameter in enumerate(function.inputs):
        _keep_common_type(parameter, [one.parameters[number] for one in stretches])
    for one in stretches:
        _replace(one, outlined.used, function.identifier())
        one.scope.imports.setdefault(function.domain, 1)


def _function(
    stretches: Sequence[Stretch], used: Sequence[bool], identifier: ir.OperatorIdentifier
) -> ir.Function:
    first = stretches[0]
    outputs = [value for value, is_used in zip(first.results, used, strict=True) if is_used]
    domains = {node.domain for node in all_nodes(first.nodes)}
    imports = {d: v for d, v in first.scope.imports.items() if d in domains}
    view = ir.GraphView(first.arguments, outputs, nodes=first.nodes, opset_imports=imports)
    graph = view.clone()
    for parameter in graph.inputs:
        parameter.const_value = None
    domain, name, overload = identifier
    function = ir.Function(domain, name, overload, graph=graph, attributes=())
    _rename(function, stretches)
    return function


def _rename(function: ir.Function, stretches: Sequence[Stretch]) -> None:
    """Name inputs by what the parameters' names end in alike, and leave out the path in inner names."""
    inner = (graph for node in function for a in node.attributes.values() for graph in attribute_graphs(a))
    scope = NameScope(value.name for graph in inner for value in defined_within(graph) if value.name)
    for number, value in enumerate(function.inputs):
        leaves = {_leaf(one.parameters[number].name or "") for one in stretches}
        value.name = scope.claim(leaves.pop() if len(leaves) == 1 else "input")
    path = stretches[0].path
    for node in function:
        node.name = (node.name or "").removeprefix(path)
        for value in node.outputs:
            value.name = scope.claim(_inner_name(value.name or "value", path))


def _inner_name(name: str, path: str) -> str:
    """Return a name without the path; a result has its name from outside, of which the last part stays."""
    return name.removeprefix(path) if name.startswith(path) else _leaf(name)


def _leaf(name: str) -> str:
    return re.split(r"[./]", name)[-1] or "input"


def _keep_common(node: ir.Node, originals: Sequence[ir.Node]) -> None:
    """Leave a function's node only what all the nodes that it stands for agree on."""
    _keep_common_metadata(node, originals)
    if any(original.doc_string != node.doc_string for original in originals):
        node.doc_string = None
    for number, output in enumerate(node.outputs):
        _keep_common_type(output, [original.outputs[number] for original in originals])


def _keep_common_type(value: ir.Value, originals: Sequence[ir.Value]) -> None:
    _keep_common_metadata(value, originals)
    if any(original.type != value.type for original in originals):
        value.type = value.shape = None
    if any(original.shape != value.shape for original in originals):
        value.shape = None


def _keep_common_metadata(kept: ir.Node | ir.Value, originals: Iterable[ir.Node | ir.Value]) -> None:
    if kept.metadata_props:
        common = _common_metadata([kept, *originals])
        kept.metadata_props.clear()
        kept.metadata_props.update(common)


# ---- the call


def _replace(one: Stretch, used: Sequence[bool], identifier: ir.OperatorIdentifier) -> None:
    """Put a call in the place of a stretch; its results keep their names, types and metadata."""
    results = [value for value, is_used in zip(one.results, used, strict=True) if is_used]
    outputs = [_twin(value) for value in results]
    domain, op_type, overload = identifier
    call = ir.Node(
        domain, op_type, one.arguments, overload=overload, outputs=outputs,
        name=one.scope.names.claim(one.name or op_type), metadata_props=one.metadata,
    )  # fmt: skip
    for value, output in zip(results, outputs, strict=True):
        value.replace_all_uses_with(output, replace_graph_outputs=True)
        one.scope.twins[value] = output
    one.scope.graph.insert_before(one.nodes[0], call)
    for node in one.nodes:
        _let_go(node)
    one.scope.graph.remove(one.nodes, safe=True)


def _let_go(node: ir.Node) -> None:
    """Make the nodes in a node's subgraphs no readers any more of the values around them."""
    for attribute in node.attributes.values():
        for graph in attribute_graphs(attribute):
            graph.outputs.clear()
            for inner in all_nodes(graph):
                for index in range(len(inner.inputs)):
                    inner.replace_input_with(index, None)


def _twin(value: ir.Value) -> ir.Value:
    twin = ir.Value(
        name=value.name, type=value.type, shape=value.shape,
        doc_string=value.doc_string, const_value=value.const_value,
    )  # fmt: skip
    if value.metadata_props:
        twin.metadata_props.update(value.metadata_props)
    if value.meta:
        twin.meta.update(value.meta)
    return twin


def _common_metadata(things: Sequence[ir.Node | ir.Value]) -> dict[str, str]:
    first, *others = things
    return {
        key: value
        for key, value in first.metadata_props.items()
        if all(other.metadata_props.get(key) == value for other in others)
    }
