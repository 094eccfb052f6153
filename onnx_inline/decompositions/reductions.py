"""Bodies that reduce axes."""

from __future__ import annotations

import math

from onnx_inline.decompositions.call import FLOATS, Body, Call, ints, like


def _interface(call: Call) -> tuple[str, str, str, str]:
    """Return the texts of inputs, of what makes the axes, of the axes as an argument, and of attributes."""
    noop = ", noop_with_empty_axes = 1" if call.attribute("noop_with_empty_axes", 0) else ""
    if call.given(1):
        return "(data, axes)", "", ", axes", noop
    if axes := call.attribute("axes"):
        return "(data)", ints("axes", axes), ", axes", noop
    # An absent input in the middle keeps its place.
    return ("(data, none)" if len(call.node.input) > 1 else "(data)"), "", "", noop


def _extremum(name: str, limit: float) -> Body:
    """Return a body that means the elements equal to the extremum; of no element it is infinite."""

    def body(call: Call) -> str | None:
        if call.element_type(0) not in FLOATS:
            return None
        inputs, constants, axes, noop = _interface(call)
        keep = f"keepdims = {call.attribute('keepdims', 1)}{noop}"
        # The extremum itself is only compared with, so no gradient goes through it.
        return f"""{inputs} => (reduced) {{
            {constants}
            extremum = {name} <keepdims = 1{noop}> (data{axes})
            chosen = Equal (data, extremum)  invalid = IsNaN (data)  counted = Or (chosen, invalid)
            {like("zero", 0.0, "data")}
            kept = Where (counted, data, zero)  total = ReduceSum <{keep}> (kept{axes})
            ones = CastLike (chosen, data)  count = ReduceSum <{keep}> (ones{axes})
            mean = Div (total, count)
            {like("limit", limit, "data")}  beyond = Add (total, limit)
            nothing = Equal (count, zero)  reduced = Where (nothing, beyond, mean)
        }}"""

    return body


def _global_max_pool(call: Call) -> str | None:
    if not call.is_float():
        return None
    return f"""(x) => (y) {{
        {ints("flat_shape", [0, 0, -1])}  flat = Reshape (x, flat_shape)
        {ints("last", [2])}  pooled = ReduceMax <keepdims = 0> (flat, last)
        shape = Shape (x)  rank = Shape (shape)  spatial = Sub (rank, last)
        ones = ConstantOfShape <value = int64[1] {{1}}> (spatial)
        {ints("start", [0])}  outer = Slice (shape, start, last)
        y_shape = Concat <axis = 0> (outer, ones)  y = Reshape (pooled, y_shape)
    }}"""


def _before_18(steps: str) -> Body:
    """Return a body for a reduction whose schema has one from 18 on, where the axes are an input."""

    def body(call: Call) -> str | None:
        inputs, constants, axes, noop = _interface(call)
        keep = f"keepdims = {call.attribute('keepdims', 1)}{noop}"
        filled = steps.replace("SUM", f"ReduceSum <{keep}>").replace("AXES", axes)
        return f"{inputs} => (reduced) {{ {constants} {filled} }}"

    return body


BODIES = {
    "ReduceMax": _extremum("ReduceMax", -math.inf),
    "ReduceMin": _extremum("ReduceMin", math.inf),
    "GlobalMaxPool": _global_max_pool,
    "ReduceSumSquare": _before_18("square = Mul (data, data)  reduced = SUM (square AXES)"),
    "ReduceL1": _before_18("absolute = Abs (data)  reduced = SUM (absolute AXES)"),
    "ReduceLogSum": _before_18("sum = SUM (data AXES)  reduced = Log (sum)"),
}
