"""Chains of passes on protos, IR models and files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import onnx
import onnx_ir as ir

from onnx_inline.errors import FileError, InvalidModelError
from onnx_inline.files.lazy import from_skeleton, save
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.instruments import NodeCounts, Timing
from onnx_inline.manager import Instrument, Passes, PassManager

if TYPE_CHECKING:
    from onnx_inline.files.plan import External

AnyModel = TypeVar("AnyModel", onnx.ModelProto, ir.Model)


@dataclass(frozen=True)
class PassReport:
    """What one pass did.

    Attributes:
        text: the pass, in text form where it has one.
        modified: whether it changed the model.
        nodes_before: nodes before, those in subgraphs and in functions included.
        nodes_after: nodes afterwards.
        functions_before: functions before.
        functions_after: functions afterwards.
        operators: how many nodes of each operator came (positive) or went (negative).
        seconds: time on the wall.
        memory: how much the memory of the process grew, in bytes; None where the system does not say.
    """

    text: str
    modified: bool
    nodes_before: int
    nodes_after: int
    functions_before: int
    functions_after: int
    operators: dict[str, int]
    seconds: float
    memory: int | None


@dataclass(frozen=True)
class RunReport:
    """What a chain of passes did.

    Attributes:
        passes: what each pass did.
        seconds: time on the wall, reading and writing included.
        notes: what was done to files without being asked for, a sentence each.
    """

    passes: tuple[PassReport, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def modified(self) -> bool:
        """Whether anything changed."""
        return any(one.modified for one in self.passes)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, strings and numbers."""
        passes = [dict(vars(one)) for one in self.passes]
        return {
            "passes": passes,
            "modified": self.modified,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        if not self.passes:
            return "no passes were run"
        before, after = self.passes[0].nodes_before, self.passes[-1].nodes_after
        head = f"ran {len(self.passes)} passes: {before:,} -> {after:,} nodes in {self.seconds:.2g} s"
        return "\n".join([head, *(f"  {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        for one in self.passes:
            nodes = f"{one.nodes_before:,} -> {one.nodes_after:,} nodes" if one.modified else "no change"
            yield f"{one.text}: {nodes}, {one.seconds:.2g} s"
        yield from self.notes


def run_passes(
    model: AnyModel, passes: Passes, *, atomic: bool = False, instruments: Sequence[Instrument] = ()
) -> AnyModel:
    """Run passes on a model.

    Args:
        model: an ``onnx.ModelProto``, which is left as it is, or an ``onnx_ir.Model``, which is changed in
            place as far as the passes work in place.
        passes: passes, or their text form (see :func:`onnx_inline.parse_passes`).
        atomic: put an ``onnx_ir.Model`` back to what it was if a pass fails; a proto always is.
        instruments: what watches.

    Returns:
        The model in the same form.

    Raises:
        PassFailedError: a pass failed.
        InvalidModelError: a proto holds something that onnx_ir, in which passes run, cannot.
        UnknownPassError, PassTextError: the text names no passes.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        ...     main (float[2] x) => (float[2] y) { y = local.twice (x) }
        ...     <domain: "local", opset_import: ["" : 18]>
        ...     twice (a) => (b) { unused = Abs (a) b = Add (a, a) }
        ... ''')
        >>> flat = onnx_inline.run_passes(model, "inline-functions,remove-unused-nodes")
        >>> [node.op_type for node in flat.graph.node]
        ['Add']
    """
    manager = PassManager(passes, atomic=atomic, instruments=instruments)
    if isinstance(model, onnx.ModelProto):
        held = as_ir(model, "the model")
        return ir.serde.serialize_model(manager(held).model)
    return manager(model).model


def run_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    passes: Passes,
    *,
    instruments: Sequence[Instrument] = (),
    dump_on_failure: str | os.PathLike[str] | None = None,
    external: External = "auto",
    external_data: str | None = None,
    size_threshold_bytes: int = 1024,
    external_root: str | None = None,
    input_format: str | None = None,
    output_format: str | None = None,
    force: bool = True,
) -> RunReport:
    """Run passes from file to file; weights that no pass asks for go straight from one to the other.

    Args:
        source: a model file, or ``-`` for standard input.
        target: the file to write, which may be the source, or ``-`` for standard output; None writes
            nothing and only reports.
        passes: passes, or their text form (see :func:`onnx_inline.parse_passes`).
        instruments: what watches.
        dump_on_failure: where to write the model as it was before a pass that fails.
        external, external_data, size_threshold_bytes, external_root: as for :func:`onnx_inline.inline_file`.
        input_format, output_format, force: likewise.

    Returns:
        What each pass did.

    Raises:
        PassFailedError: a pass failed; nothing was written but the dump.
        FileError: a file cannot be read or written; what was on disk before is still there.
        InvalidModelError: the model holds something that onnx_ir, in which passes run, cannot.
        UnknownPassError, PassTextError: the text names no passes.
    """
    started = time.perf_counter()
    timing, counts = Timing(), NodeCounts()
    manager = PassManager(
        passes,
        instruments=(*instruments, counts, timing),
        dump_on_failure=dump_on_failure,
        source=os.fspath(source),
    )
    if not force:
        _refuse_to_overwrite(source, target)
    skeleton = read_skeleton(source, external_root=external_root, input_format=input_format)
    model = manager(as_ir(skeleton.model, os.fspath(source))).model
    notes: tuple[str, ...] = ()
    if target is not None:
        notes = save(
            model,
            target,
            external=external,
            external_data=external_data,
            size_threshold_bytes=size_threshold_bytes,
            output_format=output_format,
        ).notes
    return RunReport(tuple(_pass_reports(counts, timing)), time.perf_counter() - started, notes)


def _refuse_to_overwrite(source: str | os.PathLike[str], target: str | os.PathLike[str] | None) -> None:
    if target is None or os.fspath(target) == "-" or not os.path.lexists(target):
        return
    if not (Path(source).exists() and Path(target).exists() and Path(source).samefile(target)):
        raise FileError("exists and is not the source", path=os.fspath(target), hint="force writes over it")


def _pass_reports(counts: NodeCounts, timing: Timing) -> Iterator[PassReport]:
    for count, taken in zip(counts.counts, timing.times, strict=True):
        facts = {**vars(count), "operators": dict(count.operators)}
        del facts["step"]
        yield PassReport(str(count.step), seconds=taken.seconds, memory=taken.memory, **facts)


def as_ir(proto: onnx.ModelProto, title: str) -> ir.Model:
    """Return a proto, or a skeleton, as an onnx_ir model.

    Raises:
        InvalidModelError: it holds something that onnx_ir cannot; nothing is lost in silence.
    """
    held = onnx.ModelProto()
    held.CopyFrom(proto)
    if lost := ", ".join(_not_held(held)):
        raise InvalidModelError(
            f"{title} has {lost}, which onnx_ir, in which passes run, cannot hold; take that out first, or "
            "use onnx_inline.inline_functions or onnx-inline inline, which keep it"
        )
    try:
        return from_skeleton(held)
    except Exception as error:  # whatever onnx_ir says of a model that it cannot read
        reason = str(error.__cause__ or error)
        raise InvalidModelError(
            f"{title} cannot be read by onnx_ir, in which passes run: {reason}; "
            "see what onnx.checker says of it"
        ) from error


def _not_held(proto: onnx.ModelProto) -> Iterator[str]:
    """Yield what there is in a model that onnx_ir cannot hold; unknown fields are taken out."""
    if proto.training_info:
        yield "training_info"
    if any(graph.sparse_initializer for graph in _graphs(proto.graph)):
        yield "sparse initializers"
    size = proto.ByteSize()
    proto.DiscardUnknownFields()
    if proto.ByteSize() != size:
        yield "protobuf fields that are newer than onnx"


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _graphs(inner)
