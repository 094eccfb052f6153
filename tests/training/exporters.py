"""Four ways from a torch module to an ONNX model; three of them write functions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import onnx
import torch
from onnxscript import FLOAT, script
from onnxscript import opset18 as op
from onnxscript.values import Opset
from torch import Tensor, nn

from tests.training.nets import Net

LOCAL = Opset("local.nn", 1)


@script(LOCAL)
def product(input: FLOAT, weight: FLOAT) -> FLOAT:
    return op.MatMul(input, op.Transpose(weight, perm=[1, 0]))


@script(LOCAL)
def affine(input: FLOAT, weight: FLOAT, bias: FLOAT) -> FLOAT:
    return op.Add(op.MatMul(input, op.Transpose(weight, perm=[1, 0])), bias)


def linear(input: FLOAT, weight: FLOAT, bias: FLOAT | None = None) -> FLOAT:
    """Choose a function by whether there is a bias, while the exporter traces."""
    return product(input, weight) if bias is None else affine(input, weight, bias)


@script(LOCAL)
def scaled(input: FLOAT, factor: FLOAT) -> FLOAT:
    return op.Mul(input, op.CastLike(factor, input))


@script(LOCAL)
def leaky_relu(self: FLOAT, negative_slope: float = 0.01) -> FLOAT:
    return op.LeakyRelu(self, alpha=negative_slope)


@script(LOCAL)
def tanh(self: FLOAT) -> FLOAT:
    grown = op.Exp(scaled(self, op.Constant(value_float=2.0)))
    one = op.CastLike(op.Constant(value_int=1), self)
    return op.Div(op.Sub(grown, one), op.Add(grown, one))


@script(LOCAL)
def sigmoid(self: FLOAT) -> FLOAT:
    one = op.CastLike(op.Constant(value_int=1), self)
    return op.Div(one, op.Add(one, op.Exp(op.Neg(self))))


@script(LOCAL)
def relu(self: FLOAT) -> FLOAT:
    return op.Relu(self)


SCRIPTED = {
    torch.ops.aten.linear.default: linear,
    torch.ops.aten.tanh.default: tanh,
    torch.ops.aten.sigmoid.default: sigmoid,
    torch.ops.aten.relu.default: relu,
    torch.ops.aten.leaky_relu.default: leaky_relu,
}


def by_script(path: Path, module: nn.Module, x: Tensor, net: Net, functions: bool | set[type]) -> None:
    """Export by the TorchScript exporter, in training mode."""
    torch.onnx.export(
        module,
        (x,),
        str(path),
        dynamo=False,
        opset_version=17,
        export_modules_as_functions=functions,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        input_names=["x"],
        output_names=["y"],
    )


def by_dynamo(path: Path, module: nn.Module, x: Tensor, table: dict[Callable[..., object], object]) -> None:
    """Export by the current exporter; its optimizer would merge and rename weights."""
    torch.onnx.export(
        module,
        (x,),
        str(path),
        dynamo=True,
        optimize=False,
        verbose=False,
        external_data=False,
        opset_version=18,
        input_names=["x"],
        output_names=["y"],
        custom_translation_table=table,
    )


def by_dynamo_with_functions(path: Path, module: nn.Module, x: Tensor) -> None:
    """Export with onnxscript functions as the translations of some operators.

    torch inlines functions on the way when it converts the opset, and forgets functions that functions call;
    so it converts nothing here, and the forgotten ones are added.
    """
    with mock.patch(
        "torch.onnx._internal.exporter._core.onnxscript_apis.convert_version", lambda model, _: model
    ):
        by_dynamo(path, module, x, SCRIPTED)
    model = onnx.load(path)
    callers = {node.op_type for function in model.functions for node in function.node}
    if scaled.name in callers:
        model.functions.append(scaled.to_function_proto())
    onnx.save(model, path)


EXPORTERS: dict[str, Callable[[Path, nn.Module, Tensor, Net], None]] = {
    "functions": lambda path, module, x, net: by_script(path, module, x, net, True),
    "class set": lambda path, module, x, net: by_script(path, module, x, net, set(net.classes)),
    "dynamo": lambda path, module, x, net: by_dynamo(path, module, x, {}),
    "onnxscript": lambda path, module, x, net: by_dynamo_with_functions(path, module, x),
}


def export(exporter: str, path: Path, module: nn.Module, x: Tensor, net: Net) -> onnx.ModelProto:
    """Export a copy, for some exporters change what they are given; return the model read from ``path``."""
    EXPORTERS[exporter](path, copy.deepcopy(module), x, net)
    return onnx.load(path)
