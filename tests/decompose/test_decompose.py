"""Operators replaced by what they are made of, as far as a target needs it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

import onnx_inline
from onnx_inline import decompose_operators, inline_functions
from onnx_inline.gradients import check_gradients

X = np.array([[-2.0, -0.3, 0.0], [0.4, 1.0, 3.0]], np.float32)


def model(nodes: str, version: int = 18, more: str = "", weights: str = "") -> onnx.ModelProto:
    header = f'<ir_version: 8, opset_import: ["" : {version}, "m" : 1]>'
    text = f"{header} g (float[2,3] x) => (float[p,q] y) {weights} {{ {nodes} }} {more}"
    return onnx.parser.parse_model(text)


def operators(given: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in given.graph.node)


def assert_same(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    onnx.checker.check_model(after, full_check=True)
    # The evaluator does not know the defaults of a function's attributes.
    expected, got = (ReferenceEvaluator(inline_functions(m)).run(None, {"x": X}) for m in (before, after))
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


LACKING = [
    ("Softplus (x)", 13),
    ("Softsign (x)", 7),
    ("Elu <alpha = 2.0> (x)", 18),
    ("Celu <alpha = 0.5> (x)", 12),
    ("Selu (x)", 13),
    ("HardSigmoid <alpha = 0.3> (x)", 18),
    ("HardSwish (x)", 14),
    ("Mish (x)", 18),
    ("ThresholdedRelu <alpha = 0.5> (x)", 18),
    ("Shrink <lambd = 0.5, bias = 0.1> (x)", 9),
    ("ReduceL1 <keepdims = 1> (x)", 18),
    ("ReduceL1 <axes = [1]> (x)", 13),
    ("ReduceSumSquare (x)", 18),
    ("ReduceSumSquare <axes = [0]> (x)", 11),
    ("ReduceMax <axes = [1]> (x)", 13),
    ("ReduceMin (x)", 18),
    ("Sum (x, x, x)", 13),
    ("Mean (x, x)", 13),
    ("Sign (x)", 13),
    ("Tan (x)", 13),
    ('Einsum <equation = "ij,kj->ik"> (x, x)', 13),
    ('Einsum <equation = "ij->ji"> (x)', 13),
    ("MeanVarianceNormalization <axes = [1]> (x)", 13),
]


@pytest.mark.parametrize(("node", "version"), LACKING)
def test_what_ort_training_lacks_is_made_of_what_it_has(node: str, version: int) -> None:
    before = model(f"y = {node}", version)
    after, report = decompose_operators(before, target="ort-training", with_report=True)
    assert {finding.kind for finding in check_gradients(after, "ort-training").blocking} <= {"used-twice"}
    assert (sum(report.expanded.values()), report.left) == (1, ())
    assert_same(before, after)
    assert before == model(f"y = {node}", version), "the given model is as it was"
    assert decompose_operators(after, target="ort-training") == after, "a second run changes nothing"


@pytest.mark.parametrize("node", ["Gelu (x)", "Softmax (x)", "LogSoftmax (x)", "ReduceL2 (x)", "Clip (x)"])
def test_what_the_target_supports_is_left_alone(node: str) -> None:
    before = model(f"y = {node}", 20)
    assert decompose_operators(before, target="ort-training") == before


@pytest.mark.parametrize(("node", "version"), [*LACKING, ("Gelu (x)", 20)])
def test_both_forms_give_the_same_nodes(node: str, version: int) -> None:
    before = model(f"y = {node}", version)
    given = ir.from_proto(before)
    assert decompose_operators(given, target="ort-training") is given
    expected = decompose_operators(before, target="ort-training")
    assert ir.to_proto(given).graph.node == ir.to_proto(ir.from_proto(expected)).graph.node


def test_without_a_target_everything_with_a_body_goes() -> None:
    before = model("a = Gelu (x) y = Softmax (a)", 20)
    after = decompose_operators(before)
    assert not operators(after).keys() & {"Gelu", "Softmax", "CastLike"}
    assert_same(before, after)


def test_named_operators_go_and_others_stay() -> None:
    before = model("a = Gelu (x) b = Softplus (a) y = Mish (b)", 20)
    after = decompose_operators(before, operators=["Gelu", ("", "Mish")])
    assert operators(after)["Softplus"] == 2, "one of them is in the body of Mish"
    assert not operators(after).keys() & {"Gelu", "Mish"}
    assert_same(before, after)


def test_an_operator_in_a_subgraph_goes() -> None:
    branches = "<then_branch = t () => (float[2,3] p) { p = Softplus (x) }, "
    branches += "else_branch = e () => (float[2,3] p) { p = HardSwish (x) }>"
    before = model(f"c = Constant <value = bool {{1}}> () y = If (c) {branches}")
    after = decompose_operators(before, target="ort-training")
    inner = {node.op_type for branch in after.graph.node[1].attribute for node in branch.g.node}
    assert not inner & {"Softplus", "HardSwish"}
    assert_same(before, after)


def test_an_operator_in_a_kept_function_goes() -> None:
    functions = '<domain: "m", opset_import: ["" : 18]> f (a) => (b) { b = Celu (a) }'
    before = model("y = m.f (x)", more=functions)
    after = decompose_operators(before, target="ort-training")
    assert [function.name for function in after.functions] == ["f"]
    assert "Celu" not in {node.op_type for node in after.functions[0].node}
    assert_same(before, after)


def test_an_attribute_of_a_kept_function_reaches_the_body() -> None:
    body = "(a) => (b) { b = Elu <alpha: float = @al> (a) }"
    functions = f'<domain: "m", opset_import: ["" : 18]> f <al: float = 2.0> {body}'
    before = model("y = m.f <al = 0.5> (x)", more=functions)
    after = decompose_operators(before, operators=["Elu"])
    assert "Elu" not in {node.op_type for node in after.functions[0].node}
    assert_same(before, after)


def test_an_attribute_that_may_be_absent_in_a_kept_function_is_not_guessed() -> None:
    functions = (
        '<domain: "m", opset_import: ["" : 18]> f <al> (a) => (b) { b = Elu <alpha: float = @al> (a) }'
    )
    before = model("y = m.f <al = 0.5> (x)", more=functions)
    after, report = decompose_operators(before, target="ort-training", with_report=True)
    assert after == before
    assert report.left[0].reason == "its attribute alpha may be absent in function f; inline that first"


def test_an_absent_optional_input_stays_absent() -> None:
    before = model("h = Constant <value = float {0.5}> () y = Clip (x, , h)", 13)
    after = decompose_operators(before, operators=["Clip"])
    assert operators(after) == {"Constant": 1, "Less": 1, "Where": 1}
    assert_same(before, after)


def test_an_initializer_needs_no_value_info() -> None:
    weights = "<float[3] s = {1, 2, 3}, float[3] b = {0, 1, 2}>"
    before = model("y = LayerNormalization (x, s, b)", 17, weights=weights)
    after = decompose_operators(before, operators=["LayerNormalization"])
    assert "LayerNormalization" not in operators(after)
    assert_same(before, after)
    assert after.graph.initializer == before.graph.initializer


def test_names_of_the_body_make_way_for_those_of_the_model() -> None:
    before = model('["Selu"] Alpha = Add (x, x) ["n"] "Selu/Alpha" = Add (Alpha, x) y = Selu ("Selu/Alpha")')
    after = decompose_operators(before, target="ort-training")
    names = [name for node in after.graph.node for name in node.output]
    assert len(set(names)) == len(names)
    assert_same(before, after)


def test_an_operator_without_body_is_left_and_reported() -> None:
    before = model("y = Atan (x)")
    after, report = decompose_operators(before, target="ort-training", with_report=True)
    assert after == before
    assert str(report) == "nothing to decompose\n  left 1 of Atan: it has no body"


def test_a_named_operator_without_body_is_an_error() -> None:
    with pytest.raises(onnx_inline.NoBodyError, match="cannot decompose Atan: it has no body"):
        decompose_operators(model("y = Atan (x)"), operators=["Atan"])


def test_a_name_that_means_no_operator_is_an_error() -> None:
    with pytest.raises(onnx_inline.UnknownNameError, match="there is no operator Sofplus"):
        decompose_operators(model("y = Softplus (x)"), operators=["Sofplus"])


def test_a_missing_type_is_named() -> None:
    before = model("a = m.Unknown (x) b = Celu (a) y = Add (b, x)")
    _, report = decompose_operators(before, target="ort-training", with_report=True)
    assert "depends on the type of 'a', which is not known" in report.left[0].reason


def test_an_error_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise onnx_inline.ModelError("refused")

    given = ir.from_proto(model("a = Softplus (x) y = Elu <alpha = 2.0> (a)"))
    before = ir.to_proto(given)
    monkeypatch.setattr("onnx_inline.passes.expansion.inline_ir.inline", failing)
    with pytest.raises(onnx_inline.ModelError, match="refused"):
        decompose_operators(given, target="ort-training")
    assert ir.to_proto(given) == before


def test_training_mode_batch_normalization_stays() -> None:
    weights = "<float[3] s = {1,1,1}, float[3] b = {0,0,0}, float[3] m = {0,0,0}, float[3] v = {1,1,1}>"
    training = model("y, r, t = BatchNormalization <training_mode = 1> (x, s, b, m, v)", 17, weights=weights)
    assert decompose_operators(training, target="ort-training") == training
    inference = model("y = BatchNormalization (x, s, b, m, v)", 17, weights=weights)
    after = decompose_operators(inference, target="ort-training")
    assert "BatchNormalization" not in operators(after)
    assert_same(inference, after)


@pytest.mark.parametrize(
    ("data", "expected"),
    [([1.0, 3.0, 3.0], 3.0), ([-np.inf, -np.inf], -np.inf), ([np.inf, 1.0], np.inf), ([np.nan, 1.0], np.nan)],
)
def test_an_extremum_is_right_for_ties_and_odd_numbers(data: list[float], expected: float) -> None:
    header = '<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float y)'
    before = onnx.parser.parse_model(header + " { y = ReduceMax <keepdims = 0> (x) }")
    after = decompose_operators(before, target="ort-training")
    (got,) = ReferenceEvaluator(after).run(None, {"x": np.array(data, np.float32)})
    np.testing.assert_equal(got, np.float32(expected))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bsd,dhk->bshk", [(2, 3, 4), (4, 5, 6)]),
        ("bshk,hkd->bsd", [(2, 3, 5, 6), (5, 6, 4)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij,ij->", [(3, 4), (3, 4)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("abc,cd->bd", [(2, 3, 4), (4, 5)]),
        ("abc->ca", [(2, 3, 4)]),
    ],
)
def test_einsum_is_a_matrix_product(equation: str, shapes: list[tuple[int, ...]]) -> None:
    names = ["a", "b"][: len(shapes)]
    inputs = [onnx.helper.make_tensor_value_info(n, 1, s) for n, s in zip(names, shapes, strict=True)]
    node = onnx.helper.make_node("Einsum", names, ["y"], equation=equation)
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.helper.make_tensor_value_info("y", 1, None)])
    before = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    after = decompose_operators(before, target="ort-training")
    assert "Einsum" not in operators(after)
    random = np.random.default_rng(0)
    feeds = {n: random.normal(size=s).astype(np.float32) for n, s in zip(names, shapes, strict=True)}
    (got,) = ReferenceEvaluator(after).run(None, feeds)
    np.testing.assert_allclose(got, np.einsum(equation, *feeds.values()), rtol=1e-5, atol=1e-5)


def test_weights_are_neither_read_nor_copied() -> None:
    class Unreadable(ir.Tensor):
        def numpy(self) -> np.ndarray:
            raise AssertionError("read")

        tobytes = numpy

    weights = "<float[3] w = {1, 2, 3}>"
    given = ir.from_proto(model("a = Mul (x, w) y = Softplus (a)", weights=weights))
    tensor = Unreadable(np.ones((500, 1, 3), np.float32), name="w")
    given.graph.initializers["w"].const_value = tensor
    decompose_operators(given, target="ort-training")
    assert given.graph.initializers["w"].const_value is tensor


def test_no_cast_is_left_that_changes_nothing() -> None:
    after = decompose_operators(model("y = Selu (x)"), target="ort-training")
    assert "Cast" not in operators(after)
