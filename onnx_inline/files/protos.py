"""Load and save ``onnx.ModelProto``: the weights stay on the disk."""

from __future__ import annotations

import os

import onnx
from onnx import TensorProto

from onnx_inline.files import tensors
from onnx_inline.files.locations import Folder
from onnx_inline.files.plan import External
from onnx_inline.files.publish import errors_about
from onnx_inline.files.skeleton import read_skeleton, stamp_external
from onnx_inline.files.sources import STAMP_KEY, read_stamp
from onnx_inline.files.writer import WriteReport, write_model
from onnx_inline.unbound import require_bound


def load_proto(
    path: str | os.PathLike[str], *, external_root: str | None = None, input_format: str | None = None
) -> onnx.ModelProto:
    """Load a model without its weights, in time and memory that do not depend on them.

    Tensors of 1024 bytes and more in a file over 16 MiB, and all external data, stay where they are: the
    tensor is marked as external and its ``external_data`` say where the bytes lie.  Such a model can be
    changed and passed to everything in this package; :func:`save_proto` writes it whole.  (``onnx.save``
    cannot.  Saving works in the process that loaded the model, while the file is as it was.)

    Args:
        path: a model file (``.onnx``, or a text form by its suffix), or ``-`` for standard input.
        external_root: a further folder that links to data files may lead into.
        input_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if not given.

    Returns:
        The model.

    Raises:
        FileError: if the file cannot be read, is no model, or its data cannot be used.

    Example:
        >>> import os, tempfile, onnx, onnx_inline
        >>> model = onnx.parser.parse_model(
        ...     '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Abs (x) }'
        ... )
        >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
        >>> onnx_inline.save_proto(model, path).size
        62
        >>> onnx_inline.load_proto(path) == model
        True
    """
    return read_skeleton(path, external_root=external_root, input_format=input_format).model


def save_proto(
    model: onnx.ModelProto,
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    size_threshold_bytes: int = 1024,
    external: External = "auto",
    output_format: str | None = None,
) -> WriteReport:
    """Save a model in one step: whatever happens, the old file or the new one is there, whole.

    Args:
        model: the model, loaded by :func:`load_proto` or made otherwise; not changed.
        path: the file to write, or ``-`` for standard output.
        external_data: the name of a data file, beside the model, for its initializers; it may be that of
            the data of the model that is replaced.
        size_threshold_bytes: with ``external_data``, initializers below this size, in bytes, stay inside.
        external: what becomes of data that are external already: ``auto`` leaves them where they are if
            ``path`` is in their folder, else copies them; ``copy``, ``keep`` and ``inline`` do just that.
        output_format: ``onnx``, ``textproto``, ``onnxtxt`` or ``json``; by the suffix if not given.

    Returns:
        What was written, and what was done without being asked for.

    Raises:
        UnboundInitializersError: if initializers have no data.
        FileError: if the model cannot be written; what was there before is untouched then.

    Example:
        >>> import os, tempfile, onnx, onnx_inline
        >>> model = onnx.parser.parse_model(
        ...     '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y)'
        ...     '<float[2] w = {1, 2}> { y = Add (x, w) }'
        ... )
        >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
        >>> report = onnx_inline.save_proto(model, path, external_data="weights", size_threshold_bytes=0)
        >>> report.data_size
        8
    """
    with errors_about(os.fspath(path), []):
        require_bound(model)
        model = located(model, os.fspath(path), external)
    return write_model(
        path,
        model,
        external_data=external_data,
        size_threshold_bytes=size_threshold_bytes,
        external=external,
        output_format=output_format,
    )


def located(model: onnx.ModelProto, path: str, external: External) -> onnx.ModelProto:
    """Return the model with a stamp on every external tensor; unlocated data lie beside ``path``."""
    if external == "keep" or not any(map(_lacks_stamp, tensors.all_tensors(model))):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    folder = Folder.around(path, None)
    for tensor in filter(_lacks_stamp, tensors.all_tensors(copy)):
        stamp_external(tensor, {entry.key: entry.value for entry in tensor.external_data}, path, folder)
    return copy


def _lacks_stamp(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL and not any(
        entry.key == STAMP_KEY and read_stamp(entry.value) for entry in tensor.external_data
    )
