"""What functions a model holds: who calls whom, how often, with how many nodes and weights.

Read from a :class:`onnx.ModelProto`, whose weights may still be in a file; they are never read.
"""

from __future__ import annotations

import functools
import graphlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_inline.identifiers import OperatorId, normalized_domain

if TYPE_CHECKING:
    import onnx

    from onnx_inline.targets import Target

#: Stands for the main graph where a function's identifier is expected; no function can have an empty name.
MAIN = OperatorId("", "")


@dataclass(frozen=True)
class FunctionFacts:
    """One function of a model, or its main graph (identifier ``MAIN``).

    Attributes:
        identifier: domain, name and overload.
        calls: nodes in the file that call it.
        flat_calls: how often its body occurs once everything is inlined; None in a recursive model.
        nodes: nodes in the body and its subgraphs that call no function.
        flat_nodes: nodes of the body once everything in it is inlined; None if it leads into recursion.
        depth: levels of calls below it, 0 for a body without calls; None if it leads into recursion.
        parameters: elements of the distinct initializers that reach it.
        parameter_bytes: bytes of those.
        opsets: its own opset imports.
        operators: how often each operator (calls excluded) is in the body.
        callees: functions that the body calls, with the number of calling nodes, in order of first call.
    """

    identifier: OperatorId
    calls: int
    flat_calls: int | None
    nodes: int
    flat_nodes: int | None
    depth: int | None
    parameters: int
    parameter_bytes: int
    opsets: Mapping[str, int]
    operators: Mapping[OperatorId, int]
    callees: Mapping[OperatorId, int]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "function": None if self.identifier == MAIN else str(self.identifier),
            "calls": self.calls,
            "flat_calls": self.flat_calls,
            "nodes": self.nodes,
            "flat_nodes": self.flat_nodes,
            "depth": self.depth,
            "parameters": self.parameters,
            "parameter_bytes": self.parameter_bytes,
            "opsets": dict(self.opsets),
            "operators": {str(name): count for name, count in self.operators.items()},
            "callees": {str(name): count for name, count in self.callees.items()},
        }


@dataclass(frozen=True)
class Hierarchy:
    """The functions of a model; ``functions[MAIN]`` is the main graph.

    Attributes:
        ir_version: of the model.
        producer: name and version of the program that wrote it.
        functions: facts by identifier, the main graph first, then in the order of the file.
        cycle: functions that call each other in a ring, the first repeated at the end; empty if none do.
    """

    ir_version: int
    producer: str
    functions: Mapping[OperatorId, FunctionFacts]
    cycle: tuple[OperatorId, ...]

    @property
    def main(self) -> FunctionFacts:
        """The main graph."""
        return self.functions[MAIN]

    @functools.cached_property
    def own_domains(self) -> frozenset[str]:
        """Domains other than the standard one that hold functions of the model."""
        return frozenset(name.domain for name in self.functions if name.domain)

    @property
    def never_called(self) -> tuple[OperatorId, ...]:
        """Functions that no node reachable from the main graph calls."""
        reached, pending = {MAIN}, [MAIN]
        while pending:
            new = self.functions[pending.pop()].callees.keys() - reached
            reached |= new
            pending += new
        return tuple(name for name in self.functions if name not in reached)

    @property
    def operators(self) -> Counter[OperatorId]:
        """How often each operator is in the flat model; in the bodies as they are if it is recursive."""
        total: Counter[OperatorId] = Counter()
        for facts in self.functions.values():
            times = 1 if facts.flat_calls is None else facts.flat_calls
            for name, count in facts.operators.items():
                total[name] += count * times
        return +total

    def lacking(self, target: Target) -> frozenset[OperatorId]:
        """Return the operators of the flat model that ``target`` does not take at the model's opset."""
        versions = {domain: v for facts in self.functions.values() for domain, v in facts.opsets.items()}
        versions |= self.main.opsets
        return frozenset(
            name for name in self.operators if not target.supports(name, versions.get(name.domain, 1))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        main, *functions = self.functions.values()
        return {
            "ir_version": self.ir_version,
            "producer": self.producer,
            "main": main.to_dict(),
            "functions": [facts.to_dict() for facts in functions],
            "operators": {str(name): count for name, count in sorted(self.operators.items())},
            "never_called": [str(name) for name in self.never_called],
            "cycle": [str(name) for name in self.cycle],
        }


def read_hierarchy(model: onnx.ModelProto) -> Hierarchy:
    """Read the function hierarchy of ``model``.

    Args:
        model: a model, or the skeleton that :func:`onnx_inline.load_proto` returns; not changed.

    Returns:
        The facts, in time linear in the nodes of the file (not of the flat model).

    Example:
        >>> import onnx
        >>> graph = "main (float[2] x) => (float[2] y) { y = Abs (x) }"
        >>> model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {graph}')
        >>> read_hierarchy(model).main.nodes
        1
    """
    bodies = _read_bodies(model)
    callees_first, cycle = _ordered({name: body.callees for name, body in bodies.items()})
    weights = _weights_reaching(bodies, callees_first)
    below = _below(bodies, callees_first)
    occurrences = {} if cycle else _occurrences(bodies, callees_first)
    calls: Counter[OperatorId] = Counter()
    for body in bodies.values():
        calls.update(body.callees)
    sizes = _Sizes(bodies[MAIN].initializers)
    functions = {}
    for name, body in bodies.items():
        parameters, parameter_bytes = sizes.of(weights[name])
        flat_nodes, depth = below.get(name, (None, None))
        functions[name] = FunctionFacts(
            name, calls[name], occurrences.get(name), body.operators.total(), flat_nodes, depth,
            parameters, parameter_bytes, body.opsets, dict(body.operators), dict(body.callees),
        )  # fmt: skip
    producer = f"{model.producer_name} {model.producer_version}".strip()
    return Hierarchy(model.ir_version, producer, functions, cycle)


#: What a call hands over: an initializer by number, or a value of the calling body by name.
_Argument = int | str


@dataclass
class _Body:
    """The main graph or a function, read once."""

    opsets: Mapping[str, int]
    inputs: Sequence[str] = ()
    operators: Counter[OperatorId] = field(default_factory=Counter)
    callees: Counter[OperatorId] = field(default_factory=Counter)
    sites: list[tuple[OperatorId, list[_Argument]]] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)


def _read_bodies(model: onnx.ModelProto) -> dict[OperatorId, _Body]:
    """Read every node once.  The list of initializers is shared: a number means the same everywhere."""
    known = {_identifier(function, function.name) for function in model.functions}
    main = _Body(_opsets(model.opset_import))
    _read_graph(model.graph, main, {}, known)
    bodies = {MAIN: main}
    for function in model.functions:
        body = _Body(_opsets(function.opset_import), function.input, initializers=main.initializers)
        _read_nodes(function.node, body, {}, known)
        bodies.setdefault(_identifier(function, function.name), body)
    return bodies


def _read_graph(
    graph: onnx.GraphProto, body: _Body, outer: Mapping[str, int], known: set[OperatorId]
) -> None:
    tensors = [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
    first = len(body.initializers)
    own = {tensor.name: first + number for number, tensor in enumerate(tensors)}
    body.initializers += tensors
    _read_nodes(graph.node, body, {**outer, **own} if own else outer, known)


def _read_nodes(
    nodes: Iterable[onnx.NodeProto], body: _Body, numbers: Mapping[str, int], known: set[OperatorId]
) -> None:
    for node in nodes:
        name = _identifier(node, node.op_type)
        if name in known:
            body.callees[name] += 1
            body.sites.append((name, [numbers.get(value, value) for value in node.input]))
        else:
            body.operators[name] += 1
        for graph in _subgraphs(node):
            _read_graph(graph, body, numbers, known)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _identifier(proto: onnx.NodeProto | onnx.FunctionProto, name: str) -> OperatorId:
    return OperatorId(normalized_domain(proto.domain), name, proto.overload)


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {normalized_domain(entry.domain): entry.version for entry in imports}


def _ordered(
    callees: Mapping[OperatorId, Iterable[OperatorId]],
) -> tuple[list[OperatorId], tuple[OperatorId, ...]]:
    """Return the bodies, callees first, without those that lead into recursion; and a cycle, if any."""
    try:
        return list(graphlib.TopologicalSorter(callees).static_order()), ()
    except graphlib.CycleError as error:
        # graphlib lists the cycle against the direction of its "needs", which here are calls.
        return _settled(callees), tuple(reversed(error.args[1]))


def _settled(needs: Mapping[OperatorId, Iterable[OperatorId]]) -> list[OperatorId]:
    """Return names after all that they need; cycles and what needs one are left out."""
    open_needs = {name: set(others) for name, others in needs.items()}
    needed_by: dict[OperatorId, list[OperatorId]] = {name: [] for name in needs}
    for name, others in open_needs.items():
        for other in others:
            needed_by[other].append(name)
    order = [name for name, others in open_needs.items() if not others]
    for name in order:
        for dependent in needed_by[name]:
            open_needs[dependent].discard(name)
            if not open_needs[dependent]:
                order.append(dependent)
    return order


def _below(
    bodies: Mapping[OperatorId, _Body], callees_first: Iterable[OperatorId]
) -> dict[OperatorId, tuple[int, int]]:
    """Return the flat nodes and the depth of each body that does not lead into recursion."""
    below: dict[OperatorId, tuple[int, int]] = {}
    for name in callees_first:
        body = bodies[name]
        nodes = body.operators.total() + sum(below[c][0] * times for c, times in body.callees.items())
        below[name] = nodes, max((below[callee][1] + 1 for callee in body.callees), default=0)
    return below


def _occurrences(
    bodies: Mapping[OperatorId, _Body], callees_first: Sequence[OperatorId]
) -> Counter[OperatorId]:
    """Return how often each body occurs in the flat model."""
    occurrences = Counter({MAIN: 1})
    for name in reversed(callees_first):
        for callee, times in bodies[name].callees.items():
            occurrences[callee] += occurrences[name] * times
    return Counter({name: occurrences[name] for name in bodies})


def _weights_reaching(
    bodies: Mapping[OperatorId, _Body], callees_first: Sequence[OperatorId]
) -> dict[OperatorId, int]:
    """Return, as the bits of an integer, the initializers that reach each body through its inputs.

    A set of numbers per input would grow with inputs x initializers; as integers they cost a bit each.
    """
    reaching: dict[OperatorId, dict[str, int]] = {name: {} for name in bodies}
    weights = dict.fromkeys(bodies, 0)
    weights[MAIN] = (1 << len(bodies[MAIN].initializers)) - 1
    for name in reversed(callees_first):
        for callee, arguments in bodies[name].sites:
            for formal, argument in zip(bodies[callee].inputs, arguments, strict=False):
                bits = 1 << argument if isinstance(argument, int) else reaching[name].get(argument, 0)
                if bits:
                    reaching[callee][formal] = reaching[callee].get(formal, 0) | bits
                    weights[callee] |= bits
    return weights


class _Sizes:
    """Elements and bytes of sets of initializers; each set is measured once."""

    def __init__(self, initializers: Sequence[onnx.TensorProto]) -> None:
        self._elements = [math.prod(tensor.dims) for tensor in initializers]
        self._bytes = [_byte_size(*pair) for pair in zip(initializers, self._elements, strict=True)]
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, bits: int) -> tuple[int, int]:
        """Return the elements and the bytes of the initializers whose bits are set."""
        if bits not in self._known:
            chosen = [number for number, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
            self._known[bits] = (
                sum(self._elements[number] for number in chosen),
                sum(self._bytes[number] for number in chosen),
            )
        return self._known[bits]


def _byte_size(tensor: onnx.TensorProto, elements: int) -> int:
    """Return the bytes of a tensor's elements as ONNX packs them; strings as they are stored."""
    from onnx_inline.reports.elements import BITS

    if tensor.string_data:
        return sum(map(len, tensor.string_data))
    return (elements * BITS.get(tensor.data_type, 0) + 7) // 8
