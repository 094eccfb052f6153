"""Training artifacts for ONNX Runtime from a model with functions, of any size.

``onnxruntime.training.artifacts.generate_artifacts`` stops at functions, at losses of more than one block on
models with external data, at batch normalisation, and at the IR version of a current onnx.  The function of
the same name here takes the same parameters and gets through; what it changes in ONNX Runtime lasts for the
call.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from onnx_inline.errors import FileError, GradientBuilderError, InvalidModelError, UnknownNameError
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.sources import Source
from onnx_inline.files.tensors import all_tensors
from onnx_inline.integrations import weight_files, weightless
from onnx_inline.integrations.ort_blocks import blocks_without_weights

if TYPE_CHECKING:
    from onnx_inline.preparation import PrepareReport

#: Protobuf's limit for one message, less room for the graph itself, in bytes.
LARGEST_EMBEDDED = 2**31 - 2**26


@dataclass(frozen=True)
class Artifacts:
    """The files that were written.

    Attributes:
        training_model: the model with loss and gradients.
        eval_model: the model with the loss.
        checkpoint: the parameters; of more than about 2 GB with a second file ``checkpoint.data`` beside it.
        optimizer_model: the optimizer, or None if none was asked for.
        nominal_checkpoint: the checkpoint without numbers, or None if none was asked for.
        report: what was done to the model before, and what could not be done.
    """

    training_model: Path
    eval_model: Path
    checkpoint: Path
    optimizer_model: Path | None
    nominal_checkpoint: Path | None
    report: PrepareReport


class GradientWarning(UserWarning):
    """ONNX Runtime builds a gradient, but one that differs from what the model says."""


def generate_artifacts(
    model: onnx.ModelProto | str | os.PathLike[str],
    requires_grad: Sequence[str] | None = None,
    frozen_params: Sequence[str] | None = None,
    loss: Any = None,
    optimizer: Any = None,
    artifact_directory: str | bytes | os.PathLike[str] | None = None,
    prefix: str = "",
    ort_format: bool = False,
    custom_op_library: str | bytes | os.PathLike[str] | None = None,
    additional_output_names: Sequence[str] | None = None,
    nominal_checkpoint: bool = False,
    loss_input_names: Sequence[str] | None = None,
    *,
    keep: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Artifacts:
    """Write what ONNX Runtime needs to train ``model``, functions and all.

    The first twelve parameters are those of ``onnxruntime.training.artifacts.generate_artifacts``.

    Args:
        model: the model, or the path of its file (necessary for external data); it is not changed.
        requires_grad: the initializers to train.
        frozen_params: the initializers to keep as parameters that are not trained.
        loss: a ``LossType``, a block, or None if the model computes its own loss as its first output.
        optimizer: an ``OptimType``, a block, or None for no optimizer model.
        artifact_directory: an existing folder for the files; None is the working directory.
        prefix: goes in front of every file name.
        ort_format: write models in ONNX Runtime's own format too.
        custom_op_library: a library with custom operators.
        additional_output_names: values of the model to return beside the loss.
        nominal_checkpoint: also write a checkpoint with types and shapes only.
        loss_input_names: the outputs that the loss takes; None is all of them.
        keep: functions to leave as calls, as identifiers or patterns; they need a gradient registered with
            ONNX Runtime by ``register_gradient_definition("domain::name", ...)``.
        output_names: new names for the outputs, in order; torch's exporter loses them when the outermost
            module is a function.  The names in other parameters are these new ones.

    Returns:
        The paths of the files.

    Raises:
        UnknownNameError: ``requires_grad`` or ``frozen_params`` names an initializer that is not there.
        ModelError: the model cannot be prepared, or holds over 2 GiB that are no parameters.
        GradientBuilderError: ONNX Runtime cannot build the gradients; the error says what the check found.
        FileError: a file cannot be read, or there is no such folder.
        ValueError: there is an optimizer and nothing to train.
        RuntimeError, TypeError: whatever ONNX Runtime's own function refuses.

    All files are made in a folder of their own and moved when all are there.  ONNX Runtime itself reads the
    weights from their file, so they are in memory about once, and not at all when the checkpoint has more
    than 2 GB.  Calls from several threads wait for each other.  A custom block sees trained weights of 1 KiB
    and more by type and shape only.  A :class:`GradientWarning` names what ONNX Runtime takes but gets wrong,
    such as a kept function with the name of an operator.

    Example::

        generate_artifacts(
            "net.onnx", requires_grad=["fc1.weight", "fc1.bias"], loss=LossType.MSELoss,
            optimizer=OptimType.AdamW, artifact_directory="artifacts",
        )
    """
    from onnxruntime.training import artifacts

    if optimizer is not None and not requires_grad:
        raise ValueError("an optimizer needs something to train: name initializers in requires_grad")
    folder = _folder(artifact_directory)
    source = _read(model)
    chosen = {*(requires_grad or ()), *(frozen_params or ())}
    if not isinstance(loss, artifacts.onnxblock.Block):
        _refuse_unknown(chosen, source)
    with tempfile.TemporaryDirectory(prefix=".onnx_inline-", dir=folder) as scratch:
        parts = _split(source, chosen, Path(scratch))
        prepared, report = _prepare(parts.skeleton, requires_grad or (), keep, output_names)
        results = Path(scratch, "artifacts")
        results.mkdir()
        with _explained(report), blocks_without_weights(parts.weights, Path(scratch)):
            artifacts.generate_artifacts(
                prepared,
                requires_grad=_listed(requires_grad),
                frozen_params=_listed(frozen_params),
                loss=loss,
                optimizer=optimizer,
                artifact_directory=results,
                prefix=prefix,
                ort_format=ort_format,
                custom_op_library=custom_op_library,
                additional_output_names=_listed(additional_output_names),
                nominal_checkpoint=nominal_checkpoint,
                loss_input_names=_listed(loss_input_names),
            )
        for file in parts.sources:
            file.check_unchanged()
        _move(results, folder)
    return _artifacts(folder, prefix, optimizer is not None, nominal_checkpoint, report)


@dataclass(frozen=True)
class _Parts:
    """A model without the numbers of its large parameters, references to them, and the files they are in."""

    skeleton: onnx.ModelProto
    weights: dict[str, onnx.TensorProto]
    sources: set[Source]


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _folder(artifact_directory: str | bytes | os.PathLike[str] | None) -> Path:
    folder = Path(os.fsdecode(artifact_directory)) if artifact_directory is not None else Path.cwd()
    if not folder.is_dir():
        raise FileError("is no folder to write artifacts to", path=str(folder), hint="make it first")
    return folder.absolute()


def _read(model: onnx.ModelProto | str | os.PathLike[str]) -> onnx.ModelProto:
    """Return the model; weights of a file stay there."""
    return model if isinstance(model, onnx.ModelProto) else read_skeleton(model).model


def _refuse_unknown(names: set[str], model: onnx.ModelProto) -> None:
    """Raise if a name is that of no initializer and no input."""
    known = [tensor.name for tensor in (*model.graph.initializer, *model.graph.input)]
    for name in sorted(names - set(known)):
        raise UnknownNameError(
            f"the model has no initializer {name!r} to train or to freeze",
            name=name,
            close=difflib.get_close_matches(name, known),
        )


def _split(model: onnx.ModelProto, chosen: set[str], scratch: Path) -> _Parts:
    """Take the large parameters out of ``model``; load everything else."""
    large = [
        tensor
        for tensor in model.graph.initializer
        if weight_files.is_large(tensor) and (tensor.name in chosen or not chosen)
    ]
    external = {
        tensor.name: weight_files.file_of(tensor) for tensor in large if weight_files.is_external(tensor)
    }
    sources = {name: source for name, source in external.items() if source is not None}
    places = {
        one.name: weight_files.reference(one, sources[one.name]) for one in large if one.name in sources
    }
    others = [tensor for tensor in large if tensor.name not in sources]
    skeleton = weightless.without_data(model, {tensor.name for tensor in large})
    _load_rest(skeleton)
    _drop_initialised_inputs(skeleton)
    written = weight_files.spilled(others, scratch / "weights.bin")
    return _Parts(skeleton, places | written, set(sources.values()))


def _drop_initialised_inputs(skeleton: onnx.ModelProto) -> None:
    """Leave initializers that are inputs as well out of the inputs: ONNX Runtime adds parameters again."""
    initialised = {tensor.name for tensor in skeleton.graph.initializer}
    inputs = [value for value in skeleton.graph.input if value.name not in initialised]
    del skeleton.graph.input[:]
    skeleton.graph.input.extend(inputs)


def _load_rest(skeleton: onnx.ModelProto) -> None:
    """Load the tensors that stay in the model: those are constants to ONNX Runtime."""
    rest = [tensor for tensor in all_tensors(skeleton) if weight_files.is_external(tensor)]
    if (size := sum(map(weight_files.byte_size, rest))) > LARGEST_EMBEDDED:
        largest = max(rest, key=weight_files.byte_size)
        raise InvalidModelError(
            f"{size} bytes of tensors are neither trained nor frozen, and a model file holds 2 GiB; "
            f"name {largest.name!r} and the like in requires_grad or frozen_params"
        )
    for tensor in rest:
        tensor.CopyFrom(weight_files.loaded(tensor))


def _prepare(
    skeleton: onnx.ModelProto,
    requires_grad: Iterable[str],
    keep: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> tuple[onnx.ModelProto, PrepareReport]:
    """Prepare the model while its weights are inputs; return it, and what was done."""
    from onnx_inline.preparation import prepare

    known = {value.name for value in (*skeleton.graph.initializer, *skeleton.graph.input)}
    # A custom block may add parameters of its own, which are not there yet.
    trainable = [name for name in requires_grad if name in known] or None
    reports: list[PrepareReport] = []

    def transform(model: onnx.ModelProto) -> onnx.ModelProto:
        prepared: onnx.ModelProto
        prepared, report = prepare(
            model, keep=keep, trainable=trainable, output_names=output_names, with_report=True
        )
        reports.append(report)
        return prepared

    return weightless.on_inputs(skeleton, transform), reports[0]


@contextlib.contextmanager
def _explained(report: PrepareReport) -> Iterator[None]:
    """If ONNX Runtime fails, say what the check found; if not, warn of what it gets wrong without failing."""
    findings = report.check.blocking
    try:
        yield
    except RuntimeError as error:
        if findings:
            raise GradientBuilderError(str(error), findings=tuple(map(str, findings))) from error
        raise
    for finding in findings:
        warnings.warn(str(finding), GradientWarning, stacklevel=4)


def _move(results: Path, folder: Path) -> None:
    """Put the finished files where they belong, data before the checkpoints that read it."""
    for path in sorted(results.iterdir(), key=lambda path: (path.suffix != ".data", path.name)):
        path.replace(folder / path.name)


def _artifacts(folder: Path, prefix: str, optimizer: bool, nominal: bool, report: PrepareReport) -> Artifacts:
    def path(name: str) -> Path:
        return folder / f"{prefix}{name}"

    return Artifacts(
        training_model=path("training_model.onnx"),
        eval_model=path("eval_model.onnx"),
        checkpoint=path("checkpoint"),
        optimizer_model=path("optimizer_model.onnx") if optimizer else None,
        nominal_checkpoint=path("nominal_checkpoint") if nominal else None,
        report=report,
    )
