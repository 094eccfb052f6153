"""One sentence for both forms: model text in, model text out."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

import onnx_inline
from onnx_inline.passes.inline_functions import InlineFunctionsPass

#: the head of a model that calls functions, of one that no longer does, and of a function
MAIN = '<ir_version: 10, opset_import: ["" : 18, "l" : 1]> main'
FLAT = '<ir_version: 10, opset_import: ["" : 18]> main'
F = '<domain: "l", opset_import: ["" : 18, "l" : 1]>'


def parsed(text: str) -> onnx.ModelProto:
    """Return the model that ``text`` describes."""
    return onnx.parser.parse_model(text)


def printed(model: onnx.ModelProto) -> str:
    """Return the whole model as text, names included."""
    return str(onnx.printer.to_text(model))


def serialized(model: onnx.ModelProto) -> bytes:
    """Return the model's bytes, always the same for one model."""
    return model.SerializeToString(deterministic=True)


def in_ir(model: onnx.ModelProto, **options: Any) -> tuple[onnx.ModelProto, onnx_inline.InlineReport]:
    """Inline in the onnx_ir form, with the pass, and see that it tells the truth."""
    held = ir.from_proto(model)
    before = serialized(ir.to_proto(held))
    result = InlineFunctionsPass(**options)(held)
    assert result.model is held, "the pass works in place"
    after = ir.to_proto(held)
    assert result.modified == (serialized(after) != before), "modified does not tell the truth"
    return after, result.report


def assert_inlines(
    before: str | onnx.ModelProto, after: str, *, check: bool = True, **options: Any
) -> onnx_inline.InlineReport:
    """Inline ``before`` in both forms and compare the whole result with ``after``.

    Also: the input is untouched, the interface the same, the report truthful, onnx's checker content (unless
    ``check`` is off), and a second run that keeps what is left changes nothing.
    """
    model = parsed(before) if isinstance(before, str) else before
    untouched = serialized(model)
    flat, report = onnx_inline.inline_functions(model, with_report=True, **options)
    assert serialized(model) == untouched, "the input was changed"
    assert printed(flat) == printed(parsed(after))
    for field in ("input", "output", "initializer"):
        assert getattr(flat.graph, field) == getattr(model.graph, field)
    assert report.modified == (serialized(flat) != untouched), "modified does not tell the truth"
    if check:
        onnx.checker.check_model(flat, full_check=True)
    assert_stays(flat)
    other, same = in_ir(model, **options)
    assert printed(other) == printed(ir.to_proto(ir.from_proto(flat))), "the two forms differ"
    assert {**same.to_dict(), "seconds": 0} == {**report.to_dict(), "seconds": 0}
    return report


def assert_stays(model: onnx.ModelProto) -> None:
    """Check that there is nothing to do in a model but to keep its functions."""
    kept = [(f.domain, f.name, f.overload) for f in model.functions]
    again, report = onnx_inline.inline_functions(model, keep=kept, with_report=True)
    assert serialized(again) == serialized(model)
    assert not report.modified


def refused(before: str | onnx.ModelProto, **options: Any) -> str:
    """Return what is said when both forms refuse a model, each leaving it as it was."""
    model = parsed(before) if isinstance(before, str) else before
    untouched = serialized(model)
    said = message(model, **options)
    assert serialized(model) == untouched, "the input was changed"
    held = ir.from_proto(model)
    before_ir = serialized(ir.to_proto(held))
    assert message(held, **options) == said, "the two forms say different things"
    assert serialized(ir.to_proto(held)) == before_ir, "the input was changed"
    return said


def message(model: onnx.ModelProto | ir.Model, **options: Any) -> str:
    """Return the class and the text of the error that inlining raises."""
    try:
        onnx_inline.inline_functions(model, **options)
    except onnx_inline.OnnxInlineError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was refused")
