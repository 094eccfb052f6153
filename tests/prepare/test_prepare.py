"""One call makes a model one that its reader takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

import onnx_inline
from onnx_inline import prepare

X = np.array([[-2.0, -0.3, 0.1], [0.4, 1.0, 3.0]], np.float32)
WEIGHTS = "<float[3] w = {1, 2, 3}, float[3] s = {1, 2, 0.5}, float[3] b = {0, 1, 2}>"


def model(nodes: str, *, opset: int = 17, more: str = "", ir_version: int = 8) -> onnx.ModelProto:
    header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "m" : 1]>'
    text = f"{header} g (float[2,3] x) => (float[2,3] out_1) {WEIGHTS} {{ {nodes} }} {more}"
    return onnx.parser.parse_model(text)


def operators(given: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in given.graph.node)


def assert_same(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    onnx.checker.check_model(after, full_check=True)
    (expected,), (got,) = (ReferenceEvaluator(m).run(None, {"x": X}) for m in (before, after))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


BODY = "Sigmoid (a, k) => (c) { d = Mul (a, k) c = Softplus (d) }"
FUNCTIONS = f'<domain: "m", opset_import: ["" : 17, "m" : 1]> {BODY}'


def test_functions_go_and_operators_are_those_of_the_target() -> None:
    before = model('["act"] a = m.Sigmoid (x, w) out_1 = LayerNormalization (a, s, b)', more=FUNCTIONS)
    after, report = prepare(before, with_report=True)
    assert report.ok
    assert (list(after.functions), [entry.domain for entry in after.opset_import]) == ([], [""])
    assert not operators(after).keys() & {"Sigmoid", "Softplus"}
    assert [len(n.output) for n in after.graph.node if n.op_type == "LayerNormalization"] == [3]
    assert_same(before, after)


def test_interface_and_weights_stay() -> None:
    before = model("a = m.Sigmoid (x, w) out_1 = Add (a, b)", more=FUNCTIONS)
    after = prepare(before)
    for field in ("input", "output", "initializer"):
        assert getattr(after.graph, field) == getattr(before.graph, field)


def test_outputs_get_their_names_back() -> None:
    after = prepare(model("out_1 = Mul (x, w)"), output_names=["y"])
    assert [value.name for value in after.graph.output] == ["y"]
    assert after.graph.node[0].output == ["y"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["w"], "'w' belongs to another value already"),
        (["y", "z"], "2 names for 1 outputs"),
        ([""], "'' is empty or given to two"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(names: list[str], message: str) -> None:
    given = ir.from_proto(model("out_1 = Mul (x, w)"))
    before = ir.to_proto(given)
    with pytest.raises(onnx_inline.OutputNamesError, match=message):
        prepare(given, output_names=names)
    assert ir.to_proto(given) == before


def test_names_of_outputs_may_change_places() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] p, float[2] q, float[2] x)'
    before = onnx.parser.parse_model(text + " { p = Relu (x) q = Neg (x) }")
    after = prepare(before, output_names=["q", "p", "r"])
    assert [(node.op_type, *node.output) for node in after.graph.node] == [
        ("Relu", "q"),
        ("Neg", "p"),
        ("Identity", "r"),
    ]


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 24, reason="this onnx does not know opset 24")
def test_versions_are_lowered_to_what_the_target_loads() -> None:
    before = model("a = RMSNormalization (x, w) out_1 = Swish (a)", opset=24, ir_version=12)
    after, report = prepare(before, with_report=True)
    assert (after.opset_import[0].version, after.ir_version, report.ok) == (21, 10, True)
    assert_same(before, after)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 24, reason="this onnx does not know opset 24")
def test_what_cannot_be_lowered_is_refused() -> None:
    given = ir.from_proto(model("out_1 = TensorScatter (x, x)", opset=24, ir_version=12))
    before = ir.to_proto(given)
    with pytest.raises(
        onnx_inline.VersionError, match="lower the model to opset 21: TensorScatter is of opset 24"
    ):
        prepare(given)
    assert ir.to_proto(given) == before


def test_a_constant_if_is_taken_and_integers_are_folded() -> None:
    nodes = """
        r = Shape (x) two = Constant <value = int64[1] {0}> () n = Gather (r, two)
        one = Constant <value = int64[1] {1}> () many = Greater (n, one)
        out_1 = If (many) <then_branch = t () => (float[2,3] p) { p = Mul (x, w) },
                           else_branch = e () => (float[2,3] q) { q = Add (x, w) }>
    """
    before = model(nodes)
    after = prepare(before)
    assert operators(after) == {"Mul": 1, "Identity": 1}
    assert_same(before, after)


def test_names_of_two_branches_that_are_taken_do_not_meet() -> None:
    branches = """<then_branch = t () => (float[2,3] p) { p = Mul (x, w) },
                   else_branch = e () => (float[2,3] p) { p = Add (x, w) }>"""
    before = model(
        f"c = Constant <value = bool {{1}}> () d = Constant <value = bool {{0}}> ()"
        f" a = If (c) {branches} k = If (d) {branches} out_1 = Add (a, k)"
    )
    after = prepare(before)
    assert operators(after) == {"Mul": 1, "Add": 2}
    assert_same(before, after)


def test_leaves_nodes_and_values_keep_out_of_the_builders_way() -> None:
    before = model('["n"] a = Mul (w, w) ["n"] w_grad = Mul (a, x) out_1 = Relu (w_grad)')
    after, report = prepare(before, with_report=True)
    assert report.ok
    assert [(n.op_type, n.name, *n.input) for n in after.graph.node][:2] == [
        ("Identity", "", "w"),
        ("Mul", "n", "w_once", "w_once"),
    ]
    assert_same(before, after)


def test_normalizations_that_are_not_trained_are_expanded() -> None:
    nodes = "a = LayerNormalization (x, s, b) out_1 = LayerNormalization (a, w, b)"
    assert operators(prepare(model(nodes)))["LayerNormalization"] == 2
    after = prepare(model(nodes), trainable=["s", "w"])
    assert operators(after)["LayerNormalization"] == 0
    assert_same(model(nodes), after)


def test_a_kept_function_stays() -> None:
    before = model("a = m.Sigmoid (x, w) out_1 = Add (a, b)", more=FUNCTIONS)
    after, report = prepare(before, keep=["m::Sigmoid"], with_report=True)
    assert [function.name for function in after.functions] == ["Sigmoid"]
    assert report.check.target == "ort-training"


def test_what_is_left_is_in_the_report() -> None:
    _, report = prepare(model("a = Mul (x, w) out_1 = Atan (a)"), with_report=True)
    assert not report.ok
    assert [finding.subject for finding in report.check.blocking] == ["Atan"]
    assert "Atan has no gradient in ort-training" in str(report)
    assert report.to_dict()["check"]["ok"] is False


@pytest.mark.parametrize("target", ["onnx-ad", "onnx2torch", "jaxonnxruntime", "tinygrad"])
def test_other_targets(target: str) -> None:
    before = model("a = m.Sigmoid (x, w) out_1 = Add (a, b)", more=FUNCTIONS)
    after, report = prepare(before, target, with_report=True)
    assert report.ok, str(report)
    assert_same(before, after)


def test_both_forms_give_the_same() -> None:
    before = model("a = m.Sigmoid (x, w) c = Selu (a) out_1 = LayerNormalization (c, s, b)", more=FUNCTIONS)
    given = ir.from_proto(before)
    tensors = {name: value.const_value for name, value in given.graph.initializers.items()}
    assert prepare(given, output_names=["y"]) is given
    assert {name: value.const_value for name, value in given.graph.initializers.items()} == tensors
    expected = prepare(before, output_names=["y"])
    assert ir.to_proto(given).graph.node == expected.graph.node


def test_a_second_run_changes_nothing() -> None:
    before = model("a = m.Sigmoid (x, w) c = Mul (w, w) d = Mul (a, c) out_1 = LayerNormalization (d, s, b)")
    once = prepare(before)
    assert prepare(once) == once


def test_training_mode_batch_normalization_is_not_touched() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y)'
        " <float[3] s = {1,1,1}, float[3] b = {0,0,0}, float[3] m = {0,0,0}, float[3] v = {1,1,1}>"
        " { y, r, t = BatchNormalization <training_mode = 1> (x, s, b, m, v) }"
    )
    before = onnx.parser.parse_model(text)
    (node,) = prepare(before).graph.node
    assert (node.input, node.output, node.attribute) == (
        before.graph.node[0].input,
        before.graph.node[0].output,
        before.graph.node[0].attribute,
    )


def test_training_information_stays_and_its_calls_are_inlined() -> None:
    before = model("a = m.Sigmoid (x, w) out_1 = Add (a, b)", more=FUNCTIONS)
    before.opset_import.add(domain="ai.onnx.preview.training", version=1)
    algorithm = before.training_info.add().algorithm
    algorithm.name = "step"
    algorithm.node.add(op_type="Sigmoid", domain="m", input=["w", "s"], output=["u"])
    algorithm.node.add(op_type="Adam", domain="ai.onnx.preview.training", input=["u"], output=["v"])
    after = prepare(before)
    assert {node.op_type for node in after.training_info[0].algorithm.node} == {"Mul", "Softplus", "Adam"}
    assert {entry.domain for entry in after.opset_import} == {"", "ai.onnx.preview.training"}


def test_from_file_to_file(tmp_path: Path) -> None:
    source, made = tmp_path / "in.onnx", tmp_path / "out.onnx"
    before = model("a = m.Sigmoid (x, w) out_1 = Add (a, b)", more=FUNCTIONS)
    onnx.save(before, source)
    report = onnx_inline.prepare_file(source, made, output_names=["y"])
    assert report.ok
    after = onnx.load(made)
    assert after.graph.node == prepare(source, output_names=["y"]).graph.node
    assert_same(before, after)
