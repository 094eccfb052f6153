"""Give a gradient builder what it needs where it is pickier than ONNX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.inference import all_nodes, operator_id
from onnx_inline.names import NameScope
from onnx_inline.support import defined_by_others, given
from onnx_inline.targets import GradientRules, Target, load_target


@dataclass(frozen=True)
class AdaptToBuilderPass(ir.passes.InPlacePass):
    """Add outputs that a gradient builder reads, and keep out of the way of what it defines.

    LayerNormalization gets its two other outputs.  A leaf whose gradient would be defined twice goes into
    nodes through an Identity.  Nodes of one name are renamed, and so are
    values whose name is that of another's gradient.  Which of this is needed is in the target.

    Attributes:
        target: the target: a name, a path or a target.

    Before::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { y = Mul (x, x) }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) <float[2] x_once> {
            x_once = Identity (x)
            y = Mul (x_once, x_once)
        }
    """

    name: ClassVar[str] = "adapt-to-builder"

    target: str | Target = "ort-training"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Adapt in place."""
        rules = load_target(self.target).gradients
        changed = rules is not None and _Adapting(model, rules).run()
        return ir.passes.PassResult(model, changed)


class _Adapting:
    def __init__(self, model: ir.Model, rules: GradientRules) -> None:
        self._model, self._rules = model, rules
        self._nodes = list(all_nodes(model.graph))
        self._names = NameScope(value.name for value in _values(model.graph, self._nodes) if value.name)
        self._changes = 0

    def run(self) -> bool:
        """Do all that the rules ask for; say whether anything was done."""
        self._add_missing_outputs()
        if not self._rules.leaf_used_twice:
            self._separate_leaves()
        if self._rules.unique_node_names:
            self._separate_nodes()
        if self._rules.reserved_suffix:
            self._free_gradient_names(self._rules.reserved_suffix)
        return bool(self._changes)

    def _add_missing_outputs(self) -> None:
        for node in self._nodes:
            outputs = self._rules.outputs.get(node.op_type, 0)
            if operator_id(node).domain == "" and given(node.outputs) < outputs:
                self._add_outputs(node, outputs)

    def _add_outputs(self, node: ir.Node, count: int) -> None:
        first = node.outputs[0].name or node.op_type
        have = len(node.outputs)
        if have < count:
            node.resize_outputs(count)
        for place, value in enumerate(node.outputs):
            if place >= have or not value.name:
                value.name = self._names.claim(f"{first}_output{place}")
        self._changes += 1

    def _separate_leaves(self) -> None:
        for node in self._nodes:
            for value, count in Counter(v for v in node.inputs if v is not None).items():
                leaf = value.is_graph_input() or value.is_initializer()
                if leaf and (count > 1 or defined_by_others(node, value, self._rules)):
                    self._separate(node, value)

    def _separate(self, node: ir.Node, leaf: ir.Value) -> None:
        assert node.graph is not None
        identity = ir.Node("", "Identity", [leaf], name="")
        once = identity.outputs[0]
        once.name, once.type, once.shape = self._names.claim(f"{leaf.name}_once"), leaf.type, leaf.shape
        node.graph.insert_before(node, identity)
        for place, value in enumerate(node.inputs):
            if value is leaf:
                node.replace_input_with(place, once)
        self._changes += 1

    def _separate_nodes(self) -> None:
        labels = NameScope(node.name for node in self._nodes if node.name)
        seen: set[str] = set()
        for node in self._nodes:
            if node.name and node.name in seen:
                node.name = labels.claim(node.name)
                self._changes += 1
            seen.add(node.name or "")

    def _free_gradient_names(self, suffix: str) -> None:
        fixed = {v.name for v in (*self._model.graph.inputs, *self._model.graph.initializers.values())}
        for node in self._nodes:
            for value in node.outputs:
                name = value.name or ""
                clashes = name.endswith(suffix) and name[: -len(suffix)] in self._names
                if clashes and not value.is_graph_output() and name not in fixed:
                    value.name = self._names.claim(f"{name}_value")
                    self._changes += 1


def _values(graph: ir.Graph, nodes: list[ir.Node]) -> Iterator[ir.Value]:
    yield from (*graph.inputs, *graph.initializers.values())
    for node in nodes:
        yield from node.outputs
