"""Check and infer a model whose weights stay where they are.

ONNX Runtime's training blocks check the model after every step.  Doing so with the weights inside costs a
copy of them each time, and beyond 2 GiB protobuf refuses.  Neither the checker nor shape inference looks at a
trained weight's numbers, so here a weight has a type and a shape and no data: in the model it is an
initializer without data, for the checker it is a graph input.

Nothing in this module changes its argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

import onnx

#: The fields of a TensorProto that hold its numbers.
DATA_FIELDS = frozenset(
    {"float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "raw_data"}
)
#: Tensors of fewer bytes keep their data: a shape or an exponent is looked at, and costs nothing.
SMALL = 1024


def is_weightless(tensor: onnx.TensorProto) -> bool:
    """Say whether ``tensor`` has elements, but no data for them, neither inside nor in another file."""
    stored = {field.name for field, _ in tensor.ListFields()}
    return math.prod(tensor.dims) > 0 and not stored & (DATA_FIELDS | {"external_data"})


def declared(tensor: onnx.TensorProto) -> onnx.TensorProto:
    """Return a tensor with the name, type and shape of ``tensor``, and no data."""
    answer = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    if tensor.doc_string:
        answer.doc_string = tensor.doc_string
    return answer


def without_data(model: onnx.ModelProto, names: Container[str]) -> onnx.ModelProto:
    """Return a copy of ``model`` in which the initializers called ``names`` have no data."""

    def copied(tensor: onnx.TensorProto) -> onnx.TensorProto:
        return declared(tensor) if tensor.name in names else tensor

    skeleton: onnx.ModelProto = copy_except(model, "graph")
    skeleton.graph.CopyFrom(copy_except(model.graph, "initializer"))
    skeleton.graph.initializer.extend(copied(tensor) for tensor in model.graph.initializer)
    return skeleton


def copy_except(message: Any, left_out: str) -> Any:
    """Return a copy of a protobuf message without the field ``left_out``, which is not even read."""
    result = type(message)()
    for field, value in message.ListFields():
        if field.name == left_out:
            continue
        if isinstance(value, (str, bytes, int, float)):
            setattr(result, field.name, value)
        else:
            getattr(result, field.name).MergeFrom(value)
    return result


def weights_as_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of ``model`` in which initializers without data are graph inputs, after the others."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    already = {value.name for value in model.graph.input}
    moved = [tensor for tensor in model.graph.initializer if is_weightless(tensor)]
    kept = [tensor for tensor in model.graph.initializer if not is_weightless(tensor)]
    result.graph.ClearField("initializer")
    result.graph.initializer.extend(kept)
    result.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in moved
        if tensor.name not in already
    )
    return result


def check(model: onnx.ModelProto) -> None:
    """Check ``model`` as ``onnx.checker.check_model(model, full_check=True)`` does, weightless or not.

    Raises:
        onnx.checker.ValidationError: the model is not valid.
        onnx.shape_inference.InferenceError: its types or shapes do not fit together.

    Example::

        check(without_data(model, {"layer.weight"}))
    """
    onnx.checker.check_model(weights_as_inputs(model), full_check=True)


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of ``model`` with inferred types and shapes; its weights are as they were."""
    return on_inputs(model, onnx.shape_inference.infer_shapes)


def on_inputs(
    model: onnx.ModelProto, transform: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> onnx.ModelProto:
    """Apply ``transform`` while the weights are graph inputs, and make them initializers again.

    Args:
        model: a model, some of whose initializers have no data.
        transform: takes a model and returns a new one.  It cannot fold or drop a weight: it sees an input.

    Returns:
        What ``transform`` returned, the initializers in their first order, those it added behind.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer if is_weightless(tensor)}
    order = {tensor.name: place for place, tensor in enumerate(model.graph.initializer)}
    result = transform(weights_as_inputs(model))
    present = [*weights.values(), *result.graph.initializer]
    inputs = [value for value in result.graph.input if value.name not in weights]
    answer: onnx.ModelProto = copy_except(result, "graph")
    answer.graph.CopyFrom(copy_except(copy_except(result.graph, "initializer"), "input"))
    answer.graph.input.extend(inputs)
    answer.graph.initializer.extend(sorted(present, key=lambda tensor: order.get(tensor.name, len(order))))
    return answer
