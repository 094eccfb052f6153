"""One call a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import onnx

from onnx_inline.engine import inline_proto
from onnx_inline.engine.options import DEFAULT_MAX_NODES, Options
from onnx_inline.engine.selection import Patterns

if TYPE_CHECKING:
    import onnx_ir as ir

    AnyModel = TypeVar("AnyModel", onnx.ModelProto, ir.Model)


def inline_functions(
    model: Any,
    *,
    only: Patterns = None,
    keep: Patterns = None,
    max_nodes: int = DEFAULT_MAX_NODES,
    names: Literal["path", "flat"] = "path",
    provenance: bool = False,
    with_report: bool = False,
) -> Any:
    """Inline model-local functions."""
    options = Options(only, keep, max_nodes, names, provenance)
    if isinstance(model, onnx.ModelProto):
        inlined = inline_proto.inline(model, options)
        result: Any = inline_proto.put_together(model, inlined)
        report = inlined.report
    else:
        from onnx_inline.engine import inline_ir

        result, report = model, inline_ir.inline(model, options)
    return (result, report) if with_report else result
