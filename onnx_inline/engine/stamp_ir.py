"""Templates written as ir.Nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import onnx_ir as ir

from onnx_inline.engine.body import Attribute, Graphs, Node, Slot, Subgraph
from onnx_inline.engine.flatten import Template
from onnx_inline.engine.provenance import provenance_of
from onnx_inline.engine.read_ir import QUANTIZATION


class _Recipe(NamedTuple):
    """What all stamps of a node share."""

    domain: str
    op_type: str
    overload: str
    inputs: tuple[Slot | None, ...]
    outputs: tuple[Slot | None, ...]
    attributes: tuple[Attribute, ...]
    shared: tuple[ir.Attr, ...] | None
    version: int | None
    doc_string: str | None
    node: Node


class IrStamper:
    """Stamps templates as nodes.

    ``own_names`` says that every value inside has a name of its own (``names="flat"``) instead of the call
    site's path in front of its relative name; ``provenance`` that nodes say where they came from.
    """

    def __init__(self, *, own_names: bool, provenance: bool) -> None:
        self._own_names, self._provenance = own_names, provenance
        self._recipes: dict[int, tuple[list[_Recipe], list[str], list[str]]] = {}

    def stamp(
        self,
        template: Template,
        site: str,
        values: Sequence[ir.Value],
        names: Sequence[str],
        metadata: Mapping[str, str],
    ) -> list[ir.Node]:
        """Return the template's nodes.

        Args:
            template: what to write.
            site: the call site's name, the beginning of all names inside.
            values: the values of the template's inputs and outputs.
            names: with own names, those of the values and of the nodes inside.
            metadata: what every node gets from the call site, under its own.
        """
        if id(template) not in self._recipes:
            self._recipes[id(template)] = _prepared(template)
        recipes, inner, labels = self._recipes[id(template)]
        if self._own_names:
            inner, labels = list(names[: len(inner)]), list(names[len(inner) :])
        else:
            prefix = f"{site}/"
            inner, labels = [prefix + name for name in inner], [prefix + label for label in labels]
        slots = [*values, *[ir.Value(name=name) for name in inner]]
        origin = (site, template) if self._provenance else None
        return _Stamp(slots, iter(labels), metadata, origin).nodes(recipes)


def _prepared(template: Template) -> tuple[list[_Recipe], list[str], list[str]]:
    recipes = [_recipe(node) for node in template.nodes]
    return recipes, [str(name) for name in template.names], [str(label) for label in template.labels]


def _recipe(node: Node) -> _Recipe:
    shared = None
    if not any(isinstance(a, Graphs) for a in node.attributes):
        shared = tuple(a.payload for a in node.attributes)
    op, source = node.op, node.source
    version, doc_string = (None, None) if source is None else (source.version, source.doc_string)
    return _Recipe(
        op.domain,
        op.name,
        op.overload,
        node.inputs,
        node.outputs,
        node.attributes,
        shared,
        version,
        doc_string,
        node,
    )


class _Stamp:
    """One stamp of a template: the actual values, and the labels still to be given."""

    def __init__(
        self,
        slots: list[ir.Value],
        labels: Iterator[str],
        metadata: Mapping[str, str],
        origin: tuple[str, Template] | None,
    ) -> None:
        self._slots, self._labels, self._metadata, self._origin = slots, labels, metadata, origin

    def nodes(self, recipes: Sequence[_Recipe]) -> list[ir.Node]:
        """Return the nodes."""
        slots, labels = self._slots, self._labels
        plain = not self._metadata and self._origin is None
        out = []
        for recipe, label in zip(recipes, labels, strict=False):
            domain, op_type, overload, inputs, outputs, attributes, shared, version, doc_string, node = recipe
            made = ir.Node(
                domain,
                op_type,
                [None if slot is None else slots[slot] for slot in inputs],
                shared if shared is not None else self._attributes(attributes),
                overload=overload,
                outputs=[ir.Value(name="") if slot is None else slots[slot] for slot in outputs],
                version=version,
                name=label,
                doc_string=doc_string,
            )
            if node.source is not None and node.source.device_configurations:
                self._shard(made, node)
            if node.metadata or not plain:
                made.metadata_props.update(self._merged(node))
            out.append(made)
        return out

    def _merged(self, node: Node) -> Mapping[str, str]:
        metadata = {**self._metadata, **node.metadata}
        if self._origin is None:
            return metadata
        site, template = self._origin
        return {**provenance_of(site, template.function, node.calls), **metadata}

    def _shard(self, made: ir.Node, node: Node) -> None:
        source: ir.Node = node.source
        values = dict(zip([*source.inputs, *source.outputs], [*node.inputs, *node.outputs], strict=False))
        made.device_configurations = tuple(
            dataclasses.replace(c, sharding_specs=tuple(self._sharding(c.sharding_specs, values)))
            for c in source.device_configurations
        )

    def _sharding(self, specs: Any, values: Mapping[Any, Slot | None]) -> Iterator[Any]:
        for spec in specs:
            slot = values.get(spec.value)
            if slot is not None:
                yield dataclasses.replace(spec, value=self._slots[slot])

    def _attributes(self, attributes: Sequence[Attribute]) -> list[ir.Attr]:
        return [self._attribute(a) if isinstance(a, Graphs) else a.payload for a in attributes]

    def _attribute(self, attribute: Graphs) -> ir.Attr:
        payload: ir.Attr = attribute.payload
        graphs = [self._graph(graph) for graph in attribute.graphs]
        value = graphs[0] if payload.type == ir.AttributeType.GRAPH else graphs
        return ir.Attr(attribute.name, payload.type, value, doc_string=payload.doc_string)

    def _graph(self, graph: Subgraph) -> ir.Graph:
        source: ir.Graph = graph.source
        slots = self._slots
        for slot, value in graph.typed:
            copy_annotations(value, slots[slot])
        for slot, annotation, named in graph.quantized:
            present = {key: named.get(n, n) for key, n in annotation.items() if named.get(n, n) is not None}
            slots[slot].meta[QUANTIZATION] = {
                key: value if isinstance(value, str) else slots[value].name for key, value in present.items()
            }
        for slot, value in graph.initializers:
            slots[slot].const_value = value.const_value
        made = ir.Graph(
            [slots[slot] for slot in graph.inputs],
            [slots[slot] for slot in graph.outputs],
            nodes=self.nodes([_recipe(node) for node in graph.nodes]),
            initializers=[slots[slot] for slot, _ in graph.initializers],
            doc_string=source.doc_string,
            opset_imports=dict(source.opset_imports),
            name=source.name,
        )
        made.metadata_props.update(source.metadata_props)
        made.meta.update(source.meta)
        return made


def copy_annotations(source: ir.Value, target: ir.Value, *, symbols: bool = False) -> None:
    """Give a value the type, shape, doc string and metadata of another.

    A function's symbolic dimension is not the model's of that name: it is copied as unknown unless
    ``symbols`` says that both values are in one scope.
    """
    target.type = source.type
    if source.shape is not None:
        target.shape = source.shape.copy() if symbols else without_symbols(source.shape)
    target.doc_string = source.doc_string
    if source.metadata_props:
        target.metadata_props.update(source.metadata_props)
    for key, value in source.meta.items():
        if key != QUANTIZATION or symbols:
            target.meta[key] = value


def without_symbols(shape: ir.Shape) -> ir.Shape:
    """Return the shape with its symbolic dimensions unknown."""
    return ir.Shape([dim if isinstance(dim, int) else None for dim in shape])
