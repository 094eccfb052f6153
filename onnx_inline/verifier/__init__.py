"""Is the structure of a model right?  A list of named rules, each looked at by itself."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from onnx_inline.errors import UnknownNameError
from onnx_inline.verifier.findings import Finding, StructureReport
from onnx_inline.verifier.rules import RULES
from onnx_inline.verifier.scopes import Interface, view_of

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

__all__ = ["ALL_RULES", "TIDINESS", "Finding", "StructureReport", "check_structure"]

#: compares a model with the one it was made of
_SAME_INTERFACE = "same-interface"

#: the names of all rules
ALL_RULES = (*RULES, _SAME_INTERFACE)

#: rules that good models of some producers break, so that they say something only beside the original
TIDINESS = ("shadowing", "unused-imports", "node-names")


def check_structure(
    model: onnx.ModelProto | ir.Model,
    *,
    original: onnx.ModelProto | ir.Model | StructureReport | None = None,
    rules: Collection[str] | None = None,
) -> StructureReport:
    """Hold a model to the rules of its structure; weights are not read.

    The rules are ``single-definition``, ``dangling-reads``, ``shadowing``, ``reference-attributes``,
    ``outputs-defined``, ``opset-imports``, ``unused-imports``, ``calls-resolve``, ``no-recursion``,
    ``node-names``, ``value-info``, ``named-values``, ``checker`` and ``same-interface``.

    Args:
        model: the model, in either form.
        original: what the model was made of, or the report about that: the interface must be the same, and
            a rule that it broke already is not held against the model.
        rules: the names of the rules to look at; all if None.

    Returns:
        The findings of all rules together, true if there are none.

    Raises:
        UnknownNameError: there is no rule of a name.

    Example:
        >>> import onnx.parser
        >>> from onnx_inline import check_structure
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 18]>
        ...     main (float[2] x) => (float[2] y) { y = Add (x, z) }
        ... ''')
        >>> print(check_structure(model, rules=["dangling-reads"]))
        1 finding:
        dangling-reads: the graph, node Add at 0: 'z' is read and is defined nowhere
            > y = Add (x, z)
    """
    chosen = _chosen(rules)
    view = view_of(model)
    findings = [finding for name in chosen if name in RULES for finding in RULES[name](view)]
    before = _report(original, chosen)
    # A report is false if it has findings, so it is compared with None.
    tolerated = frozenset() if before is None else before.broken
    if before is not None and _SAME_INTERFACE in chosen:
        findings += _interface_changes(before.interface, view.interface)
    return StructureReport(
        chosen,
        tuple(finding for finding in findings if finding.rule not in tolerated),
        tuple(sorted(tolerated & {finding.rule for finding in findings})),
        view.interface,
    )


def _report(
    original: onnx.ModelProto | ir.Model | StructureReport | None, rules: Collection[str]
) -> StructureReport | None:
    if original is None or isinstance(original, StructureReport):
        return original
    return check_structure(original, rules=rules)


def _chosen(rules: Collection[str] | None) -> tuple[str, ...]:
    if rules is None:
        return ALL_RULES
    for name in rules:
        if name not in ALL_RULES:
            close = difflib.get_close_matches(name, ALL_RULES, n=3)
            raise UnknownNameError(f"there is no rule {name!r}", name=name, close=close)
    return tuple(name for name in ALL_RULES if name in rules)


def _interface_changes(before: Interface, after: Interface) -> Iterator[Finding]:
    for what, old, new in zip(("inputs", "outputs"), before, after, strict=True):
        if old == new:
            continue
        if [name for name, _ in old] == [name for name, _ in new]:
            names = [name for (name, was), (_, is_) in zip(old, new, strict=True) if was != is_]
            message = f"the types of the {what} {', '.join(names)} changed"
        else:
            message = f"the {what} were {[name for name, _ in old]} and are {[name for name, _ in new]}"
        yield Finding(_SAME_INTERFACE, message, "the graph")
