"""Function bodies read from protobuf messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import onnx

from onnx_inline.engine.body import (
    GRAPH_TYPES,
    Attribute,
    Body,
    Graphs,
    Node,
    Plain,
    Reference,
    Signature,
    Slot,
    Subgraph,
)
from onnx_inline.engine.survey import DEEPEST, TOO_DEEP, agreed_imports
from onnx_inline.errors import InvalidModelError
from onnx_inline.identifiers import OperatorId, normalized_domain


def operator_id(node: onnx.NodeProto) -> OperatorId:
    """Return the identifier of the operator or function that a node calls."""
    return OperatorId(normalized_domain(node.domain), node.op_type, node.overload)


def function_id(function: onnx.FunctionProto) -> OperatorId:
    """Return the identifier that calls of a function use."""
    return OperatorId(normalized_domain(function.domain), function.name, function.overload)


def imports_of(owner: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """Return the opset imports by normalized domain."""
    function = str(function_id(owner)) if isinstance(owner, onnx.FunctionProto) else None
    where = f"function {function}" if function else "the model"
    return agreed_imports(((entry.domain, entry.version) for entry in owner.opset_import), where, function)


def node_metadata(node: onnx.NodeProto) -> dict[str, str]:
    """Return a node's metadata_props as a dictionary."""
    return {entry.key: entry.value for entry in node.metadata_props} if node.metadata_props else {}


class BodyReader:
    """Gives every value of a body a slot while reading it; one reader reads one body.

    With ``free`` given, a name that nothing defines is a value of the surroundings and is added there;
    otherwise it is an error.  ``sure`` are the attributes of the function around that have a default.
    """

    def __init__(
        self,
        where: str,
        imports: Mapping[str, int],
        *,
        function: str | None,
        free: dict[str, Slot] | None = None,
        sure: Collection[str] = (),
    ) -> None:
        self._where, self._imports, self._function, self._free = where, imports, function, free
        self._sure = sure
        self._scopes: list[dict[str, Slot]] = [{}]
        self.labels: list[str] = []

    def error(self, message: str) -> InvalidModelError:
        """Return an error about what is being read."""
        return InvalidModelError(f"{self._where}: {message}", function=self._function)

    def define(self, name: str) -> Slot:
        """Return a new slot for a name in the innermost scope."""
        scope = self._scopes[-1]
        if name in scope:
            raise self.error(f"value {name!r} is defined twice; rename one of the definitions")
        scope[name] = slot = len(self.labels)
        self.labels.append(name)
        return slot

    def use(self, name: str, reader: str) -> Slot:
        """Return the slot that a name means where it is read."""
        slot = self.known(name)
        if slot is not None:
            return slot
        if self._free is None:
            raise self.error(f"{reader} reads {name!r}, which nothing defines before it")
        self._free[name] = slot = len(self.labels)
        self.labels.append(name)
        return slot

    def known(self, name: str) -> Slot | None:
        """Return the slot that a name means here, if it has one."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None if self._free is None else self._free.get(name)

    def nodes(self, nodes: Iterable[onnx.NodeProto]) -> list[Node]:
        """Read nodes in order, defining their outputs in the innermost scope."""
        return [self.node(node) for node in nodes]

    def node(self, node: onnx.NodeProto) -> Node:
        """Read one node."""
        op = operator_id(node)
        return Node(
            op=op,
            inputs=tuple(self.use(name, node.op_type) if name else None for name in node.input),
            attributes=self.attributes(node),
            outputs=tuple(self.define(name) if name else None for name in node.output),
            label=node.name,
            source=node,
            imports=self._imports,
            metadata=node_metadata(node),
        )

    def attributes(self, node: onnx.NodeProto) -> tuple[Attribute, ...]:
        """Read a node's attributes, graphs included."""
        attributes = tuple(self.attribute(a) for a in node.attribute)
        names = [a.name for a in attributes]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise self.error(
                f"node {node.name or node.op_type!r} gives attribute {twice!r} twice; remove one"
            )
        return attributes

    def attribute(self, attribute: onnx.AttributeProto) -> Attribute:
        """Read one attribute."""
        if attribute.ref_attr_name:
            ref = attribute.ref_attr_name
            return Reference(attribute.name, ref, attribute.type, attribute, ref in self._sure)
        single, several = attribute.HasField("g"), len(attribute.graphs) > 0
        if (single or several) and attribute.type not in (0, GRAPH_TYPES[0] if single else GRAPH_TYPES[1]):
            kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise self.error(f"attribute {attribute.name!r} holds a graph but says that its type is {kind}")
        if single:
            return Graphs(attribute.name, (self.graph(attribute.g),), attribute)
        if several:
            return Graphs(attribute.name, tuple(self.graph(g) for g in attribute.graphs), attribute)
        return Plain(attribute.name, attribute)

    def graph(self, graph: onnx.GraphProto) -> Subgraph:
        """Read a subgraph in a scope of its own."""
        if len(self._scopes) > DEEPEST:
            raise self.error(TOO_DEEP)
        self._scopes.append({})
        try:
            inputs = tuple(self.define(value.name) for value in graph.input)
            initializers = self._initializers(graph)
            nodes = self.nodes(graph.node)
            outputs = tuple(self.use(value.name, f"graph {graph.name!r}") for value in graph.output)
            own = self._scopes[-1]
            return Subgraph(
                inputs=inputs,
                outputs=outputs,
                nodes=nodes,
                initializers=initializers,
                typed=tuple((own[v.name], v) for v in graph.value_info if v.name in own),
                quantized=tuple(
                    self._annotation(a) for a in graph.quantization_annotation if a.tensor_name in own
                ),
                source=graph,
            )
        finally:
            self._scopes.pop()

    def _initializers(self, graph: onnx.GraphProto) -> tuple[tuple[Slot, Any], ...]:
        inputs = {value.name for value in graph.input}
        named = [(t.name, t) for t in graph.initializer] + [
            (s.values.name, s) for s in graph.sparse_initializer
        ]
        # An input with an initializer of its name has a default value: one value, not two.
        return tuple(
            (self._scopes[-1][name] if name in inputs else self.define(name), tensor)
            for name, tensor in named
        )

    def _annotation(self, annotation: onnx.TensorAnnotation) -> tuple[Slot, Any, dict[str, Slot]]:
        names = [entry.value for entry in annotation.quant_parameter_tensor_names]
        named = {name: slot for name in names if (slot := self.known(name)) is not None}
        return self._scopes[-1][annotation.tensor_name], annotation, named


def read_function(function: onnx.FunctionProto) -> Signature:
    """Read a function: its signature and its body.

    Raises:
        InvalidModelError: the body reads or returns what nothing defines, or defines a value twice.
    """
    identifier = function_id(function)
    imports = imports_of(function)
    reader = BodyReader(f"function {identifier}", imports, function=str(identifier))
    inputs = tuple(reader.define(name) for name in function.input)
    defaults = [reader.attribute(a) for a in function.attribute_proto]
    nodes = reader.nodes(function.node)
    outputs = tuple(_output(reader, name) for name in function.output)
    own = reader._scopes[0]
    return Signature(
        id=identifier,
        inputs=tuple(function.input),
        outputs=tuple(function.output),
        declared=tuple(dict.fromkeys([*function.attribute, *(a.name for a in defaults)])),
        defaults={a.name: a for a in defaults if not isinstance(a, Reference)},
        imports=imports,
        body=Body(
            inputs,
            outputs,
            nodes,
            reader.labels,
            {own[v.name]: v for v in function.value_info if v.name in own},
        ),
        source=function,
    )


def _output(reader: BodyReader, name: str) -> Slot:
    if name not in reader._scopes[0]:
        raise reader.error(
            f"its output {name!r} is defined by none of its nodes; the exporter that wrote the model "
            "left it out: export again, or keep this function"
        )
    return reader._scopes[0][name]


def read_site(
    node: onnx.NodeProto, where: str, imports: Mapping[str, int], sure: Collection[str]
) -> tuple[Node, list[str]]:
    """Read a call site on its own; whatever it reads or captures is a free slot.

    Returns:
        The node, and the name of each of its slots.
    """
    if node.attribute:
        reader = BodyReader(where, imports, function=None, free={}, sure=sure)
        return reader.node(node), reader.labels
    # What most sites are, and there may be many of them.
    labels = [name for name in dict.fromkeys([*node.input, *node.output]) if name]
    slots: dict[str, Slot | None] = {name: slot for slot, name in enumerate(labels)}
    slots[""] = None
    inputs = tuple([slots[name] for name in node.input])
    outputs = tuple([slots[name] for name in node.output])
    op = operator_id(node)
    return Node(op, inputs, outputs, (), node.name, node, imports, node_metadata(node)), labels
