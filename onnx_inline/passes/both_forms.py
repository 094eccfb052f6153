"""One implementation for both forms of model: passes work on onnx_ir models, here also for ModelProtos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir

from onnx_inline.errors import InvalidModelError
from onnx_inline.shadow import shadow_of


def on_either(model: Any, transform: Callable[[ir.Model], bool]) -> Any:
    """Apply a transformation of onnx_ir models to a model of either form.

    Args:
        model: an ``ir.Model``, changed in place, or a ModelProto, which is left as it is.
        transform: changes nodes, types, functions, imports, versions and the names of outputs in place, but
            no initializers, and says whether it changed anything.

    Returns:
        The model; for a ModelProto a new one, in which all that the transformation does not deal with
        (weights, sparse initializers, training information, metadata, unknown fields) is copied as it is.
    """
    if isinstance(model, ir.Model):
        transform(model)
        return model
    result = onnx.ModelProto()
    # Weights never go through onnx_ir: it works on a shadow, whose graph is put into the copy.
    changed = _as_ir(shadow_of(model))
    modified = transform(changed)
    result.CopyFrom(model)
    if modified:
        _put(result, ir.serde.serialize_model(changed))
    return result


def _as_ir(shadow: onnx.ModelProto) -> ir.Model:
    try:
        return ir.serde.deserialize_model(shadow)
    except ir.serde.SerdeError as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        what = f"{type(cause).__name__}: {cause}"
        raise InvalidModelError(
            f"the model cannot be read as an onnx_ir model ({what}); correct it first"
        ) from error


def _put(result: onnx.ModelProto, changed: onnx.ModelProto) -> None:
    """Put what passes change into a model."""
    for field in ("node", "value_info", "output"):
        result.graph.ClearField(field)
        getattr(result.graph, field).extend(getattr(changed.graph, field))
    imports = [*changed.opset_import, *_imports_of_training(result, changed)]
    for field, entries in (("functions", changed.functions), ("opset_import", imports)):
        result.ClearField(field)
        getattr(result, field).extend(entries)
    result.ir_version = changed.ir_version


def _imports_of_training(model: onnx.ModelProto, changed: onnx.ModelProto) -> list[onnx.OperatorSetIdProto]:
    """Return the imports that only training graphs need, which no onnx_ir model holds."""
    graphs = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    used = {node.domain for graph in graphs for node in graph.node}
    kept = {entry.domain for entry in changed.opset_import}
    # Copies: the field that they are in is going to be cleared.
    return [
        onnx.OperatorSetIdProto(domain=entry.domain, version=entry.version)
        for entry in model.opset_import
        if entry.domain in used - kept
    ]
