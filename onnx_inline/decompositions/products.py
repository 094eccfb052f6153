"""Einsum as transpositions, reductions and one matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_inline.decompositions.call import Call, ints


@dataclass(frozen=True)
class _Equation:
    """An equation without ellipsis in which no operand names an axis twice."""

    operands: tuple[str, ...]
    result: str

    @classmethod
    def parsed(cls, text: str) -> _Equation | None:
        text = text.replace(" ", "")
        left, arrow, right = text.partition("->")
        operands = tuple(left.split(","))
        plain = all(part.isalpha() or not part for part in (*operands, right))
        if not plain or any(len(set(part)) < len(part) for part in (*operands, right)):
            return None
        letters = "".join(operands)
        implicit = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        return cls(operands, right if arrow else implicit)


def _einsum(call: Call) -> str | None:
    equation = _Equation.parsed(call.attribute("equation", ""))
    if equation is None or len(equation.operands) != len(call.node.input) or not call.is_float():
        return None
    if len(equation.operands) == 1:
        return f"(a) => (y) {{ {_rearranged('a', equation.operands[0], equation.result, 'y')} }}"
    return _product(*equation.operands, equation.result) if len(equation.operands) == 2 else None


def _rearranged(name: str, has: str, wants: str, made: str) -> str:
    """Return steps that sum over axes not wanted and put the others in order."""
    dropped = [place for place, letter in enumerate(has) if letter not in wants]
    left = "".join(letter for letter in has if letter in wants)
    order = [left.index(letter) for letter in wants]
    steps, current = "", name
    if dropped:
        steps = (
            f"{ints(f'{made}_axes', dropped)}  {made}_sum = ReduceSum <keepdims = 0> ({name}, {made}_axes)  "
        )
        current = f"{made}_sum"
    # Zero axes have no order that an attribute could hold.
    last = f"Transpose <perm = {order}> ({current})" if order else f"Identity ({current})"
    return f"{steps}{made} = {last}"


def _product(first: str, second: str, result: str) -> str | None:
    """Return a body for two operands: [batch, left, inner] times [batch, inner, right]."""
    if not set(result) <= set(first) | set(second):
        return None
    batch = "".join(letter for letter in result if letter in first and letter in second)
    inner = "".join(letter for letter in first if letter in second and letter not in result)
    left = "".join(letter for letter in result if letter in first and letter not in second)
    right = "".join(letter for letter in result if letter in second and letter not in first)
    made = batch + left + right
    order = [made.index(letter) for letter in result]
    last = f"Transpose <perm = {order}> (open)" if order else "Identity (open)"
    return f"""(a, b) => (y) {{
        {_rearranged("a", first, batch + left + inner, "at")}
        {_rearranged("b", second, batch + inner + right, "bt")}
        {_dims("at", (batch, left, inner))}  {_dims("bt", (batch, inner, right))}
        a_shape = Concat <axis = 0> (at_size0, at_size1, at_size2)  a3 = Reshape (at, a_shape)
        b_shape = Concat <axis = 0> (at_size0, bt_size1, bt_size2)  b3 = Reshape (bt, b_shape)
        product = MatMul (a3, b3)
        open_shape = Concat <axis = 0> (at_dims0, at_dims1, bt_dims2)  open = Reshape (product, open_shape)
        y = {last}
    }}"""


def _dims(name: str, groups: Sequence[str]) -> str:
    """Return steps that make the dimensions of each group of axes, and their product, as lists."""
    steps, start = [f"{name}_shape = Shape ({name})"], 0
    for number, group in enumerate(groups):
        span = f"{name}_from{number}", f"{name}_to{number}"
        steps += [ints(span[0], [start]), ints(span[1], [start + len(group)])]
        steps.append(f"{name}_dims{number} = Slice ({name}_shape, {', '.join(span)})")
        steps.append(f"{name}_size{number} = {_size(name, number, group)}")
        start += len(group)
    return "  ".join(steps)


def _size(name: str, number: int, group: str) -> str:
    if len(group) == 1:
        return f"Identity ({name}_dims{number})"
    # The product of no dimensions is 1, which is right for a group without axes.
    return f"ReduceProd <keepdims = 1> ({name}_dims{number})"


BODIES = {"Einsum": _einsum}
