"""One call a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import onnx

from onnx_inline.engine import inline_proto
from onnx_inline.engine.options import DEFAULT_MAX_NODES, Options
from onnx_inline.engine.selection import Patterns

if TYPE_CHECKING:
    import onnx_ir as ir


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
    options = Options(only, keep, max_nodes, names, provenance)
    inlined = inline_proto.inline(model, options)
    result = inline_proto.put_together(model, inlined)
    return (result, inlined.report) if with_report else result
