"""Where weights come from: mappings, weight files and other models, as tensors that are read when needed."""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_inline import safetensors_file
from onnx_inline.errors import FileError
from onnx_inline.files.lazy import from_skeleton, load
from onnx_inline.files.sources import STAMP_KEY
from onnx_inline.unbound import lacks_memory, places

Source: TypeAlias = (
    Mapping[str, Any] | Iterable[tuple[str, Any]] | str | os.PathLike[str] | onnx.ModelProto | ir.Model
)


class UnfitError(ValueError):
    """Something given as a weight is not one that ONNX can hold; :func:`as_tensor` says why."""


def read_source(source: Source) -> Mapping[str, Any]:
    """Return names and weights of a source; nothing large is read yet.

    Raises:
        FileError: the source is a path, and no file of weights or model can be read there.
        TypeError: the source is nothing that has names and weights.
    """
    if isinstance(source, (str, os.PathLike)):
        return _read_file(Path(source))
    if isinstance(source, onnx.ModelProto):
        return _proto_weights(source)
    if isinstance(source, ir.Model):
        return _model_weights(source)
    if isinstance(source, Mapping):
        return source
    try:
        return dict(source)
    except (TypeError, ValueError):
        raise TypeError(
            f"a source of weights is a mapping, pairs, a path or a model, not a {type(source).__name__}; "
            "of a torch module give state_dict() and named_buffers()"
        ) from None


def as_tensor(weight: Any, type_: ir.DataType | None = None) -> ir.TensorProtocol:
    """Return a weight as an ir tensor that shares its memory where that is possible.

    Args:
        weight: a numpy array or what numpy makes one of, a torch tensor, or an ONNX tensor.
        type_: what untyped elements (``V2``, as numpy.savez writes bfloat16) are to be taken for.

    Raises:
        UnfitError: it has no data, or an element type or layout that ONNX has not.
    """
    if isinstance(weight, UnfitError):
        raise weight
    if why := lacks_memory(getattr(weight, "raw", weight)):
        raise UnfitError(why)
    if "torch" in sys.modules and isinstance(weight, sys.modules["torch"].Tensor):
        return _torch_tensor(weight)
    tensor = ir.from_proto(weight) if isinstance(weight, onnx.TensorProto) else weight
    if isinstance(tensor, ir.ExternalTensor) and not Path(tensor.path).is_file():
        raise UnfitError(f"its data should be in {tensor.path}, which is no file")
    return tensor if isinstance(tensor, ir.TensorProtocol) else _array_tensor(np.asarray(weight), type_)


def memory(weight: Any) -> object:
    """Return what two weights have in common if they are views of the same elements (tied weights)."""
    if "torch" in sys.modules and isinstance(weight, sys.modules["torch"].Tensor):
        return _torch_memory(weight)
    if isinstance(weight, np.ndarray):
        return weight.__array_interface__["data"][0], weight.dtype.str, weight.shape, weight.strides
    return id(weight)


def _torch_memory(tensor: Any) -> object:
    try:
        return tensor.data_ptr(), str(tensor.dtype), tuple(tensor.shape), tensor.stride()
    except RuntimeError:  # sparse, or without storage
        return id(tensor)


def _torch_tensor(tensor: Any) -> ir.TensorProtocol:
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise UnfitError(f"it is a {'quantized' if tensor.is_quantized else tensor.layout} torch tensor")
    try:
        return ir.tensor_adapters.TorchTensor(tensor.detach().resolve_conj().resolve_neg())
    except TypeError:
        raise UnfitError(f"ONNX has no element type for {tensor.dtype}") from None


def _array_tensor(array: np.ndarray[Any, Any], type_: ir.DataType | None) -> ir.TensorProtocol:
    if array.dtype.kind in "SUO":
        return _string_tensor(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("="))
    if _is_untyped(array) and type_ is not None and type_.numpy().itemsize == array.dtype.itemsize:
        array = array.view(type_.numpy())
    try:
        return ir.Tensor(array)
    except TypeError:
        raise UnfitError(f"ONNX has no element type for the numpy type {array.dtype}") from None


def _is_untyped(array: np.ndarray[Any, Any]) -> bool:
    # ml_dtypes registers its types under kind V too; those have a scalar type of their own.
    return array.dtype.type is np.void and array.dtype.names is None


def _string_tensor(array: np.ndarray[Any, Any]) -> ir.TensorProtocol:
    elements = [element.encode() if isinstance(element, str) else element for element in array.flat]
    if not all(isinstance(element, bytes) for element in elements):
        raise UnfitError("it is an array of objects that are not strings")
    return ir.StringTensor(elements, shape=ir.Shape(array.shape))


def _proto_weights(proto: onnx.ModelProto) -> dict[str, ir.TensorProtocol]:
    tensors = proto.graph.initializer
    if not any(entry.key == STAMP_KEY for tensor in tensors for entry in tensor.external_data):
        return _model_weights(ir.from_proto(proto))
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(proto)
    return _model_weights(from_skeleton(skeleton))


def _model_weights(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    missing = {weight.name for weight, _ in places(model)}
    graphs = (model.graph, *model.graph.subgraphs())
    values = (value for graph in graphs for value in graph.initializers.values())
    return {
        value.name: value.const_value
        for value in values
        if value.name and value.const_value is not None and value.name not in missing
    }


# ---- files

_DAMAGED = (OSError, EOFError, zipfile.BadZipFile, zlib.error)


def _read_file(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise FileError(f"cannot read weights from {path}: there is no such file; give the path of one")
    return _READERS.get(path.suffix, _read_model)(path)


def _read_model(path: Path) -> Mapping[str, Any]:
    return _model_weights(load(path))


def _read_numpy(path: Path) -> Mapping[str, Any]:
    try:
        archive = np.load(path, allow_pickle=False)
        names = list(archive.files)
    except (*_DAMAGED, ValueError, AttributeError) as error:
        raise FileError(f"cannot read weights from {path}: {error}; numpy.savez writes such files") from error
    return _LazyMapping(names, archive.__getitem__, path)


def _read_torch(path: Path) -> Mapping[str, Any]:
    try:
        import torch
    except ImportError:
        raise FileError(
            f"cannot read weights from {path} without PyTorch; install it, or save them as .safetensors"
        ) from None
    try:
        content = _torch_load(torch, path)
    except Exception as error:  # whatever torch's unpickler stumbles on
        raise FileError(f"cannot read weights from {path}: {error}") from error
    if not isinstance(content, Mapping):
        raise FileError(
            f"cannot read weights from {path}: it holds a {type(content).__name__}, not names and tensors; "
            "save module.state_dict() there"
        )
    return content


def _torch_load(torch: Any, path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # the format before torch 1.6 cannot be mapped
        return torch.load(path, map_location="cpu", weights_only=True)


class _LazyMapping(Mapping[str, Any]):
    """Names known at once, each weight read when asked for."""

    def __init__(self, names: Iterable[str], read: Callable[[str], Any], path: Path) -> None:
        self._names, self._read, self._path = dict.fromkeys(names), read, path

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        try:
            return self._read(name)
        except ValueError as error:
            return UnfitError(f"{self._path.name} holds no plain array there: {error}")
        except _DAMAGED as error:
            raise FileError(f"cannot read {name} from {self._path}: {error}; the file is damaged") from error

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_READERS: dict[str, Callable[[Path], Mapping[str, Any]]] = {
    ".safetensors": safetensors_file.read,
    ".npz": _read_numpy,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".bin": _read_torch,
}
