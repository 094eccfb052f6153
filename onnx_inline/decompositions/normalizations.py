"""Bodies that normalize."""

from __future__ import annotations

from onnx_inline.decompositions.call import Call, ints, like

#: All spatial axes become one, so that the rank need not be known.
_FLAT = f"{ints('flat_shape', [0, 0, -1])}  flat = Reshape (x, flat_shape)  {ints('one', [1])}"
_BACK = "x_shape = Shape (x)  y = Reshape (normalized, x_shape)"


def _scaled(centered: str, variance: str, epsilon: float) -> str:
    return f"""
        {like("epsilon", epsilon, "x")}
        safe = Add ({variance}, epsilon)  deviation = Sqrt (safe)
        unit = Div ({centered}, deviation)
        scales = Unsqueeze (scale, one)  scaled = Mul (unit, scales)
        shifts = Unsqueeze (bias, one)  normalized = Add (scaled, shifts)
    """


def _instance_normalization(call: Call) -> str | None:
    if not call.is_float():
        return None
    return f"""(x, scale, bias) => (y) {{
        {_FLAT}
        {ints("last", [2])}  mean = ReduceMean (flat, last)
        centered = Sub (flat, mean)  square = Mul (centered, centered)
        variance = ReduceMean (square, last)
        {_scaled("centered", "variance", call.attribute("epsilon", 1e-5))}
        {_BACK}
    }}"""


def _batch_normalization(call: Call) -> str | None:
    """With the statistics given; in training mode there is no body."""
    training = call.attribute("training_mode", 0) or call.outputs() > 1
    if training or not call.is_float() or call.version < 9:
        return None
    return f"""(x, scale, bias, mean, variance) => (y) {{
        {_FLAT}
        means = Unsqueeze (mean, one)  centered = Sub (flat, means)
        variances = Unsqueeze (variance, one)
        {_scaled("centered", "variances", call.attribute("epsilon", 1e-5))}
        {_BACK}
    }}"""


BODIES = {"InstanceNormalization": _instance_normalization, "BatchNormalization": _batch_normalization}
