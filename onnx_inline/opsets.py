"""Opset versions: which operators mean the same in two of them, and how to convert those that do not."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.version_converter

from onnx_inline.identifiers import OperatorId

#: Domains whose operators are pure functions of their inputs by specification.
STANDARD_DOMAINS = frozenset(
    ["", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"]
)


#: operator -> the version from which on it means something else although its schema is like the one before:
#: slopes go with channels before 7, and are broadcast since; the mask is of the data's type before 10
_REDEFINED = {"PRelu": 7, "Dropout": 10}
#: operator and attribute -> the version that brought some values, and those values
_NEW_VALUES = {
    ("Pad", "mode"): (19, {b"wrap"}),
    ("Resize", "coordinate_transformation_mode"): (19, {b"half_pixel_symmetric"}),
    ("ScatterElements", "reduction"): (18, {b"max", b"min"}),
    ("ScatterND", "reduction"): (18, {b"max", b"min"}),
}
#: the version that lets axes be counted from the back
NEGATIVE_AXES = 11
_AXES = frozenset(["axis", "axes"])


class NotConvertibleError(Exception):
    """No converter takes an operator from one version to the other; the message says why."""


@functools.lru_cache(maxsize=4096)
def schema_of(op: OperatorId, version: int) -> onnx.defs.OpSchema | None:
    """Return the schema that an operator has in a version of its domain, or None if there is none."""
    try:
        return onnx.defs.get_schema(op.name, version, op.domain)
    except onnx.defs.SchemaError:
        return None


@functools.lru_cache(maxsize=4096)
def means_the_same(op: OperatorId, needs: int, has: int) -> bool:
    """Say whether an operator written for one version of its domain means the same in another.

    It does if the schema is one and the same, or differs in nothing but the types it allows (and in none of
    the few things that a schema does not show).  An operator without schema is taken to mean the same only
    in one version.
    """
    if needs == has:
        return True
    one, other = schema_of(op, needs), schema_of(op, has)
    if one is None or other is None:
        return False
    if one.since_version == other.since_version:
        return True
    return _signature(one) == _signature(other) and not _depends_on_the_node(one, needs, has)


def _signature(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    attributes = sorted(
        (a.name, str(a.type), a.required, a.default_value.SerializeToString())
        for a in schema.attributes.values()
    )
    parameters = [
        [(p.name, str(p.option), p.is_homogeneous) for p in side] for side in (schema.inputs, schema.outputs)
    ]
    return schema.deprecated, attributes, parameters, schema.min_input, schema.max_input


def _depends_on_the_node(schema: onnx.defs.OpSchema, needs: int, has: int) -> bool:
    """Say whether what differs between two versions is something that their schemas do not show."""
    versions = [_REDEFINED.get(schema.name, 0)]
    if has < needs:
        versions += [version for (name, _), (version, _) in _NEW_VALUES.items() if name == schema.name]
        if schema.domain == "" and not _AXES.isdisjoint(schema.attributes):
            versions.append(NEGATIVE_AXES)
    return any(min(needs, has) < version <= max(needs, has) for version in versions)


@functools.lru_cache(maxsize=4096)
def input_is_required(op: OperatorId, version: int, index: int) -> str | None:
    """Return the name of an operator's input if it must be given, else None (also for unknown operators)."""
    schema = schema_of(op, version)
    if schema is None or not schema.inputs:
        return None
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    optional = formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional
    return None if optional or index >= schema.max_input else formal.name


def convert_node(
    node: onnx.NodeProto, constants: Sequence[onnx.NodeProto], op: OperatorId, needs: int, has: int
) -> list[onnx.NodeProto]:
    """Convert one node from a version of its domain to another, with onnx's version converter.

    Args:
        node: the node; it must not hold subgraphs.
        constants: Constant nodes that make some of its inputs (going down, some inputs become attributes).
        op: the node's operator.
        needs: the version that the node was written for.
        has: the version wanted.

    Returns:
        Nodes that compute the same outputs in the wanted version.

    Raises:
        NotConvertibleError: there is no conversion, or none that can be trusted.
    """
    _refuse_untrusted(node, op, needs, has)
    if op.domain != "":
        raise NotConvertibleError(f"there is no converter for the domain {op.domain!r}")
    if _signature_in(op, needs) == _signature_in(op, has):
        return [node]
    _refuse_malformed(node, needs)
    if op.name == "Split" and needs < 18 and not _says_how_large(node):
        return [_with_number_of_outputs(node) if has >= 18 else node]
    nodes = _with_converter(node, constants, needs, has)
    if op.name in ("Resize", "Upsample") and needs < 11 <= has:
        _sample_as_before(nodes, constants)
    for made in nodes:
        _refuse_foreign_attributes(made, has)
    return nodes


def _refuse_malformed(node: onnx.NodeProto, version: int) -> None:
    """Refuse what onnx's converter, which checks nothing, would crash on: missing inputs, odd attributes."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": version}
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as error:
        raise NotConvertibleError(str(error).strip().splitlines()[0]) from error
    if not any(node.output):
        raise NotConvertibleError("it has no output")


def _signature_in(op: OperatorId, version: int) -> tuple[object, ...] | None:
    schema = schema_of(op, version)
    return None if schema is None else _signature(schema)


def _says_how_large(split: onnx.NodeProto) -> bool:
    return any(split.input[1:]) or any(attribute.name == "split" for attribute in split.attribute)


def _with_number_of_outputs(split: onnx.NodeProto) -> onnx.NodeProto:
    """Return a Split into equal parts as it has to be since 18, where it says into how many.

    onnx's converter before 1.18 crashes the process over a Split that does not say how large its parts are.
    """
    copy = onnx.NodeProto()
    copy.CopyFrom(split)
    copy.attribute.append(onnx.helper.make_attribute("num_outputs", len(split.output)))
    return copy


def _with_converter(
    node: onnx.NodeProto, constants: Sequence[onnx.NodeProto], needs: int, has: int
) -> list[onnx.NodeProto]:
    made = [name for constant in constants for name in constant.output]
    graph = onnx.helper.make_graph(
        [*constants, node],
        "conversion",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name and name not in made],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", needs)], ir_version=min(10, onnx.IR_VERSION)
    )
    try:
        converted = onnx.version_converter.convert_version(model, has)
    except Exception as error:  # the native converter raises whatever it likes
        raise NotConvertibleError(str(error).strip().splitlines()[-1].rsplit("failed: ", 1)[-1]) from error
    return [*_initializers_as_constants(converted.graph), *converted.graph.node]


def _initializers_as_constants(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    return [
        onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializer
    ]


def _sample_as_before(nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.NodeProto]) -> None:
    """Say in a converted Resize where it samples: before 11 there was one way only, no longer the default."""
    resize = next(made for made in nodes if made.op_type == "Resize")
    resize.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if not any(a.name == "mode" and a.s != b"nearest" for a in resize.attribute):
        scales = next((c for c in [*constants, *nodes] if resize.input[2] in c.output), None)
        if scales is None or (onnx.numpy_helper.to_array(scales.attribute[0].t) < 1).any():
            raise NotConvertibleError("how it rounds where it shrinks is not said before 11")
        resize.attribute.append(onnx.helper.make_attribute("nearest_mode", "floor"))


def _refuse_foreign_attributes(node: onnx.NodeProto, version: int) -> None:
    """Refuse what onnx's converter leaves over: attributes that the operator does not have in the version."""
    schema = schema_of(OperatorId("", node.op_type), version)
    for attribute in node.attribute:
        if schema is None or attribute.name not in schema.attributes:
            raise NotConvertibleError(
                f"{node.op_type} has no attribute {attribute.name} in version {version}"
            )


def _refuse_untrusted(node: onnx.NodeProto, op: OperatorId, needs: int, has: int) -> None:
    """Refuse conversions that onnx 1.23 makes and gets wrong (each found by comparing results)."""
    low, high = sorted((needs, has))
    if op.name == "GroupNormalization" and low < 21 <= high:
        raise NotConvertibleError("scale and bias are per group before 21 and per channel since")
    if op.name == "PRelu" and low < 7 <= high:
        raise NotConvertibleError("slopes go with channels before 7, and are broadcast since")
    if op.name == "Dropout" and any(node.output[1:]) and (low < 10 <= high or low < 12 <= high):
        raise NotConvertibleError("its mask changed in 10 and 12")
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    _refuse_flattening(op, values.get("axis"), needs, has)
    if has < needs:
        _refuse_new_values(op, values, needs, has)


def _refuse_flattening(op: OperatorId, axis: object, needs: int, has: int) -> None:
    # Up from 12, onnx's converter flattens around Softmax and LogSoftmax; it forgets Hardmax.
    down = has < 13 <= needs and op.name in ("Softmax", "LogSoftmax", "Hardmax") and axis not in (None, -1)
    up = needs < 13 <= has and op.name == "Hardmax" and axis != -1
    if down or up:
        raise NotConvertibleError(
            "before 13 it works on flattened axes, which is another function unless axis is -1"
        )


def _refuse_new_values(op: OperatorId, values: Mapping[str, Any], needs: int, has: int) -> None:
    """Refuse, on the way down, values of attributes that came later."""
    for name, value in values.items():
        version, new = _NEW_VALUES.get((op.name, name), (0, ()))
        if has < version <= needs and value in new:
            raise NotConvertibleError(f"{name} {value.decode()!r} came with version {version}")
        axes = value if isinstance(value, list) else [value]
        if name in _AXES and has < NEGATIVE_AXES <= needs and min(axes, default=0) < 0:
            raise NotConvertibleError(f"negative {name} came with version {NEGATIVE_AXES}")
