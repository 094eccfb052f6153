"""What differs between the two forms of model: how an attribute's value is held."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import onnx

from onnx_inline.engine.body import Node, Slot


class Form(Protocol):
    """Answers questions about attribute payloads, which the engine itself never looks into."""

    def key(self, payload: Any) -> Hashable:
        """Return what makes two values equal; the attribute's name does not count."""

    def type_of(self, payload: Any) -> int:
        """Return the attribute's type as AttributeProto numbers it, 0 if it does not say."""

    def renamed(self, payload: Any, name: str) -> Any:
        """Return the same value under another attribute name."""

    def reference(self, payload: Any, ref: str) -> Any:
        """Return a reference like the given one, to another attribute of the function around it."""

    def to_proto(self, node: Node, name: Callable[[Slot], str]) -> onnx.NodeProto:
        """Return a node without subgraphs as a NodeProto."""

    def from_proto(self, attribute: onnx.AttributeProto) -> Any:
        """Return the payload for an attribute that a converter made."""


class ProtoForm:
    """Payloads are AttributeProtos; those of the model are never changed."""

    def key(self, payload: onnx.AttributeProto) -> Hashable:
        """Return the serialized value."""
        serialized: bytes = self.renamed(payload, "").SerializeToString(deterministic=True)
        return serialized

    def type_of(self, payload: onnx.AttributeProto) -> int:
        """Return the attribute's type."""
        return payload.type

    def renamed(self, payload: onnx.AttributeProto, name: str) -> onnx.AttributeProto:
        """Return a copy with another name."""
        copy = onnx.AttributeProto()
        copy.CopyFrom(payload)
        copy.name = name
        return copy

    def reference(self, payload: onnx.AttributeProto, ref: str) -> onnx.AttributeProto:
        """Return a copy that refers to another attribute."""
        copy = self.renamed(payload, payload.name)
        copy.ref_attr_name = ref
        return copy

    def to_proto(self, node: Node, name: Callable[[Slot], str]) -> onnx.NodeProto:
        """Return a NodeProto with the names given."""
        made = onnx.NodeProto(op_type=node.op.name, domain=node.op.domain, overload=node.op.overload)
        made.input.extend("" if slot is None else name(slot) for slot in node.inputs)
        made.output.extend("" if slot is None else name(slot) for slot in node.outputs)
        made.attribute.extend(attribute.payload for attribute in node.attributes)
        return made

    def from_proto(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto:
        """Return the attribute itself."""
        return attribute
