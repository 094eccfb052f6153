"""Training behaviour goes off everywhere in a model, and the model stays valid."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from onnx_inline.integrations.evaluation import disable_training

HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
STATISTICS = "float[2] scale, float[2] bias, float[2] mean, float[2] var"
BATCH_NORM = f"{HEAD} net (float[4, 2] x, {STATISTICS}) => (float[4, 2] y"
DROPOUT = f"{HEAD} net (float[2] x, float r, bool t) => (float[2] y)"
TRAINED = "BatchNormalization <epsilon = 0.01, training_mode = 1> (x, scale, bias, mean, var)"
EVALUATED = "BatchNormalization <epsilon = 0.01> (x, scale, bias, mean, var)"

CONDITIONAL = (
    f"{HEAD} net (bool c, float[4, 2] x, {STATISTICS}) => (float[4, 2] y) {{{{ y = If (c) "
    "<then_branch = a () => (float[4, 2] p) {{ {body} }}, "
    "else_branch = b () => (float[4, 2] q) {{ q = Identity (x) }}> }}"
)

CASES = {
    "dropout": (
        f"{DROPOUT} {{ y, mask = Dropout <seed = 7> (x, r, t) }}",
        f"{DROPOUT} {{ y, mask = Dropout <seed = 7> (x, r) }}",
    ),
    "batch normalisation with unread statistics": (
        f"{BATCH_NORM}) {{ y, m, v = {TRAINED} }}",
        f"{BATCH_NORM}) {{ y = {EVALUATED} }}",
    ),
    "batch normalisation with statistics that are read": (
        f"{BATCH_NORM}, float[2] v, float[2] z) {{ y, m, v = {TRAINED} z = Neg (m) }}",
        f"{BATCH_NORM}, float[2] v, float[2] z) {{ y = {EVALUATED} "
        "m = Identity (mean) v = Identity (var) z = Neg (m) }",
    ),
    "in a branch": (
        CONDITIONAL.format(body=f"p, m, v = {TRAINED}"),
        CONDITIONAL.format(body=f"p = {EVALUATED}"),
    ),
    "in a function": (
        f"{DROPOUT} {{ y = local.f (x, r, t) }} "
        '<domain: "local", opset_import: ["" : 17]> f (x, r, t) => (y) { y = Dropout (x, r, t) }',
        f"{DROPOUT} {{ y = local.f (x, r, t) }} "
        '<domain: "local", opset_import: ["" : 17]> f (x, r, t) => (y) { y = Dropout (x, r) }',
    ),
    "an operator of that name in another domain": (
        f"{DROPOUT} {{ y = local.Dropout (x, r, t) }} "
        '<domain: "local", opset_import: ["" : 17]> Dropout (x, r, t) => (y) { y = Neg (x) }',
        f"{DROPOUT} {{ y = local.Dropout (x, r, t) }} "
        '<domain: "local", opset_import: ["" : 17]> Dropout (x, r, t) => (y) { y = Neg (x) }',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_training_goes_off(case: str) -> None:
    before, after = map(parser.parse_model, CASES[case])
    disable_training(before)
    assert onnx.printer.to_text(before) == onnx.printer.to_text(after)
    onnx.checker.check_model(before, full_check=True)
    disable_training(before)
    assert onnx.printer.to_text(before) == onnx.printer.to_text(after)


def test_batch_normalisation_then_uses_the_running_statistics() -> None:
    model = parser.parse_model(CASES["batch normalisation with unread statistics"][0])
    numbers = np.random.default_rng(0)
    shapes = {"x": (4, 2), "scale": 2, "bias": 2, "mean": 2, "var": 2}
    feeds = {name: numbers.random(shape).astype(np.float32) for name, shape in shapes.items()}
    disable_training(model)
    (y,) = ReferenceEvaluator(model).run(None, feeds)
    x, scale, bias, mean, var = feeds.values()
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 0.01) * scale + bias, rtol=1e-5)
