"""Templates written as serialized NodeProtos.

A template is rendered once for each combination of name *lengths*: the message lengths on the wire are then
fixed, and a stamp is the fixed pieces joined with the names in between.  Call sites of one kind have names of
few lengths (``layer_3``, ``layer_12``), so nearly every stamp is a single ``bytes.join``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import onnx

from onnx_inline.engine.body import Attribute, Graphs, Node, Slot, Subgraph
from onnx_inline.engine.flatten import Template
from onnx_inline.engine.provenance import provenance_of
from onnx_inline.engine.value_types import drop_symbols

#: how many renderings of one template are kept
KEPT = 64


def varint(number: int) -> bytes:
    """Return a number in protobuf's variable-length encoding."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def length_delimited(tag: bytes, payload: bytes) -> bytes:
    """Return a field holding bytes."""
    return tag + varint(len(payload)) + payload


class Hole(NamedTuple):
    """A name on the wire: actual name number ``number``, then fixed text."""

    number: int
    suffix: bytes


class Piece:
    """A message being built, with holes for names whose lengths are known."""

    __slots__ = ("_lengths", "parts", "size")

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = lengths
        self.parts: list[bytes | int] = []
        self.size = 0

    def raw(self, data: bytes) -> None:
        """Add finished bytes."""
        self.parts.append(data)
        self.size += len(data)

    def name(self, tag: bytes, hole: Hole) -> None:
        """Add a string field that holds a name."""
        length = self._lengths[hole.number] + len(hole.suffix)
        head = tag + varint(length)
        self.parts += (head, hole.number, hole.suffix)
        self.size += len(head) + length

    def message(self, tag: bytes, piece: Piece) -> None:
        """Add a submessage."""
        self.raw(tag + varint(piece.size))
        self.parts += piece.parts
        self.size += piece.size


class Rendering:
    """A template for names of given lengths: fixed bytes and the holes between them."""

    def __init__(self, parts: Iterable[bytes | int]) -> None:
        fixed: list[bytes] = [b""]
        holes: list[int] = []
        run: list[bytes] = []
        for part in parts:
            if isinstance(part, int):
                fixed[-1] = b"".join(run)
                run = []
                holes.append(part)
                fixed.append(b"")
            else:
                run.append(part)
        fixed[-1] = b"".join(run)
        self._buffer: list[bytes] = [b""] * (2 * len(holes) + 1)
        self._buffer[0::2] = fixed
        self._get: Callable[[Sequence[bytes]], Any] | None = itemgetter(*holes) if holes else None
        self._single = len(holes) == 1

    def stamped(self, names: Sequence[bytes]) -> bytes:
        """Return the bytes with the names filled in."""
        if self._get is not None:
            filled = self._get(names)
            self._buffer[1::2] = (filled,) if self._single else filled
        return b"".join(self._buffer)


class ProtoStamper:
    """Stamps templates; renderings are kept between stamps.

    ``own_names`` says that every value inside has a name of its own (``names="flat"``) instead of the call
    site's path in front of its relative name; ``provenance`` that nodes say where they came from.
    """

    def __init__(self, *, own_names: bool, provenance: bool) -> None:
        self.own_names, self._provenance = own_names, provenance
        self._renderings: dict[int, dict[object, Rendering]] = {}
        self._serialized: dict[int, tuple[object, bytes]] = {}

    def stamp(
        self, template: Template, site: str, names: Sequence[str], metadata: Mapping[str, str]
    ) -> bytes:
        """Return the template's nodes as serialized ``GraphProto.node`` fields.

        Args:
            template: what to write.
            site: the call site's name, the beginning of all names inside.
            names: the names of inputs and outputs; with own names also those of the values and of the nodes.
            metadata: what every node gets from the call site, under its own.
        """
        encoded = [f"{site}/".encode(), *(name.encode() for name in names)]
        known = self._renderings.setdefault(id(template), {})
        key = (tuple(map(len, encoded)), tuple(metadata.items()), site if self._provenance else "")
        if (rendering := known.get(key)) is None:
            if len(known) >= KEPT:
                known.clear()
            renderer = _Renderer(template, key[0], metadata, self)
            rendering = known[key] = Rendering(renderer.parts(site if self._provenance else None))
        return rendering.stamped(encoded)

    def without(self, message: Any, *fields: str) -> bytes:
        """Return a message serialized without some of its fields (unknown ones are kept), remembered."""
        known = self._serialized.get(id(message))
        if known is None:
            copy = type(message)()
            copy.CopyFrom(message)
            for field in fields:
                if field in message.DESCRIPTOR.fields_by_name:  # onnx before 1.18 knows no devices
                    copy.ClearField(field)
            # The message is kept as well, or another could get its id.
            known = self._serialized[id(message)] = (message, copy.SerializeToString(deterministic=True))
        return known[1]

    def typed(self, entry: onnx.ValueInfoProto) -> bytes:
        """Return a value_info entry of a function without its name and its symbolic dimensions."""
        known = self._serialized.get(id(entry))
        if known is None:
            copy = onnx.ValueInfoProto()
            copy.CopyFrom(entry)
            copy.ClearField("name")
            drop_symbols(copy.type)
            known = self._serialized[id(entry)] = (entry, copy.SerializeToString(deterministic=True))
        return known[1]


_NODE_FIELDS = (
    "input",
    "output",
    "name",
    "op_type",
    "attribute",
    "domain",
    "overload",
    "metadata_props",
    "device_configurations",
)
_GRAPH_FIELDS = (
    "node",
    "initializer",
    "sparse_initializer",
    "input",
    "output",
    "value_info",
    "quantization_annotation",
)


class _Renderer:
    """Renders one template for names of given lengths."""

    def __init__(
        self, template: Template, lengths: Sequence[int], metadata: Mapping[str, str], stamper: ProtoStamper
    ) -> None:
        self._template, self._lengths, self._stamper = template, lengths, stamper
        self._metadata = metadata
        outer = template.inputs + template.outputs
        values, labels = template.names, template.labels
        if stamper.own_names:
            self._holes = [Hole(n + 1, b"") for n in range(outer + len(values))]
            self._labels = iter([Hole(outer + len(values) + n + 1, b"") for n in range(len(labels))])
        else:
            self._holes = [Hole(n + 1, b"") for n in range(outer)]
            self._holes += [Hole(0, str(name).encode()) for name in values]
            self._labels = iter([Hole(0, str(label).encode()) for label in labels])
        self._site: str | None = None

    def parts(self, site: str | None) -> list[bytes | int]:
        """Return the pieces of all nodes; with a site, provenance is written."""
        self._site = site
        out = Piece(self._lengths)
        for node in self._template.nodes:
            out.message(b"\x0a", self._node(node))
        return out.parts

    def _names(self, piece: Piece, tag: bytes, slots: Iterable[Slot | None]) -> None:
        for slot in slots:
            if slot is None:
                piece.raw(tag + b"\x00")
            else:
                piece.name(tag, self._holes[slot])

    def _node(self, node: Node) -> Piece:
        piece = Piece(self._lengths)
        self._names(piece, b"\x0a", node.inputs)
        self._names(piece, b"\x12", node.outputs)
        piece.name(b"\x1a", next(self._labels))
        piece.raw(length_delimited(b"\x22", node.op.name.encode()))
        for attribute in node.attributes:
            piece.message(b"\x2a", self._attribute(attribute))
        if node.op.domain:
            piece.raw(length_delimited(b"\x3a", node.op.domain.encode()))
        if node.op.overload:
            piece.raw(length_delimited(b"\x42", node.op.overload.encode()))
        for key, value in self._merged(node).items():
            entry = length_delimited(b"\x0a", key.encode()) + length_delimited(b"\x12", value.encode())
            piece.raw(length_delimited(b"\x4a", entry))
        if node.source is not None:
            self._from_source(piece, node)
        return piece

    def _merged(self, node: Node) -> Mapping[str, str]:
        metadata = {**self._metadata, **node.metadata} if self._metadata else node.metadata
        if self._site is None:
            return metadata
        return {**provenance_of(self._site, self._template.function, node.calls), **metadata}

    def _from_source(self, piece: Piece, node: Node) -> None:
        """Add what is copied, doc string and unknown fields, and the sharding, which names values."""
        source: onnx.NodeProto = node.source
        piece.raw(self._stamper.without(source, *_NODE_FIELDS))
        configurations = getattr(source, "device_configurations", ())
        if not configurations:
            return
        slots = dict(zip([*source.input, *source.output], [*node.inputs, *node.outputs], strict=False))
        for configuration in configurations:
            out = Piece(self._lengths)
            out.raw(self._stamper.without(configuration, "sharding_spec"))
            for spec in configuration.sharding_spec:
                slot = slots.get(spec.tensor_name)
                if slot is not None:
                    out.message(b"\x12", self._named(b"\x0a", slot, spec, "tensor_name"))
            piece.message(b"\x52", out)

    def _named(self, tag: bytes, slot: Slot, message: Any, field: str) -> Piece:
        """Return a message with its name field replaced by a value's name."""
        piece = Piece(self._lengths)
        piece.name(tag, self._holes[slot])
        piece.raw(self._stamper.without(message, field))
        return piece

    def _attribute(self, attribute: Attribute) -> Piece:
        piece = Piece(self._lengths)
        if not isinstance(attribute, Graphs):
            piece.raw(self._stamper.without(attribute.payload))
            return piece
        piece.raw(self._stamper.without(attribute.payload, "g", "graphs"))
        tag = b"\x32" if attribute.payload.HasField("g") else b"\x5a"
        for graph in attribute.graphs:
            piece.message(tag, self._graph(graph))
        return piece

    def _graph(self, graph: Subgraph) -> Piece:
        source: onnx.GraphProto = graph.source
        piece = Piece(self._lengths)
        for node in graph.nodes:
            piece.message(b"\x0a", self._node(node))
        piece.raw(self._stamper.without(source, *_GRAPH_FIELDS))
        for slot, tensor in graph.initializers:
            self._initializer(piece, slot, tensor)
        for tag, slots, entries in (
            (b"\x5a", graph.inputs, source.input),
            (b"\x62", graph.outputs, source.output),
        ):
            for slot, entry in zip(slots, entries, strict=True):
                piece.message(tag, self._typed(slot, entry))
        for slot, entry in graph.typed:
            piece.message(b"\x6a", self._typed(slot, entry))
        for slot, annotation, named in graph.quantized:
            piece.message(b"\x72", self._quantized(slot, annotation, named))
        return piece

    def _typed(self, slot: Slot, entry: onnx.ValueInfoProto) -> Piece:
        piece = Piece(self._lengths)
        piece.name(b"\x0a", self._holes[slot])
        piece.raw(self._stamper.typed(entry))
        return piece

    def _initializer(self, piece: Piece, slot: Slot, tensor: Any) -> None:
        if isinstance(tensor, onnx.TensorProto):
            piece.message(b"\x2a", self._named(b"\x42", slot, tensor, "name"))
            return
        sparse = Piece(self._lengths)
        sparse.message(b"\x0a", self._named(b"\x42", slot, tensor.values, "name"))
        sparse.raw(self._stamper.without(tensor, "values"))
        piece.message(b"\x7a", sparse)

    def _quantized(
        self, slot: Slot, annotation: onnx.TensorAnnotation, named: Mapping[str, Slot | None]
    ) -> Piece:
        piece = Piece(self._lengths)
        piece.name(b"\x0a", self._holes[slot])
        piece.raw(self._stamper.without(annotation, "tensor_name", "quant_parameter_tensor_names"))
        for entry in annotation.quant_parameter_tensor_names:
            pair = Piece(self._lengths)
            pair.raw(length_delimited(b"\x0a", entry.key.encode()))
            if entry.value not in named:
                pair.raw(length_delimited(b"\x12", entry.value.encode()))
            elif (value := named[entry.value]) is not None:
                pair.name(b"\x12", self._holes[value])
            else:
                continue
            piece.message(b"\x12", pair)
        return piece
