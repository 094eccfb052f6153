"""Nodes of function bodies converted to the opset of the graph that they go into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx

from onnx_inline.engine.body import Body, Node, Plain, Reference, Slot
from onnx_inline.engine.form import Form
from onnx_inline.errors import OpsetConflictError
from onnx_inline.identifiers import OperatorId
from onnx_inline.opsets import NotConvertibleError, convert_node, means_the_same


@dataclass(frozen=True)
class Conversion:
    """An operator of a function body converted to the opset of the graph that it goes into."""

    function: str
    operator: str
    domain: str
    needs: int
    has: int


@dataclass
class Converter:
    """Converts nodes, and remembers what it converted (``done``, in order)."""

    form: Form
    done: dict[Conversion, None] = field(default_factory=dict)

    def converted(
        self, node: Node, target: Mapping[str, int], body: Body, constants: Mapping[Slot, Node], function: str
    ) -> list[Node]:
        """Return nodes that mean in the target's opset what a node means in its own.

        Args:
            node: the node, its attribute references resolved.
            target: the opset imports of the graph that it goes into.
            body: the body that it is in, which gets new slots if needed.
            constants: the Constant nodes of the body by what they make.
            function: the function's identifier, for messages.

        Raises:
            OpsetConflictError: no converter can do it.
        """
        needs, has = node.imports.get(node.op.domain), target.get(node.op.domain)
        if needs is None or has is None or means_the_same(node.op, needs, has):
            return [node]
        try:
            _refuse_unknown_values(node)
            converted = self._convert(node, needs, has, body, constants)
        except NotConvertibleError as reason:
            raise OpsetConflictError(
                function=function,
                operator=node.op.name,
                domain=node.op.domain,
                needs=needs,
                has=has,
                reason=str(reason),
            ) from None
        self.done[Conversion(function, node.op.name, node.op.domain, needs, has)] = None
        return converted

    def _convert(
        self, node: Node, needs: int, has: int, body: Body, constants: Mapping[Slot, Node]
    ) -> list[Node]:
        name = "s{}".format
        made_by = [
            found
            for slot in dict.fromkeys(node.inputs)
            if slot is not None and (found := constants.get(slot))
        ]
        protos = [self.form.to_proto(constant, name) for constant in made_by]
        made = convert_node(self.form.to_proto(node, name), protos, node.op, needs, has)
        slots = {name(slot): slot for slot in (*node.inputs, *node.outputs) if slot is not None}
        again = {output for new in made for output in new.output}
        for proto in protos:
            if proto.output[0] in again:  # a copy of the constant, which gets a slot of its own
                del slots[proto.output[0]]
        return [self._adopted(new, node, slots, body) for new in made]

    def _adopted(self, made: onnx.NodeProto, original: Node, slots: dict[str, Slot], body: Body) -> Node:
        for text in made.output:
            if text and text not in slots:
                slots[text] = body.fresh(f"{original.label or original.op.name}_{made.op_type}")
        return replace(
            original,
            op=OperatorId(made.domain, made.op_type),
            inputs=tuple(slots[text] if text else None for text in made.input),
            outputs=tuple(slots[text] if text else None for text in made.output),
            attributes=tuple(Plain(a.name, self.form.from_proto(a)) for a in made.attribute),
            label=original.label if made.op_type == original.op.name else "",
        )


def _refuse_unknown_values(node: Node) -> None:
    if any(True for _ in node.subgraphs()):
        raise NotConvertibleError("no converter takes operators with subgraphs")
    for attribute in node.attributes:
        if isinstance(attribute, Reference):
            raise NotConvertibleError(
                f"its attribute {attribute.name} is attribute {attribute.ref} of the kept function around it"
            )
