"""Bodies that work element by element."""

from __future__ import annotations

from onnx_inline.decompositions.call import Call, like


def _sum(call: Call) -> str:
    names = [f"x{place}" for place in range(len(call.node.input))]
    if len(names) == 1:
        return "(x0) => (sum) { sum = Identity (x0) }"
    partial = ["x0", *(f"sum{place}" for place in range(1, len(names) - 1)), "sum"]
    steps = [f"{partial[place]} = Add ({partial[place - 1]}, x{place})" for place in range(1, len(names))]
    return f"({', '.join(names)}) => (sum) {{ {' '.join(steps)} }}"


def _mean(call: Call) -> str | None:
    if not call.is_float():
        return None
    names = ", ".join(f"x{place}" for place in range(len(call.node.input)))
    count = like("count", float(len(call.node.input)), "x0")
    return f"({names}) => (mean) {{ sum = Sum ({names})  {count}  mean = Div (sum, count) }}"


def _sign(call: Call) -> str | None:
    if not call.is_float():
        return None
    return f"""(x) => (sign) {{
        {like("zero", 0.0, "x")}
        above = Greater (x, zero)  positive = CastLike (above, x)
        below = Less (x, zero)  negative = CastLike (below, x)
        sign = Sub (positive, negative)
    }}"""


def _tan(call: Call) -> str:
    return "(x) => (tan) { sin = Sin (x)  cos = Cos (x)  tan = Div (sin, cos) }"


BODIES = {"Sum": _sum, "Mean": _mean, "Sign": _sign, "Tan": _tan}
