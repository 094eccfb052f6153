"""Which torch modules a node came through, as torch's exporter writes it into the node's metadata."""

from __future__ import annotations

import ast
import functools
import json
from itertools import pairwise

import onnx_ir as ir

from onnx_inline.engine.provenance import CALL_PATH_KEY
from onnx_inline.passes.structure import all_nodes

#: names of the modules around a node, the outermost ("") first, and at last that of the operator
SCOPES_KEY = "pkg.torch.onnx.name_scopes"
#: their classes, in the same order
CLASSES_KEY = "pkg.torch.onnx.class_hierarchy"


def write_call_paths(graph: ir.Graph) -> None:
    """Write into each node's metadata the modules that it came through, as if they had been functions."""
    for node in all_nodes(graph):
        scopes, classes = (node.metadata_props.get(key, "") for key in (SCOPES_KEY, CLASSES_KEY))
        if path := _path(scopes, classes):
            node.metadata_props[CALL_PATH_KEY] = path


def remove_call_paths(model: ir.Model) -> None:
    """Remove what :func:`write_call_paths` wrote, and what folding made of it."""
    for owner in (model.graph, *model.functions.values()):
        for node in all_nodes(owner):
            node.metadata_props.pop(CALL_PATH_KEY, None)


@functools.lru_cache(maxsize=1024)
def _path(scopes: str, classes: str) -> str:
    """Return the call path as JSON; empty if a node is in no module but the outermost, or does not say."""
    try:
        names, types = ast.literal_eval(scopes), ast.literal_eval(classes)
        sites = [name.removeprefix(f"{around}.") for around, name in pairwise(names[:-1])]
        path = [[site, _function(type_)] for site, type_ in zip(sites, types[1:-1], strict=True)]
    except (ValueError, SyntaxError, TypeError, AttributeError):
        return ""
    return json.dumps(path) if path else ""


def _function(type_: str) -> str:
    module, _, name = type_.rpartition(".")
    return f"{module}::{name}" if module else name
