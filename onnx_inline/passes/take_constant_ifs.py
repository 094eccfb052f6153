"""Replace an If whose condition is constant by the branch that is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.inference import all_nodes, subgraphs
from onnx_inline.names import NameScope


@dataclass(frozen=True)
class TakeConstantIfsPass(ir.passes.InPlacePass):
    """Replace each If whose condition is a constant by the nodes of the branch that is taken.

    Before::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) {
            c = Constant <value: tensor = bool {1}> ()
            y = If (c) <then_branch = t () => (float[2] p) { p = Relu (x) },
                        else_branch = e () => (float[2] q) { q = Neg (x) }>
        }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) <float[2] p> { p = Relu (x) y = Identity (p) }
    """

    name: ClassVar[str] = "take-constant-ifs"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace in place."""
        names = Counter(value.name for value in _defined(model.graph) if value.name)
        scope = NameScope(names)
        # Those in a branch that is taken come later in the list; those in one that is dropped do no harm.
        found = list(_constant_ifs(model.graph))
        for node, condition in found:
            _take(node, condition, names, scope)
        return ir.passes.PassResult(model, bool(found))


def _constant_ifs(graph: ir.Graph) -> Iterator[tuple[ir.Node, bool]]:
    for node in all_nodes(graph):
        if node.op_type == "If" and node.domain == "" and node.inputs[0] is not None:
            made_by = node.inputs[0].producer()
            value = made_by.attributes.get("value") if made_by is not None else None
            if made_by is not None and made_by.op_type == "Constant" and value is not None:
                yield node, bool(value.as_tensor().numpy().reshape(-1)[0])


def _take(node: ir.Node, condition: bool, names: Counter[str], scope: NameScope) -> None:
    graph, chosen = node.graph, node.inputs[0]
    assert isinstance(graph, ir.Graph) and chosen is not None
    branch = node.attributes["then_branch" if condition else "else_branch"].as_graph()
    _make_names_free(branch, names, scope)
    constants = [_as_constant(value) for value in list(branch.initializers.values())]
    nodes, results = list(branch), list(branch.outputs)
    branch.remove(nodes)
    branch.outputs.clear()
    graph.insert_before(node, [*(constant for constant, _ in constants), *nodes])
    for constant, old in constants:
        old.replace_all_uses_with(constant.outputs[0])
    new = {old: constant.outputs[0] for constant, old in constants}
    for old, result in zip(node.outputs, results, strict=True):
        _connect(graph, node, old, new.get(result, result))
    graph.remove(node, safe=True)
    made_by = chosen.producer()
    if made_by is not None and made_by.graph is not None and not (chosen.uses() or chosen.is_graph_output()):
        made_by.graph.remove(made_by, safe=True)


def _connect(graph: ir.Graph, node: ir.Node, old: ir.Value, result: ir.Value) -> None:
    if not old.is_graph_output():
        old.replace_all_uses_with(result)
        return
    # The name of an output must stay.
    identity = ir.Node("", "Identity", [result], name="")
    made = identity.outputs[0]
    made.name, made.type, made.shape = old.name, old.type, old.shape
    graph.insert_before(node, identity)
    old.replace_all_uses_with(made, replace_graph_outputs=True)


def _as_constant(value: ir.Value) -> tuple[ir.Node, ir.Value]:
    """Return a constant in place of a branch's initializer; its tensor is the same object."""
    assert value.const_value is not None, "an initializer has a tensor"
    node = ir.Node("", "Constant", [], [ir.AttrTensor("value", value.const_value)], name="")
    node.outputs[0].name = value.name
    node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    return node, value


def _make_names_free(branch: ir.Graph, names: Counter[str], scope: NameScope) -> None:
    """Rename what a branch defines where another graph defines the same name: now they see each other."""
    for value in [*branch.initializers.values(), *(v for node in branch for v in node.outputs)]:
        if value.name and names[value.name] > 1:
            names[value.name] -= 1
            value.name = scope.claim(value.name)


def _defined(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from (value for value in graph.initializers.values() if not value.is_graph_input())
    for node in graph:
        yield from node.outputs
        for inner in subgraphs(node):
            yield from _defined(inner)
