"""Remove casts that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import onnx
import onnx_ir as ir

from onnx_inline.inference import all_nodes, element_type, infer_types


@dataclass(frozen=True)
class RemoveNoopCastsPass(ir.passes.InPlacePass):
    """Remove casts to the type that a value has already; gradient builders can stumble over them.

    A cast that makes a graph's output becomes an Identity, for the output's name must stay.

    Before::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { a = Cast <to: int = 1> (x) y = Relu (a) }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { y = Relu (x) }
    """

    name: ClassVar[str] = "remove-noop-casts"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Remove in place."""
        owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
        if not any(node.op_type == "Cast" for owner in owners for node in all_nodes(owner)):
            return ir.passes.PassResult(model, False)
        types = infer_types(model)
        changed = [remove_noop_casts(owner, types) for owner in owners]
        return ir.passes.PassResult(model, any(changed))


def remove_noop_casts(owner: ir.Graph | ir.Function, types: Mapping[ir.Value, onnx.TypeProto]) -> bool:
    """Remove casts to the type that a value has already, in subgraphs too; say whether there were any."""
    found = [node for node in all_nodes(owner) if _changes_nothing(node, types)]
    for node in found:
        _remove(node)
    return bool(found)


def remove_identities(owner: ir.Graph | ir.Function) -> None:
    """Remove identities, in subgraphs too, except those that make a graph's output."""
    for node in [node for node in all_nodes(owner) if node.op_type == "Identity" and node.domain == ""]:
        if not node.outputs[0].is_graph_output():
            _remove(node)


def _changes_nothing(node: ir.Node, types: Mapping[ir.Value, onnx.TypeProto]) -> bool:
    if node.op_type != "Cast" or node.domain != "" or not node.inputs:
        return False
    kind, to = element_type(types, node.inputs[0]), node.attributes.get("to")
    return kind != 0 and to is not None and not to.is_ref() and to.as_int() == kind


def _remove(node: ir.Node) -> None:
    source, made = node.inputs[0], node.outputs[0]
    if made.is_graph_output():
        node.op_type = "Identity"
        node.attributes.clear()
        return
    assert source is not None and node.graph is not None
    made.replace_all_uses_with(source)
    node.graph.remove(node, safe=True)
