"""Inlining in a ModelProto: what is not understood is copied as it is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from onnx_inline.engine.body import GRAPH_TYPES, Node, Signature
from onnx_inline.engine.collector import collector_paused
from onnx_inline.engine.form import ProtoForm
from onnx_inline.engine.namer import Namer, slot_names
from onnx_inline.engine.options import Options
from onnx_inline.engine.plan import Gone, Plan, PlannedSite, make_plan
from onnx_inline.engine.read_proto import function_id, imports_of, operator_id, read_function, read_site
from onnx_inline.engine.report import InlineReport
from onnx_inline.engine.stamp_proto import ProtoStamper, length_delimited
from onnx_inline.engine.survey import Survey, defined_twice
from onnx_inline.engine.value_types import Claim, agreed, claim, weightless
from onnx_inline.identifiers import OperatorId, normalized_domain

Nodes = Sequence[onnx.NodeProto]


@dataclass(frozen=True)
class Inlined:
    """The outcome, not yet put together.

    ``nodes`` are the main graph's nodes as serialized ``GraphProto.node`` fields, None if nothing changes;
    ``training`` those of each training graph, ``functions`` the functions that stay, ``value_info`` what
    comes from functions for the main graph.
    """

    report: InlineReport
    nodes: list[bytes] | None = None
    training: list[list[bytes]] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    value_info: list[onnx.ValueInfoProto] = field(default_factory=list)


def inline(model: onnx.ModelProto, options: Options) -> Inlined:
    """Decide and stamp; the model is not touched.

    Raises:
        ModelError: see :func:`onnx_inline.inline_functions`.
    """
    started = time.perf_counter()
    with collector_paused():
        view = ProtoView(model)
        plan = make_plan(view, options)
        inlined = _stamped(model, view, plan, options) if plan.gone else Inlined(plan.report)
    return replace(inlined, report=inlined.report.timed(started))


def _stamped(model: onnx.ModelProto, view: ProtoView, plan: Plan, options: Options) -> Inlined:
    stamper = ProtoStamper(own_names=options.names == "flat", provenance=options.provenance)
    main = _Writing(plan, None, stamper, Namer(options, view.main))
    nodes = main.chunks(model.graph.node)
    value_info = _agreed(model, plan, nodes, main.claims)
    training = [main.chunks(graph.node) for graph in _training_graphs(model)]
    kept = [owner for owner in plan.owners if owner is not None]
    functions = [_kept(view, plan, owner, stamper, options) for owner in kept]
    return Inlined(plan.report, nodes, training, functions, value_info)


def _agreed(
    model: onnx.ModelProto, plan: Plan, nodes: list[bytes], claims: Sequence[Claim]
) -> list[onnx.ValueInfoProto]:
    if not claims:
        return []
    return agreed(weightless(model.graph, nodes), plan.report.opset_imports, claims)


def put_together(model: onnx.ModelProto, inlined: Inlined) -> onnx.ModelProto:
    """Return a new model: the given one with the outcome in place."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    put_in_place(result, inlined)
    return result


def put_in_place(model: onnx.ModelProto, inlined: Inlined, *, nodes: bool = True) -> None:
    """Change a model to the outcome; with ``nodes=False`` its main graph is left without nodes."""
    if inlined.nodes is None:
        return
    _replace_nodes(model.graph, inlined.nodes if nodes else [])
    model.graph.value_info.extend(inlined.value_info)
    for graph, chunks in zip(_training_graphs(model), inlined.training, strict=True):
        _replace_nodes(graph, chunks)
    del model.functions[:]
    model.functions.extend(inlined.functions)
    _replace_imports(model, inlined.report.opset_imports)


def _replace_nodes(graph: onnx.GraphProto, chunks: Iterable[bytes]) -> None:
    del graph.node[:]
    graph.MergeFromString(b"".join(chunks))


def _replace_imports(owner: onnx.ModelProto | onnx.FunctionProto, imports: Mapping[str, int]) -> None:
    if imports == imports_of(owner):
        return
    spelled = {normalized_domain(entry.domain): entry.domain for entry in owner.opset_import}
    del owner.opset_import[:]
    for domain, version in imports.items():
        owner.opset_import.add(domain=spelled.get(domain, domain), version=version)


def _training_graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Return the graphs in a node's attributes."""
    return graphs_in(node.attribute)


def graphs_in(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in attributes: a node's, or those that are a function's defaults."""
    for attribute in attributes:
        if attribute.type in GRAPH_TYPES or attribute.type == 0:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


# ---------------------------------------------------------------------------------- reading


class ProtoView:
    """A ModelProto as planning sees it."""

    form = ProtoForm()

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self.functions = _functions(model)
        self.main = _surveyed_graph("the graph", model.graph)
        for graph in _training_graphs(model):
            self.main.add(_surveyed_graph(f"training graph {graph.name!r}", graph))
        self._surveys: dict[OperatorId, Survey] = {}
        self._imports: dict[OperatorId | None, dict[str, int]] = {}

    def imports(self, owner: OperatorId | None) -> dict[str, int]:
        """Return the opset imports of the model or of a function, found once: every call asks for them."""
        if owner not in self._imports:
            self._imports[owner] = imports_of(self._model if owner is None else self.functions[owner])
        return self._imports[owner]

    def survey(self, owner: OperatorId) -> Survey:
        """Return what is in a function, found once."""
        if owner not in self._surveys:
            self._surveys[owner] = survey = Survey(f"function {owner}")
            function = self.functions[owner]
            _survey_nodes(survey, function.node, list(function.input), 0)
            survey.values += [entry.name for entry in function.value_info]
            for graph in graphs_in(function.attribute_proto):
                _survey_graph(survey, graph, 1)
        return self._surveys[owner]

    def read(self, function: onnx.FunctionProto) -> Signature:
        """Read a function."""
        return read_function(function)

    def calls(self, owner: OperatorId | None, gone: Gone) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that call functions that go."""
        if owner is not None:
            function = self.functions[owner]
            yield from calls_in(function.node, gone)
            for default in graphs_in(function.attribute_proto):
                yield from calls_in(default.node, gone)
            return
        for graph in (self._model.graph, *_training_graphs(self._model)):
            yield from calls_in(graph.node, gone)

    def site(self, call: onnx.NodeProto, owner: OperatorId | None) -> tuple[Node, list[str], list[str]]:
        """Read a call."""
        sure = () if owner is None else [a.name for a in self.functions[owner].attribute_proto]
        where = "the graph" if owner is None else f"function {owner}"
        node, names = read_site(call, where, self.imports(owner), sure)
        return node, names, names


def calls_in(nodes: Nodes, gone: Gone) -> Iterator[onnx.NodeProto]:
    """Yield the calls that go: in nodes, and in subgraphs except those that a call hands on."""
    for node in nodes:
        if operator_id(node) in gone:
            yield node
        elif node.attribute:
            for graph in subgraphs(node):
                yield from calls_in(graph.node, gone)


def _functions(model: onnx.ModelProto) -> dict[OperatorId, onnx.FunctionProto]:
    functions: dict[OperatorId, onnx.FunctionProto] = {}
    for function in model.functions:
        identifier = function_id(function)
        known = functions.setdefault(identifier, function)
        if known is not function and known != function:
            raise defined_twice(identifier)
    return functions


def _surveyed_graph(where: str, graph: onnx.GraphProto) -> Survey:
    survey = Survey(where)
    _survey_graph(survey, graph, 0)
    return survey


def _survey_graph(survey: Survey, graph: onnx.GraphProto, depth: int) -> None:
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    initializers += [sparse.values.name for sparse in graph.sparse_initializer]
    survey.refuse_twice(initializers, "initializer")
    given = set(inputs)
    # An input with an initializer of its name has a default value: one value, not two.
    defined = [*inputs, *(name for name in initializers if name not in given)]
    _survey_nodes(survey, graph.node, defined, depth)
    # Types may be given for values that are not there: a new value must not come under one by chance.
    survey.values += [entry.name for entry in graph.value_info]


def _survey_nodes(survey: Survey, nodes: Nodes, defined: list[str], depth: int) -> None:
    survey.enter(depth)
    operators: list[OperatorId] = []
    for node in nodes:
        operators.append(operator_id(node))
        survey.labels.append(node.name)
        defined += node.output
        if node.attribute:
            _survey_attributes(survey, node, depth)
    survey.operators.update(operators)
    survey.refuse_twice(defined, "value")
    survey.values += defined


def _survey_attributes(survey: Survey, node: onnx.NodeProto, depth: int) -> None:
    if len(node.attribute) > 1:
        names = [attribute.name for attribute in node.attribute]
        survey.refuse_twice(names, f"node {node.name or node.op_type!r}: attribute")
    for attribute in node.attribute:
        if attribute.HasField("g") and attribute.type not in (0, GRAPH_TYPES[0]):
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise survey.error(
                f"attribute {attribute.name!r} of node {node.name or node.op_type!r} holds a graph "
                f"but says that its type is {kind}; set the type to GRAPH"
            )
    for graph in subgraphs(node):
        _survey_graph(survey, graph, depth + 1)


# ---------------------------------------------------------------------------------- writing


class _Writing:
    """Writes an owner's nodes, with each call that goes replaced by its template."""

    def __init__(self, plan: Plan, owner: OperatorId | None, stamper: ProtoStamper, namer: Namer) -> None:
        self._gone, self._sites = plan.gone, iter(plan.sites[owner])
        self._stamper, self._namer = stamper, namer
        self._depth = 0
        self.claims: list[Claim] = []

    def chunks(self, nodes: Nodes) -> list[bytes]:
        """Return nodes as serialized ``GraphProto.node`` fields."""
        gone = self._gone
        out = []
        for node in nodes:
            if operator_id(node) in gone:
                out.append(self._stamped(next(self._sites)))
            elif node.attribute and any(True for _ in calls_in([node], gone)):
                out.append(length_delimited(b"\x0a", self._rewritten(node).SerializeToString()))
            else:
                out.append(length_delimited(b"\x0a", node.SerializeToString()))
        return out

    def _stamped(self, site: PlannedSite) -> bytes:
        prefix, own = self._namer.names(site)
        if site.template.annotations and self._depth == 0:
            entries = (entry for _, entry in site.template.annotations)
            self.claims.append(claim(site.template, slot_names(site, site.values, prefix, own), entries))
        return self._stamper.stamp(site.template, prefix, (*site.values, *own), site.metadata)

    def _rewritten(self, node: onnx.NodeProto) -> onnx.NodeProto:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        self.replace(subgraphs(node), subgraphs(copy))
        return copy

    def replace(self, olds: Iterable[onnx.GraphProto], copies: Iterable[onnx.GraphProto]) -> None:
        """Write the nodes of nested graphs into copies of these."""
        self._depth += 1
        for old, copy in zip(olds, copies, strict=True):
            _replace_nodes(copy, self.chunks(old.node))
        self._depth -= 1


def _kept(
    view: ProtoView, plan: Plan, owner: OperatorId, stamper: ProtoStamper, options: Options
) -> onnx.FunctionProto:
    """Return a function that stays, with the calls in it replaced."""
    function = view.functions[owner]
    if not plan.sites[owner]:
        return function
    copy, graph = onnx.FunctionProto(), onnx.GraphProto()
    copy.CopyFrom(function)
    writing = _Writing(plan, owner, stamper, Namer(options, view.survey(owner)))
    _replace_nodes(graph, writing.chunks(function.node))
    del copy.node[:]
    copy.node.extend(graph.node)
    writing.replace(graphs_in(function.attribute_proto), graphs_in(copy.attribute_proto))
    _replace_imports(copy, plan.imports[owner])
    return copy
