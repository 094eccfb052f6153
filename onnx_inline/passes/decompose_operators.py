"""Replace operators that a reader lacks by what they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, overload

import onnx
import onnx.defs
import onnx_ir as ir

from onnx_inline.errors import NoBodyError, UnknownNameError
from onnx_inline.identifiers import OperatorId, normalized_domain
from onnx_inline.inference import all_nodes, operator_id
from onnx_inline.passes.base import refusing
from onnx_inline.passes.both_forms import on_either
from onnx_inline.passes.expansion import Expander, Left, Wish
from onnx_inline.targets import Target, load_target

AnyModel = TypeVar("AnyModel", onnx.ModelProto, ir.Model)
#: An operator: ``"Softplus"``, ``"domain::Name"`` or ``(domain, name)``.
Operator = str | tuple[str, str] | OperatorId


@dataclass(frozen=True)
class LeftOperator:
    """Operators that were left although the target lacks them."""

    operator: str
    nodes: int
    reason: str


@dataclass(frozen=True)
class DecomposeReport:
    """What a decomposition did.

    Attributes:
        expanded: the number of nodes that were replaced, by operator.
        left: what the target lacks and is still there, with reasons.
    """

    expanded: Mapping[str, int] = field(default_factory=dict)
    left: tuple[LeftOperator, ...] = ()

    @property
    def modified(self) -> bool:
        """Whether anything changed."""
        return bool(self.expanded)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        plain = asdict(self)
        plain["left"] = list(plain["left"])
        return plain

    def __str__(self) -> str:
        nodes = sum(self.expanded.values())
        head = (
            f"decomposed {nodes:,} nodes of {len(self.expanded):,} operators"
            if nodes
            else "nothing to decompose"
        )
        lines = [f"  {operator}: {count:,}" for operator, count in self.expanded.items()]
        lines += [f"  left {entry.nodes:,} of {entry.operator}: {entry.reason}" for entry in self.left]
        return "\n".join([head, *lines])


@dataclass
class DecomposePassResult(ir.passes.PassResult):
    """The result of :class:`DecomposeOperatorsPass`; ``report`` says what was done."""

    report: DecomposeReport


@dataclass(frozen=True)
class DecomposeOperatorsPass(ir.passes.InPlacePass):
    """Replace operators by the function bodies of their schemas, until only supported ones are left.

    Attributes:
        target: the target whose operators may stay: a name, a path or a target.
        operators: operators to replace whether or not the target takes them.

    The options are those of :func:`onnx_inline.decompose_operators`.

    Before::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { ["act"] y = Softsign (x) }

    After::

        <ir_version: 8, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) {
            ["act/Constant"] "act/One" = Constant <value: tensor = float {1}> ()
            ["act/Abs"] "act/AbsInput" = Abs (x)
            ["act/Add"] "act/OneAddAbsInput" = Add ("act/One", "act/AbsInput")
            ["act/Div"] y = Div (x, "act/OneAddAbsInput")
        }

    Raises:
        NoBodyError: an operator that was named has no body, or none for the way it is used.
        ModelError: the model cannot be changed as asked; it is as it was.
    """

    name: ClassVar[str] = "decompose-operators"

    target: str | Target | None = None
    operators: tuple[Operator, ...] | None = None

    @refusing
    def call(self, model: ir.Model) -> DecomposePassResult:
        """Replace in place."""
        named = _named(model, self.operators)
        target = None if self.target is None else load_target(self.target)
        expander = Expander(Wish(target, named))
        expander.run(model, refuse=lambda left: _refuse(left, named))
        report = _report(expander)
        return DecomposePassResult(model, report.modified, report)


@overload
def decompose_operators(
    model: AnyModel,
    *,
    target: str | Target | None = ...,
    operators: Iterable[Operator] | None = ...,
    with_report: Literal[False] = ...,
) -> AnyModel: ...


@overload
def decompose_operators(
    model: AnyModel,
    *,
    target: str | Target | None = ...,
    operators: Iterable[Operator] | None = ...,
    with_report: Literal[True],
) -> tuple[AnyModel, DecomposeReport]: ...


def decompose_operators(
    model: Any,
    *,
    target: str | Target | None = None,
    operators: Iterable[Operator] | None = None,
    with_report: bool = False,
) -> Any:
    """Replace operators by what they are made of, until only supported ones are left.

    A body is that of the operator's schema, at the opset of the model and for the types that shape inference
    finds; operators whose schema has none may have a body of this package.  For a gradient builder these
    are used only where gradients go: elsewhere the operator itself does no harm.

    Args:
        model: an :class:`onnx.ModelProto`, which is left as it is, or an :class:`onnx_ir.Model`, which is
            changed in place.  Weights are neither read nor copied.
        target: what may stay: the name of a target, the path of a target file, or a target.
        operators: operators to replace in any case: ``"Softplus"``, ``"domain::Name"`` or ``(domain, name)``.
            With neither a target nor operators, all operators whose schema has a body are replaced.
        with_report: return a report as well.

    Returns:
        The model: a new one for a ModelProto, the same object for an ``ir.Model``; with ``with_report`` a
        pair of the model and a :class:`DecomposeReport`, which says what the target lacks and has no body.

    Raises:
        NoBodyError: an operator that was named has no body, or none for the way it is used.
        UnknownNameError: there is no operator, or target, of a name given.
        ModelError: the model cannot be changed as asked.

        Whatever is raised, the model is as it was.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 8, opset_import: ["" : 18]>
        ...     main (float[2] x) => (float[2] y) { y = Softsign (x) }
        ... ''')
        >>> decomposed = onnx_inline.decompose_operators(model, target="ort-training")
        >>> [node.op_type for node in decomposed.graph.node]
        ['Constant', 'Abs', 'Add', 'Div']
    """
    listed = None if operators is None else tuple(operators)
    decompose = DecomposeOperatorsPass(target, listed)
    reports = []

    def transform(changed: ir.Model) -> bool:
        outcome = decompose.call(changed)
        reports.append(outcome.report)
        return outcome.modified

    result = on_either(model, transform)
    return (result, reports[0]) if with_report else result


def _named(model: ir.Model, operators: Iterable[Operator] | None) -> frozenset[OperatorId]:
    if operators is None:
        return frozenset()
    used = {operator_id(n) for owner in (model.graph, *model.functions.values()) for n in all_nodes(owner)}
    named = [_identifier(operator) for operator in operators]
    for op in named:
        if op not in used and not onnx.defs.has(op.name, op.domain):
            raise UnknownNameError(f"there is no operator {op}, in the model or in ONNX", name=str(op))
    return frozenset(named)


def _identifier(operator: Operator) -> OperatorId:
    if isinstance(operator, str):
        domain, _, name = operator.rpartition("::")
        return OperatorId(normalized_domain(domain), name)
    return OperatorId(normalized_domain(operator[0]), operator[1])


def _refuse(left: Left, named: frozenset[OperatorId]) -> None:
    for (op, reason), _ in left.items():
        if op in named:
            raise NoBodyError(str(op), reason)


def _report(expander: Expander) -> DecomposeReport:
    left = Counter({(str(op), reason): count for (op, reason), count in expander.left.items()})
    return DecomposeReport(
        expanded={str(op): expander.expanded[op] for op in sorted(expander.expanded)},
        left=tuple(LeftOperator(op, left[op, reason], reason) for op, reason in sorted(left)),
    )
