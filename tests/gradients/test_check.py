"""What stands between a model and its gradient builder."""

from __future__ import annotations

import dataclasses
import json
import time

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onnx_inline.errors import UnknownNameError
from onnx_inline.gradients import GradientReport, check_gradients
from onnx_inline.targets import load_target

HEADER = '<ir_version: 8, opset_import: ["" : 17, "m" : 1]> g (float[2,3] x) => (float[2,3] y)'
WEIGHTS = "<float[3] w = {1,2,3}, float[3] u = {1,2,3}>"


def model(nodes: str, functions: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER} {WEIGHTS} {{ {nodes} }} {functions}")


def function(signature: str, body: str) -> str:
    return f'<domain: "m", opset_import: ["" : 17, "m" : 1]> {signature} {{ {body} }}'


def found(report: GradientReport) -> list[tuple[str, str]]:
    return [(finding.kind, finding.subject) for finding in report.blocking]


def test_a_model_of_supported_operators_is_ready() -> None:
    report = check_gradients(model("a = Mul (x, w) y = Add (a, u)"))
    assert report.ok
    assert str(report) == "ready for ort-training: 2 of 2 nodes on gradient paths"


def test_an_operator_without_gradient_blocks_on_a_path_and_is_harmless_beside_it() -> None:
    assert found(check_gradients(model("a = Mul (x, w) b = Atan (a) y = Add (b, u)"))) == [
        ("operator", "Atan")
    ]
    assert found(check_gradients(model("a = Atan (x) b = Mul (a, w) y = Add (b, u)"))) == []
    assert found(check_gradients(model("a = Mul (x, w) b = Atan (a) y = Add (a, u)"))) == []


def test_no_path_goes_through_integers_and_stopped_inputs() -> None:
    assert check_gradients(
        model(
            "a = Mul (x, w) b = Atan (a) i = ArgMax <axis = 1, keepdims = 0> (b) c = Gather (u, i)"
            " one = Constant <value_ints = [1]> () t = Unsqueeze (c, one) v = Mul (t, w) y = Add (x, v)"
        )
    ).ok


def test_paths_go_from_what_is_named_and_to_what_is_named() -> None:
    nodes = "a = Atan (w) b = Mul (a, u) y = Add (b, x)"
    assert not check_gradients(model(nodes), trainable=["w"]).ok
    assert check_gradients(model(nodes), trainable=["u"]).ok
    assert check_gradients(model("b = Mul (w, x) y = Atan (b)"), trainable=["w"], outputs=["b"]).ok


def test_what_is_named_and_gets_no_gradient_blocks() -> None:
    nodes = "y = Pow (x, w)"
    assert found(check_gradients(model(nodes), trainable=["w"])) == [("no-path", "w")]
    assert check_gradients(model(nodes)).ok, "nobody asked for it by name"


def test_an_operator_in_a_function_is_named_by_the_calls_that_lead_to_it() -> None:
    functions = function("outer (a) => (b)", '["in"] b = m.inner (a)') + function(
        "inner (a) => (b)", '["deep"] b = Atan (a)'
    )
    report = check_gradients(model('a = Mul (x, w) ["blk"] b = m.outer (a) y = Add (b, u)', functions))
    assert found(report) == [("operator", "Atan"), ("function", "m::outer")]
    assert report.blocking[0].places == ("blk (m::outer) > in (m::inner) > blk/in/deep",)


def test_a_kept_function_is_not_looked_into() -> None:
    functions = function("f (a) => (b)", "b = Atan (a)")
    given = model("a = Mul (x, w) b = m.f (a) y = Add (b, u)", functions)
    target = dataclasses.replace(load_target("ort-training"), local_functions=True)
    assert not check_gradients(given, target).ok
    assert check_gradients(given, target, keep=["m::f"]).ok


def test_a_function_that_bears_an_operators_name_is_a_collision() -> None:
    functions = function("Sigmoid (a) => (b)", "b = Sin (a)")
    report = check_gradients(model("a = Mul (x, w) b = m.Sigmoid (a) y = Add (b, u)", functions))
    assert ("collision", "m::Sigmoid") in found(report)


def test_a_custom_operator_that_bears_an_operators_name_is_a_collision() -> None:
    report = check_gradients(model("a = Mul (x, w) b = m.Sigmoid (a) y = Add (b, u)"))
    assert ("collision", "m::Sigmoid") in found(report)


@pytest.mark.parametrize(
    ("nodes", "kind", "subject"),
    [
        ('["n"] a = Mul (x, w) ["n"] y = Add (a, u)', "node-name", "n"),
        ("a = Mul (x, w) w_grad = Add (a, u) y = Relu (w_grad)", "value-name", "w_grad"),
        ("a = Mul (w, w) y = Add (a, x)", "used-twice", "w"),
        ("a = Mul (x, w) y = LayerNormalization (a, u)", "call", "LayerNormalization"),
        (
            "a = Mul (x, w) s = SequenceConstruct (a) i = SequenceAt (s, z) y = Add (i, u)",
            "operator",
            "SequenceAt",
        ),
    ],
)
def test_the_builders_other_refusals_are_found(nodes: str, kind: str, subject: str) -> None:
    assert (kind, subject) in found(check_gradients(model(nodes)))


def test_batch_normalization_with_given_statistics_would_get_another_gradient() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, float[3] m, float[3] v) => (float[2,3] y)'
        " <float[3] s = {1,1,1}, float[3] b = {0,0,0}> { y = BatchNormalization (x, s, b, m, v) }"
    )
    assert found(check_gradients(onnx.parser.parse_model(text))) == [("call", "BatchNormalization")]


def test_a_subgraph_that_captures_a_trained_value_is_on_the_path() -> None:
    condition = "c = Constant <value = bool {1}> ()"
    branches = "<then_branch = t () => (p) { p = Mul (x, w) }, else_branch = e () => (q) { q = Neg (x) }>"
    report = check_gradients(model(f"{condition} a = If (c) {branches} y = Add (a, u)"))
    assert found(report) == [("operator", "If")]


def test_opset_and_ir_version_are_compared_with_what_is_loaded() -> None:
    given = model("a = Mul (x, w) y = Add (a, u)")
    given.ir_version, given.opset_import[0].version = 12, 22
    assert found(check_gradients(given)) == [("opset", "ai.onnx"), ("ir-version", "12")]


def test_both_forms_give_the_same_report() -> None:
    functions = function("f (a) => (b)", "b = Atan (a)")
    given = model('["n"] a = Mul (x, w) ["n"] b = m.f (a) y = Add (b, u)', functions)
    assert check_gradients(ir.from_proto(given)) == check_gradients(given)


def test_a_report_can_be_written_as_json() -> None:
    report = check_gradients(model("a = Atan (w) y = Add (a, x)"))
    plain = json.loads(json.dumps(report.to_dict()))
    assert (plain["ok"], plain["findings"][0]["subject"]) == (False, "Atan")


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no initializer or input 'ww'; did you mean w"):
        check_gradients(model("y = Mul (x, w)"), trainable=["ww"])


def test_another_reader_is_asked_about_every_node() -> None:
    report = check_gradients(model("a = Atan (x) b = Softplus (a) y = Mul (b, w)"), "jaxonnxruntime")
    assert report.ok
    assert found(check_gradients(model("a = HardSwish (x) y = Mul (a, w)"), "jaxonnxruntime")) == [
        ("operator", "HardSwish")
    ]


def test_weights_are_not_read() -> None:
    class Unreadable(ir.Tensor):
        def numpy(self) -> np.ndarray:
            raise AssertionError("read")

        tobytes = numpy

    given = ir.from_proto(model("a = Mul (x, w) y = Add (a, u)"))
    given.graph.initializers["w"].const_value = Unreadable(np.zeros((3,), np.float32), name="w")
    assert check_gradients(given).ok


def test_the_cost_is_linear() -> None:
    def seconds(count: int) -> float:
        nodes = [f"a{n + 1} = Mul (a{n}, w)" for n in range(count)]
        given = model(f"a0 = Add (x, u) {' '.join(nodes)} y = Identity (a{count})")
        started = time.perf_counter()
        assert check_gradients(given).nodes_on_paths == count + 2
        return time.perf_counter() - started

    small, large = min(seconds(500) for _ in range(3)), seconds(4000)
    assert large < 24 * small, f"{small:.3f} s for 500 nodes, {large:.3f} s for 4000"
