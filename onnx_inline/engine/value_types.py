"""Which of a function's value_info entries hold at a call.

The types in a body belong to no particular call, and exporters have been seen to write wrong ones.  So the
flat graph is put through onnx's shape inference, and an entry is carried over only as far as it agrees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx.shape_inference

from onnx_inline.engine.flatten import Template

#: initializers up to this many elements take part in inference (they may be shapes); others by type alone
SMALL = 256


@dataclass(frozen=True)
class Claim:
    """The entries that one stamp brings: for each entry the name of a value of the graph.

    ``inside`` are the names of values that the stamp made in the graph itself, not in subgraphs.
    """

    entries: Sequence[tuple[str, onnx.ValueInfoProto]]
    inside: frozenset[str]


def claim(template: Template, names: Sequence[str], entries: Iterable[onnx.ValueInfoProto]) -> Claim:
    """Return what a template's annotations say of the values of one stamp.

    Args:
        template: the template.
        names: the name of each of its slots in the graph.
        entries: its annotations as ValueInfoProtos.
    """
    outer = template.inputs + template.outputs
    made = (slot for node in template.nodes for slot in node.outputs if slot is not None and slot >= outer)
    pairs = [(names[slot], entry) for (slot, _), entry in zip(template.annotations, entries, strict=True)]
    return Claim(pairs, frozenset(names[slot] for slot in made))


def agreed(
    graph: onnx.GraphProto, imports: Mapping[str, int], claims: Iterable[Claim]
) -> list[onnx.ValueInfoProto]:
    """Return the entries that hold, as far as they hold, for values inside stamps.

    Args:
        graph: the flat graph; large initializers may be inputs instead.
        imports: the opset imports.
        claims: what the stamps claim.
    """
    inferred = _inferred(graph, imports)
    if inferred is None:
        return []
    symbols = _symbols([*graph.input, *graph.output, *graph.value_info])
    out: dict[str, onnx.ValueInfoProto] = {}
    for stamp in claims:
        checked = [(name, entry, _relation(inferred.get(name), entry.type)) for name, entry in stamp.entries]
        if any(relation is False for *_, relation in checked):
            # One entry is wrong for this call: those that cannot be checked are not to be trusted either.
            checked = [item for item in checked if item[2]]
        for name, entry, relation in checked:
            if relation is not False and name in stamp.inside and name not in out:
                out[name] = _merged(name, entry, inferred.get(name), symbols)
    return [out[name] for node in graph.node for name in node.output if name in out]


def _symbols(values: Iterable[onnx.ValueInfoProto]) -> set[str]:
    shapes = [value.type.tensor_type.shape for value in values if value.type.HasField("tensor_type")]
    return {dim.dim_param for shape in shapes for dim in shape.dim if dim.dim_param}


def _inferred(graph: onnx.GraphProto, imports: Mapping[str, int]) -> dict[str, onnx.TypeProto] | None:
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
    for domain, version in imports.items():
        model.opset_import.add(domain=domain, version=version)
    try:
        result = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # inference is an aid: without it nothing is claimed
        return None
    values = [*result.value_info, *result.input, *result.output]
    return {value.name: value.type for value in values if value.type.WhichOneof("value")}


def _relation(known: onnx.TypeProto | None, claimed: onnx.TypeProto) -> bool | None:
    """Return whether a claimed type agrees with what is known; None if nothing is known."""
    if known is None:
        return None
    kind = claimed.WhichOneof("value")
    if known.WhichOneof("value") != kind:
        return False
    if kind != "tensor_type":
        return known == claimed or None
    one, other = known.tensor_type, claimed.tensor_type
    if one.elem_type != other.elem_type:
        return False
    if not (one.HasField("shape") and other.HasField("shape")):
        return None
    pairs = zip(one.shape.dim, other.shape.dim, strict=False)
    return len(one.shape.dim) == len(other.shape.dim) and not any(
        a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value for a, b in pairs
    )


def _merged(
    name: str, entry: onnx.ValueInfoProto, known: onnx.TypeProto | None, symbols: Collection[str]
) -> onnx.ValueInfoProto:
    """Return the entry under its new name, with the dimensions that inference knows.

    The function's own symbols become unknown; ``symbols`` are the model's.
    """
    merged = onnx.ValueInfoProto()
    merged.CopyFrom(entry)
    merged.name = name
    drop_symbols(merged.type)
    if known is None or not known.HasField("tensor_type") or not known.tensor_type.HasField("shape"):
        return merged
    if not merged.type.tensor_type.HasField("shape"):
        return merged
    for dimension, other in zip(merged.type.tensor_type.shape.dim, known.tensor_type.shape.dim, strict=True):
        if other.HasField("dim_value"):
            dimension.dim_value = other.dim_value
        elif other.dim_param:
            # Whatever the function said, this call's size is not fixed.
            dimension.Clear()
            if other.dim_param in symbols:
                dimension.dim_param = other.dim_param
    return merged


def drop_symbols(value_type: onnx.TypeProto) -> None:
    """Make the symbolic dimensions of a type unknown ones.

    A function's ``N`` is not the model's ``N``, nor that of another call.
    """
    kind = value_type.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        for dimension in getattr(value_type, kind).shape.dim:
            dimension.ClearField("dim_param")
    elif kind == "map_type":
        drop_symbols(value_type.map_type.value_type)
    elif kind in ("sequence_type", "optional_type"):
        drop_symbols(getattr(value_type, kind).elem_type)


def weightless(graph: onnx.GraphProto, chunks: Iterable[bytes]) -> onnx.GraphProto:
    """Return a graph with other nodes and with large initializers as inputs, for shape inference."""
    light = onnx.GraphProto(name=graph.name)
    given = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if element_count(tensor.dims) <= SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
            light.initializer.append(tensor)
        elif tensor.name not in given:
            light.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    light.input.extend(graph.input)
    light.output.extend(graph.output)
    light.value_info.extend(graph.value_info)
    light.MergeFromString(b"".join(chunks))
    return light


def element_count(dims: Iterable[int]) -> int:
    """Return the number of elements of a shape."""
    count = 1
    for dim in dims:
        count *= dim
    return count
