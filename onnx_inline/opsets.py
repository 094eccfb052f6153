"""Opset versions: which operators mean the same in two of them, and how to convert those that do not."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import onnx
import onnx.defs
import onnx.helper
import onnx.version_converter

from onnx_inline.identifiers import OperatorId

#: Domains whose operators are pure functions of their inputs by specification.
STANDARD_DOMAINS = frozenset(
    ["", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"]
)


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
def means_the_same(op: OperatorId, first: int, second: int) -> bool:
    """Say whether an operator means the same in two versions of its domain.

    It does if the schema is one and the same, or differs in nothing but the types it allows.
    An operator without schema is taken to mean the same only in one version.
    """
    if first == second:
        return True
    one, other = schema_of(op, first), schema_of(op, second)
    if one is None or other is None:
        return False
    return one.since_version == other.since_version or _signature(one) == _signature(other)


def _signature(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    attributes = sorted(
        (a.name, str(a.type), a.required, a.default_value.SerializeToString())
        for a in schema.attributes.values()
    )
    parameters = [
        [(p.name, str(p.option), p.is_homogeneous) for p in side] for side in (schema.inputs, schema.outputs)
    ]
    return schema.deprecated, attributes, parameters, schema.min_input, schema.max_input


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


def _refuse_untrusted(node: onnx.NodeProto, op: OperatorId, needs: int, has: int) -> None:
    """Refuse conversions that onnx 1.23 makes and gets wrong (each found by comparing results)."""
    low, high = sorted((needs, has))
    if op.name == "GroupNormalization" and low < 21 <= high:
        raise NotConvertibleError("scale and bias are per group before 21 and per channel since")
    axis = next((a.i for a in node.attribute if a.name == "axis"), -1)
    if op.name in ("Softmax", "LogSoftmax", "Hardmax") and has < 13 <= needs and axis != -1:
        raise NotConvertibleError(
            "before 13 it works on flattened axes, which is another function unless axis is -1"
        )
