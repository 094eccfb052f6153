"""Operators made into calls of functions that hold their bodies, and these inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import onnx
import onnx_ir as ir

from onnx_inline import schemas
from onnx_inline.decompositions import Call, own_body
from onnx_inline.decompositions import has_body as has_own_body
from onnx_inline.engine import inline_ir, inline_proto
from onnx_inline.engine.options import Options
from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.inference import Types, all_nodes, infer_types, operator_id
from onnx_inline.names import NameScope
from onnx_inline.opsets import NotConvertibleError
from onnx_inline.passes.casts import remove_identities, remove_noop_casts
from onnx_inline.passes.conversion import carries_over, convert_body
from onnx_inline.paths import gradient_paths
from onnx_inline.shadow import ShadowWriter
from onnx_inline.support import misses_operator
from onnx_inline.targets import Target

#: The domain of the functions that hold bodies while they are made; a model that has it gets a numbered one.
BODIES = "onnx_inline.bodies"

#: Names inside a body are short: the way to it is the node that it replaces.
_SHORT = Options(names="flat")

Owner = ir.Graph | ir.Function
#: What went wrong with an operator, and the operator.
Left = Counter[tuple[OperatorId, str]]


@dataclass(frozen=True)
class Wish:
    """Which operators are to go: those named, those that a target lacks, or all that have a body.

    With ``only`` these nodes, and what the final version of a domain does not have or defines otherwise.
    """

    target: Target | None = None
    named: frozenset[OperatorId] = frozenset()
    only: frozenset[ir.Node] | None = None

    def expands(self, node: ir.Node, version: int) -> bool:
        """Say whether an operator is to be expanded, if it has a body."""
        op = operator_id(node)
        if self.only is not None:
            return node in self.only
        if op in self.named:
            return True
        if self.target is None:
            return not self.named and schemas.has_body(op, version)
        if self.target.expands_schema_functions and schemas.has_body(op, version):
            return False
        return bool(misses_operator(self.target, node, version))

    def is_named(self, op: OperatorId) -> bool:
        """Say whether it was named, so that leaving it is an error."""
        return op in self.named


@dataclass
class Expander:
    """Expands operators in one model; the bodies made are shared by all nodes that are used alike."""

    wish: Wish
    names: Literal["path", "flat"] = "path"
    # A body may use its own operator where no gradient goes; that one stays.
    inside: frozenset[OperatorId] = frozenset()
    made: dict[object, ir.Function | str] = field(default_factory=dict)
    expanded: Counter[OperatorId] = field(default_factory=Counter)
    left: Left = field(default_factory=Counter)

    def run(
        self,
        model: ir.Model,
        final: Mapping[str, int] | None = None,
        refuse: Callable[[Left], None] = lambda left: None,
    ) -> bool:
        """Expand in place; if anything is refused, nothing has been touched.

        Args:
            model: the model.
            final: the versions of domains that the result is for, where they are not those of the model.
            refuse: looks at what is going to be left before anything changes, and may raise.

        Returns:
            Whether anything changed.
        """
        types = infer_types(model)
        owners: list[Owner] = [model.graph, *model.functions.values()]
        plan = [
            (node, function)
            for owner in owners
            for node, function in self._planned(model, owner, types, final)
        ]
        refuse(self.left)
        if plan:
            functions = [f for f in self.made.values() if isinstance(f, ir.Function)]
            _carry_out(model, plan, functions, self.names)
        return bool(plan)

    def _planned(
        self, model: ir.Model, owner: Owner, types: Types, final: Mapping[str, int] | None
    ) -> Iterator[tuple[ir.Node, ir.Function]]:
        imports = model.opset_imports if isinstance(owner, ir.Graph) else owner.opset_imports
        versions = {normalized_domain(domain): version for domain, version in imports.items()}
        on_path = self._on_path(owner, types)
        for node in all_nodes(owner):
            op = operator_id(node)
            version = versions.get(op.domain, 0)
            last = version if final is None else final.get(op.domain, version)
            if node.op_identifier() in model.functions or not self._goes(node, version, last):
                continue
            function = _lost_default(node, owner) or self._function(node, version, last, types, on_path)
            if isinstance(function, ir.Function):
                self.expanded[op] += 1
                yield node, function
            elif function:
                self.left[op, function] += 1

    def _goes(self, node: ir.Node, version: int, last: int) -> bool:
        op = operator_id(node)
        if op in self.inside:
            return False
        # A body may use operators that the version it ends up in does not have yet.
        lost = last != version and not carries_over(op, node.attributes, version, last)
        return (lost and schemas.has_body(op, version)) or self.wish.expands(node, last)

    def _on_path(self, owner: Owner, types: Types) -> frozenset[ir.Node] | None:
        """Return the nodes on gradient paths; None if the target has none, so that all nodes count."""
        rules = self.wish.target.gradients if self.wish.target is not None else None
        if rules is None:
            return None
        sources = [*owner.inputs, *(owner.initializers.values() if isinstance(owner, ir.Graph) else ())]
        return frozenset(gradient_paths(owner, rules, types, sources, owner.outputs).nodes)

    # --------------------------------------------------------------------------------- bodies

    def _function(
        self, node: ir.Node, version: int, last: int, types: Types, on_path: frozenset[ir.Node] | None
    ) -> ir.Function | str:
        """Return a function with the body for a node, or why there is none; empty if it does not matter."""
        # A body of ours is for gradients; beside the paths the operator itself will do.
        own = on_path is None or node in on_path or self.wish.is_named(operator_id(node))
        kinds = [types.get(value) if value is not None else None for value in node.inputs]
        use = _Use(operator_id(node), ShadowWriter().node(node), kinds, version, last, own)
        key = use.key()
        if key not in self.made:
            try:
                self.made[key] = self._body(use)
            except schemas.MissingTypeError as error:
                # Which value that is differs from node to node, so this is not kept.
                value = use.node.input[error.place]
                return (
                    f"its body depends on the type of {value!r}, which is not known; add a value_info for it"
                )
        return self.made[key]

    def _body(self, use: _Use) -> ir.Function | str:
        body = schemas.schema_body(use.op, use.version, use.node, use.types)
        if body is None:
            if not use.own:
                return ""
            body = own_body(use.op, Call(use.node, use.version, use.types))
        if body is None:
            return _why_none(use.op, use.version)
        _trim_outputs(body, use.node)
        body.domain, body.name, body.overload = BODIES, use.op.name, str(len(self.made))
        if any(attribute.ref_attr_name for attribute in use.node.attribute):
            return self._unresolved(use, body)
        return self._flat(use, body)

    def _flat(self, use: _Use, body: onnx.FunctionProto) -> ir.Function | str:
        """Return a function of supported operators only, its attributes resolved."""
        small = _one_call(body, use.node, use.types)
        flat = inline_proto.put_together(small, inline_proto.inline(small, _SHORT))
        model = ir.serde.deserialize_model(flat)
        self._expand_inside(use, model)
        remove_noop_casts(model.graph, infer_types(model))
        remove_identities(model.graph)
        function = _as_function(model, body, len(use.node.input))
        if model.opset_imports.get("", use.version) == use.version:
            return function
        return _converted(function, use.version)

    def _unresolved(self, use: _Use, body: onnx.FunctionProto) -> ir.Function:
        """Return a function for a node whose attributes are those of a function around it."""
        function = ir.serde.deserialize_function(body)
        model = ir.Model(ir.Graph([], [], nodes=[], opset_imports=function.opset_imports), ir_version=10)
        model.functions[function.identifier()] = function
        self._expand_inside(use, model)
        return function

    def _expand_inside(self, use: _Use, model: ir.Model) -> None:
        """Expand what is in a body; it stays in the version it is written for until it is whole."""
        inner = Expander(self.wish, "flat", self.inside | {use.op})
        inner.run(model, {"": use.last})
        self.left.update(inner.left)


@dataclass(frozen=True)
class _Use:
    """A way of using an operator: one body serves all nodes that use it so.

    ``version`` is that of the graph around, ``last`` that of the graph it ends up in.
    """

    op: OperatorId
    node: onnx.NodeProto
    types: list[onnx.TypeProto | None]
    version: int
    last: int
    own: bool

    def key(self) -> object:
        """Return what is equal for nodes that one body serves."""
        return (
            (self.op, self.version, self.last, self.own),
            (tuple(map(bool, self.node.input)), tuple(map(bool, self.node.output))),
            tuple(sorted(attribute.SerializeToString() for attribute in self.node.attribute)),
            tuple(kind.SerializeToString(deterministic=True) if kind else None for kind in self.types),
        )


def _lost_default(node: ir.Node, owner: Owner) -> str:
    """Say if an attribute is one of the function around that may be absent, for then a default holds."""
    if isinstance(owner, ir.Function):
        for attribute in node.attributes.values():
            formal = owner.attributes.get(attribute.ref_attr_name or "") if attribute.is_ref() else None
            if formal is not None and formal.value is None:
                where = f"its attribute {attribute.name} may be absent in function {owner.name}"
                return f"{where}; inline that first"
    return ""


def _why_none(op: OperatorId, version: int) -> str:
    if has_own_body(op, version):
        return "its body is for other types, attributes or inputs than these"
    return "it has no body"


def _trim_outputs(body: onnx.FunctionProto, node: onnx.NodeProto) -> None:
    """Leave out outputs that the node does not have: a body need not define them."""
    del body.output[len(node.output) :]
    defined = {*body.input, *(name for inner in body.node for name in inner.output)}
    for place, name in enumerate(body.output):
        if name not in defined:
            # Nothing reads it; it only keeps the places of those behind it.
            body.output[place] = body.output[0]


def _one_call(
    body: onnx.FunctionProto, node: onnx.NodeProto, types: list[onnx.TypeProto | None]
) -> onnx.ModelProto:
    """Return a model that does nothing but call a body as a node would."""
    model = onnx.ModelProto(ir_version=10, opset_import=body.opset_import, functions=[body])
    model.opset_import.add(domain=BODIES, version=1)
    call = model.graph.node.add(op_type=body.name, domain=body.domain, overload=body.overload)
    for place, (name, kind) in enumerate(zip(node.input, types, strict=True)):
        call.input.append(f"input{place}" if name else "")
        if name:
            model.graph.input.add(name=f"input{place}", type=kind)
    for place, _ in enumerate(node.output[: len(body.output)]):
        call.output.append(f"output{place}")
        model.graph.output.add(name=f"output{place}")
    known = {*body.attribute, *(attribute.name for attribute in body.attribute_proto)}
    call.attribute.extend(attribute for attribute in node.attribute if attribute.name in known)
    model.graph.name = "body"
    return model


def _converted(function: ir.Function, version: int) -> ir.Function | str:
    """Return a function converted to the version that it is for, or why it cannot be."""
    try:
        body = convert_body(ir.serde.serialize_function(function), version)
    except NotConvertibleError as error:
        return f"its body cannot be converted to opset {version}: {error}"
    return ir.serde.deserialize_function(body)


def _as_function(model: ir.Model, body: onnx.FunctionProto, inputs: int) -> ir.Function:
    """Return a model's graph as a function; an input that the node does not give keeps its place."""
    graph = model.graph
    given = {value.name: value for value in graph.inputs}
    formal = [given.get(f"input{place}") or ir.Value(name=f"absent{place}") for place in range(inputs)]
    graph.inputs.clear()
    graph.inputs.extend(formal)
    return ir.Function(body.domain, body.name, body.overload, graph=graph, attributes=[])


# -------------------------------------------------------------------------------- changing


def _carry_out(
    model: ir.Model,
    plan: list[tuple[ir.Node, ir.Function]],
    functions: list[ir.Function],
    names: Literal["path", "flat"],
) -> None:
    """Make the nodes into calls and inline these; on an error everything is as it was."""
    domain = _free_domain(model)
    saved = [(node, node.domain, node.op_type, node.overload, dict(node.attributes)) for node, _ in plan]
    try:
        for function in functions:
            function.domain = domain
            model.functions[function.identifier()] = function
        for node, function in plan:
            node.domain, node.op_type, node.overload = domain, function.name, function.overload
            for name in [name for name in node.attributes if name not in function.attributes]:
                del node.attributes[name]
        only = [function.identifier() for function in functions]
        inline_ir.inline(model, Options(only=only, names=names))
    except BaseException:
        for function in functions:
            model.functions.pop(function.identifier(), None)
        for node, node.domain, node.op_type, node.overload, attributes in saved:
            node.attributes.clear()
            node.attributes.update(attributes)
        raise


def _free_domain(model: ir.Model) -> str:
    taken = {function.domain for function in model.functions.values()} | model.opset_imports.keys()
    return NameScope(taken).claim(BODIES)
