"""Does a target take this node, as it is?"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_inline.inference import operator_id
from onnx_inline.targets import Target


def misses(target: Target, node: ir.Node, version: int) -> str:
    """Say what a target misses in a node.

    Args:
        target: the target.
        node: the node.
        version: the version of its domain that the graph imports.

    Returns:
        What is wrong, as a phrase that goes after the operator's name; empty if the target takes the node.
    """
    if not target.supports(operator_id(node), version):
        return "is not supported"
    rules = target.gradients
    if rules is None:
        return ""
    for name, wanted in rules.attributes.get(node.op_type, {}).items():
        attribute = node.attributes.get(name)
        if (0 if attribute is None else attribute.value) != wanted:
            return f"with {name} other than {wanted} gets another gradient or none"
    if _given(node.inputs) < rules.inputs.get(node.op_type, 0):
        return f"needs {rules.inputs[node.op_type]} inputs, but has {_given(node.inputs)}"
    if _given(node.outputs) < rules.outputs.get(node.op_type, 0):
        return f"needs {rules.outputs[node.op_type]} outputs, but has {_given(node.outputs)}"
    return ""


def _given(values: Sequence[ir.Value | None]) -> int:
    """Return how many values there are up to the last that is given."""
    given = [place for place, value in enumerate(values) if value is not None and value.name != ""]
    return max(given, default=-1) + 1
