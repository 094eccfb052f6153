"""Whether the names in a model are text; protobuf reads any bytes, and gives them as bytes then."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import onnx

from onnx_inline.errors import NotAModelError


def check_texts(model: onnx.ModelProto, path: str) -> None:
    """Refuse a model with functions if a name in its nodes or functions is no UTF-8.

    A model without functions is copied, whatever its names are; to look at a million of them would take a
    second.

    Raises:
        NotAModelError: naming the field.
    """
    if not model.functions:
        return
    for field, texts in _texts(model):
        for text in texts:
            if not isinstance(text, str):
                raise NotAModelError(
                    f"has a {field} that is no UTF-8 text, {text[:50]!r}",
                    path=path,
                    field=field,
                    hint="it may be damaged: fetch or export the model again",
                )


def _texts(model: onnx.ModelProto) -> Iterator[tuple[str, Iterable[str | bytes]]]:
    graphs = [model.graph]
    for function in model.functions:
        yield "FunctionProto", (function.name, function.domain, function.overload)
        yield "FunctionProto", itertools.chain(function.input, function.output, function.attribute)
        yield from _in_nodes(function.node, graphs)
    while graphs:
        graph = graphs.pop()
        yield "ValueInfoProto.name", (value.name for value in itertools.chain(graph.input, graph.output))
        yield from _in_nodes(graph.node, graphs)


def _in_nodes(
    nodes: Iterable[onnx.NodeProto], graphs: list[onnx.GraphProto]
) -> Iterator[tuple[str, Iterable[str | bytes]]]:
    for node in nodes:
        yield "NodeProto", (node.op_type, node.domain, node.name, *node.input, *node.output)
        for attribute in node.attribute:
            yield "AttributeProto.name", (attribute.name, attribute.ref_attr_name)
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            graphs += attribute.graphs
