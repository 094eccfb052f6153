"""Keep a pass from touching some nodes: for the time of the pass they are of a domain that none knows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import onnx_ir as ir

#: what the domain of a frozen node begins with
_FROZEN = "onnx_inline.frozen/"


def owners(model: ir.Model) -> Iterator[ir.Graph | ir.Function]:
    """Yield the graph and the functions."""
    yield model.graph
    yield from model.functions.values()


def all_nodes(model: ir.Model) -> list[ir.Node]:
    """Return every node, in subgraphs and functions too; the same order for a model and its clone."""
    return [node for owner in owners(model) for node in owner.all_nodes()]


def touched(pass_: ir.passes.PassBase, model: ir.Model) -> list[int]:
    """Return which nodes a pass replaces or changes, as indices into :func:`all_nodes`.

    Nodes of functions that go with the pass count only if they are calls: what else becomes of them is
    decided where they are called.
    """
    work = model.clone()
    nodes = all_nodes(work)
    looks = [_look(node) for node in nodes]
    functions = dict(work.functions)
    main = {id(node) for node in work.graph.all_nodes()}
    result = pass_(work).model
    stayed = {id(node) for node in all_nodes(result)}
    kept = (function for key, function in functions.items() if key in result.functions)
    staying = {id(node) for function in kept for node in function.all_nodes()}
    return [
        index
        for index, (node, look) in enumerate(zip(nodes, looks, strict=True))
        if (id(node) not in stayed or _look(node) != look)
        and (id(node) in main or id(node) in staying or look[0] in functions)
    ]


def _look(node: ir.Node) -> tuple[Any, ...]:
    attributes = tuple((name, id(attribute.value)) for name, attribute in node.attributes.items())
    return node.op_identifier(), tuple(map(id, node.inputs)), attributes


def run_frozen(pass_: ir.passes.PassBase, model: ir.Model, frozen: Collection[int]) -> ir.Model:
    """Run a pass on a clone of a model in which it leaves some nodes, and return what becomes of it.

    Args:
        pass_: the pass.
        model: the model, which stays as it is.
        frozen: indices into :func:`all_nodes`.
    """
    work = model.clone()
    nodes = all_nodes(work)
    for index in frozen:
        nodes[index].domain = _FROZEN + nodes[index].domain
    for owner in owners(work):
        domains = {node.domain for node in owner.all_nodes() if node.domain.startswith(_FROZEN)}
        owner.opset_imports.update(dict.fromkeys(sorted(domains), 1))
    result = pass_(work).model
    _thaw(result, model)
    return result


def _thaw(model: ir.Model, original: ir.Model) -> None:
    for owner in owners(model):
        domains = set()
        for node in owner.all_nodes():
            if node.domain.startswith(_FROZEN):
                node.domain = node.domain.removeprefix(_FROZEN)
                domains.add(node.domain)
        _import(owner.opset_imports, original, domains)
    # What a frozen node calls may have gone with the calls that were not frozen.
    missing = {node.op_identifier() for node in all_nodes(model)} & original.functions.keys()
    while missing := missing - model.functions.keys():
        for key in sorted(missing):
            function = original.functions[key].clone()
            model.functions[key] = function
            _import(model.graph.opset_imports, original, function.opset_imports)
            missing |= {node.op_identifier() for node in function.all_nodes()} & original.functions.keys()


def _import(imports: dict[str, int], original: ir.Model, domains: Collection[str]) -> None:
    for domain in [domain for domain in imports if domain.startswith(_FROZEN)]:
        del imports[domain]
    for domain in sorted(domains):
        known = (owner.opset_imports.get(domain) for owner in owners(original))
        imports.setdefault(domain, next((version for version in known if version is not None), 1))
