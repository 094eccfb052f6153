"""Take tensors out of sequences that are only taken apart again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir

from onnx_inline.inference import all_nodes, infer_types
from onnx_inline.names import NameScope

#: From this version of the standard opset on, the sizes of Split are an input.
SIZES_ARE_AN_INPUT = 13


@dataclass(frozen=True)
class SplitSequencesPass(ir.passes.InPlacePass):
    """Replace SplitToSequence by Split where all that follows is SequenceAt with known places.

    torch's exporter writes ``chunk`` and ``split`` so when it does not optimize; no gradient builder takes
    sequences.  A sequence that is used otherwise, or whose parts have unknown sizes, is left.

    Before::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2,6] x) => (float[2,3] y) {
            size = Constant <value: tensor = int64 {3}> ()
            s = SplitToSequence <axis = 1> (x, size)
            second = Constant <value: tensor = int64 {1}> ()
            y = SequenceAt (s, second)
        }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2,6] x) => (float[2,3] y) {
            s_sizes = Constant <value: tensor = int64[2] {3, 3}> ()
            s_0, s_1 = Split <axis = 1> (x, s_sizes)
            y = Identity (s_1)
        }
    """

    name: ClassVar[str] = "split-sequences"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace in place."""
        owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
        found = [
            (owner, node) for owner in owners for node in all_nodes(owner) if _is(node, "SplitToSequence")
        ]
        if not found:
            return ir.passes.PassResult(model, False)
        types, names = infer_types(model), NameScope(_names(owners))
        plans = [(owner, plan) for owner, node in found if (plan := _plan(node, types)) is not None]
        for owner, plan in plans:
            plan.carry_out(names, owner.opset_imports.get("", 1))
        return ir.passes.PassResult(model, bool(plans))


@dataclass(frozen=True)
class _Plan:
    """A sequence that can go: its node, the sizes of its parts, and who takes which of them."""

    node: ir.Node
    axis: int
    sizes: tuple[int, ...]
    takers: tuple[tuple[ir.Node, int], ...]

    def carry_out(self, names: NameScope, version: int) -> None:
        """Put Split in place of the sequence, and what remains of each SequenceAt behind it."""
        graph, source = self.node.graph, self.node.inputs[0]
        assert graph is not None and source is not None
        stem = self.node.outputs[0].name or "parts"
        sizes = (
            _sizes_node(self.sizes, names.claim(f"{stem}_sizes")) if version >= SIZES_ARE_AN_INPUT else None
        )
        split = self._split(source, sizes)
        for place, part in enumerate(split.outputs):
            part.name = names.claim(f"{stem}_{place}")
        graph.insert_before(self.node, [split] if sizes is None else [sizes, split])
        for taker, place in self.takers:
            _take_from(split.outputs[place], taker)
        old_sizes = self.node.inputs[1] if len(self.node.inputs) > 1 else None
        graph.remove(self.node, safe=True)
        _remove_if_unused(old_sizes)

    def _split(self, source: ir.Value, sizes: ir.Node | None) -> ir.Node:
        inputs, attributes = [source], [ir.AttrInt64("axis", self.axis)]
        if sizes is not None:
            inputs.append(sizes.outputs[0])
        else:
            attributes.append(ir.AttrInt64s("split", self.sizes))
        return ir.Node("", "Split", inputs, attributes, num_outputs=len(self.sizes), name=self.node.name)


def _sizes_node(sizes: tuple[int, ...], name: str) -> ir.Node:
    tensor = ir.tensor(np.array(sizes, np.int64))
    node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], name="")
    node.outputs[0].name = name
    return node


def _take_from(part: ir.Value, taker: ir.Node) -> None:
    """Let ``part`` stand for what a SequenceAt makes; an output of a graph keeps its name by an Identity."""
    place, made = taker.inputs[1], taker.outputs[0]
    taker.replace_input_with(0, part)
    taker.resize_inputs(1)
    taker.op_type = "Identity"
    _remove_if_unused(place)
    if not made.is_graph_output():
        assert taker.graph is not None
        made.replace_all_uses_with(part)
        taker.graph.remove(taker, safe=True)


def _is(node: ir.Node, operator: str) -> bool:
    return node.op_type == operator and node.domain in {"", "ai.onnx"}


def _names(owners: list[ir.Graph | ir.Function]) -> Iterator[str]:
    for owner in owners:
        yield from (value.name or "" for value in owner.inputs)
        if isinstance(owner, ir.Graph):
            yield from owner.initializers
        yield from (value.name or "" for node in all_nodes(owner) for value in node.outputs)


def _plan(node: ir.Node, types: Mapping[ir.Value, onnx.TypeProto]) -> _Plan | None:
    axis = node.attributes.get_int("axis", 0)
    dropped = len(node.inputs) < 2 and not node.attributes.get_int("keepdims", 1)
    sizes = _sizes(node, axis, types)
    if sizes is None or dropped or node.outputs[0].is_graph_output():
        return None
    takers = []
    for use in node.outputs[0].uses():
        place = _number(use.node.inputs[1]) if _is(use.node, "SequenceAt") else None
        if place is None or not -len(sizes) <= place < len(sizes):
            return None
        takers.append((use.node, place % len(sizes)))
    return _Plan(node, axis, sizes, tuple(takers)) if takers else None


def _sizes(node: ir.Node, axis: int, types: Mapping[ir.Value, onnx.TypeProto]) -> tuple[int, ...] | None:
    """Return the sizes of the parts along the axis, None if they are unknown."""
    given = _constant(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else np.array(1)
    if given is not None and given.ndim == 1:
        return tuple(map(int, given))
    whole = _dimension(node.inputs[0], axis, types)
    if given is None or whole is None or given <= 0:
        return None
    size = int(given)
    full, rest = divmod(whole, size)
    return (size,) * full + ((rest,) if rest else ())


def _dimension(value: ir.Value | None, axis: int, types: Mapping[ir.Value, onnx.TypeProto]) -> int | None:
    kind = types.get(value) if value is not None else None
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    known = -len(dims) <= axis < len(dims) and dims[axis].HasField("dim_value")
    return int(dims[axis].dim_value) if known else None


def _constant(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """Return what a Constant node makes, if it is an integer or a tensor of some."""
    maker = value.producer() if value is not None else None
    if maker is None or not _is(maker, "Constant"):
        return None
    attribute = next(iter(maker.attributes.values()))
    if attribute.is_ref() or attribute.name not in {"value", "value_int", "value_ints"}:
        return None
    array = attribute.as_tensor().numpy() if attribute.name == "value" else np.array(attribute.value)
    return array if array.dtype.kind == "i" else None


def _number(value: ir.Value | None) -> int | None:
    array = _constant(value)
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _remove_if_unused(value: ir.Value | None) -> None:
    maker = value.producer() if value is not None else None
    if value is None or maker is None or maker.graph is None or maker.op_type != "Constant":
        return
    if not value.uses() and not value.is_graph_output():
        maker.graph.remove(maker, safe=True)
