"""Compute what follows from constants alone: shapes, axes, conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from onnx_inline.inference import Types, all_nodes, element_type, infer_types
from onnx_inline.shadow import ShadowWriter, imports

#: The element types that are folded: integers and booleans.  A number with a fraction may come out otherwise
#: in another runtime, and what is trained is never an integer.
EXACT = frozenset([2, 3, 4, 5, 6, 7, 9, 12, 13])
#: Larger results are left to the runtime.
MOST_ELEMENTS = 1024
_RANDOM = frozenset(["Bernoulli", "Multinomial", "RandomNormal", "RandomUniform", "Dropout"])


@dataclass(frozen=True)
class FoldIntegersPass(ir.passes.InPlacePass):
    """Replace integers and booleans that follow from constants and static shapes by constants.

    Initializers count as trained, so that nothing is made of them; floating-point numbers are left alone.

    Before::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2,3] x) => (int64[2] y) { s = Shape (x) y = Add (s, s) }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2,3] x) => (int64[2] y) { y = Constant <value: tensor = int64[2] {4, 6}> () }
    """

    name: ClassVar[str] = "fold-integers"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace in place."""
        nodes = list(all_nodes(model.graph))
        if not any(map(_may_fold, nodes)):
            return ir.passes.PassResult(model, False)
        types = infer_types(model)
        folder = _Folder(types, dict(model.opset_imports))
        folded = [node for node in nodes if folder.fold(node)]
        if folded:
            _remove_unused_constants(model.graph, folder.read)
        return ir.passes.PassResult(model, bool(folded))


def _may_fold(node: ir.Node) -> bool:
    """Say whether a look at types is worth its cost."""
    producers = [value.producer() for value in node.inputs if value is not None]
    constant = bool(producers) and all(made and made.op_type == "Constant" for made in producers)
    return constant or node.op_type in ("Shape", "Size")


class _Folder:
    def __init__(self, types: Types, versions: Mapping[str, int]) -> None:
        self._types, self._versions = types, versions
        self.read: set[ir.Node] = set()

    def fold(self, node: ir.Node) -> bool:
        """Make a node a constant if its value is known; say whether it was."""
        if node.domain != "" or node.op_type == "Constant" or len(node.outputs) != 1:
            return False
        if element_type(self._types, node.outputs[0]) not in EXACT:
            return False
        value = self._value(node) if _may_fold(node) else None
        if value is None or value.size > MOST_ELEMENTS:
            return False
        self.read.update(filter(None, (v.producer() for v in node.inputs if v is not None)))
        for place in range(len(node.inputs)):
            node.replace_input_with(place, None)
        node.resize_inputs(0)
        node.op_type = "Constant"
        node.attributes.clear()
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(value))
        return True

    def _value(self, node: ir.Node) -> np.ndarray[Any, Any] | None:
        if node.op_type in ("Shape", "Size") and not node.attributes:
            dims = self._static_shape(node.inputs[0])
            if dims is not None:
                return np.array(dims if node.op_type == "Shape" else np.prod(dims, dtype=np.int64), np.int64)
        constants = [_constant(value) for value in node.inputs if value is not None]
        known = constants and all(value is not None for value in constants)
        if not known or node.op_type in _RANDOM or any(a.is_ref() for a in node.attributes.values()):
            return None
        return self._computed(node)

    def _static_shape(self, value: ir.Value | None) -> list[int] | None:
        known = self._types.get(value) if value is not None else None
        if known is None or not known.tensor_type.HasField("shape"):
            return None
        dims = known.tensor_type.shape.dim
        return [d.dim_value for d in dims] if all(d.HasField("dim_value") for d in dims) else None

    def _computed(self, node: ir.Node) -> np.ndarray[Any, Any] | None:
        graph = onnx.GraphProto(name="fold", node=[ShadowWriter().node(node)])
        graph.output.add(name=node.outputs[0].name or "")
        feeds = {value.name or "": _constant(value) for value in node.inputs if value is not None}
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in feeds)
        model = onnx.ModelProto(ir_version=8, graph=graph, opset_import=imports(self._versions))
        try:
            (result,) = ReferenceEvaluator(model).run(None, dict[str, Any](feeds))
        except Exception:  # the evaluator raises whatever it likes; then the node stays
            return None
        return result if isinstance(result, np.ndarray) else np.asarray(result)


def _constant(value: ir.Value) -> np.ndarray[Any, Any] | None:
    """Return the number that a Constant node makes, if it is small."""
    node = value.producer()
    if node is None or node.op_type != "Constant" or node.domain != "" or len(node.attributes) != 1:
        return None
    (attribute,) = node.attributes.values()
    if attribute.is_ref():
        return None
    if attribute.name == "value":
        tensor = attribute.as_tensor()
        return tensor.numpy() if tensor.size <= MOST_ELEMENTS else None
    kinds = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
    }
    kind = kinds.get(attribute.name)
    return None if kind is None else np.array(attribute.value, kind)


def _remove_unused_constants(graph: ir.Graph, read: set[ir.Node]) -> None:
    """Remove the constants that were folded into others and that nothing reads any more."""
    for node in [node for node in all_nodes(graph) if node in read]:
        value = node.outputs[0]
        if node.op_type == "Constant" and not value.uses() and not value.is_graph_output():
            assert node.graph is not None
            node.graph.remove(node, safe=True)
