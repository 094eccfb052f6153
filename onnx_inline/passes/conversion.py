"""Bodies converted to the opset version of the graph that they go into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
import onnx.numpy_helper

from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.names import NameScope
from onnx_inline.opsets import NotConvertibleError, convert_node, means_the_same, schema_of

#: Operators that only got new attributes, which change nothing where they are not given.
GREW = frozenset(["Cast", "Constant", "Reshape", "Shape"])
_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def convert_body(function: onnx.FunctionProto, has: int) -> onnx.FunctionProto:
    """Return a function of operators of the standard domain, converted to a version of it.

    Args:
        function: the function; its import of the standard domain says what it is written for.
        has: the version wanted.

    Raises:
        NotConvertibleError: there is no conversion, or none that can be trusted.
    """
    converted = onnx.FunctionProto()
    converted.CopyFrom(function)
    needs = has
    for entry in converted.opset_import:
        if normalized_domain(entry.domain) == "":
            needs, entry.version = entry.version, has
    names = NameScope([*function.input, *(name for node in function.node for name in node.output)])
    del converted.node[:]
    converted.node.extend(_converted(function.node, needs, has, names, {}))
    return converted


def _converted(
    nodes: Iterable[onnx.NodeProto],
    needs: int,
    has: int,
    names: NameScope,
    constants: Mapping[str, onnx.NodeProto],
) -> list[onnx.NodeProto]:
    known, result = dict(constants), []
    for node in map(_plain_constant, nodes):
        if node.op_type == "Constant":
            known[node.output[0]] = node
        result += _one(node, needs, has, names, known)
    return result


def _one(
    node: onnx.NodeProto, needs: int, has: int, names: NameScope, constants: Mapping[str, onnx.NodeProto]
) -> list[onnx.NodeProto]:
    op = OperatorId(normalized_domain(node.domain), node.op_type)
    if op.domain != "":
        return [node]
    if any(attribute.HasField("g") for attribute in node.attribute):
        return [_with_graphs(node, op, needs, has, names, constants)]
    given = [attribute.name for attribute in node.attribute]
    if carries_over(op, given, needs, has) or _reduces_everything(node, given):
        return [node]
    made_by = [constants[name] for name in dict.fromkeys(node.input) if name in constants]
    return _renamed(convert_node(node, made_by, op, needs, has), node, names)


def _with_graphs(
    node: onnx.NodeProto,
    op: OperatorId,
    needs: int,
    has: int,
    names: NameScope,
    constants: Mapping[str, onnx.NodeProto],
) -> onnx.NodeProto:
    if not means_the_same(op, needs, has):
        raise NotConvertibleError(f"no converter takes {op}, which has subgraphs")
    result = onnx.NodeProto()
    result.CopyFrom(node)
    for attribute in result.attribute:
        if attribute.HasField("g"):
            inner = _converted(attribute.g.node, needs, has, names, constants)
            del attribute.g.node[:]
            attribute.g.node.extend(inner)
    return result


def carries_over(op: OperatorId, attributes: Iterable[str], needs: int, has: int) -> bool:
    """Say whether a node written for one version of its domain means the same in another as it is.

    Args:
        op: the node's operator.
        attributes: the names of the node's attributes.
        needs: the version it is written for.
        has: the version that it would be in.
    """
    if means_the_same(op, needs, has):
        return True
    # Split without sizes must say since 18 how many parts it makes, but with them it is the same.
    grew = op.name in GREW or (op.name == "Split" and has < needs)
    schema = schema_of(op, has) if op.domain == "" and grew else None
    return schema is not None and all(name in schema.attributes for name in attributes)


def _reduces_everything(node: onnx.NodeProto, attributes: list[str]) -> bool:
    """Say whether a node reduces all axes: written alike in all versions, and old converters crash on it."""
    return node.op_type.startswith("Reduce") and len(node.input) == 1 and set(attributes) <= {"keepdims"}


def _plain_constant(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return a constant number as a tensor, which every version knows."""
    attribute = node.attribute[0] if node.op_type == "Constant" and node.attribute else None
    if attribute is None or attribute.name not in _NUMBERS or attribute.ref_attr_name:
        return node
    array = np.array(onnx.helper.get_attribute_value(attribute), _NUMBERS[attribute.name])
    tensor = onnx.numpy_helper.from_array(array)
    return onnx.helper.make_node("Constant", [], list(node.output), name=node.name, value=tensor)


def _renamed(made: Sequence[onnx.NodeProto], node: onnx.NodeProto, names: NameScope) -> list[onnx.NodeProto]:
    """Give the values that a conversion made names that are free."""
    own = {*node.input, *node.output}
    new = {name for one in made for name in one.output if name not in own}
    fresh = {name: names.claim(f"{node.op_type}_{name}") for name in sorted(new)}
    for one in made:
        for values in (one.input, one.output):
            for place, name in enumerate(values):
                values[place] = fresh.get(name, name)
    # Copies of constants that were there before are not wanted twice.
    return [one for one in made if not (one.op_type == "Constant" and one.output[0] in node.input)]
