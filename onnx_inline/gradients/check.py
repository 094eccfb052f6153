"""Look for everything that a reader would refuse or get wrong, and report it together."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx
import onnx_ir as ir

from onnx_inline import schemas
from onnx_inline.decompositions import has_body
from onnx_inline.engine import inline_proto
from onnx_inline.engine.options import Options
from onnx_inline.engine.selection import Patterns
from onnx_inline.errors import UnknownNameError
from onnx_inline.gradients import advice
from onnx_inline.gradients.places import functions_of, place_of
from onnx_inline.gradients.report import GradientFinding, GradientReport
from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.inference import Types, all_nodes, element_type, infer_types, operator_id
from onnx_inline.paths import DIFFERENTIABLE, Paths, gradient_paths
from onnx_inline.shadow import shadow_of
from onnx_inline.support import defined_by_others, misses
from onnx_inline.targets import GradientRules, Target, load_target


def check_gradients(
    model: onnx.ModelProto | ir.Model | str | os.PathLike[str],
    target: str | os.PathLike[str] | Target = "ort-training",
    trainable: Sequence[str] | None = None,
    *,
    outputs: Sequence[str] | None = None,
    keep: Patterns = None,
) -> GradientReport:
    """Say what stands between a model and its gradient builder, everything at once.

    The model is looked at as it will be when its functions are inlined; it is not changed and its weights are
    not read.  A target that does not build gradients is asked about every node.

    Args:
        model: a model of either form, or the path of its file.
        target: the name of a target, the path of a target file, or a target.
        trainable: the initializers and inputs that gradients are asked for; if None, all floating-point
            initializers, or, if there are none, all floating-point inputs.
        outputs: what gradients are asked of, as names of values of the graph; if None, its outputs.
        keep: functions that stay, because the reader knows them.

    Returns:
        The findings, each with its cure; ``ok`` says whether none blocks.

    Raises:
        UnknownNameError: a name is that of no initializer, input or value, or of no target.
        ModelError: the functions cannot be inlined.
        FileError: a file cannot be read.

    Example:
        >>> import onnx.parser
        >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
        ...     g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Mul (x, w) y = Atan (a) }''')
        >>> check_gradients(model, "ort-training").blocking[0].subject
        'Atan'
    """
    if isinstance(model, (str, os.PathLike)):
        from onnx_inline.files.skeleton import read_skeleton

        model = read_skeleton(model).model
    loaded = load_target(target)
    shadow = shadow_of(model)
    inlined = inline_proto.inline(shadow, Options(keep=keep, provenance=True))
    flat = ir.serde.deserialize_model(inline_proto.put_together(shadow, inlined))
    return _Check(loaded, shadow, flat, trainable, outputs).report()


@dataclass(frozen=True)
class _Check:
    target: Target
    given: onnx.ModelProto
    flat: ir.Model
    names: Sequence[str] | None
    output_names: Sequence[str] | None

    def report(self) -> GradientReport:
        findings = [*self._operators(), *self._functions(), *self._collisions(), *self._versions()]
        if self.target.gradients is not None:
            findings += [*self._leaves(), *self._names(self.target.gradients)]
        findings.sort(key=lambda finding: not finding.blocks)
        return GradientReport(
            target=self.target.name,
            trainable=tuple(value.name or "" for value in self.trainable),
            outputs=tuple(value.name or "" for value in self.outputs),
            nodes=len(self.nodes),
            nodes_on_paths=len(self.paths.nodes),
            findings=tuple(findings),
        )

    # ------------------------------------------------------------------------ what is asked

    @cached_property
    def types(self) -> Types:
        return infer_types(self.flat)

    @cached_property
    def nodes(self) -> list[ir.Node]:
        return list(all_nodes(self.flat.graph))

    @cached_property
    def trainable(self) -> list[ir.Value]:
        graph = self.flat.graph
        initializers = list(graph.initializers.values())
        if self.names is not None:
            known = {value.name or "": value for value in (*graph.inputs, *initializers)}
            return [_named(name, known, "initializer or input") for name in self.names]
        return list(filter(self._is_float, initializers)) or list(filter(self._is_float, graph.inputs))

    @cached_property
    def outputs(self) -> list[ir.Value]:
        graph = self.flat.graph
        if self.output_names is None:
            return list(graph.outputs)
        known = {value.name or "": value for node in graph for value in node.outputs}
        return [_named(name, known, "value") for name in self.output_names]

    @cached_property
    def paths(self) -> Paths:
        rules = self.target.gradients
        if rules is None:
            return Paths(nodes=self.nodes)
        return gradient_paths(self.flat.graph, rules, self.types, self.trainable, self.outputs)

    def _is_float(self, value: ir.Value) -> bool:
        return element_type(self.types, value) in DIFFERENTIABLE

    def _version(self, domain: str) -> int:
        imports = {normalized_domain(d): version for d, version in self.flat.opset_imports.items()}
        return imports.get(normalized_domain(domain), 1)

    # ----------------------------------------------------------------------------- operators

    def _operators(self) -> Iterator[GradientFinding]:
        """Yield operators on paths that the target does not take, or not so."""
        found: dict[tuple[OperatorId, str], list[str]] = {}
        for node in self.paths.nodes:
            op = operator_id(node)
            if node.op_identifier() in self.flat.functions or self._expands(op):
                continue
            if reason := misses(self.target, node, self._version(node.domain)):
                found.setdefault((op, reason), []).append(place_of(node))
        for (op, reason), places in found.items():
            yield self._operator(op, reason, tuple(places))

    def _expands(self, op: OperatorId) -> bool:
        return self.target.expands_schema_functions and schemas.has_body(op, self._version(op.domain))

    def _operator(self, op: OperatorId, reason: str, places: tuple[str, ...]) -> GradientFinding:
        expandable = schemas.has_body(op, self._version(op.domain)) or has_body(op, self._version(op.domain))
        known = self.target.supports(op, self._version(op.domain))
        kind = "call" if known else "operator"
        what = self._lacking() if not known else reason
        cure = advice.for_operator(op, self.target.name, expandable, known)
        where = "on gradient paths" if self.target.gradients else "in the model"
        message = f"{op} {what} ({len(places):,} {where})"
        return GradientFinding(kind, str(op), message, cure, places)

    def _lacking(self) -> str:
        return f"{'has no gradient in' if self.target.gradients else 'is not taken by'} {self.target.name}"

    def _functions(self) -> Iterator[GradientFinding]:
        """Yield functions on paths that are still calls."""
        if self.target.local_functions:
            return
        called: dict[str, list[str]] = {}
        for node in self.paths.nodes:
            for site, function in functions_of(node)[:1]:
                called.setdefault(function, []).append(site)
        for function, sites in called.items():
            places = tuple(dict.fromkeys(sites))
            message = f"{function} is a local function, which {self.target.name} does not take"
            yield GradientFinding(
                "function", function, message, advice.for_function(self.target.name), places
            )

    def _collisions(self) -> Iterator[GradientFinding]:
        """Yield functions and operators on paths whose name means another operator to the target."""
        rules = self.target.gradients
        if rules is None or not rules.ignores_domain:
            return
        used: dict[str, OperatorId] = {}
        for node in self.paths.nodes:
            for _, function in functions_of(node):
                used[function] = _parsed(function)
            if not functions_of(node) or node.op_identifier() in self.flat.functions:
                used[str(operator_id(node))] = operator_id(node)
        for text, op in used.items():
            known = op.domain == "" or self.target.supports(op, self._version(op.domain))
            if self.target.knows(op.name) and not known:
                yield self._collision(text, op)

    def _collision(self, text: str, op: OperatorId) -> GradientFinding:
        blind = f"{self.target.name} does not look at domains"
        message = f"{text} would get the gradient of the operator {op.name}: {blind}"
        return GradientFinding("collision", text, message, advice.for_collision(self.target.name))

    # --------------------------------------------------------------------------- whole model

    def _versions(self) -> Iterator[GradientFinding]:
        cure = advice.prepared(self.target.name)
        for domain, newest in self.target.max_opset.items():
            if (version := self._version(domain)) > newest:
                what = f"opset {version} of {domain or 'ai.onnx'} is newer than {newest}"
                yield GradientFinding("opset", domain or "ai.onnx", f"{what}, the newest that it loads", cure)
        newest_ir = self.target.max_ir_version
        if newest_ir is not None and (has := self.given.ir_version) > newest_ir:
            message = f"IR version {has} is newer than {newest_ir}, the newest that it loads"
            yield GradientFinding("ir-version", str(has), message, cure)

    def _leaves(self) -> Iterator[GradientFinding]:
        """Yield what is trained without effect, and what goes into one node twice."""
        for value in self.trainable:
            if value not in self.paths.wanted and value.name:
                message = f"no gradient comes to {value.name!r}"
                named = self.names is not None
                yield GradientFinding("no-path", value.name, message, advice.NO_PATH, blocks=named)
        rules = self.target.gradients
        if rules is None or rules.leaf_used_twice:
            return
        leaves = set(self.trainable)
        for node in self.paths.nodes:
            for value, count in Counter(filter(None, node.inputs)).items():
                if _clashes(node, value, count, value in leaves, rules):
                    message = f"the gradient of {value.name!r} would be defined twice"
                    cure = advice.prepared(self.target.name)
                    yield GradientFinding("used-twice", value.name or "", message, cure, (place_of(node),))

    def _names(self, rules: GradientRules) -> Iterator[GradientFinding]:
        cure = advice.prepared(self.target.name)
        if rules.unique_node_names:
            names = Counter(node.name for node in self.given.graph.node if node.name)
            for name, count in names.items():
                if count > 1:
                    yield GradientFinding("node-name", name, f"{count} nodes are called {name!r}", cure)
        if rules.reserved_suffix:
            suffix = rules.reserved_suffix
            on_paths = {value.name for value in self.paths.wanted & self.paths.reached}
            for name in _value_names(self.flat.graph, self.nodes):
                if name.endswith(suffix) and name[: -len(suffix)] in on_paths:
                    message = f"{name!r} is the name of the gradient of {name[: -len(suffix)]!r}"
                    yield GradientFinding("value-name", name, message, cure)


def _clashes(node: ir.Node, value: ir.Value, count: int, trained: bool, rules: GradientRules) -> bool:
    """Say whether the gradient of a leaf that goes into a node is defined twice."""
    leaf = value.is_graph_input() or value.is_initializer()
    return leaf and (count > 1 if trained else defined_by_others(node, value, rules))


def _value_names(graph: ir.Graph, nodes: Iterable[ir.Node]) -> Iterator[str]:
    for value in (*graph.inputs, *graph.initializers.values()):
        yield value.name or ""
    for node in nodes:
        for value in node.outputs:
            yield value.name or ""


def _named(name: str, known: dict[str, ir.Value], what: str) -> ir.Value:
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3)
        raise UnknownNameError(f"the model has no {what} {name!r}", name=name, close=close)
    return known[name]


def _parsed(function: str) -> OperatorId:
    """Return the identifier that a text like ``domain::name:overload`` stands for."""
    domain, _, rest = function.rpartition("::")
    name, _, overload = rest.partition(":")
    return OperatorId(domain, name, overload)
