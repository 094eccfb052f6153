"""Inputs for a model, made from its types: shapes from symbols, integers that are valid indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, TypeProto

from onnx_inline.equivalence.indices import index_bounds

#: what a graph is fed with: arrays, lists of arrays for sequences, None for an absent optional
Feeds = dict[str, Any]

_WORDS = ("alpha", "beta", "gamma", "", "δέλτα")


@dataclass(frozen=True)
class Recipe:
    """How inputs are made; the first that a model runs with is kept.

    Attributes:
        size: the size of dimensions of which only a symbol or nothing is known; a symbol has one size.
        rank: the number of dimensions where none are given.
        integers: integers come from ``range(*integers)``; None takes those that are valid indices.
    """

    size: int
    rank: int
    integers: tuple[int, int] | None

    def __str__(self) -> str:
        integers = "valid indices" if self.integers is None else f"in range{self.integers}"
        return f"open dimensions {self.size}, integers {integers}"


#: in the order tried
RECIPES = (
    Recipe(2, 2, None),
    Recipe(2, 2, (1, 3)),
    Recipe(2, 2, (0, 1)),
    Recipe(1, 1, (1, 2)),
    Recipe(4, 3, (1, 3)),
    Recipe(8, 4, (1, 3)),
    Recipe(1, 0, (0, 1)),
    Recipe(3, 4, (1, 2)),
)

#: integers that are no index, as far as can be seen
_ANY_INTEGER = (0, 5)


@dataclass(frozen=True)
class InputMaker:
    """Makes inputs for a model, the same ones for the same seed."""

    infos: tuple[onnx.ValueInfoProto, ...]
    bounds: Mapping[str, int]

    @classmethod
    def of(cls, model: onnx.ModelProto) -> InputMaker:
        """Read a model's inputs; those with an initializer keep its value."""
        given = {tensor.name for tensor in model.graph.initializer}
        given |= {tensor.values.name for tensor in model.graph.sparse_initializer}
        infos = tuple(info for info in model.graph.input if info.name not in given)
        integers = any(info.type.tensor_type.elem_type in _INTEGERS for info in infos)
        return cls(infos, index_bounds(model) if integers else {})

    def make(self, recipe: Recipe, seed: int) -> Feeds:
        """Return inputs.

        Raises:
            NotImplementedError: an input is of a type that nothing is made for.
        """
        random = np.random.default_rng(seed)
        return {info.name: self._value(info.name, info.type, recipe, random) for info in self.infos}

    def _value(self, name: str, type_: TypeProto, recipe: Recipe, random: np.random.Generator) -> Any:
        kind = type_.WhichOneof("value")
        if kind == "sequence_type":
            return [self._value(name, type_.sequence_type.elem_type, recipe, random) for _ in range(2)]
        if kind == "optional_type":
            return self._value(name, type_.optional_type.elem_type, recipe, random)
        if kind != "tensor_type":
            raise NotImplementedError(f"input {name!r} is of the type {kind}, for which no values are made")
        return self._tensor(name, type_.tensor_type, recipe, random)

    def _tensor(
        self, name: str, type_: TypeProto.Tensor, recipe: Recipe, random: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        integers = recipe.integers or _range(self.bounds.get(name))
        return _elements(type_.elem_type, _shape(type_, recipe), integers, random)


def _range(bound: int | None) -> tuple[int, int]:
    return _ANY_INTEGER if bound is None else (0, max(bound, 1))


def _shape(type_: TypeProto.Tensor, recipe: Recipe) -> tuple[int, ...]:
    if not type_.HasField("shape"):
        return (recipe.size,) * recipe.rank
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else recipe.size
        for dim in type_.shape.dim
    )


_INTEGERS = frozenset(
    getattr(TensorProto, name)
    for name in ("INT4", "INT8", "INT16", "INT32", "INT64", "UINT4", "UINT8", "UINT16", "UINT32", "UINT64")
)
_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


def _elements(
    kind: int, shape: tuple[int, ...], integers: tuple[int, int], random: np.random.Generator
) -> np.ndarray[Any, Any]:
    if kind == TensorProto.STRING:
        return np.asarray(random.choice(np.array(_WORDS, dtype=object), size=shape), dtype=object)
    if kind == TensorProto.BOOL:
        return np.asarray(random.random(shape) < 0.5)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    if kind in _INTEGERS:
        return np.asarray(random.integers(*integers, size=shape)).astype(dtype)
    values: np.ndarray[Any, Any] = np.asarray(random.standard_normal(shape))
    if kind in _COMPLEX:
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def recipes(maker: InputMaker) -> Iterator[Recipe]:
    """Yield the recipes that make a difference for a model."""
    seen: set[tuple[object, ...]] = set()
    for recipe in RECIPES:
        feeds = maker.make(recipe, 0).values()
        arrays = [array for value in feeds for array in (value if isinstance(value, list) else [value])]
        integers = recipe.integers if any(array.dtype.kind in "iu" for array in arrays) else None
        made = (integers, *(array.shape for array in arrays))
        if made not in seen:
            seen.add(made)
            yield recipe
