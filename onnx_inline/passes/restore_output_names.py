"""Give the outputs of a graph the names that an exporter dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.errors import OutputNamesError
from onnx_inline.inference import subgraphs
from onnx_inline.passes.base import refusing


@dataclass(frozen=True)
class RestoreOutputNamesPass(ir.passes.InPlacePass):
    """Rename the graph's outputs, in order; torch's exporter calls them ``10`` where functions are kept.

    An output that is also an input or an initializer, or is listed twice, keeps that name there and gets an
    Identity for the new one.

    Attributes:
        names: the new names, one an output.

    Before, with ``names=[logits]``::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] out_10) { out_10 = Relu (x) }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] logits) { logits = Relu (x) }

    Raises:
        OutputNamesError: there are more or fewer names than outputs, or a name is taken or given twice.
    """

    name: ClassVar[str] = "restore-output-names"

    names: tuple[str, ...] = ()

    @refusing
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rename in place."""
        outputs = list(model.graph.outputs)
        if [value.name for value in outputs] == list(self.names):
            return ir.passes.PassResult(model, False)
        _refuse(model.graph, self.names)
        for place, (value, name) in enumerate(zip(outputs, self.names, strict=True)):
            if value.name != name:
                _rename(model.graph, place, value, name)
        return ir.passes.PassResult(model, True)


def _refuse(graph: ir.Graph, names: tuple[str, ...]) -> None:
    outputs = list(graph.outputs)
    if len(names) != len(outputs):
        raise OutputNamesError(f"{len(names)} names for {len(outputs)} outputs: {', '.join(names)}", "")
    leaving = {v.name for v, n in zip(outputs, names, strict=True) if v.name != n and not _is_fixed(graph, v)}
    taken = {value.name for value in _values(graph)} - leaving
    for place, name in enumerate(names):
        if not name or name in names[:place]:
            raise OutputNamesError(f"the name {name!r} is empty or given to two outputs", name)
        if name in taken and outputs[place].name != name:
            raise OutputNamesError(f"the name {name!r} belongs to another value already", name)


def _is_fixed(graph: ir.Graph, value: ir.Value) -> bool:
    """Say whether an output's name is also that of an input, an initializer, or another output."""
    listed = sum(value is other for other in graph.outputs)
    return value.is_graph_input() or value.is_initializer() or listed > 1


def _rename(graph: ir.Graph, place: int, value: ir.Value, name: str) -> None:
    if not _is_fixed(graph, value):
        value.name = name
        return
    identity = ir.Node("", "Identity", [value], name="")
    made = identity.outputs[0]
    made.name, made.type, made.shape = name, value.type, value.shape
    graph.append(identity)
    graph.outputs[place] = made


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs
        for inner in subgraphs(node):
            yield from _values(inner)
