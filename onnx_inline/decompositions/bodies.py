"""Which operators have bodies of ours, and how one is made."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.parser

from onnx_inline.decompositions import (
    elementwise,
    normalizations,
    products,
    rearrangements,
    recurrences,
    reductions,
)
from onnx_inline.decompositions.call import Body, Call
from onnx_inline.identifiers import OperatorId

#: The version of the standard domain that all bodies are written for; the engine converts them.
WRITTEN_FOR = 18

_BODIES: Mapping[str, Body] = {
    **elementwise.BODIES,
    **reductions.BODIES,
    **normalizations.BODIES,
    **products.BODIES,
    **rearrangements.BODIES,
    **recurrences.BODIES,
}


def operators() -> tuple[str, ...]:
    """Return the names of the operators that may have a body of ours, in order."""
    return tuple(sorted(_BODIES))


def has_body(op: OperatorId, version: int) -> bool:
    """Say whether an operator may have a body of ours.

    Args:
        op: the operator.
        version: the version of its domain.

    Example:
        >>> has_body(OperatorId("", "Sum"), 13)
        True
    """
    return op.domain == "" and op.name in _BODIES and version >= 1


def own_body(op: OperatorId, call: Call) -> onnx.FunctionProto | None:
    """Return a body of ours for one node, or None if there is none for such a node.

    Its gradient is that of the operator.  Where several elements share an extremum, each gets an equal part.

    Args:
        op: the operator.
        call: the node.
    """
    text = _BODIES[op.name](call) if has_body(op, call.version) else None
    if text is None:
        return None
    header = f'<domain: "onnx_inline", opset_import: ["" : {WRITTEN_FOR}]>'
    return onnx.parser.parse_function(f"{header} {op.name} {text}")
