"""What tests of passes have in common: model text in, model text out, compared whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator


def parsed(text: str) -> ir.Model:
    """Return the model that ``text``, in ONNX's own syntax, describes."""
    return ir.from_proto(onnx.parser.parse_model(text))


def printed(model: ir.Model) -> str:
    """Return the whole model as text, names included; metadata and weights' bytes have none."""
    return str(onnx.printer.to_text(ir.to_proto(model)))


def assert_transforms(
    pass_: ir.passes.PassBase, *, before: str, after: str, check: bool = True, again: bool = True
) -> ir.Model:
    """Run ``pass_`` on the model ``before`` and compare the whole result with ``after``.

    Also: ``modified`` is truthful, onnx's checker accepts the result (unless ``check`` is off, for operators
    that it does not know), and a second run changes nothing (unless ``again`` is off).
    """
    model = parsed(before)
    untouched = ir.to_proto(model).SerializeToString(deterministic=True)
    result = pass_(model)
    assert printed(result.model) == printed(parsed(after))
    changed = ir.to_proto(result.model).SerializeToString(deterministic=True)
    assert result.modified == (changed != untouched), "modified does not tell the truth"
    if check:
        onnx.checker.check_model(ir.to_proto(result.model), full_check=True)
    if again:
        assert_leaves(pass_, result.model)
    return result.model


def assert_leaves(pass_: ir.passes.PassBase, model: ir.Model) -> None:
    """Run ``pass_`` and see that it changes nothing and says so."""
    untouched = ir.to_proto(model).SerializeToString(deterministic=True)
    result = pass_(model)
    assert not result.modified, "a run that had nothing to do says that it did something"
    assert ir.to_proto(result.model).SerializeToString(deterministic=True) == untouched


def computed(model: onnx.ModelProto | ir.Model, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    """Return what onnx's reference evaluator computes."""
    proto = model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)
    outputs: list[Any] = ReferenceEvaluator(proto).run(None, dict(feeds))
    return outputs
