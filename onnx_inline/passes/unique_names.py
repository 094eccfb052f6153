"""Give every value and every node a name of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import onnx_ir as ir

from onnx_inline.names import NameScope

#: the key under which onnx_ir keeps the names of tensors that quantize a value
_QUANTIZATION = "quant_parameter_tensor_names"


@dataclass(frozen=True)
class UniqueNamesPass(ir.passes.InPlacePass):
    """Name values and nodes so that a graph, with all its subgraphs, has each name once.

    Names of the interface stay as they are: inputs, outputs and initializers of the model, inputs and
    outputs of functions.

    Attributes:
        style: ``keep`` leaves names that are unique; ``path`` names nodes by the way to them,
            ``If_1/then_branch/Add``, and values after the nodes that compute them, ``Add_out``; ``short``
            gives numbers, ``n1`` to nodes and ``v1`` to values.
        alphabet: ``any`` characters, or those of an ``identifier``: letters, digits and ``_``.

    Before::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) {
            ["act"] a = Abs (x)
            ["act"] b = Neg (a)
            y = Relu (b)
        }

    After::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) {
            ["act"] a = Abs (x)
            ["act_2"] b = Neg (a)
            ["Relu"] y = Relu (b)
        }
    """

    name: ClassVar[str] = "unique-names"

    style: Literal["keep", "path", "short"] = "keep"
    alphabet: Literal["any", "identifier"] = "any"

    def __post_init__(self) -> None:
        if self.style not in ("keep", "path", "short"):
            raise ValueError(f"style must be keep, path or short, not {self.style!r}")
        if self.alphabet not in ("any", "identifier"):
            raise ValueError(f"alphabet must be any or identifier, not {self.alphabet!r}")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rename in place."""
        graphs = (model.graph, *(function.graph for function in model.functions.values()))
        renamed = [_rename(graph, _chosen_names(graph, self)) for graph in graphs]
        return ir.passes.PassResult(model, any(renamed))


#: what is renamed, and its new name
_Choice = tuple[Any, str]


def _chosen_names(graph: ir.Graph, options: UniqueNamesPass) -> list[_Choice]:
    """Return a name for each value and node that may have another one."""
    namer = _Namer(graph, options)
    namer.graph(graph, "")
    return namer.choices


class _Namer:
    """Chooses names in a graph that sees no other; changes nothing."""

    def __init__(self, graph: ir.Graph, options: UniqueNamesPass) -> None:
        self._style = options.style
        self._identifiers = options.alphabet == "identifier"
        fixed = [*graph.inputs, *graph.outputs, *graph.initializers.values()]
        self._fixed = {id(value) for value in fixed}
        names = {value.name or "" for value in fixed}
        values, nodes = self._existing(graph) if self._style == "keep" else (set(), set())
        self._values, self._nodes = _Keeper(values, names), _Keeper(nodes, set())
        self._counts = {"v": 0, "n": 0}
        self.choices: list[_Choice] = []

    def _existing(self, graph: ir.Graph) -> tuple[set[str], set[str]]:
        values, nodes = set[str](), set[str]()
        for node in graph.all_nodes():
            nodes.add(self._spelled(node.name or ""))
            values.update(self._spelled(value.name or "") for value in node.outputs)
            for _, inner in _subgraphs(node):
                own = (*inner.inputs, *inner.initializers.values())
                values.update(self._spelled(value.name or "") for value in own)
        return values, nodes

    def graph(self, graph: ir.Graph, path: str) -> None:
        """Choose names in a graph and the graphs in it; the outer ones come first and keep theirs."""
        for value in (*graph.inputs, *graph.initializers.values()):
            self._value(value, self._placed(path, value.name or "value"))
        labelled = [(node, self._node(node, path)) for node in graph]
        for node, label in labelled:
            for position, value in enumerate(node.outputs):
                if value.name != "":  # that is an output left out
                    self._value(value, f"{label}_out{position or ''}")
        for node, label in labelled:
            for attribute, inner in _subgraphs(node):
                self.graph(inner, f"{label}/{attribute}")

    def _value(self, value: ir.Value, path: str) -> None:
        if id(value) in self._fixed:
            return
        preferred = {"keep": value.name or path, "path": path, "short": self._numbered("v")}[self._style]
        self.choices.append((value, self._values.claim(self._spelled(preferred))))

    def _node(self, node: ir.Node, path: str) -> str:
        own = node.name or node.op_type
        whole = self._placed(path, own)
        preferred = {"keep": own, "path": whole, "short": self._numbered("n")}[self._style]
        name = self._nodes.claim(self._spelled(preferred))
        self.choices.append((node, name))
        return name

    def _placed(self, path: str, own: str) -> str:
        """Return a name under a path, as it is if it is there already."""
        below = f"{path}/" if path else ""
        return own if own.startswith((below, self._spelled(below))) else below + own

    def _numbered(self, letter: str) -> str:
        if self._style == "short":
            self._counts[letter] += 1
        return f"{letter}{self._counts[letter]}"

    def _spelled(self, name: str) -> str:
        if not self._identifiers:
            return name
        spelled = re.sub(r"\W", "_", name, flags=re.ASCII)
        return f"_{spelled}" if spelled[:1].isdigit() else spelled


class _Keeper:
    """Lets the first that asks for a name that exists already have it; others get free ones."""

    def __init__(self, existing: set[str], fixed: set[str]) -> None:
        self._free = existing - fixed - {""}
        self._scope = NameScope(existing | fixed)

    def claim(self, preferred: str) -> str:
        if preferred in self._free:
            self._free.discard(preferred)
            return preferred
        return self._scope.claim(preferred)


def _subgraphs(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.name, attribute.as_graph()
        elif attribute.type is ir.AttributeType.GRAPHS:
            yield from ((f"{attribute.name}_{k}", graph) for k, graph in enumerate(attribute.as_graphs()))


def _rename(graph: ir.Graph, choices: list[_Choice]) -> bool:
    """Give names, and say whether any is new; names that others refer to by text follow."""
    changed = [(thing, name) for thing, name in choices if thing.name != name]
    values = {thing.name: name for thing, name in changed if isinstance(thing, ir.Value) and thing.name}
    _make_way(changed)
    for thing, name in changed:
        thing.name = name
    if values:
        _follow(graph, values)
    return bool(changed)


def _make_way(changed: list[_Choice]) -> None:
    """Take old names away from initializers, which a graph keeps by name, so that they can be exchanged."""
    for number, (thing, _) in enumerate(changed):
        if isinstance(thing, ir.Value) and thing.is_initializer():
            thing.name = f"{thing.name}\0{number}"


def _follow(graph: ir.Graph, values: dict[str, str]) -> None:
    for node in graph.all_nodes():
        for value in node.outputs:
            if names := value.meta.get(_QUANTIZATION):
                value.meta[_QUANTIZATION] = {role: values.get(name, name) for role, name in names.items()}
