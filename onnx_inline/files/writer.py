"""Save a model: choose where each tensor's data go, write, and put the result in place in one step."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx

from onnx_inline.errors import ExternalDataError, FileError
from onnx_inline.files import data_files, forms, pairs, publish
from onnx_inline.files.detached import serialised
from onnx_inline.files.layout import Layout, Piece, Range
from onnx_inline.files.pairs import Save
from onnx_inline.files.plan import External, Plan, Request, stays_valid
from onnx_inline.files.publish import Target
from onnx_inline.files.skeleton import Skeleton
from onnx_inline.files.sources import Source


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a save did.

    Attributes:
        path: the model file, ``-`` for standard output.
        size: its size in bytes.
        data_path: the new data file beside it, None if none was written.
        data_size: its size in bytes.
        notes: what was done without being asked for, a sentence each.
    """

    path: str
    size: int
    data_path: str | None = None
    data_size: int = 0
    notes: tuple[str, ...] = ()


def write_model(
    target: str | os.PathLike[str],
    model: onnx.ModelProto,
    *,
    nodes: Sequence[bytes] | None = None,
    source: Skeleton | None = None,
    external: External = "auto",
    external_data: str | None = None,
    size_threshold_bytes: int = 1024,
    force: bool = True,
    output_format: str | None = None,
) -> WriteReport:
    """Write a model, streaming its weights from where they are.

    Args:
        target: the file to write, or ``-`` for standard output.
        model: the model; not changed.
        nodes: chunks of serialised ``GraphProto.node`` fields (tag, length and payload, any number in a
            chunk) that are written, as they are, in place of the nodes of the model's graph.
        source: what the model was read from; if it changed since, nothing is written.
        external: what becomes of data that are in files of their own: ``auto`` leaves them there if the
            target is in their folder, else copies them; ``copy``, ``keep`` and ``inline`` do just that.
        external_data: the name of a data file for all initializers of ``size_threshold_bytes`` and more.
        size_threshold_bytes: smaller initializers stay in the model file, in bytes.
        force: replace a file that is there and is not the source.
        output_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if not given.

    Returns:
        What was written.

    Raises:
        FileError: if that is impossible; what was there before is untouched then.
    """
    path = os.fspath(target)
    request = Request(external, external_data, size_threshold_bytes, force)
    form = forms.form_of(path, output_format)
    need: list[int] = []
    with publish.errors_about(path, need), serialised(model) as data:
        if path == "-":
            return _to_stdout(data, nodes, request, form)
        origin = source.source if source is not None else None
        return _to_file(Target.at(path), data, nodes, origin, request, form, need)


def _to_file(
    target: Target,
    model: bytes,
    nodes: Sequence[bytes] | None,
    source: Source | None,
    request: Request,
    form: str,
    need: list[int],
) -> WriteReport:
    _check_request(target, source, request)
    _clean(target)
    if source is not None:
        source.check_unchanged()
    plan = Plan(model, nodes, request, stays_valid(target))
    layout = plan.settled(request.external_data or "data")
    need.append(layout.size + layout.data.size)
    save = Save(target, source, lambda layout: _encoded(layout, form))
    if layout.data.pieces:
        name = pairs.write(save, plan, layout, request.external_data)
    else:
        name = ""
        pairs.commit(save, save.encode(layout), pairs.nothing, undo=pairs.nothing)
    if name and not plan.notes and request.external_data is None and request.external != "copy":
        plan.notes.append(f"the external data were copied to {name}")
    path = os.path.join(target.folder, name) if name else None  # noqa: PTH118
    return WriteReport(target.path, layout.size, path, layout.data.size, tuple(plan.notes))


def _check_request(target: Target, source: Source | None, request: Request) -> None:
    known = source is not None and source.path == target.real
    if target.old is not None and not request.force and not known:
        raise FileError(
            "exists already", path=target.path, hint="choose another name, or force it to be replaced"
        )
    name = request.external_data
    if name is not None and (not publish.plain_name(name) or name == os.path.basename(target.path)):  # noqa: PTH119
        raise ExternalDataError(
            f"{name!r} cannot be the name of its data file",
            path=target.path,
            field="external_data",
            hint="give a name without a folder, for a file beside the model",
        )


def _encoded(layout: Layout, form: str) -> list[Piece]:
    """Return the pieces of the file: the layout's own, or one text."""
    if form == forms.PROTOBUF:
        return layout.pieces
    model = onnx.ModelProto.FromString(b"".join(publish.loaded(layout.pieces)))
    return [forms.write_text(model, form)]


def _to_stdout(model: bytes, nodes: Sequence[bytes] | None, request: Request, form: str) -> WriteReport:
    """Write to standard output; no data file can be beside it, so data go inside or are kept by reference."""
    if request.external_data or request.external == "copy":
        raise FileError("a data file cannot be written beside it", path="-", hint="name an output file")
    plan = Plan(
        model,
        nodes,
        replace(request, external="keep" if request.external == "keep" else "inline"),
        lambda _: False,
    )
    layout = plan.settled("data")
    if layout.data.pieces:
        raise FileError(
            "is larger than 2 GiB", path="-", hint="name an output file, which can have a data file"
        )
    publish.write(_encoded(layout, form), _stdout())
    return WriteReport("-", layout.size, notes=tuple(plan.notes))


def copy_model(
    target: str | os.PathLike[str], source: Skeleton, *, output_format: str | None = None, **options: Any
) -> WriteReport:
    """Write a model in which nothing changed: the file byte for byte, if its data need not move.

    Args:
        target: the file to write, or ``-`` for standard output.
        source: the model.
        output_format: as for :func:`write_model`.
        options: as for :func:`write_model`, from ``external`` on.

    Returns:
        What was written.

    Raises:
        FileError: if that is impossible; what was there before is untouched then.
    """
    path = os.fspath(target)
    same_form = forms.form_of(path, output_format) == source.form
    if source.external or not same_form or options.get("external_data") is not None:
        return write_model(target, source.model, source=source, output_format=output_format, **options)
    request = Request(external="auto", external_data=None, threshold=0, force=options.get("force", True))
    size = source.source.identity.size
    with publish.errors_about(path, [size]):
        whole: list[Piece] = [Range(source.source, 0, size)]
        if path == "-":
            publish.write(whole, _stdout())
        else:
            _copy_file(Target.at(path), source.source, whole, request)
    return WriteReport(path, size)


def _copy_file(target: Target, source: Source, pieces: list[Piece], request: Request) -> None:
    _check_request(target, source, request)
    _clean(target)
    save = Save(target, source, lambda layout: layout.pieces)
    pairs.commit(save, pieces, pairs.nothing, undo=pairs.nothing)


def _clean(target: Target) -> None:
    data_files.clean([target.folder, os.path.dirname(target.real)])  # noqa: PTH120


def _stdout() -> int:
    sys.stdout.flush()
    return sys.stdout.fileno()
