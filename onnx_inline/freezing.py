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
        node = nodes[index]
        # Also another name: a pass may look at that alone.
        node.domain, node.op_type = _FROZEN + node.domain, _FROZEN + node.op_type
    for owner in owners(work):
        domains = {node.domain for node in owner.all_nodes() if node.domain.startswith(_FROZEN)}
        owner.opset_imports.update(dict.fromkeys(sorted(domains), 1))
    result = pass_(work).model
    for owner in owners(result):
        _import(owner.opset_imports, model, _thaw(owner))
    _bring_back(result, model)
    return result


def _thaw(owner: ir.Graph | ir.Function) -> set[str]:
    """Make frozen nodes what they were, and return their domains."""
    thawed = [node for node in owner.all_nodes() if node.domain.startswith(_FROZEN)]
    for node in thawed:
        node.domain, node.op_type = (text.removeprefix(_FROZEN) for text in (node.domain, node.op_type))
    return {node.domain for node in thawed}


def _bring_back(model: ir.Model, original: ir.Model) -> None:
    """Put functions back that frozen nodes call, and that went with the calls that were not frozen."""
    while missing := _called(model) & original.functions.keys() - model.functions.keys():
        for key in sorted(missing):
            model.functions[key] = function = original.functions[key].clone()
            _import(model.graph.opset_imports, original, function.opset_imports)


def _called(model: ir.Model) -> set[ir.OperatorIdentifier]:
    return {node.op_identifier() for node in all_nodes(model)}


def _import(imports: dict[str, int], original: ir.Model, domains: Collection[str]) -> None:
    """Import domains, in the order and the versions in which the original has them."""
    known = {d: v for owner in reversed(list(owners(original))) for d, v in owner.opset_imports.items()}
    wanted = dict.fromkeys(sorted(domains), 1) | {d: known[d] for d in domains if d in known} | imports
    ordered = sorted(wanted, key=lambda domain: _place(original.graph.opset_imports, domain))
    imports.clear()
    imports.update({domain: wanted[domain] for domain in ordered if not domain.startswith(_FROZEN)})


def _place(imports: Collection[str], domain: str) -> int:
    return list(imports).index(domain) if domain in imports else len(imports)
