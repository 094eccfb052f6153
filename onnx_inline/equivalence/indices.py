"""Which inputs of a model are indices, and how large they may be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from onnx_inline.identifiers import OperatorId, normalized_domain

#: (operator, input): the index input of operators that look something up in input 0
_INDEX_INPUT = {
    "Gather": 1,
    "GatherElements": 1,
    "GatherND": 1,
    "ScatterElements": 1,
    "ScatterND": 1,
    "Scatter": 1,
    "ArrayFeatureExtractor": 1,
}

#: operators whose output holds elements of input 0
_PASSES_ON = frozenset(
    {
        "Identity",
        "Cast",
        "Unsqueeze",
        "Squeeze",
        "Reshape",
        "Flatten",
        "Transpose",
        "Expand",
        "Slice",
        "Tile",
        "Clip",
    }
)

Shapes = Mapping[str, tuple[int | None, ...]]


def index_bounds(model: onnx.ModelProto) -> dict[str, int]:
    """Return, for inputs that end up as indices into something of known size, the smallest such size.

    Followed are operators that pass elements on, calls of functions, and values that subgraphs read.
    """
    inferred = _with_shapes(model)
    functions = {_function_id(function): function for function in inferred.functions}
    shapes = dict(_shapes(inferred.graph))
    walk = _Walk(functions)
    walk.nodes(inferred.graph.node, {info.name: info.name for info in inferred.graph.input}, shapes)
    return dict(walk.bounds)


def _with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    light = onnx.ModelProto()
    light.CopyFrom(model)
    for tensor in light.graph.initializer:
        tensor.ClearField("raw_data")
    try:
        return onnx.shape_inference.infer_shapes(light)
    except Exception:  # shapes only make a better guess; without them the next recipe is tried
        return model


def _shapes(graph: onnx.GraphProto) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    for infos in (graph.input, graph.value_info, graph.output):
        for info in infos:
            if info.type.tensor_type.HasField("shape"):
                dims = info.type.tensor_type.shape.dim
                yield info.name, tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
    for tensor in graph.initializer:
        yield tensor.name, tuple(tensor.dims)


def _function_id(function: onnx.FunctionProto) -> OperatorId:
    domain = normalized_domain(function.domain)
    return OperatorId(domain, function.name, getattr(function, "overload", ""))


@dataclass
class _Walk:
    """Follows inputs through nodes; a model's functions do not call themselves."""

    functions: Mapping[OperatorId, onnx.FunctionProto]

    def __post_init__(self) -> None:
        self.bounds: dict[str, int] = {}
        self._visits: dict[OperatorId, int] = defaultdict(int)

    def nodes(self, nodes: Iterator[onnx.NodeProto], origins: dict[str, str], shapes: Shapes) -> None:
        """Follow ``origins``, value -> input of the model, through nodes in their order."""
        for node in nodes:
            self._note_index(node, origins, shapes)
            callee = OperatorId(normalized_domain(node.domain), node.op_type, getattr(node, "overload", ""))
            if callee in self.functions:
                self._call(node, self.functions[callee], callee, origins, shapes)
            elif node.op_type in _PASSES_ON and node.input and node.input[0] in origins:
                origins[node.output[0]] = origins[node.input[0]]
            for attribute in node.attribute:
                for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                    self.nodes(graph.node, dict(origins), {**shapes, **dict(_shapes(graph))})

    def _note_index(self, node: onnx.NodeProto, origins: Mapping[str, str], shapes: Shapes) -> None:
        position = _INDEX_INPUT.get(node.op_type)
        if position is None or len(node.input) <= position or node.input[position] not in origins:
            return
        dims = shapes.get(node.input[0], ())
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        looked_up = dims[axis : axis + 1] if -len(dims) <= axis < len(dims) and axis != -1 else dims[-1:]
        if node.op_type.endswith("ND"):
            looked_up = dims
        name = origins[node.input[position]]
        for size in looked_up:
            if size is not None:
                self.bounds[name] = min(size, self.bounds.get(name, size))

    def _call(
        self,
        node: onnx.NodeProto,
        function: onnx.FunctionProto,
        callee: OperatorId,
        origins: dict[str, str],
        shapes: Shapes,
    ) -> None:
        given = dict(zip(function.input, node.input, strict=False))
        inside = {formal: origins[actual] for formal, actual in given.items() if actual in origins}
        # Chains of calls multiply; a few looks at each function tell what there is to see.
        self._visits[callee] += 1
        if not inside or self._visits[callee] > 8:
            return
        known = {formal: shapes[actual] for formal, actual in given.items() if actual in shapes}
        self.nodes(function.node, inside, known)
        for formal, actual in zip(function.output, node.output, strict=False):
            if formal in inside:
                origins[actual] = inside[formal]
