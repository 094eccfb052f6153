"""What to do about a finding."""

from __future__ import annotations

from onnx_inline.identifiers import OperatorId

NO_PATH = "leave it out of what is trained, or look where the path ends: an index, a shape, a comparison"


def for_operator(op: OperatorId, target: str, expandable: bool, known: bool) -> str:
    """Return the cure for an operator on a path."""
    if known:
        return prepared(target)
    if expandable:
        return (
            f"onnx_inline.decompose_operators(model, target={target!r}), "
            f"or onnx-inline decompose MODEL.onnx -o OUT.onnx --target {target}"
        )
    if op.name.startswith("Sequence") or op.name in ("SplitToSequence", "ConcatFromSequence"):
        return "export without sequences: with torch.onnx.export(..., dynamo=True), leave optimize=True"
    if op.name in ("If", "Loop", "Scan"):
        return (
            "if its condition or trip count is constant, "
            + prepared(target)
            + "; otherwise take it out of the path"
        )
    return "no body is known: write the operator with others in the network, or freeze what is before it"


def for_function(target: str) -> str:
    """Return the cure for calls of local functions."""
    return f"inline it: onnx_inline.inline_functions(model), or {prepared(target)}"


def for_collision(target: str) -> str:
    """Return the cure for a name that means another operator."""
    return f"inline it, or rename it, or register a gradient for its full name; {prepared(target)}"


def prepared(target: str) -> str:
    """Return the command and the call that prepare a model."""
    command = f"onnx-inline prepare MODEL.onnx -o OUT.onnx --target {target}"
    return f"onnx_inline.prepare(model, {target!r}), or {command}"
