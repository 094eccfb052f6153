"""Collapse nested module functions into their parents, down to the blocks that a reader wants."""

from __future__ import annotations

import difflib
import fnmatch
import graphlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import onnx
import onnx_ir as ir

from onnx_inline.engine import inline_ir, inline_proto
from onnx_inline.engine.options import Options
from onnx_inline.engine.plan import View
from onnx_inline.errors import FunctionCycleError, UnknownFunctionError
from onnx_inline.identifiers import OperatorId
from onnx_inline.passes.base import refusing

AnyModel = TypeVar("AnyModel", onnx.ModelProto, ir.Model)

_IDENTITY = OperatorId("", "Identity")


@dataclass(frozen=True)
class FoldModulesPass(ir.passes.InPlacePass):
    """Inline the functions that are nested too deep, are not wanted or are too large; keep the other ones.

    A function stays if all conditions given allow it; calls of the others are replaced by their bodies.
    Functions that only forward to one other always go.  A function stays everywhere or nowhere: one that is
    called at several depths counts as deep as its deepest call.

    Attributes:
        depth: how many functions may be nested in each other: with 0 no function stays, with 1 those that
            the graph calls, without any calls in them.  None for any number.
        classes: the functions that may stay, by name or glob over ``domain::name``; ``Block`` also means
            torch's ``Block.1``, ``Block.2`` and so on.  None for all.
        max_nodes: the most nodes that a function that stays may hold, with all that is nested in it.

    Before::

        <ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] y) { ["top"] y = m._FlattenedModule (x) }
        <domain: "m", opset_import: ["" : 18, "m" : 1]>
        _FlattenedModule (a) => (b) { ["block"] b = m.Block (a) }
        <domain: "m", opset_import: ["" : 18]>
        Block (a) => (c) { b = Relu (a) c = Neg (b) }

    After::

        <ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] y) { ["top/block"] y = m.Block (x) }
        <domain: "m", opset_import: ["" : 18]>
        Block (a) => (c) { b = Relu (a) c = Neg (b) }

    Raises:
        UnknownFunctionError: a class matches no function.
        ModelError: a function that is to go cannot be inlined; the model is as it was.
    """

    name: ClassVar[str] = "fold-modules"

    depth: int | None = None
    classes: str | tuple[str, ...] | None = None
    max_nodes: int | None = None

    def __post_init__(self) -> None:
        for what, number in (("depth", self.depth), ("max_nodes", self.max_nodes)):
            if number is not None and number < 0:
                raise ValueError(f"{what} must not be negative, but is {number}")

    @refusing
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold in place."""
        report = inline_ir.inline(model, self._options(inline_ir.IrView(model)))
        return ir.passes.PassResult(model, report.modified)

    def folded(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return a copy of a proto with its modules folded."""
        options = self._options(inline_proto.ProtoView(model))
        return inline_proto.put_together(model, inline_proto.inline(model, options))

    def _options(self, view: View) -> Options:
        modules = _Modules(view)
        candidates = modules.functions.keys() - modules.wrappers()
        if self.classes is not None:
            candidates &= _of_classes(modules.functions, self.classes)
        if self.max_nodes is not None:
            sizes = modules.sizes()
            candidates = {function for function in candidates if sizes[function] <= self.max_nodes}
        kept = modules.within(candidates, self.depth)
        return Options(only=[function for function in modules.functions if function not in kept])


def fold_modules(
    model: AnyModel,
    *,
    depth: int | None = None,
    classes: str | Iterable[str] | None = None,
    max_nodes: int | None = None,
) -> AnyModel:
    """Collapse nested module functions into their parents, down to the blocks that are wanted.

    Args:
        model: an ``onnx.ModelProto``, which is left as it is, or an ``onnx_ir.Model``, changed in place.
        depth: how many functions may be nested in each other: with 0 no function stays, with 1 those that
            the graph calls, without any calls in them.  None for any number.
        classes: the functions that may stay, by name or glob over ``domain::name``; ``Block`` also means
            torch's ``Block.1``, ``Block.2`` and so on.  None for all.
        max_nodes: the most nodes that a function that stays may hold, with all that is nested in it.

    Returns:
        The model: a new one for a ModelProto, the same object for an ``ir.Model``.

    Raises:
        UnknownFunctionError: a class matches no function.
        ModelError: a function that is to go cannot be inlined; the model is as it was.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        ...     main (float[2] x) => (float[2] y) { y = m.Block (x) }
        ...     <domain: "m", opset_import: ["" : 18, "m" : 1]>
        ...     Block (a) => (c) { b = m.Act (a) c = Neg (b) }
        ...     <domain: "m", opset_import: ["" : 18]>
        ...     Act (a) => (b) { b = Relu (a) }
        ... ''')
        >>> [function.name for function in onnx_inline.fold_modules(model, depth=1).functions]
        ['Block']
    """
    named = classes if classes is None or isinstance(classes, str) else tuple(classes)
    fold = FoldModulesPass(depth=depth, classes=named, max_nodes=max_nodes)
    if isinstance(model, onnx.ModelProto):
        return fold.folded(model)
    fold(model)
    return model


class _Modules:
    """A model's functions and their calls of each other."""

    def __init__(self, view: View) -> None:
        self.functions = view.functions
        self._operators = {function: view.survey(function).operators for function in view.functions}
        self._calls = {
            function: {op: n for op, n in operators.items() if op in self.functions}
            for function, operators in self._operators.items()
        }
        try:
            self._callees_first = list(graphlib.TopologicalSorter(self._calls).static_order())
        except graphlib.CycleError as error:
            # graphlib gives the way from callee to caller.
            raise FunctionCycleError([str(function) for function in reversed(error.args[1])]) from None

    def wrappers(self) -> set[OperatorId]:
        """Return the functions that only forward to one other."""
        return {
            function
            for function, calls in self._calls.items()
            if sum(calls.values())
            == 1
            == sum(self._operators[function].values()) - self._identities(function)
        }

    def _identities(self, function: OperatorId) -> int:
        return self._operators[function][_IDENTITY]

    def sizes(self) -> dict[OperatorId, int]:
        """Return how many nodes each function holds, with all that is nested in it."""
        sizes: dict[OperatorId, int] = {}
        for function in self._callees_first:
            calls = self._calls[function]
            nested = sum((sizes[callee] - 1) * count for callee, count in calls.items())
            sizes[function] = sum(self._operators[function].values()) + nested
        return sizes

    def within(self, candidates: Iterable[OperatorId], depth: int | None) -> set[OperatorId]:
        """Return the candidates that stay if only ``depth`` of them may be nested in each other."""
        wanted, kept = set(candidates), set[OperatorId]()
        around = dict.fromkeys(self._callees_first, 0)
        for function in reversed(self._callees_first):
            nested = around[function]
            if function in wanted and (depth is None or nested < depth):
                kept.add(function)
                nested += 1
            for callee in self._calls[function]:
                around[callee] = max(around[callee], nested)
        return kept


def _of_classes(functions: Mapping[OperatorId, object], classes: str | tuple[str, ...]) -> set[OperatorId]:
    found = set()
    for pattern in (classes,) if isinstance(classes, str) else classes:
        matching = {function for function in functions if _is_of_class(function, pattern)}
        if not matching:
            names = sorted({_class_name(function.name) for function in functions})
            close = difflib.get_close_matches(pattern, names, n=3)
            raise UnknownFunctionError(f"no function is of the class {pattern!r}", name=pattern, close=close)
        found |= matching
    return found


def _is_of_class(function: OperatorId, pattern: str) -> bool:
    names = (function.name, _class_name(function.name))
    spellings = (*names, *(f"{function.domain}::{name}" for name in names))
    return any(fnmatch.fnmatchcase(spelling, pattern) for spelling in spellings)


def _class_name(name: str) -> str:
    """Return a function's name without the number that torch tells instances apart by."""
    return re.sub(r"(\.\d+)+$", "", name)
