"""Stretches of nodes that do the same, and the function that takes their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_inline.names import NameScope
from onnx_inline.passes.structure import Keys, captured

#: A use as a graph output comes after every node.
AT_THE_END = 1 << 60


@dataclass(frozen=True)
class Scope:
    """The nodes of the main graph or of a function, and how far the value of each output reaches.

    Attributes:
        owner: the graph or function.
        nodes: its nodes in order; those of subgraphs are not among them.
        place: the index of each node.
        reach: the index of the last node that reads a value.
        names: names of nodes, those in subgraphs included.
    """

    owner: ir.Graph | ir.Function
    nodes: Sequence[ir.Node]
    place: Mapping[ir.Node, int]
    reach: Mapping[ir.Value, int]
    names: NameScope


def scope_of(owner: ir.Graph | ir.Function) -> Scope:
    """Look over a graph or function."""
    nodes = tuple(owner)
    reach: dict[ir.Value, int] = {}
    for index, node in enumerate(nodes):
        for value in reads(node):
            reach[value] = index
    reach.update(dict.fromkeys(owner.outputs, AT_THE_END))
    names = NameScope(node.name for node in owner.all_nodes() if node.name)
    return Scope(owner, nodes, {node: index for index, node in enumerate(nodes)}, reach, names)


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
    """

    scope: Scope
    nodes: Sequence[ir.Node]
    parameters: tuple[ir.Value, ...]
    used: tuple[bool, ...]
    wiring: tuple[tuple[int, ...], ...]
    name: str = ""

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
    members = frozenset(nodes)
    used = tuple(_is_used_outside(scope, value, members) for node in nodes for value in node.outputs)
    return Stretch(scope, nodes, parameters, used, tuple(wiring), name)


def _producers(values: Iterable[ir.Value]) -> Iterator[ir.Node]:
    return (producer for value in values if (producer := value.producer()) is not None)


def _is_used_outside(scope: Scope, value: ir.Value, members: frozenset[ir.Node]) -> bool:
    reach = scope.reach.get(value, -1)
    return reach >= 0 and (reach == AT_THE_END or scope.nodes[reach] not in members)


# ---- the function


def outline(model: ir.Model, stretches: Sequence[Stretch], identifier: ir.OperatorIdentifier) -> ir.Function:
    """Make a function of stretches that do the same, and put calls of it in their places.

    What the function says beyond the structure (types, shapes, metadata, doc strings) is what all stretches
    agree on.

    Args:
        model: the model, which gets the function.
        stretches: at least one; all with the same operations and wiring.
        identifier: domain, name and overload of the function, not yet in the model.
    """
    used = [any(flags) for flags in zip(*(one.used for one in stretches), strict=True)]
    function = _function(stretches, used, identifier)
    model.functions[identifier] = function
    model.opset_imports.setdefault(identifier[0], 1)
    for one in stretches:
        _replace(one, used, identifier)
        one.scope.owner.opset_imports.setdefault(identifier[0], 1)
    return function


def _function(
    stretches: Sequence[Stretch], used: Sequence[bool], identifier: ir.OperatorIdentifier
) -> ir.Function:
    first = stretches[0]
    outputs = [value for value, is_used in zip(first.results, used, strict=True) if is_used]
    domains = {node.domain for node in _with_inner(first.nodes)}
    imports = {d: v for d, v in first.scope.owner.opset_imports.items() if d in domains}
    view = ir.GraphView(first.parameters, outputs, nodes=first.nodes, opset_imports=imports)
    graph = view.clone()
    for parameter in graph.inputs:
        parameter.const_value = None
    domain, name, overload = identifier
    function = ir.Function(domain, name, overload, graph=graph, attributes=())
    for number, node in enumerate(function):
        _keep_common(node, [one.nodes[number] for one in stretches])
    for number, parameter in enumerate(function.inputs):
        _keep_common_type(parameter, [one.parameters[number] for one in stretches])
    return function


def _with_inner(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    return (inner for node in nodes for inner in ir.traversal.RecursiveGraphIterator([node]))


def _keep_common(node: ir.Node, originals: Sequence[ir.Node]) -> None:
    """Leave a function's node only what all the nodes that it stands for agree on."""
    for key, value in list(node.metadata_props.items()):
        if any(original.metadata_props.get(key) != value for original in originals):
            del node.metadata_props[key]
    if any(original.doc_string != node.doc_string for original in originals):
        node.doc_string = None
    for number, output in enumerate(node.outputs):
        _keep_common_type(output, [original.outputs[number] for original in originals])


def _keep_common_type(value: ir.Value, originals: Sequence[ir.Value]) -> None:
    value.metadata_props.clear()
    if any(original.type != value.type for original in originals):
        value.type = value.shape = None
    if any(original.shape != value.shape for original in originals):
        value.shape = None


# ---- the call


def _replace(one: Stretch, used: Sequence[bool], identifier: ir.OperatorIdentifier) -> None:
    """Put a call in the place of a stretch; its results keep their names, types and metadata."""
    results = [value for value, is_used in zip(one.results, used, strict=True) if is_used]
    outputs = [_twin(value) for value in results]
    domain, op_type, overload = identifier
    call = ir.Node(
        domain, op_type, one.parameters, overload=overload, outputs=outputs,
        name=one.scope.names.claim(one.name or op_type), metadata_props=_common_metadata(one.nodes),
    )  # fmt: skip
    for value, output in zip(results, outputs, strict=True):
        value.replace_all_uses_with(output, replace_graph_outputs=True)
    graph = one.scope.owner if isinstance(one.scope.owner, ir.Graph) else one.scope.owner.graph
    graph.insert_before(one.nodes[0], call)
    graph.remove(one.nodes, safe=True)


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


def _common_metadata(nodes: Sequence[ir.Node]) -> dict[str, str]:
    first, *others = nodes
    return {
        key: value
        for key, value in first.metadata_props.items()
        if all(node.metadata_props.get(key) == value for node in others)
    }
