"""From a caller's wish to the templates that carry it out, for either form of model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onnx_inline.engine.body import Node, Reference, Signature, all_nodes, nesting
from onnx_inline.engine.flatten import Flattener, Template
from onnx_inline.engine.form import Form
from onnx_inline.engine.options import Options
from onnx_inline.engine.report import InlineReport, LeftCalls
from onnx_inline.engine.resolve import ALWAYS_PLANNED, Resolution, Resolver
from onnx_inline.engine.selection import Selection
from onnx_inline.engine.specialise import Specialiser
from onnx_inline.engine.survey import DEEPEST, TOO_DEEP, Survey
from onnx_inline.errors import FunctionCycleError, InvalidModelError, ModelTooLargeError
from onnx_inline.identifiers import OperatorId

Gone = frozenset[OperatorId]

#: how often a node may be copied, on average, because it is in a graph that calls hand on
HANDED_ON = 20


class View(Protocol):
    """A model as planning sees it.

    An ``owner`` is a function that is kept, or None for the model's graphs.
    """

    @property
    def form(self) -> Form:
        """What knows the form's attributes."""

    @property
    def functions(self) -> Mapping[OperatorId, Any]:
        """The local functions, as the form holds them."""

    @property
    def main(self) -> Survey:
        """What is in the model's graphs."""

    def imports(self, owner: OperatorId | None) -> dict[str, int]:
        """Return the opset imports of an owner, by normalized domain."""

    def survey(self, owner: OperatorId) -> Survey:
        """Return what is in a function."""

    def read(self, function: Any) -> Signature:
        """Read a function."""

    def calls(self, owner: OperatorId | None, gone: Gone) -> Iterator[Any]:
        """Yield the nodes that call functions that go, in the order in which they will be stamped."""

    def site(self, call: Any, owner: OperatorId | None) -> tuple[Node, Sequence[str], Sequence[Any]]:
        """Read a call: the node, the labels of its slots, and the values they stand for."""


@dataclass(frozen=True)
class PlannedSite:
    """A call site and what it becomes.

    ``values`` are the values, as the form holds them, of the template's inputs and outputs; ``label`` is what
    names inside begin with, if that is free; ``graphs`` are the nodes in the call's own attributes.
    """

    template: Template
    values: tuple[Any, ...]
    label: str
    metadata: Mapping[str, str]
    graphs: Sequence[OperatorId]


@dataclass(frozen=True)
class Plan:
    """Everything decided; carrying it out cannot fail.

    ``sites`` come in the order of ``owners``, the model's graphs (None) first; ``imports`` are the opset
    imports of each owner afterwards.
    """

    resolution: Resolution
    owners: Sequence[OperatorId | None]
    sites: Mapping[OperatorId | None, Sequence[PlannedSite]]
    imports: Mapping[OperatorId | None, dict[str, int]]
    report: InlineReport

    @property
    def gone(self) -> Gone:
        """The functions that go."""
        return self.resolution.wanted


def make_plan(view: View, options: Options) -> Plan:
    """Decide what happens to a model, touching nothing.

    A function that was chosen but not named, and cannot be inlined, is left: everything is decided anew
    without it.

    Raises:
        ModelError: a function that was named cannot be inlined, or the result would be too large.
    """
    resolver = Resolver(
        functions=view.functions,
        read=view.read,
        calls=lambda identifier: view.survey(identifier).operators,
        roots=view.main.operators,
        existing=view.main.operators.total(),
        depth=view.main.depth,
    )
    selection = resolver.choose(options.only, options.keep)
    left: dict[OperatorId, str] = {}
    while True:
        try:
            resolution = resolver.resolve(selection, left, options.max_nodes)
            return _Planning(view, resolution, options.max_nodes).plan()
        except InvalidModelError as error:
            blamed = _blamed(error, selection)
            if not blamed or blamed & selection.named or blamed <= left.keys():
                raise
            left.update(dict.fromkeys(blamed, str(error)))


def _blamed(error: InvalidModelError, selection: Selection) -> set[OperatorId]:
    """Return the chosen functions that an error is about."""
    names = error.cycle if isinstance(error, FunctionCycleError) else (error.function,)
    return {function for function in selection.wanted if str(function) in names}


class _Planning:
    """The making of a plan once it is clear which functions go."""

    def __init__(self, view: View, resolution: Resolution, max_nodes: int) -> None:
        self._view, self._resolution, self._max_nodes = view, resolution, max_nodes
        kept = [identifier for identifier in view.functions if identifier not in resolution.wanted]
        self._owners: list[OperatorId | None] = [None, *kept]
        targets = [self._target(owner) for owner in self._owners]
        self._specialiser = Specialiser(
            view.form,
            resolution.functions,
            frozenset(view.functions),
            resolution.pure,
            targets,
            most_handed=min(
                max(max_nodes, ALWAYS_PLANNED),
                HANDED_ON * (1000 + view.main.operators.total() + resolution.nodes),
            ),
        )

    def plan(self) -> Plan:
        """Return the plan."""
        sites = self._sites()
        self._refuse_too_many(sites)
        imports = self._imports(sites)
        report = self._report(sites, imports[None])
        return Plan(self._resolution, self._owners, sites, imports, report)

    def _refuse_too_many(self, sites: Mapping[OperatorId | None, Sequence[PlannedSite]]) -> None:
        stamped = sum(len(site.template.labels) for found in sites.values() for site in found)
        nodes = self._staying(sites) + stamped
        if nodes > self._max_nodes and self._resolution.functions:
            functions = self._resolution.multipliers
            raise ModelTooLargeError(nodes=nodes, limit=self._max_nodes, functions=functions)

    def _staying(self, sites: Mapping[OperatorId | None, Sequence[PlannedSite]]) -> int:
        """Return how many nodes of the model's graphs stay where they are; graphs that calls hand on move."""
        gone = self._resolution.wanted
        staying = sum(count for op, count in self._view.main.operators.items() if op not in gone)
        return staying - sum(op not in gone for site in sites[None] for op in site.graphs)

    def _sites(self) -> dict[OperatorId | None, list[PlannedSite]]:
        flattener = Flattener(self._specialiser)
        called = {owner: list(self._called(number, owner)) for number, owner in enumerate(self._owners)}
        flattener.prepare(way for calls in called.values() for _, way, _ in calls)
        if self._specialiser.handed:
            self._refuse_depth(flattener.templates.values())
        return {
            owner: [
                PlannedSite(
                    flattener.templates[way],
                    values,
                    node.label.strip("/") or node.op.name,
                    node.metadata,
                    [inner.op for g in node.subgraphs() for inner in all_nodes(g.nodes)]
                    if node.attributes
                    else (),
                )
                for node, way, values in calls
            ]
            for owner, calls in called.items()
        }

    def _refuse_depth(self, templates: Iterable[Template]) -> None:
        # What calls hand on is opened at a depth that the resolver does not see.
        for template in templates:
            if self._view.main.depth + nesting(template.nodes) > DEEPEST:
                raise InvalidModelError(
                    f"cannot inline {template.function}: {TOO_DEEP}", function=str(template.function)
                )

    def _called(self, number: int, owner: OperatorId | None) -> Iterator[tuple[Node, Any, tuple[Any, ...]]]:
        """Yield each call of an owner with its way of calling and the values it gives and takes."""
        where = f" of function {owner}" if owner else ""
        for call in self._view.calls(owner, self._resolution.wanted):
            node, labels, values = self._view.site(call, owner)
            needed = [slot is not None for slot in node.outputs]
            place = f"node {node.label or node.op.name!r}{where}"
            if owner is None and node.attributes:
                _refuse_references(node, place)
            way, arguments = self._specialiser.way(node, labels, number, needed, place)
            outputs = [values[slot] for slot in node.outputs if slot is not None]
            yield node, way, (*[values[slot] for slot in arguments], *outputs)

    # ------------------------------------------------------------------- opset imports

    def _target(self, owner: OperatorId | None) -> dict[str, int]:
        """Return the opset imports that bodies going into an owner are converted to.

        A domain that the owner does not import comes in at the newest version that a body needs.
        """
        own = self._view.imports(owner)
        target = dict(own)
        for signature in self._resolution.functions.values():
            for domain, version in signature.imports.items():
                if domain not in own:
                    target[domain] = max(version, target.get(domain, version))
        return target

    def _imports(self, sites: Mapping[OperatorId | None, Sequence[PlannedSite]]) -> dict[Any, dict[str, int]]:
        """Return exactly the imports that each owner uses: its own in their order, then new ones by name."""
        used = {owner: self._used(owner, sites[owner]) for owner in self._owners}
        # Runtimes read the bodies of functions at the version that the model imports.
        kept = set().union(*(used[owner] for owner in self._owners if owner is not None))
        used[None] |= kept & self._view.imports(None).keys()
        return {
            owner: _ordered(self._view.imports(owner), used[owner], self._specialiser.targets[number])
            for number, owner in enumerate(self._owners)
        }

    def _used(self, owner: OperatorId | None, sites: Sequence[PlannedSite]) -> set[str]:
        """Return the domains of what an owner holds once all is stamped."""
        survey = self._view.main if owner is None else self._view.survey(owner)
        used = set(survey.domains(self._resolution.wanted))
        if owner is None:
            used.update(kept.domain for kept in self._owners if kept)
        templates = {id(site.template): site.template for site in sites}
        return used | {node.op.domain for t in templates.values() for node in all_nodes(t.nodes)}

    # -------------------------------------------------------------------------- report

    def _report(
        self, sites: Mapping[OperatorId | None, Sequence[PlannedSite]], imports: dict[str, int]
    ) -> InlineReport:
        gone, main = self._resolution.wanted, self._view.main.operators
        calls = Counter[OperatorId]()
        templates = {id(site.template): site.template for found in sites.values() for site in found}
        stamps = Counter(id(site.template) for found in sites.values() for site in found)
        for key, count in stamps.items():
            calls.update({function: n * count for function, n in templates[key].calls.items()})
        return InlineReport(
            calls={str(function): calls[function] for function in sorted(calls)},
            nodes_before=main.total(),
            nodes_after=self._staying(sites) + sum(len(site.template.labels) for site in sites[None]),
            functions_before=len(self._view.functions),
            removed=tuple(str(f) for f in self._view.functions if f in gone),
            left=tuple(self._left(main)),
            conversions=tuple(self._specialiser.converter.done),
            opset_imports=imports if gone else self._view.imports(None),
        )

    def _left(self, main: Counter[OperatorId]) -> Iterable[LeftCalls]:
        for function, reason in sorted(self._resolution.left.items()):
            yield LeftCalls(str(function), main[function], reason)


def _refuse_references(node: Node, place: str) -> None:
    """Raise if a call outside functions refers to an attribute of the function around it."""
    for inner in all_nodes([node]):
        for attribute in inner.attributes:
            if isinstance(attribute, Reference):
                raise InvalidModelError(
                    f"{place}: attribute {attribute.name!r} of {inner.op} refers to the attribute "
                    f"{attribute.ref!r} of a function, but the node is in none; give it a value",
                    function=str(node.op),
                )


def _ordered(own: Mapping[str, int], used: Collection[str], target: Mapping[str, int]) -> dict[str, int]:
    order = [*own, *sorted(set(used) - own.keys())]
    # A model must import something, even if no node is left.
    return {domain: target[domain] for domain in order if domain in used and domain in target} or dict(own)
