"""A node that wants a body, and what is known about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx
import onnx.helper

#: The element types that a body for gradients is worth writing for.
FLOATS = frozenset([1, 10, 11, 16])


@dataclass(frozen=True)
class Call:
    """A node, the version of its domain, and the types of its inputs (None where unknown or absent)."""

    node: onnx.NodeProto
    version: int
    types: Sequence[onnx.TypeProto | None]

    def given(self, place: int) -> bool:
        """Say whether there is an input at a position."""
        return place < len(self.node.input) and bool(self.node.input[place])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute; text as ``str``."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def element_type(self, place: int) -> int:
        """Return the element type of an input as ONNX numbers them, 0 if it is unknown."""
        known = self.types[place] if place < len(self.types) else None
        return known.tensor_type.elem_type if known is not None else 0

    def is_float(self) -> bool:
        """Say whether all inputs that are given have one and the same floating-point type."""
        kinds = {self.element_type(place) for place in range(len(self.node.input)) if self.given(place)}
        return len(kinds) == 1 and kinds <= FLOATS

    def outputs(self) -> int:
        """Return how many outputs are given."""
        return sum(map(bool, self.node.output))


#: Makes the text of a function for a call, or None where there is none for such a call.
Body: TypeAlias = Callable[[Call], "str | None"]


def ints(name: str, values: Sequence[int]) -> str:
    """Return the text of a constant list of integers."""
    # A tensor: onnx's converter to older versions knows no other kind of constant.
    return f"{name} = Constant <value = int64[{len(values)}] {{{', '.join(map(str, values))}}}> ()"


def like(name: str, value: float, other: str) -> str:
    """Return the text of a constant of the type of another value."""
    # repr gives the shortest text that reads back the same.
    constant = f"{name}_float = Constant <value = float {{{value!r}}}> ()"
    return f"{constant}  {name} = CastLike ({name}_float, {other})"
