"""Everything that a model needs before its reader takes it, in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import onnx
import onnx_ir as ir
import onnx_ir.passes.common

from onnx_inline.engine import inline_ir, inline_proto
from onnx_inline.engine.options import Options
from onnx_inline.engine.report import InlineReport
from onnx_inline.engine.selection import Patterns
from onnx_inline.gradients import GradientReport, check_gradients
from onnx_inline.passes.adapt_to_builder import AdaptToBuilderPass
from onnx_inline.passes.both_forms import on_either
from onnx_inline.passes.casts import RemoveNoopCastsPass
from onnx_inline.passes.decompose_operators import DecomposeOperatorsPass, DecomposeReport
from onnx_inline.passes.expand_frozen import ExpandFrozenPass
from onnx_inline.passes.fold_integers import FoldIntegersPass
from onnx_inline.passes.lower_versions import LowerVersionsPass
from onnx_inline.passes.restore_output_names import RestoreOutputNamesPass
from onnx_inline.passes.split_sequences import SplitSequencesPass
from onnx_inline.passes.take_constant_ifs import TakeConstantIfsPass
from onnx_inline.shadow import shadow_of
from onnx_inline.targets import Target, load_target

if TYPE_CHECKING:
    from onnx_inline.files.plan import External

AnyModel = TypeVar("AnyModel", onnx.ModelProto, ir.Model)


@dataclass(frozen=True)
class PrepareReport:
    """What preparing did, and what it could not do.

    Attributes:
        target: the target's name.
        inlined: what was inlined.
        decomposed: what was decomposed, and what the target lacks and has no body.
        cleaned: the cleaning passes that changed something, by name.
        check: what still stands between the model and the target.
    """

    target: str
    inlined: InlineReport
    decomposed: DecomposeReport
    cleaned: tuple[str, ...]
    check: GradientReport

    @property
    def ok(self) -> bool:
        """Whether nothing blocks any more."""
        return self.check.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        return {
            "ok": self.ok,
            "target": self.target,
            "inlined": self.inlined.to_dict(),
            "decomposed": self.decomposed.to_dict(),
            "cleaned": list(self.cleaned),
            "check": self.check.to_dict(),
        }

    def __str__(self) -> str:
        parts = [str(self.inlined), str(self.decomposed)]
        if self.cleaned:
            parts.append(f"cleaned: {', '.join(self.cleaned)}")
        return "\n".join([str(self.check), *parts])


@overload
def prepare(
    model: AnyModel,
    target: str | os.PathLike[str] | Target = ...,
    *,
    keep: Patterns = ...,
    trainable: Sequence[str] | None = ...,
    output_names: Sequence[str] | None = ...,
    with_report: Literal[False] = ...,
) -> AnyModel: ...


@overload
def prepare(
    model: str | os.PathLike[str],
    target: str | os.PathLike[str] | Target = ...,
    *,
    keep: Patterns = ...,
    trainable: Sequence[str] | None = ...,
    output_names: Sequence[str] | None = ...,
    with_report: Literal[False] = ...,
) -> onnx.ModelProto: ...


@overload
def prepare(
    model: AnyModel,
    target: str | os.PathLike[str] | Target = ...,
    *,
    keep: Patterns = ...,
    trainable: Sequence[str] | None = ...,
    output_names: Sequence[str] | None = ...,
    with_report: Literal[True],
) -> tuple[AnyModel, PrepareReport]: ...


@overload
def prepare(
    model: str | os.PathLike[str],
    target: str | os.PathLike[str] | Target = ...,
    *,
    keep: Patterns = ...,
    trainable: Sequence[str] | None = ...,
    output_names: Sequence[str] | None = ...,
    with_report: Literal[True],
) -> tuple[onnx.ModelProto, PrepareReport]: ...


def prepare(
    model: Any,
    target: str | os.PathLike[str] | Target = "ort-training",
    *,
    keep: Patterns = None,
    trainable: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    with_report: bool = False,
) -> Any:
    """Make a model one that a reader takes: inline, lower, decompose, clean, name and check.

    Inputs, outputs and initializers keep their names, order and types; weights are neither read nor copied
    more than a new model needs.  What the reader lacks and nothing can be done about is left, and the report
    says so.

    Args:
        model: an :class:`onnx.ModelProto`, which is left as it is, an :class:`onnx_ir.Model`, which is
            changed in place, or the path of a model file, whose weights stay there.
        target: the name of a target, the path of a target file, or a target.
        keep: functions to leave as calls, because the reader knows them.
        trainable: the initializers and inputs that gradients are asked for; all floating-point initializers
            if None.
        output_names: new names for the outputs, in order.
        with_report: return a report as well.

    Returns:
        The model: a new one for a ModelProto or a path, the same object for an ``ir.Model``; with
        ``with_report`` a pair of the model and a :class:`PrepareReport`.

    Raises:
        ModelError: functions cannot be inlined, the opset cannot be lowered, or outputs cannot be named so.
        UnknownNameError: ``keep``, ``trainable`` or ``target`` names something that is not there.
        FileError: a file cannot be read.

        Whatever is raised, the model is as it was.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 12, opset_import: ["" : 22, "local" : 1]>
        ...     main (float[2] x) => (float[2] out_1) <float[2] w = {1, 2}> { out_1 = local.act (x, w) }
        ...     <domain: "local", opset_import: ["" : 22]>
        ...     act (a, b) => (c) { d = Mul (a, b) c = Softplus (d) }
        ... ''')
        >>> prepared, report = onnx_inline.prepare(model, output_names=["y"], with_report=True)
        >>> [node.op_type for node in prepared.graph.node], report.ok
        (['Mul', 'Exp', 'Constant', 'Add', 'Log'], True)
    """
    if isinstance(model, (str, os.PathLike)):
        from onnx_inline.files.protos import load_proto

        model = load_proto(model)
    names = None if output_names is None else tuple(output_names)
    job = _Job(load_target(target), keep, None if trainable is None else tuple(trainable), names)
    if isinstance(model, ir.Model):
        # What cannot be done shows on the way, so the way is gone without the weights first.
        trial = ir.serde.deserialize_model(shadow_of(model))
        job.run(trial)
        check_gradients(trial, job.target, trainable, keep=keep)
    if isinstance(model, onnx.ModelProto):
        # The engine says more clearly what is wrong with a function than what comes after.
        inline_proto.inline(shadow_of(model), Options(keep=keep))
        if model.training_info:
            # Training graphs call functions too, and no onnx_ir model holds them.
            model = inline_proto.put_together(model, inline_proto.inline(model, Options(keep=keep)))
    steps: list[_Done] = []

    def transform(changed: ir.Model) -> bool:
        steps.append(job.run(changed))
        return True

    result = on_either(model, transform)
    if not with_report:
        return result
    check = check_gradients(result, job.target, trainable, keep=keep)
    return result, PrepareReport(job.target.name, *steps[0], check)


def prepare_file(
    source: str | os.PathLike[str],
    target_path: str | os.PathLike[str] | None,
    target: str | os.PathLike[str] | Target = "ort-training",
    *,
    keep: Patterns = None,
    trainable: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    external: External = "auto",
    external_data: str | None = None,
    size_threshold_bytes: int = 1024,
    external_root: str | None = None,
    input_format: str | None = None,
    output_format: str | None = None,
    force: bool = True,
) -> PrepareReport:
    """Prepare from file to file; weights go straight from one to the other.

    Args:
        source: a model file, or ``-`` for standard input.
        target_path: the file to write, which may be the source, or ``-`` for standard output; None writes
            nothing and only reports.
        target, keep, trainable, output_names: as for :func:`prepare`.
        external, external_data, size_threshold_bytes, external_root, input_format, output_format, force: as
            for :func:`onnx_inline.inline_file`.

    Returns:
        What was done, and what still blocks.

    Raises:
        FileError: a file cannot be read or written; what was on disk before is still there.
        ModelError, UnknownNameError: as for :func:`prepare`.

    Example:
        >>> report = onnx_inline.prepare_file("in.onnx", "out.onnx", "ort-training")  # doctest: +SKIP
    """
    from onnx_inline.files.skeleton import read_skeleton
    from onnx_inline.files.writer import write_model

    skeleton = read_skeleton(source, external_root=external_root, input_format=input_format)
    prepared, report = prepare(
        skeleton.model, target, keep=keep, trainable=trainable, output_names=output_names, with_report=True
    )
    if target_path is not None:
        write_model(
            target_path,
            prepared,
            source=skeleton,
            external=external,
            external_data=external_data,
            size_threshold_bytes=size_threshold_bytes,
            force=force,
            output_format=output_format,
        )
    made: PrepareReport = report
    return made


_Done = tuple[InlineReport, DecomposeReport, tuple[str, ...]]


@dataclass(frozen=True)
class _Job:
    target: Target
    keep: Patterns
    trainable: tuple[str, ...] | None
    output_names: tuple[str, ...] | None

    def run(self, model: ir.Model) -> _Done:
        """Change a model in place."""
        inlined = inline_ir.inline(model, Options(keep=self.keep))
        before = self._passes(model, self._before())
        decomposed = DecomposeOperatorsPass(self.target).call(model).report
        after = self._passes(model, self._after())
        return inlined, decomposed, tuple(dict.fromkeys([*before, *after]))

    def _before(self) -> list[ir.passes.PassBase]:
        """Return what makes fewer nodes of what is going to be decomposed, and the versions right."""
        unused: ir.passes.PassBase = ir.passes.common.RemoveUnusedOpsetsPass()
        frozen = ExpandFrozenPass(self.trainable, self.target)
        lowered, folded = LowerVersionsPass(self.target), FoldIntegersPass()
        return [unused, lowered, folded, TakeConstantIfsPass(), SplitSequencesPass(), frozen]

    def _after(self) -> list[ir.passes.PassBase]:
        """Return what deals with what bodies are made of, then names."""
        passes: list[ir.passes.PassBase] = [FoldIntegersPass(), TakeConstantIfsPass(), RemoveNoopCastsPass()]
        if self.output_names is not None:
            passes.append(RestoreOutputNamesPass(self.output_names))
        return [*passes, AdaptToBuilderPass(self.target)]

    @staticmethod
    def _passes(model: ir.Model, passes: list[ir.passes.PassBase]) -> list[str]:
        return [str(getattr(one, "name", type(one).__name__)) for one in passes if one.call(model).modified]
