"""Where a node came from, read from what inlining wrote into its metadata."""

from __future__ import annotations

import json

import onnx_ir as ir

from onnx_inline.engine.provenance import CALL_PATH_KEY


def functions_of(node: ir.Node) -> list[tuple[str, str]]:
    """Return the calls that a node came through, outermost first, as pairs of call site and function."""
    text = node.metadata_props.get(CALL_PATH_KEY)
    try:
        return [(str(site), str(function)) for site, function in json.loads(text)] if text else []
    except (ValueError, TypeError):
        # Anyone may write metadata.
        return []


def place_of(node: ir.Node) -> str:
    """Return where a node is: the calls that it came through, then its own name or output."""
    own = node.name or next((value.name for value in node.outputs if value.name), node.op_type)
    calls = [f"{site} ({function})" for site, function in functions_of(node)]
    return " > ".join([*calls, str(own)])
