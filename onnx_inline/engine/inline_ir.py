"""Inlining in an onnx_ir model, in place."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import onnx
import onnx_ir as ir

from onnx_inline.engine.body import Node, Signature
from onnx_inline.engine.collector import collector_paused
from onnx_inline.engine.namer import Namer, slot_names
from onnx_inline.engine.options import Options
from onnx_inline.engine.plan import Gone, Plan, PlannedSite, make_plan
from onnx_inline.engine.read_ir import IrForm, function_id, imports_of, operator_id, read_function, read_site
from onnx_inline.engine.report import InlineReport
from onnx_inline.engine.stamp_ir import IrStamper, copy_annotations
from onnx_inline.engine.survey import Survey, defined_twice
from onnx_inline.engine.value_types import SMALL, Claim, agreed, claim
from onnx_inline.identifiers import OperatorId, normalized_domain


def inline(model: ir.Model, options: Options) -> InlineReport:
    """Inline in place; if anything is refused, nothing has been touched.

    Raises:
        ModelError: see :func:`onnx_inline.inline_functions`.
    """
    started = time.perf_counter()
    with collector_paused():
        view = IrView(model)
        plan = make_plan(view, options)
        if plan.gone:
            _carry_out(model, view, plan, options)
    return plan.report.timed(started)


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Return the graphs in a node's attributes."""
    return graphs_in(node.attributes.values())


def graphs_in(attributes: Iterable[ir.Attr]) -> Iterator[ir.Graph]:
    """Yield the graphs in attributes: a node's, or those that are a function's defaults."""
    for attribute in attributes:
        if attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


class IrView:
    """An onnx_ir model as planning sees it."""

    form = IrForm()

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self.functions = _functions(model)
        self.main = Survey("the graph")
        _survey_graph(self.main, model.graph, 0)
        self._surveys: dict[OperatorId, Survey] = {}

    def imports(self, owner: OperatorId | None) -> dict[str, int]:
        """Return the opset imports of the model or of a function."""
        return imports_of(self._model if owner is None else self.functions[owner])

    def survey(self, owner: OperatorId) -> Survey:
        """Return what is in a function, found once."""
        if owner not in self._surveys:
            self._surveys[owner] = survey = Survey(f"function {owner}")
            function = self.functions[owner]
            _survey_nodes(survey, function, _names(function.inputs), 0)
            for graph in graphs_in(function.attributes.values()):
                _survey_graph(survey, graph, 1)
        return self._surveys[owner]

    def read(self, function: ir.Function) -> Signature:
        """Read a function."""
        return read_function(function)

    def calls(self, owner: OperatorId | None, gone: Gone) -> Iterator[ir.Node]:
        """Yield the nodes that call functions that go."""
        if owner is None:
            yield from calls_in(self._model.graph, gone)
            return
        function = self.functions[owner]
        yield from calls_in(function, gone)
        for default in graphs_in(function.attributes.values()):
            yield from calls_in(default, gone)

    def site(self, call: ir.Node, owner: OperatorId | None) -> tuple[Node, list[str], list[ir.Value]]:
        """Read a call."""
        attributes = () if owner is None else self.functions[owner].attributes.values()
        sure = [attribute.name for attribute in attributes if attribute.value is not None]
        where = "the graph" if owner is None else f"function {owner}"
        return read_site(call, where, self.imports(owner), sure)


def _functions(model: ir.Model) -> dict[OperatorId, ir.Function]:
    functions: dict[OperatorId, ir.Function] = {}
    for function in model.functions.values():
        identifier = function_id(function)
        if functions.setdefault(identifier, function) is not function:  # one in '', one in 'ai.onnx'
            raise defined_twice(identifier)
    return functions


def calls_in(nodes: Iterable[ir.Node], gone: Gone) -> Iterator[ir.Node]:
    """Yield the calls that go: in nodes, and in subgraphs except those that a call hands on."""
    for node in nodes:
        if operator_id(node) in gone:
            yield node
        else:
            for graph in subgraphs(node):
                yield from calls_in(graph, gone)


def _names(values: Iterable[ir.Value]) -> list[str]:
    return [value.name for value in values if value.name]


def _survey_graph(survey: Survey, graph: ir.Graph, depth: int) -> None:
    inputs = _names(graph.inputs)
    given = set(inputs)
    _survey_nodes(
        survey, graph, [*inputs, *(name for name in graph.initializers if name not in given)], depth
    )


def _survey_nodes(survey: Survey, nodes: Iterable[ir.Node], defined: list[str], depth: int) -> None:
    survey.enter(depth)
    for node in nodes:
        survey.operators[operator_id(node)] += 1
        survey.labels.append(node.name or "")
        defined += _names(node.outputs)
        for graph in subgraphs(node):
            _survey_graph(survey, graph, depth + 1)
    # Names are only labels here, but the model is going to be written, and then two values are one.
    survey.refuse_twice(defined, "value")
    survey.values += defined


# ------------------------------------------------------------------------------ changing


def _carry_out(model: ir.Model, view: IrView, plan: Plan, options: Options) -> None:
    stamper = IrStamper(own_names=options.names == "flat", provenance=options.provenance)
    claims: list[Claim] = []
    for owner in plan.owners:
        graph = model.graph if owner is None else view.functions[owner].graph
        survey = view.main if owner is None else view.survey(owner)
        if plan.sites[owner]:
            # The calls are listed first: replacing one changes what is being walked.
            calls = list(view.calls(owner, plan.gone))
            replacing = _Replacing(graph, stamper, Namer(options, survey))
            replacing.replace(calls, plan.sites[owner])
            if owner is None:
                claims = replacing.claims
            else:
                _replace_imports(view.functions[owner].opset_imports, plan.imports[owner])
    for key in [key for key, function in model.functions.items() if function_id(function) in plan.gone]:
        del model.functions[key]
    _replace_imports(model.graph.opset_imports, plan.report.opset_imports)
    if claims:
        _annotate(model, claims)


def _replace_imports(imports: dict[str, int], wanted: Mapping[str, int]) -> None:
    spelled = {normalized_domain(domain): domain for domain in imports}
    imports.clear()
    imports.update({spelled.get(domain, domain): version for domain, version in wanted.items()})


class _Replacing:
    """Replaces the calls in an owner's graphs."""

    def __init__(self, graph: ir.Graph, stamper: IrStamper, namer: Namer) -> None:
        self._graph, self._stamper, self._namer = graph, stamper, namer
        # A call may read what an earlier one made, so a value that went is looked up here.
        self._current: dict[ir.Value, ir.Value] = {}
        self.claims: list[Claim] = []

    def replace(self, calls: Iterable[ir.Node], sites: Iterable[PlannedSite]) -> None:
        """Replace each call by its stamp."""
        for call, site in zip(calls, sites, strict=True):
            self._replace(call, site)

    def _replace(self, call: ir.Node, site: PlannedSite) -> None:
        outputs = [value for value in call.outputs if value.name != ""]
        made = [ir.Value(name=value.name) for value in outputs]
        for old, new in zip(outputs, made, strict=True):
            copy_annotations(old, new, symbols=True)
        current = self._current
        values = [current.get(value, value) for value in site.values[: site.template.inputs]]
        prefix, own = self._namer.names(site)
        nodes = self._stamper.stamp(site.template, prefix, [*values, *made], own, site.metadata)
        graph = call.graph
        assert graph is not None, "a call is found by walking a graph"
        graph.insert_before(call, nodes)
        for old, new in zip(outputs, made, strict=True):
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            current[old] = new
        graph.remove(call, safe=True)
        if site.template.annotations and graph is self._graph:
            outer = [value.name or "" for value in [*values, *made]]
            entries = (ir.serde.serialize_value(value) for _, value in site.template.annotations)
            self.claims.append(claim(site.template, slot_names(site, outer, prefix, own), entries))


def _annotate(model: ir.Model, claims: Iterable[Claim]) -> None:
    """Give values inside stamps the types that the functions said, as far as they hold."""
    graph = model.graph
    try:
        light = _weightless(graph)
    except ir.serde.SerdeError:  # the model cannot be written; types are an aid, and nothing may fail now
        return
    found = {e.name: e for e in agreed(light, imports_of(model), claims)}
    for node in graph:
        for value in node.outputs:
            if value.name in found:
                ir.serde.deserialize_value_info_proto(found[value.name], value)


def _weightless(graph: ir.Graph) -> onnx.GraphProto:
    """Return the graph with large initializers as inputs, for shape inference."""
    light = onnx.GraphProto(name=graph.name or "")
    light.node.extend(ir.serde.serialize_node(node) for node in graph)
    for value in graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and not isinstance(tensor, ir.ExternalTensor) and tensor.size <= SMALL:
            light.initializer.append(ir.serde.serialize_tensor(tensor))
            light.initializer[-1].name = value.name or ""
        elif not value.is_graph_input():
            light.input.append(ir.serde.serialize_value(value))
    light.input.extend(ir.serde.serialize_value(value) for value in graph.inputs)
    light.output.extend(ir.serde.serialize_value(value) for value in graph.outputs)
    typed = (v for node in graph for v in node.outputs if v.type is not None and not v.is_graph_output())
    light.value_info.extend(ir.serde.serialize_value(value) for value in typed)
    return light
