"""Function bodies read from onnx_ir objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

import onnx
import onnx_ir as ir

from onnx_inline.engine.body import Attribute, Body, Graphs, Node, Plain, Reference, Signature, Slot, Subgraph
from onnx_inline.engine.survey import DEEPEST, TOO_DEEP, agreed_imports
from onnx_inline.errors import InvalidModelError
from onnx_inline.identifiers import OperatorId, normalized_domain

#: the key under which onnx_ir keeps a value's quantization annotation
QUANTIZATION = "quant_parameter_tensor_names"


def operator_id(node: ir.Node) -> OperatorId:
    """Return the identifier of the operator or function that a node calls."""
    return OperatorId(node.domain, node.op_type, node.overload)


def function_id(function: ir.Function) -> OperatorId:
    """Return the identifier that calls of a function use."""
    return OperatorId(normalized_domain(function.domain), function.name, function.overload)


def imports_of(owner: ir.Model | ir.Function) -> dict[str, int]:
    """Return the opset imports by normalized domain."""
    function = str(function_id(owner)) if isinstance(owner, ir.Function) else None
    where = f"function {function}" if function else "the model"
    return agreed_imports(owner.opset_imports.items(), where, function)


def absent(output: ir.Value) -> bool:
    """Say whether an output is left out: onnx_ir gives it an empty name."""
    return output.name == ""


class BodyReader:
    """Gives every value of a body a slot while reading it; one reader reads one body.

    With ``free``, a value from outside gets a slot as well; otherwise it is an error.  ``sure`` are the
    attributes of the function around that have a default.
    """

    def __init__(
        self,
        where: str,
        imports: Mapping[str, int],
        *,
        function: str | None,
        free: bool = False,
        sure: Collection[str] = (),
    ) -> None:
        self._where, self._imports, self._function, self._free = where, imports, function, free
        self._sure = sure
        self._scopes: list[dict[str, Slot]] = [{}]
        self._slots: dict[ir.Value, Slot] = {}
        self.labels: list[str] = []
        self.values: list[ir.Value] = []

    def error(self, message: str) -> InvalidModelError:
        """Return an error about what is being read."""
        return InvalidModelError(f"{self._where}: {message}", function=self._function)

    def define(self, value: ir.Value) -> Slot:
        """Return a new slot for a value."""
        if value in self._slots:
            raise self.error(f"value {value.name!r} is defined twice; rename one of the definitions")
        self._slots[value] = self._scopes[-1][value.name or ""] = slot = len(self.labels)
        self.labels.append(value.name or "value")
        self.values.append(value)
        return slot

    def use(self, value: ir.Value, reader: str) -> Slot:
        """Return the slot of a value that is read."""
        if value not in self._slots:
            if not self._free:
                raise self.error(f"{reader} reads {value.name!r}, which nothing defines before it")
            return self.define(value)
        return self._slots[value]

    def known(self, value: ir.Value) -> Slot | None:
        """Return the slot of a value if it has one."""
        return self._slots.get(value)

    def nodes(self, nodes: Iterable[ir.Node]) -> list[Node]:
        """Read nodes in order."""
        return [self.node(node) for node in nodes]

    def node(self, node: ir.Node) -> Node:
        """Read one node."""
        return Node(
            op=operator_id(node),
            inputs=tuple(
                None if v is None or v.name == "" else self.use(v, node.op_type) for v in node.inputs
            ),
            attributes=tuple(self.attribute(a) for a in node.attributes.values()),
            outputs=tuple(None if absent(v) else self.define(v) for v in node.outputs),
            label=node.name or "",
            source=node,
            imports=self._imports,
            metadata=dict(node.metadata_props) if node.metadata_props else {},
        )

    def attribute(self, attribute: ir.Attr) -> Attribute:
        """Read one attribute."""
        if attribute.is_ref():
            ref = attribute.ref_attr_name or ""
            return Reference(attribute.name, ref, attribute.type.value, attribute, ref in self._sure)
        if attribute.type == ir.AttributeType.GRAPH:
            return Graphs(attribute.name, (self.graph(attribute.as_graph()),), attribute)
        if attribute.type == ir.AttributeType.GRAPHS:
            return Graphs(attribute.name, tuple(self.graph(g) for g in attribute.as_graphs()), attribute)
        return Plain(attribute.name, attribute)

    def graph(self, graph: ir.Graph) -> Subgraph:
        """Read a subgraph."""
        if len(self._scopes) > DEEPEST:
            raise self.error(TOO_DEEP)
        self._scopes.append({})
        inputs = tuple(self.define(value) for value in graph.inputs)
        initializers = [
            # An input with an initializer of its name has a default value: one value, not two.
            (self.define(value) if self.known(value) is None else self._slots[value], value)
            for value in graph.initializers.values()
        ]
        nodes = self.nodes(graph)
        outputs = tuple(self.use(value, f"graph {graph.name!r}") for value in graph.outputs)
        own = {value.name: self._slots[value] for value in _made_in(graph)}
        self._refuse_foreign_outputs(graph)
        made = tuple(own.values())
        quantized = tuple(self._annotated(slot) for slot in made if self._quantization(slot))
        self._scopes.pop()
        return Subgraph(
            inputs=inputs,
            outputs=outputs,
            nodes=nodes,
            initializers=tuple(initializers),
            typed=tuple((slot, self.values[slot]) for slot in made),
            quantized=quantized,
            source=graph,
        )

    def _refuse_foreign_outputs(self, graph: ir.Graph) -> None:
        made = {self._slots[value] for value in _made_in(graph)}
        foreign = next((v for v in graph.outputs if self._slots[v] not in made), None)
        if foreign is not None:  # an ir.Value is the output of one graph at most
            raise self.error(
                f"graph {graph.name!r} returns {foreign.name!r}, which it does not make; "
                "put an Identity in between"
            )

    def _quantization(self, slot: Slot) -> Mapping[str, str]:
        value = self.values[slot]
        found: Mapping[str, str] = value.meta.get(QUANTIZATION) or {}
        return found

    def _annotated(self, slot: Slot) -> tuple[Slot, Any, dict[str, Slot]]:
        # An annotation names values, which may be in any graph around.
        annotation = self._quantization(slot)
        known = {name: found for scope in self._scopes for name, found in scope.items()}
        return slot, annotation, {name: known[name] for name in annotation.values() if name in known}


def _made_in(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that belong to a graph, not those of graphs in it."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from (value for value in node.outputs if not absent(value))


def read_function(function: ir.Function) -> Signature:
    """Read a function: its signature and its body.

    Raises:
        InvalidModelError: the body reads or returns what nothing defines.
    """
    identifier = function_id(function)
    imports = imports_of(function)
    reader = BodyReader(f"function {identifier}", imports, function=str(identifier))
    inputs = tuple(reader.define(value) for value in function.inputs)
    defaults = [reader.attribute(a) for a in function.attributes.values() if a.value is not None]
    nodes = reader.nodes(function)
    outputs = tuple(_output(reader, value) for value in function.outputs)
    return Signature(
        id=identifier,
        inputs=tuple(value.name or "value" for value in function.inputs),
        outputs=tuple(value.name or "value" for value in function.outputs),
        declared=tuple(function.attributes),
        defaults={a.name: a for a in defaults if not isinstance(a, Reference)},
        imports=imports,
        body=Body(inputs, outputs, nodes, reader.labels, _annotations(reader)),
        source=function,
    )


def _annotations(reader: BodyReader) -> dict[Slot, Any]:
    return {slot: v for slot, v in enumerate(reader.values) if v.type is not None or v.shape is not None}


def _output(reader: BodyReader, value: ir.Value) -> Slot:
    slot = reader.known(value)
    if slot is None:
        raise reader.error(
            f"its output {value.name!r} is defined by none of its nodes; the exporter that wrote the model "
            "left it out: export again, or keep this function"
        )
    return slot


def read_site(
    node: ir.Node, where: str, imports: Mapping[str, int], sure: Collection[str]
) -> tuple[Node, list[str], list[ir.Value]]:
    """Read a call site on its own; whatever it reads or captures is a free slot.

    Returns:
        The node, and the label and the value of each of its slots.
    """
    reader = BodyReader(where, imports, function=None, free=True, sure=sure)
    return reader.node(node), reader.labels, reader.values


class IrForm:
    """Payloads are ir.Attrs, which are shared: they never change."""

    def key(self, payload: ir.Attr) -> Hashable:
        """Return the type and the value; tensors and types count as equal only if they are one object."""
        value = payload.value
        if payload.type in (
            ir.AttributeType.TENSOR,
            ir.AttributeType.SPARSE_TENSOR,
            ir.AttributeType.TYPE_PROTO,
        ):
            value = id(value)
        elif payload.type in (
            ir.AttributeType.TENSORS,
            ir.AttributeType.SPARSE_TENSORS,
            ir.AttributeType.TYPE_PROTOS,
        ):
            value = tuple(id(item) for item in value)
        elif isinstance(value, float | tuple):
            value = repr(value)  # tells -0.0 from 0.0, and nan from nothing
        return payload.type.value, value

    def type_of(self, payload: ir.Attr) -> int:
        """Return the attribute's type."""
        return payload.type.value

    def renamed(self, payload: ir.Attr, name: str) -> ir.Attr:
        """Return the value under another name."""
        if payload.name == name:
            return payload
        return ir.Attr(
            name, payload.type, payload.value, payload.ref_attr_name, doc_string=payload.doc_string
        )

    def reference(self, payload: ir.Attr, ref: str) -> ir.Attr:
        """Return a reference to another attribute."""
        return ir.RefAttr(payload.name, ref, payload.type, doc_string=payload.doc_string)

    def to_proto(self, node: Node, name: Callable[[Slot], str]) -> onnx.NodeProto:
        """Return a NodeProto with the names given."""
        made = onnx.NodeProto(op_type=node.op.name, domain=node.op.domain, overload=node.op.overload)
        made.input.extend("" if slot is None else name(slot) for slot in node.inputs)
        made.output.extend("" if slot is None else name(slot) for slot in node.outputs)
        made.attribute.extend(ir.serde.serialize_attribute(a.payload) for a in node.attributes)
        return made

    def from_proto(self, attribute: onnx.AttributeProto) -> ir.Attr:
        """Return the attribute as onnx_ir holds it."""
        return ir.serde.deserialize_attribute(attribute)
