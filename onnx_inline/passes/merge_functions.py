"""Make one function of functions that are equal."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import onnx_ir as ir

from onnx_inline.errors import FunctionCycleError
from onnx_inline.identifiers import OperatorId
from onnx_inline.names import NameScope
from onnx_inline.passes.base import refusing
from onnx_inline.passes.structure import Hole, Keys, all_nodes, callees_stay_first, defined_within


@dataclass(frozen=True)
class MergeFunctionsPass(ir.passes.InPlacePass):
    """Let calls of functions that are equal, names inside apart, all call the first of them.

    Exporters write a class once for each instance: ``Block``, ``Block.1``, ``Block.2``.  Functions are
    equal if their nodes, in order, do the same and are connected alike, and they have the same attributes
    and opset imports; functions that call equal functions can be equal too.

    Attributes:
        constants: what to do with functions that differ only in values of attributes, those of Constant
            nodes among them: ``keep`` leaves them apart; ``attributes`` makes one function of them, to
            which each call gives the values as attributes; ``inputs`` does so for Constant nodes only, and
            gives the values as inputs, made by Constant nodes at the calls.

    Before::

        <ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] z) { y = m.Block (x) z = m.Block_1 (y) }
        <domain: "m", opset_import: ["" : 18]>
        Block (a) => (b) { b = Relu (a) }
        <domain: "m", opset_import: ["" : 18]>
        Block_1 (c) => (d) { d = Relu (c) }

    After::

        <ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] z) { y = m.Block (x) z = m.Block (y) }
        <domain: "m", opset_import: ["" : 18]>
        Block (a) => (b) { b = Relu (a) }

    Raises:
        FunctionCycleError: functions call each other in a circle; the model is as it was.
    """

    name: ClassVar[str] = "merge-functions"

    constants: Literal["keep", "attributes", "inputs"] = "keep"

    def __post_init__(self) -> None:
        if self.constants not in ("keep", "attributes", "inputs"):
            raise ValueError(f"constants must be 'keep', 'attributes' or 'inputs', not {self.constants!r}")

    @refusing
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Merge, functions that call no others first: those that call them may be equal only then."""
        calls = _Calls(model)
        levels = calls.levels()
        before = len(model.functions)
        with callees_stay_first(model):
            for level in levels:
                for group in self._equal(model, level):
                    _merge(model, calls, group, self.constants)
        return ir.passes.PassResult(model, len(model.functions) != before)

    def _equal(self, model: ir.Model, functions: Sequence[ir.Function]) -> list[list[_Member]]:
        """Return the groups of functions that are to become one."""
        groups: dict[Hashable, list[_Member]] = {}
        for function in functions:
            keys = Keys(function.opset_imports, model.functions, _LEFT_OUT[self.constants](function))
            key = keys.function(function)
            groups.setdefault(key, []).append(_Member(function, keys.holes))
        return [sorted(group, key=_numbered) for group in groups.values() if len(group) > 1]


@dataclass(frozen=True)
class _Member:
    """A function of a group, and the values that may differ between the members."""

    function: ir.Function
    holes: Sequence[Hole]


def _numbered(member: _Member) -> bool:
    """Say whether a function has a numbered name: one that has not is the one to keep."""
    return bool(member.function.overload or re.search(r"\.\d+$", member.function.name))


# ---- what may differ


def _nothing(function: ir.Function) -> Callable[[ir.Node, ir.Attr], bool]:
    return lambda node, attribute: False


def _every_value(function: ir.Function) -> Callable[[ir.Node, ir.Attr], bool]:
    return lambda node, attribute: True


def _constants(function: ir.Function) -> Callable[[ir.Node, ir.Attr], bool]:
    # A constant that is an output of the function would become an input that is an output.
    outputs = set(function.outputs)
    return lambda node, attribute: (
        (node.domain, node.op_type) == ("", "Constant") and node.outputs[0] not in outputs
    )


_LEFT_OUT = {"keep": _nothing, "attributes": _every_value, "inputs": _constants}


# ---- calls


@dataclass(frozen=True)
class _Call:
    """A node that calls a function, and the graph or function that it is in, perhaps in a subgraph."""

    node: ir.Node
    owner: ir.Graph | ir.Function


class _Calls:
    """The calls of each function of a model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._of: dict[ir.OperatorIdentifier, list[_Call]] = {f: [] for f in model.functions}
        self._names: dict[ir.Graph | ir.Function, NameScope] = {}
        self._callees: dict[ir.OperatorIdentifier, set[ir.OperatorIdentifier]] = {}
        self._find(model.graph)
        for identifier, function in model.functions.items():
            self._callees[identifier] = self._find(function)

    def _find(self, owner: ir.Graph | ir.Function) -> set[ir.OperatorIdentifier]:
        callees = set()
        for node in all_nodes(owner):
            if (identifier := node.op_identifier()) in self._of:
                self._of[identifier].append(_Call(node, owner))
                callees.add(identifier)
        return callees

    def levels(self) -> list[list[ir.Function]]:
        """Return the functions by how deep the functions that they call are nested, the flat ones first."""
        try:
            order = list(graphlib.TopologicalSorter(self._callees).static_order())
        except graphlib.CycleError as error:
            cycle = [str(OperatorId(*identifier)) for identifier in reversed(error.args[1])]
            raise FunctionCycleError(cycle) from None
        height: dict[ir.OperatorIdentifier, int] = {}
        for identifier in order:
            height[identifier] = max((height[c] + 1 for c in self._callees[identifier]), default=0)
        levels: list[list[ir.Function]] = [[] for _ in range(max(height.values(), default=-1) + 1)]
        for identifier, function in self._model.functions.items():
            levels[height[identifier]].append(function)
        return levels

    def of(self, function: ir.Function) -> list[_Call]:
        """Return the calls of a function."""
        return self._of[function.identifier()]

    def redirect(self, function: ir.Function, to: ir.Function) -> None:
        """Let the calls of a function call another one, without attributes that this one has not."""
        for call in self.of(function):
            node = call.node
            node.domain, node.op_type, node.overload = to.identifier()
            for name in [name for name in node.attributes if name not in to.attributes]:
                del node.attributes[name]
            version = self._model.opset_imports.get(to.domain, 1)
            call.owner.opset_imports.setdefault(to.domain, version)
        self.of(to).extend(self._of.pop(function.identifier()))

    def names(self, owner: ir.Graph | ir.Function) -> NameScope:
        """Return the names of values in a graph or function and its subgraphs."""
        if owner not in self._names:
            defined = owner.inputs if isinstance(owner, ir.Function) else defined_within(owner)
            inner = (value for node in all_nodes(owner) for value in node.outputs)
            self._names[owner] = NameScope(v.name for v in (*defined, *inner) if v.name)
        return self._names[owner]


# ---- merge


def _merge(model: ir.Model, calls: _Calls, group: Sequence[_Member], constants: str) -> None:
    """Keep the first function of a group; give it what differs as attributes or inputs."""
    differing = _differing(group)
    if differing and constants == "attributes":
        _as_attributes(calls, group, differing)
    elif differing:
        _as_inputs(calls, group, differing)
    kept, *others = (member.function for member in group)
    for function in others:
        calls.redirect(function, kept)
        del model.functions[function.identifier()]


def _differing(group: Sequence[_Member]) -> list[list[int]]:
    """Return the holes that are filled differently, those together that differ in the same way."""
    alike: dict[Hashable, list[int]] = {}
    for number, holes in enumerate(zip(*(member.holes for member in group), strict=True)):
        keys = tuple(hole.key for hole in holes)
        if len(set(keys)) > 1:
            alike.setdefault(keys, []).append(number)
    return list(alike.values())


def _as_attributes(calls: _Calls, group: Sequence[_Member], differing: Sequence[Sequence[int]]) -> None:
    kept = group[0]
    names = NameScope([*kept.function.attributes, *(n for m in group for n in m.function.attributes)])
    for numbers in differing:
        name = names.claim(kept.holes[numbers[0]].attribute)
        for member in group:
            value = member.holes[numbers[0]].value
            for call in calls.of(member.function):
                call.node.attributes[name] = ir.Attr(name, value.type, value.value)
            member.function.attributes[name] = ir.Attr(name, ir.AttributeType.UNDEFINED, None)
        for hole in (kept.holes[number] for number in numbers):
            hole.node.attributes[hole.attribute] = ir.RefAttr(hole.attribute, name, hole.value.type)


def _as_inputs(calls: _Calls, group: Sequence[_Member], differing: Sequence[Sequence[int]]) -> None:
    kept = group[0]
    inputs = len(kept.function.inputs)
    for numbers in differing:
        constants = [kept.holes[number].node for number in numbers]
        kept.function.inputs.append(_replaced_by_input(constants, calls.names(kept.function)))
    for member in group:
        chosen = [member.holes[numbers[0]].node for numbers in differing]
        for call in calls.of(member.function):
            made = [_copied_before(call, constant, calls.names(call.owner)) for constant in chosen]
            call.node.resize_inputs(inputs + len(made))
            for number, value in enumerate(made):
                call.node.replace_input_with(inputs + number, value)


def _replaced_by_input(constants: Sequence[ir.Node], names: NameScope) -> ir.Value:
    formal = ir.Value(name=names.claim(constants[0].outputs[0].name or "constant"))
    for constant in constants:
        constant.outputs[0].replace_all_uses_with(formal)
        if constant.graph is not None:
            constant.graph.remove(constant, safe=True)
    return formal


def _copied_before(call: _Call, constant: ir.Node, names: NameScope) -> ir.Value:
    """Put a copy of a Constant node before a call, and return its value."""
    original = constant.outputs[0]
    name = names.claim(f"{call.node.name or call.node.op_type}/{original.name or 'constant'}")
    value = ir.Value(name=name, type=original.type, shape=original.shape)
    node = ir.Node("", "Constant", (), constant.attributes.values(), outputs=[value], name=name)
    call.node.prepend(node)
    return value
