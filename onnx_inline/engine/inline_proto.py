"""Inlining in a ModelProto: what is not understood is copied as it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from onnx_inline.engine.body import GRAPH_TYPES
from onnx_inline.engine.form import ProtoForm
from onnx_inline.engine.options import Options
from onnx_inline.engine.plan import Owner, Plan, PlannedSite, Site, left_calls, make_plan
from onnx_inline.engine.read_proto import function_id, imports_of, operator_id, read_function, read_site
from onnx_inline.engine.report import InlineReport
from onnx_inline.engine.resolve import Resolver
from onnx_inline.engine.stamp_proto import ProtoStamper, length_delimited
from onnx_inline.errors import InvalidModelError
from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.names import NameScope, Prefixes, joined

Nodes = Sequence[onnx.NodeProto]


@dataclass(frozen=True)
class Inlined:
    """The outcome, not yet put together.

    ``nodes`` are the main graph's nodes as serialized ``GraphProto.node`` fields, None if nothing changes;
    ``training`` those of each training graph, ``functions`` the functions that stay.
    """

    report: InlineReport
    nodes: list[bytes] | None = None
    training: list[list[bytes]] = field(default_factory=list)
    functions: list[onnx.FunctionProto] = field(default_factory=list)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in a node's attributes."""
    for attribute in node.attribute:
        if attribute.type in GRAPH_TYPES or attribute.type == 0:
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs


def inline(model: onnx.ModelProto, options: Options) -> Inlined:
    """Decide and stamp; the model is not touched.

    Raises:
        ModelError: see :func:`onnx_inline.inline_functions`.
    """
    return _Inlining(model, options).run()


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
    for graph, chunks in zip(_training_graphs(model), inlined.training, strict=True):
        _replace_nodes(graph, chunks)
    del model.functions[:]
    model.functions.extend(inlined.functions)
    _replace_imports(model, inlined.report.opset_imports)


def _replace_nodes(graph: onnx.GraphProto, chunks: Iterable[bytes]) -> None:
    del graph.node[:]
    graph.MergeFromString(b"".join(chunks))


def _replace_imports(owner: onnx.ModelProto | onnx.FunctionProto, imports: dict[str, int] | object) -> None:
    assert isinstance(imports, dict)
    spelled = {normalized_domain(entry.domain): entry.domain for entry in owner.opset_import}
    if imports == imports_of(owner):
        return
    del owner.opset_import[:]
    for domain, version in imports.items():
        owner.opset_import.add(domain=spelled.get(domain, domain), version=version)


def _training_graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]


# ------------------------------------------------------------------------------- looking


@dataclass
class _Survey:
    """One look over graphs that see each other: names, operators, sizes."""

    where: str
    values: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    operators: Counter[OperatorId] = field(default_factory=Counter)
    depth: int = 0

    def graph(self, graph: onnx.GraphProto, depth: int = 0) -> None:
        """Look over a graph and the graphs in it."""
        inputs = [value.name for value in graph.input]
        initializers = [t.name for t in graph.initializer]
        initializers += [s.values.name for s in graph.sparse_initializer]
        self.refuse_twice(initializers, "initializer")
        given = set(inputs)
        self.nodes(graph.node, [*inputs, *(name for name in initializers if name not in given)], depth)

    def nodes(self, nodes: Nodes, defined: list[str], depth: int = 0) -> None:
        """Look over the nodes of one scope, in which some values are defined already."""
        self.depth = max(self.depth, depth)
        operators, labels = self.operators, self.labels
        for node in nodes:
            operators[operator_id(node)] += 1
            labels.append(node.name)
            defined += node.output
            if node.attribute:
                self._attributes(node, depth)
        self.refuse_twice(defined, "value")
        self.values += defined

    def _attributes(self, node: onnx.NodeProto, depth: int) -> None:
        if len(node.attribute) > 1:
            names = [attribute.name for attribute in node.attribute]
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise self._error(
                    f"node {node.name or node.op_type!r} gives attribute {twice!r} twice; remove one"
                )
        for attribute in node.attribute:
            if attribute.HasField("g") and attribute.type not in (0, GRAPH_TYPES[0]):
                kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
                raise self._error(
                    f"attribute {attribute.name!r} of node {node.name or node.op_type!r} holds a graph "
                    f"but says that its type is {kind}; set the type to GRAPH"
                )
        for graph in subgraphs(node):
            self.graph(graph, depth + 1)

    def refuse_twice(self, names: list[str], what: str) -> None:
        """Raise if one of the names of a scope is there twice."""
        if len(set(names)) == len(names):
            return
        twice = next((name for name, count in Counter(names).items() if count > 1 and name), None)
        if twice is not None:
            raise self._error(f"{what} {twice!r} is defined twice; rename or remove one of the definitions")

    def _error(self, message: str) -> InvalidModelError:
        return InvalidModelError(f"{self.where}: {message}")


def _functions(model: onnx.ModelProto) -> dict[OperatorId, onnx.FunctionProto]:
    functions: dict[OperatorId, onnx.FunctionProto] = {}
    for function in model.functions:
        identifier = function_id(function)
        if identifier in functions and functions[identifier] != function:
            raise InvalidModelError(
                f"function {identifier} is defined twice, with different bodies; rename or remove one of them",
                function=str(identifier),
            )
        functions.setdefault(identifier, function)
    return functions


def _survey_function(function: onnx.FunctionProto) -> _Survey:
    survey = _Survey(f"function {function_id(function)}")
    survey.nodes(function.node, list(function.input))
    return survey


# ------------------------------------------------------------------------------ inlining


class _Inlining:
    """One run: survey, plan, stamp."""

    def __init__(self, model: onnx.ModelProto, options: Options) -> None:
        self._started = time.perf_counter()
        self._model, self._options = model, options
        self._functions = _functions(model)
        self._kept: list[OperatorId] = []
        self._surveys: dict[OperatorId, _Survey] = {}
        self._main = _Survey("the graph")
        self._main.graph(model.graph)
        for graph in _training_graphs(model):
            self._add_training(graph)

    def _add_training(self, graph: onnx.GraphProto) -> None:
        survey = _Survey(f"training graph {graph.name!r}")
        survey.graph(graph)
        self._main.values += survey.values
        self._main.labels += survey.labels
        self._main.operators += survey.operators
        self._main.depth = max(self._main.depth, survey.depth)

    def run(self) -> Inlined:
        """Return the outcome."""
        options = self._options
        resolver = Resolver(
            functions=self._functions,
            read=read_function,
            calls=lambda function: self._survey(function_id(function)).operators,
            roots=self._main.operators,
            existing=self._main.operators.total(),
            depth=self._main.depth,
        )
        plan = make_plan(resolver, options, ProtoForm(), self._owners, self._sites)
        if not plan.resolution.wanted:
            return Inlined(self._report(plan, Counter()))
        stamping = _Stamping(plan, options)
        main = _Namer(options, self._main.values, self._main.labels)
        nodes = stamping.chunks(self._model.graph.node, main)
        training = [stamping.chunks(graph.node, main) for graph in _training_graphs(self._model)]
        functions = [
            self._kept_function(function, imports, stamping)
            for function, imports in zip(self._kept, plan.imports[1:], strict=True)
        ]
        return Inlined(self._report(plan, stamping.calls), nodes, training, functions)

    def _survey(self, identifier: OperatorId) -> _Survey:
        if identifier not in self._surveys:
            self._surveys[identifier] = _survey_function(self._functions[identifier])
        return self._surveys[identifier]

    def _owners(self, gone: frozenset[OperatorId]) -> list[Owner]:
        self._kept = [identifier for identifier in self._functions if identifier not in gone]
        kept_domains = {identifier.domain for identifier in self._kept}
        main = frozenset(op.domain for op in self._main.operators if op not in gone) | kept_domains
        owners = [Owner(imports_of(self._model), main)]
        for identifier in self._kept:
            used = frozenset(op.domain for op in self._survey(identifier).operators if op not in gone)
            owners.append(Owner(imports_of(self._functions[identifier]), used, str(identifier)))
        return owners

    def _sites(self, gone: frozenset[OperatorId]) -> list[Site]:
        """Return the calls that go, in the order in which they are stamped."""
        self._gone = gone
        imports = imports_of(self._model)
        graphs = [self._model.graph, *_training_graphs(self._model)]
        sites = [
            Site(*read_site(node, "the graph", imports, ()), 0, f"node {node.name or node.op_type!r}")
            for graph in graphs
            for node in calls_in(graph.node, gone)
        ]
        for number, identifier in enumerate(self._kept, start=1):
            function = self._functions[identifier]
            sure = {attribute.name for attribute in function.attribute_proto}
            where = f"function {identifier}"
            sites += [
                Site(
                    *read_site(node, where, imports_of(function), sure),
                    number,
                    f"node {node.name or node.op_type!r} of {where}",
                )
                for node in calls_in(function.node, gone)
            ]
        return sites

    def _kept_function(
        self, identifier: OperatorId, imports: dict[str, int], stamping: _Stamping
    ) -> onnx.FunctionProto:
        function = self._functions[identifier]
        survey = self._survey(identifier)
        if not any(op in self._gone for op in survey.operators):
            return function
        copy, graph = onnx.FunctionProto(), onnx.GraphProto()
        copy.CopyFrom(function)
        namer = _Namer(self._options, survey.values, survey.labels)
        _replace_nodes(graph, stamping.chunks(function.node, namer))
        del copy.node[:]
        copy.node.extend(graph.node)
        _replace_imports(copy, imports)
        return copy

    def _report(self, plan: Plan, calls: Counter[OperatorId]) -> InlineReport:
        before = self._main.operators
        remaining = Counter({op: count for op, count in before.items() if op not in plan.resolution.wanted})
        changed = bool(plan.resolution.wanted)
        return InlineReport(
            calls={str(function): count for function, count in sorted(calls.items())},
            nodes_before=before.total(),
            nodes_after=remaining.total() + sum(len(p.template.labels) for p in plan.sites),
            functions_before=len(self._functions),
            removed=tuple(str(f) for f in self._functions if f in plan.resolution.wanted),
            left=left_calls(plan.resolution, remaining),
            conversions=tuple(plan.specialiser.conversions),
            opset_imports=plan.imports[0] if changed else imports_of(self._model),
            seconds=time.perf_counter() - self._started,
        )


def calls_in(nodes: Nodes, gone: frozenset[OperatorId]) -> Iterator[onnx.NodeProto]:
    """Yield the calls that go: in nodes, and in their subgraphs unless the node is itself a call that goes."""
    for node in nodes:
        if operator_id(node) in gone:
            yield node
        elif node.attribute:
            for graph in subgraphs(node):
                yield from calls_in(graph.node, gone)


class _Namer:
    """Chooses the names of what is stamped into one set of graphs that see each other."""

    def __init__(self, options: Options, values: list[str], labels: list[str]) -> None:
        self._flat = options.names == "flat"
        self._prefixes = Prefixes([*values, *labels])
        if self._flat:
            self._values, self._labels = NameScope(values), NameScope(labels)

    def names(self, site: PlannedSite) -> tuple[str, tuple[str, ...]]:
        """Return the call site's prefix, and names for the stamp."""
        prefix = self._prefixes.claim(joined("", site.label))
        if not self._flat:
            return prefix, site.names
        values = [self._values.claim(name.leaf) for name in site.template.names]
        labels = [self._labels.claim(label.leaf) for label in site.template.labels]
        return prefix, (*site.names, *values, *labels)


class _Stamping:
    """Writes nodes, with each call that goes replaced by its template."""

    def __init__(self, plan: Plan, options: Options) -> None:
        self._gone = plan.resolution.wanted
        self._sites = iter(plan.sites)
        self._stamper = ProtoStamper(own_names=options.names == "flat", provenance=options.provenance)
        self.calls: Counter[OperatorId] = Counter()
        self._stamped: Counter[int] = Counter()

    def chunks(self, nodes: Nodes, namer: _Namer) -> list[bytes]:
        """Return nodes as serialized fields."""
        gone = self._gone
        out = []
        for node in nodes:
            if operator_id(node) in gone:
                out.append(self._call(next(self._sites), namer))
            elif node.attribute and any(True for _ in calls_in([node], gone)):
                out.append(length_delimited(b"\x0a", self._rewritten(node, namer).SerializeToString()))
            else:
                out.append(length_delimited(b"\x0a", node.SerializeToString()))
        return out

    def _call(self, site: PlannedSite, namer: _Namer) -> bytes:
        self.calls.update(site.template.calls)
        prefix, names = namer.names(site)
        return self._stamper.stamp(site.template, prefix, names, site.metadata)

    def _rewritten(self, node: onnx.NodeProto, namer: _Namer) -> onnx.NodeProto:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for old, new in zip(subgraphs(node), subgraphs(copy), strict=True):
            _replace_nodes(new, self.chunks(old.node, namer))
        return copy
