"""Does a target take this node, as it is?"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_inline.inference import operator_id
from onnx_inline.targets import GradientRules, Target


def misses(target: Target, node: ir.Node, version: int) -> str:
    """Say what a target misses in a node.

    Args:
        target: the target.
        node: the node.
        version: the version of its domain that the graph imports.

    Returns:
        What is wrong, as a phrase that goes after the operator's name; empty if the target takes the node.
    """
    return misses_operator(target, node, version) or misses_arguments(target, node)


def misses_operator(target: Target, node: ir.Node, version: int) -> str:
    """Say whether a target lacks an operator, or cannot do with it as it is used, so that it must go."""
    if not target.supports(operator_id(node), version):
        return "is not supported"
    wanted = target.gradients.attributes if target.gradients is not None else {}
    for name, value in wanted.get(node.op_type, {}).items():
        attribute = node.attributes.get(name)
        if (0 if attribute is None else attribute.value) != value:
            return f"with {name} other than {value} gets another gradient, or none"
    needs = target.gradients.inputs.get(node.op_type, 0) if target.gradients is not None else 0
    if (has := given(node.inputs)) < needs:
        return f"needs {needs} inputs, but has {has}"
    return ""


def misses_arguments(target: Target, node: ir.Node) -> str:
    """Say whether a target needs more outputs than a node has, which can be added."""
    rules = target.gradients
    if rules is None:
        return ""
    if (has := given(node.outputs)) < (needs := rules.outputs.get(node.op_type, 0)):
        return f"needs {needs} outputs, but has {has}"
    return ""


def given(values: Sequence[ir.Value | None]) -> int:
    """Return how many values there are up to the last that is given."""
    places = [place for place, value in enumerate(values) if value is not None and value.name != ""]
    return max(places, default=-1) + 1


def defined_by_others(node: ir.Node, leaf: ir.Value, rules: GradientRules) -> bool:
    """Say whether a leaf goes into a node and into another that both define its gradient in any case."""
    if node.op_type not in rules.leaf_used_once:
        return False
    return any(user is not node and user.op_type in rules.leaf_used_once for user, _ in leaf.uses())
