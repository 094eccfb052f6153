"""Turn training behaviour off in a model, everywhere in it, so that the result is still a valid model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx


def disable_training(model: onnx.ModelProto) -> None:
    """Make Dropout and BatchNormalization of ``model`` behave as in evaluation, in place.

    Dropout loses its ``training_mode`` input.  BatchNormalization loses the attribute, and the outputs that
    only training has: one that is read becomes the running statistic itself, which evaluation leaves alone.
    Subgraphs and model-local functions are treated too.

    Args:
        model: any model; it is changed.
    """
    for nodes, used in _scopes(model):
        for place, node in reversed(list(enumerate(nodes))):
            if node.domain in {"", "ai.onnx"} and node.op_type in _SWITCH:
                for extra in reversed(_SWITCH[node.op_type](node, used)):
                    nodes.insert(place + 1, extra)


def _scopes(model: onnx.ModelProto) -> Iterator[tuple[Any, set[str]]]:
    """Yield the node list of every graph and function, with the names that are read in it or below."""
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        scope = pending.pop()
        outputs = (
            scope.output if isinstance(scope, onnx.FunctionProto) else (value.name for value in scope.output)
        )
        yield scope.node, {*outputs, *_names_read(scope.node)}
        pending.extend(graph for node in scope.node for graph in _subgraphs(node))


def _names_read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Yield every name that ``nodes`` or their subgraphs read."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield from node.input
        for graph in _subgraphs(node):
            yield from (value.name for value in graph.output)
            pending.extend(graph.node)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def _evaluate_dropout(node: onnx.NodeProto, used: set[str]) -> list[onnx.NodeProto]:
    del node.input[2:]
    return []


def _evaluate_batch_normalization(node: onnx.NodeProto, used: set[str]) -> list[onnx.NodeProto]:
    """Leave the first output; return a node for each of the others that is read."""
    others = [attribute for attribute in node.attribute if attribute.name != "training_mode"]
    del node.attribute[:]
    node.attribute.extend(others)
    statistics = zip(node.input[3:5], node.output[1:3], strict=False)
    copies = [onnx.helper.make_node("Identity", [old], [new]) for old, new in statistics if new in used]
    del node.output[1:]
    return copies


_SWITCH = {"Dropout": _evaluate_dropout, "BatchNormalization": _evaluate_batch_normalization}
