"""Fold back what inlining flattened, from the provenance that it left in the nodes' metadata."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import onnx_ir as ir

from onnx_inline.engine.provenance import CALL_PATH_KEY, NAMESPACE_KEY, namespace
from onnx_inline.names import NameScope
from onnx_inline.passes.outlining import (
    Outlined,
    Scope,
    Stretch,
    is_bound_to_its_place,
    is_idle,
    outline,
    put_calls,
    scope_of,
    stretch,
)
from onnx_inline.passes.structure import Keys, all_nodes, attribute_graphs

#: The calls that a node came through, outermost first: call site and function.
Path: TypeAlias = tuple[tuple[str, str], ...]


class _Form(NamedTuple):
    """What a call came out as: its function, by name, and what its nodes do."""

    function: str
    operations: Hashable
    wiring: Hashable


def has_provenance(model: ir.Model) -> bool:
    """Say whether some node knows which calls it came through."""
    return any(path_of(node) for node in _all_nodes(model))


def refold(model: ir.Model) -> bool:
    """Make calls again of what was inlined, the innermost calls first; say whether there were any.

    Calls that came out equal call one function again; a function of which several forms are left, because
    inlining specialised it, gets numbered names for the rarer ones.
    """
    depth = max((len(path_of(node)) for node in _all_nodes(model)), default=0)
    made: dict[_Form, Outlined] = {}
    changed = False
    for level in range(depth, 0, -1):
        for form, stretches in sorted(_calls(model, level).items(), key=lambda item: -len(item[1])):
            _fold(model, made, form, stretches)
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


def _calls(model: ir.Model, level: int) -> dict[_Form, list[Stretch]]:
    """Return the calls at a level, those of one function that do the same together."""
    found: dict[_Form, list[Stretch]] = {}
    owners: tuple[ir.Graph | ir.Function, ...] = (model.graph, *model.functions.values())
    for owner in owners:
        for scope, around in _scopes(scope_of(owner), ()):
            for path, nodes in _members(scope, around, level).items():
                if (one := stretch(scope, nodes, "/".join(site for site, _ in path))) is not None:
                    operations = tuple(Keys(scope.imports).operation(node) for node in nodes)
                    form = _Form(path[-1][1], operations, one.wiring)
                    found.setdefault(form, []).append(_outer(one, path))
    return found


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
        if len(path) == level and path != around[:level] and not is_idle(scope, node):
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


def _fold(model: ir.Model, made: dict[_Form, Outlined], form: _Form, stretches: Sequence[Stretch]) -> None:
    """Put calls in the places of stretches, if possible of the function already made for their form."""
    known = made.get(form)
    if known is not None and all(map(known.can_stand_for, stretches)):
        put_calls(known, stretches)
        return
    made[form] = outline(model, stretches, _free(model, form.function))
    for node in all_nodes(made[form].function):
        for key in (CALL_PATH_KEY, NAMESPACE_KEY):
            node.metadata_props.pop(key, None)


def _free(model: ir.Model, function: str) -> ir.OperatorIdentifier:
    """Return the identifier spelt ``domain::name:overload``, with a numbered name if it is taken."""
    domain, _, qualified = function.rpartition("::")
    name, _, overload = qualified.partition(":")
    taken = NameScope(n for d, n, o in model.functions if (d, o) == (domain, overload))
    return domain, taken.claim(name), overload
