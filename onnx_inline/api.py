"""One call a task."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import onnx

from onnx_inline.engine import inline_proto
from onnx_inline.engine.options import DEFAULT_MAX_NODES, Options
from onnx_inline.engine.report import InlineReport
from onnx_inline.engine.selection import Patterns

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_inline.files.plan import External

    AnyModel = TypeVar("AnyModel", onnx.ModelProto, ir.Model)


@overload
def inline_functions(
    model: AnyModel,
    *,
    only: Patterns = ...,
    keep: Patterns = ...,
    max_nodes: int = ...,
    names: Literal["path", "flat"] = ...,
    provenance: bool = ...,
    with_report: Literal[False] = ...,
) -> AnyModel: ...


@overload
def inline_functions(
    model: AnyModel,
    *,
    only: Patterns = ...,
    keep: Patterns = ...,
    max_nodes: int = ...,
    names: Literal["path", "flat"] = ...,
    provenance: bool = ...,
    with_report: Literal[True],
) -> tuple[AnyModel, InlineReport]: ...


def inline_functions(
    model: Any,
    *,
    only: Patterns = None,
    keep: Patterns = None,
    max_nodes: int = DEFAULT_MAX_NODES,
    names: Literal["path", "flat"] = "path",
    provenance: bool = False,
    with_report: bool = False,
) -> Any:
    """Replace calls of model-local functions by the functions' bodies.

    Args:
        model: an :class:`onnx.ModelProto`, which is left as it is, or an :class:`onnx_ir.Model`, which is
            changed in place.  Weights are neither read nor copied.
        only: the functions to inline; all of them if None.  A collection of exact identifiers
            ``(domain, name)`` or ``(domain, name, overload)``, globs over ``domain::name``, and predicates
            that are given the function.  A function named exactly must be inlined; one chosen by glob or
            predicate that cannot be is left, and the report says why.
        keep: functions to leave, as exact identifiers, globs or predicates.  Calls inside them of functions
            that are not kept are inlined all the same.
        max_nodes: a model that would have more nodes than this afterwards is refused before any work.
        names: ``path``: values and nodes inside are named by the way to them, ``encoder/layer_3/MatMul``;
            ``flat``: by short names, numbered where needed.
        provenance: write into each node's metadata which calls it came through.
        with_report: return a report as well.

    Returns:
        The model: a new one for a ModelProto, the same object for an ``ir.Model``; with ``with_report`` a
        pair of the model and an :class:`InlineReport`.

    Raises:
        UnknownFunctionError: an entry of ``only`` or ``keep`` matches no function.
        FunctionCycleError: functions call each other in a circle.
        CallSiteError: a call gives or takes more than the function has.
        OpsetConflictError: a body cannot be converted to the opset of the graph that it goes into.
        ModelTooLargeError: the result would have more than ``max_nodes`` nodes.
        InvalidModelError: something else about the model is against the ONNX IR specification.

        Whatever is raised, the model is as it was.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        ...     main (float[2] x) => (float[2] y) { y = local.twice (x) }
        ...     <domain: "local", opset_import: ["" : 18]>
        ...     twice (a) => (b) { b = Add (a, a) }
        ... ''')
        >>> [node.op_type for node in onnx_inline.inline_functions(model).graph.node]
        ['Add']
    """
    options = Options(only, keep, max_nodes, names, provenance)
    result: Any
    if isinstance(model, onnx.ModelProto):
        inlined = inline_proto.inline(model, options)
        result, report = inline_proto.put_together(model, inlined), inlined.report
    else:
        from onnx_inline.engine import inline_ir

        result, report = model, inline_ir.inline(model, options)
    return (result, report) if with_report else result


def inline_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None,
    *,
    only: Patterns = None,
    keep: Patterns = None,
    max_nodes: int = DEFAULT_MAX_NODES,
    names: Literal["path", "flat"] = "path",
    provenance: bool = False,
    external: External = "auto",
    external_data: str | None = None,
    size_threshold_bytes: int = 1024,
    external_root: str | None = None,
    input_format: str | None = None,
    output_format: str | None = None,
    force: bool = True,
) -> InlineReport:
    """Inline functions from file to file; weights go straight from one to the other.

    Args:
        source: a model file, or ``-`` for standard input.
        target: the file to write, which may be the source, or ``-`` for standard output; None writes
            nothing and only reports.
        only, keep, max_nodes, names, provenance: as for :func:`inline_functions`.
        external: what becomes of weights in files of their own: ``auto`` leaves them if the target is in
            their folder, else copies them; ``copy``, ``keep`` and ``inline`` do just that.
        external_data: the name of a data file for all initializers of ``size_threshold_bytes`` and more.
        size_threshold_bytes: smaller initializers stay in the model file, in bytes.
        external_root: a further folder that links to external data may lead into.
        input_format, output_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if None.
        force: replace a target that exists and is not the source.

    Returns:
        What was done.

    Raises:
        FileError: a file cannot be read or written; what was on disk before is still there.
        ModelError, UnknownFunctionError: as for :func:`inline_functions`.

    Example:
        >>> report = onnx_inline.inline_file("in.onnx", "out.onnx")  # doctest: +SKIP
    """
    from onnx_inline.files.skeleton import read_skeleton
    from onnx_inline.files.writer import copy_model, write_model

    options = Options(only, keep, max_nodes, names, provenance)
    skeleton = read_skeleton(source, external_root=external_root, input_format=input_format)
    inlined = inline_proto.inline(skeleton.model, options)
    if target is None:
        return inlined.report
    storage: dict[str, Any] = {
        "external": external,
        "external_data": external_data,
        "size_threshold_bytes": size_threshold_bytes,
        "force": force,
        "output_format": output_format,
    }
    if inlined.nodes is None:
        written = copy_model(target, skeleton, **storage)
    else:
        # The nodes go to the file as they are: the skeleton never holds those of the flat graph.
        inline_proto.put_in_place(skeleton.model, inlined, nodes=False)
        written = write_model(target, skeleton.model, nodes=inlined.nodes, source=skeleton, **storage)
    return dataclasses.replace(inlined.report, notes=written.notes)
