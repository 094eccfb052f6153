"""From a caller's wish to the templates that carry it out, for either form of model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx_inline.engine.body import Node, Slot, all_nodes
from onnx_inline.engine.flatten import Flattener, Template
from onnx_inline.engine.form import Form
from onnx_inline.engine.options import Options
from onnx_inline.engine.report import LeftCalls
from onnx_inline.engine.resolve import Resolution, Resolver
from onnx_inline.engine.specialise import Specialiser, Way
from onnx_inline.errors import FunctionCycleError, InvalidModelError
from onnx_inline.identifiers import OperatorId


@dataclass(frozen=True)
class Site:
    """A call in a graph that stays.

    ``node`` has been read on its own, ``labels`` are the names of its slots; ``owner`` is the number of the
    opset imports that hold where it is.
    """

    node: Node
    labels: Sequence[str]
    owner: int
    where: str


@dataclass(frozen=True)
class PlannedSite:
    """A call site and what it becomes: a template and the names of its inputs and outputs."""

    template: Template
    names: tuple[str, ...]
    label: str
    metadata: Mapping[str, str]


@dataclass(frozen=True)
class Owner:
    """What holds graphs that stay: the model, or a function that is kept.

    ``imports`` are its opset imports, ``domains`` those of the operators that it uses, local functions
    excepted; ``name`` is the kept function's identifier.
    """

    imports: Mapping[str, int]
    domains: frozenset[str]
    name: str | None = None


@dataclass(frozen=True)
class Plan:
    """Everything decided; carrying it out cannot fail."""

    resolution: Resolution
    sites: list[PlannedSite]
    imports: list[dict[str, int]]
    specialiser: Specialiser


def make_plan(
    resolver: Resolver,
    options: Options,
    form: Form,
    owners: Callable[[frozenset[OperatorId]], list[Owner]],
    sites: Callable[[frozenset[OperatorId]], list[Site]],
) -> Plan:
    """Decide what happens to a model.

    A function that was chosen but not named and cannot be inlined is left, and everything is decided anew
    without it.

    Args:
        resolver: decides on functions.
        options: what the caller asks.
        form: the form of the model.
        owners: returns what holds graphs that stay, given the functions that go.
        sites: returns the calls in those graphs, given the functions that go.

    Raises:
        ModelError: a function that was named cannot be inlined, or the result would be too large.
    """
    selection = resolver.choose(options.only, options.keep)
    left: dict[OperatorId, str] = {}
    by_name = {str(function): function for function in selection.wanted}
    while True:
        try:
            resolution = resolver.resolve(selection, left, options.max_nodes)
            return _carried_through(resolution, form, resolver, owners, sites)
        except InvalidModelError as error:
            blamed = error.cycle if isinstance(error, FunctionCycleError) else (error.function,)
            blamed_ids = {by_name[name] for name in blamed if name in by_name}
            if not blamed_ids or blamed_ids & selection.named or blamed_ids <= left.keys():
                raise
            left.update(dict.fromkeys(blamed_ids, str(error)))


def _carried_through(
    resolution: Resolution,
    form: Form,
    resolver: Resolver,
    owners: Callable[[frozenset[OperatorId]], list[Owner]],
    sites: Callable[[frozenset[OperatorId]], list[Site]],
) -> Plan:
    gone = frozenset(resolution.wanted)
    owned = owners(gone)
    targets = [_target(owner, resolution) for owner in owned]
    specialiser = Specialiser(
        form, resolution.functions, frozenset(resolver.functions), resolution.pure, targets
    )
    found = sites(gone)
    ways = [_way(specialiser, site) for site in found]
    flattener = Flattener(specialiser)
    flattener.prepare(way for way, _ in ways)
    planned = [
        PlannedSite(
            flattener.templates[way],
            (*(site.labels[slot] for slot in arguments), *_output_names(site, way)),
            site.node.label.strip("/") or site.node.op.name,
            site.node.metadata,
        )
        for site, (way, arguments) in zip(found, ways, strict=True)
    ]
    used = _used_domains(owned, found, planned)
    imports = [
        {domain: target[domain] for domain in _ordered(owner, target) if domain in domains}
        for owner, target, domains in zip(owned, targets, used, strict=True)
    ]
    return Plan(resolution, planned, imports, specialiser)


def _way(specialiser: Specialiser, site: Site) -> tuple[Way, tuple[Slot, ...]]:
    needed = [slot is not None for slot in site.node.outputs]
    return specialiser.way(site.node, site.labels, site.owner, needed, site.where)


def _output_names(site: Site, way: Way) -> Iterable[str]:
    return (site.labels[slot] for slot in site.node.outputs if slot is not None)


# ---------------------------------------------------------------------------- opset imports


def _target(owner: Owner, resolution: Resolution) -> dict[str, int]:
    """Return the opset imports that bodies going into an owner are converted to.

    A domain that the owner does not import comes in at the newest version that a body needs.
    """
    target = dict(owner.imports)
    for signature in resolution.functions.values():
        for domain, version in signature.imports.items():
            if domain not in owner.imports:
                target[domain] = max(version, target.get(domain, version))
    return target


def _used_domains(
    owners: Sequence[Owner], sites: Sequence[Site], planned: Sequence[PlannedSite]
) -> list[set[str]]:
    """Return the domains that each owner's graphs use once all is stamped."""
    used = [set(owner.domains) for owner in owners]
    templates: dict[int, set[str]] = {}
    for site, plan in zip(sites, planned, strict=True):
        key = id(plan.template)
        if key not in templates:
            templates[key] = {node.op.domain for node in all_nodes(plan.template.nodes)}
        used[site.owner] |= templates[key]
    return used


def _ordered(owner: Owner, target: Mapping[str, int]) -> list[str]:
    """Return domains in the order the owner lists them, then the new ones by name."""
    return [*owner.imports, *sorted(set(target) - set(owner.imports))]


# ------------------------------------------------------------------------------------ report


def left_calls(resolution: Resolution, calls: Counter[OperatorId]) -> tuple[LeftCalls, ...]:
    """Return what was left, given how often each function is still called."""
    return tuple(
        LeftCalls(str(function), calls[function], reason)
        for function, reason in sorted(resolution.left.items())
    )
