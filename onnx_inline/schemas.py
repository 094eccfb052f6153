"""Function bodies that operator schemas carry; the only user of those in ``onnx.defs``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import onnx
import onnx.defs

from onnx_inline.identifiers import OperatorId
from onnx_inline.opsets import means_the_same, schema_of


class MissingTypeError(Exception):
    """A body depends on the type of an input, which is not known; ``place`` is the input's position."""

    def __init__(self, place: int) -> None:
        self.place = place
        super().__init__(place)


def has_body(op: OperatorId, version: int) -> bool:
    """Say whether an operator's schema carries a function body.

    Args:
        op: the operator.
        version: the version of its domain.

    Example:
        >>> has_body(OperatorId("", "Mish"), 18), has_body(OperatorId("", "Sum"), 18)
        (True, False)
    """
    return _schema_with_body(op, version) is not None


@functools.lru_cache(maxsize=4096)
def _schema_with_body(op: OperatorId, version: int) -> Any:
    """Return the operator's schema, or a later one that means the same, if it has a body."""
    for later in range(version, _newest(op.domain) + 1):
        # onnx's stubs do not know the methods for bodies.
        schema: Any = schema_of(op, later)
        if schema is None or not means_the_same(op, version, later):
            return None
        if schema.has_function or schema.has_context_dependent_function:
            return schema
    return None


@functools.lru_cache
def _newest(domain: str) -> int:
    versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain]
    return max(versions, default=0)


def schema_body(
    op: OperatorId, version: int, node: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]
) -> onnx.FunctionProto | None:
    """Return the body that an operator's schema carries, built for one node.

    Args:
        op: the operator.
        version: the version of its domain.
        node: the node; a body may depend on its attributes, and on which inputs and outputs it has.
        types: the types of the node's inputs, None where unknown or absent.

    Returns:
        A function whose opset imports say what its body is written for, with the schema's defaults for its
        attributes; None if the schema has no body, or none for such a node.

    Raises:
        MissingTypeError: the body depends on a type that is not known.
    """
    schema = _schema_with_body(op, version)
    if schema is None:
        return None
    if schema.has_function:
        chosen = nearest(schema.function_opset_versions, version)
        built = schema.get_function_with_opset_version(chosen)
    else:
        chosen = nearest(schema.context_dependent_function_opset_versions, version)
        built = _built(schema, chosen, node, types)
    if not built:
        return None
    body: onnx.FunctionProto = onnx.FunctionProto.FromString(built)
    _state_version(body, op.domain, chosen)
    _state_defaults(body, schema)
    return body


def _state_defaults(body: onnx.FunctionProto, schema: Any) -> None:
    """Give the body's attributes the schema's defaults, which the body itself does not know."""
    defaults = {name: found.default_value for name, found in schema.attributes.items()}
    defaults = {name: value for name, value in defaults.items() if value.type and name in body.attribute}
    body.attribute_proto.extend(defaults.values())
    plain = [name for name in body.attribute if name not in defaults]
    del body.attribute[:]
    body.attribute.extend(plain)


def nearest(versions: Sequence[int], wanted: int) -> int:
    """Return the newest of the versions that is not newer than wanted, else the oldest."""
    older = [version for version in versions if version <= wanted]
    return max(older) if older else min(versions)


def _built(schema: Any, version: int, node: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]) -> bytes:
    for place, (name, known) in enumerate(zip(node.input, types, strict=True)):
        if name and known is None:
            raise MissingTypeError(place)
    # The native code expects a type for an absent input too; an empty one means none.
    given = [(known or onnx.TypeProto()).SerializeToString() for known in types]
    serialized = node.SerializeToString()
    return bytes(schema.get_context_dependent_function_with_opset_version(version, serialized, given))


def _state_version(body: onnx.FunctionProto, domain: str, version: int) -> None:
    """Let the body import its own domain in the version that it is written for."""
    for entry in body.opset_import:
        if entry.domain == domain:
            entry.version = version
            return
    body.opset_import.add(domain=domain, version=version)
