"""Give initializers without data the data that they lack."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, overload

import onnx
import onnx_ir as ir

from onnx_inline.errors import BindingError
from onnx_inline.unbound import Dim, UnboundInitializer, described, places
from onnx_inline.weights import Source, UnfitError, as_tensor, memory, read_source

ModelT = TypeVar("ModelT", onnx.ModelProto, ir.Model)

#: Each name given, with the first source that has it; a source may read a weight only when asked.
_Weights: TypeAlias = dict[str, Mapping[str, Any]]

#: Types that weight files have no name for, and therefore hold as bytes.
_SPELT_AS_BYTES = frozenset(
    type_ for type_ in ir.DataType if type_ is not ir.DataType.UNDEFINED and type_.name.endswith("FNUZ")
)


@dataclass(frozen=True)
class Mismatch:
    """A weight that does not fit the initializer of its name.

    Attributes:
        name: the name of both.
        declared: type and shape that the model declares, as text: ``FLOAT[3,4]``.
        given: what the source holds: type and shape, or why it is no weight.
    """

    name: str
    declared: str
    given: str

    def __str__(self) -> str:
        return f"{self.name} (declared {self.declared}, given {self.given})"


@dataclass(frozen=True)
class BindReport:
    """What :func:`bind_initializers` did.

    Attributes:
        bound: names of the initializers that got their data.
        unbound: initializers that no source has data for.
        unused: names in the sources that belong to no initializer of the model.
        mismatched: weights of another type or shape than declared, not bound.
        already_bound: names in the sources whose initializer had data before, which it keeps.
    """

    bound: tuple[str, ...]
    unbound: tuple[UnboundInitializer, ...]
    unused: tuple[str, ...]
    mismatched: tuple[Mismatch, ...]
    already_bound: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether every initializer has data, and every weight a use."""
        return not (self.unbound or self.unused or self.mismatched)


@overload
def bind_initializers(
    model: ModelT, *sources: Source, strict: bool = ..., with_report: Literal[False] = ...
) -> ModelT: ...


@overload
def bind_initializers(
    model: ModelT, *sources: Source, strict: bool = ..., with_report: Literal[True]
) -> tuple[ModelT, BindReport]: ...


def bind_initializers(
    model: ModelT, *sources: Source, strict: bool = True, with_report: bool = False
) -> ModelT | tuple[ModelT, BindReport]:
    """Give the initializers that have no data the data of the same name from ``sources``.

    Data that the model holds already is kept.  A weight is shared, not copied, where that is possible: a
    torch tensor or array bound to an ``ir.Model`` stays the caller's (train on, and the model changes), a
    tensor of a ``.safetensors`` file is read when it is used.  Names tied to one tensor, as torch ties an
    embedding to a head, count as used if one of them is.

    Args:
        model: an ``onnx.ModelProto``, which is copied, or an ``onnx_ir.Model``, which is changed in place.
        sources: mappings (or pairs, as ``named_buffers()`` yields) from names to numpy arrays, torch
            tensors or ONNX tensors; paths of ``.safetensors``, ``.npz`` or torch ``.pt`` files (loaded with
            ``weights_only=True``); or other models or their paths.  Of several sources that have a name
            the first counts.
        strict: raise unless every initializer gets data that fits and every name given is of use.  If
            False, bind what fits; the rest is in the report, or in a warning if no report is asked for.
        with_report: return a :class:`BindReport` as well.

    Returns:
        The model: a new one for a ``ModelProto``, the same for an ``ir.Model``.

    Raises:
        BindingError: data is missing, of no use, or of another type or shape than declared; all of it is
            reported together, and the model is as before.
        FileError: a source cannot be read.

    Example:
        >>> import numpy as np, onnx, onnx_inline
        >>> model = onnx.parser.parse_model(
        ...     '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Add (x, w) }'
        ... )
        >>> bound = onnx_inline.bind_initializers(model, {"w": np.ones(2, np.float32)})
        >>> onnx_inline.unbound_initializers(bound)
        ()
    """
    weights: _Weights = {}
    for source in map(read_source, sources):
        for name in source:
            weights.setdefault(name, source)
    result = _copied(model)
    report, fillings = _plan(result, weights)
    if strict and not report.fits:
        raise BindingError(unbound=report.unbound, unused=report.unused, mismatched=report.mismatched)
    for filling in fillings:
        _fill(result, filling)
    if not (report.fits or with_report):
        _warn(report)
    return (result, report) if with_report else result


def _copied(model: ModelT) -> ModelT:
    if isinstance(model, ir.Model):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _warn(report: BindReport) -> None:
    error = BindingError(unbound=report.unbound, unused=report.unused, mismatched=report.mismatched)
    warnings.warn(str(error), stacklevel=3)


# ---- decide


@dataclass(frozen=True)
class _Filling:
    """A tensor, and where it goes."""

    name: str
    tensor: ir.TensorProtocol
    places: list[Any]


def _plan(model: onnx.ModelProto | ir.Model, weights: _Weights) -> tuple[BindReport, list[_Filling]]:
    fillings: list[_Filling] = []
    unbound: list[UnboundInitializer] = []
    mismatched: list[Mismatch] = []
    used: dict[str, object] = {}
    for initializer, where in places(model):
        name = initializer.name
        if name not in weights:
            unbound.append(initializer)
            continue
        weight = weights[name][name]
        used[name] = memory(weight)
        try:
            fillings.append(_Filling(name, _fitting(initializer, weight), where))
        except UnfitError as error:
            mismatched.append(Mismatch(name, described(initializer.type, initializer.shape), str(error)))
    already, unused = _of_no_use(model, weights, used)
    bound = tuple(dict.fromkeys(filling.name for filling in fillings))
    return BindReport(bound, tuple(unbound), unused, tuple(mismatched), already), fillings


def _fitting(initializer: UnboundInitializer, weight: Any) -> ir.TensorProtocol:
    """Return the weight as a tensor of the initializer's type and shape, or raise UnfitError."""
    type_ = ir.DataType.__members__.get(initializer.type or "")
    if type_ is None and initializer.type is not None:
        raise UnfitError("anything, but its declared type is none that is known")
    tensor = as_tensor(weight, type_)
    shape = tuple(tensor.shape.numpy())
    if type_ in (None, tensor.dtype) and _agree(initializer.shape, shape):
        return tensor
    if (spelt := _respelt(initializer, type_, tensor)) is not None:
        return spelt
    raise UnfitError(described(tensor.dtype.name, shape))


def _agree(declared: Sequence[Dim] | None, given: Sequence[int]) -> bool:
    if declared is None:
        return True
    known = zip(declared, given, strict=False)
    return len(declared) == len(given) and all(a == b for a, b in known if isinstance(a, int))


def _respelt(
    initializer: UnboundInitializer, type_: ir.DataType | None, tensor: ir.TensorProtocol
) -> ir.TensorProtocol | None:
    """Return bytes as a tensor of the type that their container has no name for, if that is what they are."""
    if type_ is None or tensor.dtype is not ir.DataType.UINT8:
        return None
    dims = [dim for dim in initializer.shape or (None,) if isinstance(dim, int)]
    if initializer.shape is None or len(dims) != len(initializer.shape):
        return None
    packed = type_.bitwidth < 8 and -(-math.prod(dims) * type_.bitwidth // 8) == tensor.nbytes
    if not packed and not (type_ in _SPELT_AS_BYTES and _agree(dims, tensor.shape.numpy())):
        return None
    if isinstance(tensor, ir.ExternalTensor):
        return _external(tensor, type_, dims)
    return _from_bytes(tensor, type_, dims)


def _external(tensor: ir.ExternalTensor, type_: ir.DataType, dims: list[int]) -> ir.TensorProtocol:
    return ir.ExternalTensor(
        tensor.location, tensor.offset, tensor.length, type_,
        shape=ir.Shape(dims), name=tensor.name, base_dir=tensor.base_dir,
    )  # fmt: skip


def _from_bytes(tensor: ir.TensorProtocol, type_: ir.DataType, dims: list[int]) -> ir.TensorProtocol:
    data = tensor.numpy().reshape(-1)
    if type_.bitwidth < 8:
        return ir.PackedTensor(data, type_, shape=dims)
    return ir.Tensor(data.view(type_.numpy()).reshape(dims))


def _of_no_use(
    model: onnx.ModelProto | ir.Model, weights: _Weights, used: Mapping[str, object]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names given for initializers that have data, and those given for nothing."""
    known = set(_initializer_names(model))
    rest = [name for name in weights if name not in used]
    already = tuple(name for name in rest if name in known)
    tied = set(used.values())
    others = (name for name in rest if name not in known)
    return already, tuple(name for name in others if memory(weights[name][name]) not in tied)


def _initializer_names(model: onnx.ModelProto | ir.Model) -> Iterator[str]:
    if isinstance(model, onnx.ModelProto):
        yield from (tensor.name for tensor in model.graph.initializer)
        yield from (sparse.values.name for sparse in model.graph.sparse_initializer)
    else:
        for graph in (model.graph, *model.graph.subgraphs()):
            yield from graph.initializers


# ---- do


def _fill(model: onnx.ModelProto | ir.Model, filling: _Filling) -> None:
    if isinstance(model, onnx.ModelProto):
        for proto in filling.places or [model.graph.initializer.add(name=filling.name)]:
            _fill_proto(proto, filling.tensor)
    else:
        _fill_values(model.graph, filling)


def _fill_proto(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
    for field in ("data_location", "external_data", "raw_data", "dims"):
        proto.ClearField(field)
    proto.data_type = tensor.dtype
    proto.dims.extend(tensor.shape.numpy())
    if isinstance(tensor, ir.StringTensor):
        proto.string_data.extend(tensor.string_data())
    else:
        proto.raw_data = tensor.tobytes()


def _fill_values(graph: ir.Graph, filling: _Filling) -> None:
    """Give one value the tensor; other values by its name were made by onnx_ir for want of an initializer."""
    value, *others = filling.places
    filling.tensor.name = filling.tensor.name or filling.name
    value.const_value = filling.tensor
    value.type = value.type or ir.TensorType(filling.tensor.dtype)
    value.shape = value.shape or ir.Shape(filling.tensor.shape.numpy())
    if not value.is_initializer():
        graph.register_initializer(value)
    for other in others:
        other.replace_all_uses_with(value, replace_graph_outputs=True)
