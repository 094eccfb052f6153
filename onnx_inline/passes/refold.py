"""Fold back what inlining flattened, from the provenance that it left in the nodes' metadata."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx_ir as ir

from onnx_inline.engine.provenance import CALL_PATH_KEY, NAMESPACE_KEY, namespace
from onnx_inline.names import NameScope
from onnx_inline.passes.outlining import Scope, Stretch, is_bound_to_its_place, outline, scope_of, stretch
from onnx_inline.passes.structure import Keys, all_nodes, attribute_graphs

#: The calls that a node came through, outermost first: call site and function.
Path: TypeAlias = "tuple[tuple[str, str], ...]"


def has_provenance(model: ir.Model) -> bool:
    """Say whether some node knows which calls it came through."""
    return any(path_of(node) for node in _all_nodes(model))


def refold(model: ir.Model) -> bool:
    """Make calls again of what was inlined, the innermost calls first; say whether there were any.

    Calls that came out equal call one function again; a function of which several forms are left, because
    inlining specialised it, gets numbered names for the rarer ones.
    """
    depth = max((len(path_of(node)) for node in _all_nodes(model)), default=0)
    changed = False
    for level in range(depth, 0, -1):
        for function, forms in _calls(model, level).items():
            for stretches in sorted(forms, key=len, reverse=True):
                _fold(model, stretches, function)
                changed = True
    return changed


def path_of(node: ir.Node) -> Path:
    """Return the calls that a node came through; none if its metadata does not say, or not legibly."""
    text = node.metadata_props.get(CALL_PATH_KEY)
    return _path(text) if text else ()


@functools.lru_cache(maxsize=1024)
def _path(text: str) -> Path:
    # Nodes that came through the same calls stand together, so that a small cache serves nearly all.
    try:
        return tuple((str(site), str(function)) for site, function in json.loads(text))
    except (ValueError, TypeError):
        return ()


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    for owner in (model.graph, *model.functions.values()):
        yield from all_nodes(owner)


# ---- find


def _calls(model: ir.Model, level: int) -> dict[str, list[list[Stretch]]]:
    """Return for each function its calls at a level, those that do the same together."""
    found: dict[str, dict[Hashable, list[Stretch]]] = {}
    for owner in (model.graph, *model.functions.values()):
        for scope, around in _scopes(scope_of(owner), ()):
            for path, nodes in _members(scope, around, level).items():
                function = path[-1][1]
                if (one := stretch(scope, nodes, "/".join(site for site, _ in path))) is not None:
                    key = (tuple(Keys(scope.imports).operation(node) for node in nodes), one.wiring)
                    found.setdefault(function, {}).setdefault(key, []).append(_outer(one, path))
    return {function: list(forms.values()) for function, forms in found.items()}


def _scopes(scope: Scope, around: Path) -> Iterator[tuple[Scope, Path]]:
    """Yield a scope and the subgraphs in it, each with the path of the node around it."""
    yield scope, around
    for node in scope.nodes:
        for attribute in node.attributes.values():
            for graph in attribute_graphs(attribute):
                yield from _scopes(scope_of(graph, scope), path_of(node) or around)


def _members(scope: Scope, around: Path, level: int) -> dict[Path, list[ir.Node]]:
    """Return the nodes of each call at a level, but not of a call that the whole subgraph came through."""
    members: dict[Path, list[ir.Node]] = {}
    for node in scope.nodes:
        path = path_of(node)[:level]
        if len(path) == level and path != around[:level]:
            members.setdefault(path, []).append(node)
    return {path: nodes for path, nodes in members.items() if not any(map(is_bound_to_its_place, nodes))}


def _outer(one: Stretch, path: Path) -> Stretch:
    """Return a stretch whose call came through the outer calls of a path only."""
    outer = path[:-1]
    metadata = _without_provenance(one.metadata)
    if outer:
        metadata |= {CALL_PATH_KEY: json.dumps(outer), NAMESPACE_KEY: namespace(outer)}
    inner = "".join(f"{site}/" for site, _ in path)
    return dataclasses.replace(one, metadata=metadata, path=inner)


def _without_provenance(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key not in (CALL_PATH_KEY, NAMESPACE_KEY)}


# ---- fold


def _fold(model: ir.Model, stretches: Sequence[Stretch], function: str) -> None:
    made = outline(model, stretches, _free(model, function))
    for node in all_nodes(made):
        for key in (CALL_PATH_KEY, NAMESPACE_KEY):
            node.metadata_props.pop(key, None)


def _free(model: ir.Model, function: str) -> ir.OperatorIdentifier:
    """Return the identifier spelt ``domain::name:overload``, with a numbered name if it is taken."""
    domain, _, qualified = function.rpartition("::")
    name, _, overload = qualified.partition(":")
    taken = NameScope(n for d, n, o in model.functions if (d, o) == (domain, overload))
    return domain, taken.claim(name), overload
