"""Which torch modules a node came through, as torch's exporter writes it into the node's metadata."""

from __future__ import annotations

import ast
import functools
import itertools
import json

import onnx_ir as ir

from onnx_inline.engine.provenance import CALL_PATH_KEY
from onnx_inline.passes.refold import Path
from onnx_inline.passes.structure import all_nodes, attribute_graphs

#: names of the modules around a node, the outermost ("") first, and at last that of the operator
SCOPES_KEY = "pkg.torch.onnx.name_scopes"
#: their classes, in the same order
CLASSES_KEY = "pkg.torch.onnx.class_hierarchy"


def write_call_paths(graph: ir.Graph) -> None:
    """Write into each node's metadata the modules that it came through, as if they had been functions.

    A node that does not say, as those of torch's optimizer do not, is taken to be in the modules that the
    nodes before and after it have in common.
    """
    nodes = list(graph)
    before = list(itertools.accumulate(map(_path_of, nodes), _latest))
    after = list(itertools.accumulate(map(_path_of, reversed(nodes)), _latest))[::-1]
    for node, one, other in zip(nodes, before, after, strict=True):
        if path := _common(one or (), other or ()):
            node.metadata_props[CALL_PATH_KEY] = json.dumps(path)
        for attribute in node.attributes.values():
            for inner in attribute_graphs(attribute):
                write_call_paths(inner)


def _latest(known: Path | None, path: Path | None) -> Path | None:
    return known if path is None else path


def _common(one: Path, other: Path) -> Path:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return tuple(pair[0] for pair in pairs)


def remove_call_paths(model: ir.Model) -> None:
    """Remove what :func:`write_call_paths` wrote, and what folding made of it."""
    for owner in (model.graph, *model.functions.values()):
        for node in all_nodes(owner):
            node.metadata_props.pop(CALL_PATH_KEY, None)


def _path_of(node: ir.Node) -> Path | None:
    """Return the modules that a node came through, each with its class; None if it does not say."""
    scopes, classes = (node.metadata_props.get(key, "") for key in (SCOPES_KEY, CLASSES_KEY))
    return _path(scopes, classes)


@functools.lru_cache(maxsize=1024)
def _path(scopes: str, classes: str) -> Path | None:
    try:
        names, types = ast.literal_eval(scopes), ast.literal_eval(classes)
        sites = [name.removeprefix(f"{around}.") for around, name in itertools.pairwise(names[:-1])]
        return tuple((site, _function(type_)) for site, type_ in zip(sites, types[1:-1], strict=True))
    except (ValueError, SyntaxError, TypeError, AttributeError, RecursionError, MemoryError):
        return None


def _function(type_: str) -> str:
    module, _, name = type_.rpartition(".")
    return f"{module}::{name}" if module else name
