"""Do two models compute the same?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_inline
from onnx_inline import verify
from onnx_inline.equivalence.compare import Tolerance, compare
from onnx_inline.equivalence.inputs import RECIPES, InputMaker

HEAD = '<ir_version: 10, opset_import: ["" : 18, "m" : 1]> main'
FUNCTION = '<domain: "m", opset_import: ["" : 18]> f (a) => (b) { t = Abs (a) b = Neg (t) }'
CALL = f"{HEAD} (float[N] x) => (float[N] y) {{ t = m.f (x) y = Exp (t) }} {FUNCTION}"
FLAT = f"{HEAD} (float[N] x) => (float[N] y) {{ s = Abs (x) t = Neg (s) y = Exp (t) }}"
WRONG = f"{HEAD} (float[N] x) => (float[N] y) {{ s = Abs (x) t = Relu (s) y = Exp (t) }}"


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def test_a_call_and_its_body_compute_the_same_by_both_engines() -> None:
    report = verify(parsed(CALL), parsed(FLAT))
    assert report
    assert [(e.engine, e.verdict, e.samples) for e in report.engines] == [
        ("onnxruntime", "same", 3),
        ("reference", "same", 3),
    ]
    assert str(report).startswith("a and b compute the same\n  onnxruntime ")
    assert "seed 0" in str(report)


def test_another_result_is_found_with_its_size_output_seed_and_first_value() -> None:
    report = verify(parsed(CALL), parsed(WRONG), seed=7)
    assert not report
    for engine in report.engines:
        assert (engine.verdict, engine.output, engine.seed) == ("different", "y", 7)
        assert engine.largest_absolute > 0.1
        assert engine.first is not None
        assert (engine.first.value, engine.first.node_b) == ("t", "t = Relu (s)")
    assert "the first value that differs: 't' (of 2 values in both)" in str(report)


def test_the_difference_stated_is_the_largest_there_is() -> None:
    shifted = f"""{HEAD} (float[3] x) => (float[3] y) {{
        c = Constant <value = float[3] {{0.0, 0.5, 0.25}}> () y = Add (x, c)
    }}"""
    plain = f"{HEAD} (float[3] x) => (float[3] y) {{ y = Identity (x) }}"
    report = verify(parsed(plain), parsed(shifted), inputs={"x": np.zeros(3, np.float32)})
    assert report.largest_absolute == 0.5
    assert report.inputs == "as given"


def test_a_difference_within_the_tolerance_is_none() -> None:
    nudged = (
        f"{HEAD} (float[3] x) => (float[3] y) {{ c = Constant <value = float {{0.001}}> () y = Add (x, c) }}"
    )
    plain = f"{HEAD} (float[3] x) => (float[3] y) {{ y = Identity (x) }}"
    assert verify(parsed(plain), parsed(nudged), atol=0.01)
    assert not verify(parsed(plain), parsed(nudged), atol=0.0001, rtol=0)


def test_a_late_first_difference_is_found_among_thousands_of_values() -> None:
    def chain(wrong: int) -> onnx.ModelProto:
        ops = "\n".join(f"v{k + 1} = {'Neg' if k == wrong else 'Identity'} (v{k})" for k in range(3000))
        return parsed(f"{HEAD} (float[2] v0) => (float[2] v3000) {{ {ops} }}")

    report = verify(chain(-1), chain(1717), engines=["onnxruntime"], samples=1)
    (engine,) = report.engines
    assert engine.first is not None
    assert (engine.first.value, engine.first.compared) == ("v1718", 3000)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("(float[N] x)", "(float[N] z, float[N] x)", "inputs: ['x'] became ['z', 'x']"),
        ("(float[N] y)", "(float[M] y)", "output float[N] y became float[M] y"),
    ],
)
def test_another_interface_is_a_difference_and_nothing_is_run(old: str, new: str, line: str) -> None:
    report = verify(parsed(FLAT), parsed(FLAT.replace(old, new)))
    assert (report.same, report.engines, report.interface) == (False, (), (line,))


def test_a_result_that_an_engine_cannot_run_although_it_runs_the_original_is_different() -> None:
    broken = parsed(FLAT.replace("Neg (s)", "m.gone (s)"))
    report = verify(parsed(FLAT), broken)
    assert {engine.verdict for engine in report.engines} == {"different"}
    assert "it cannot load b" in report.engines[0].reason


def test_two_models_that_no_engine_runs_are_not_called_the_same() -> None:
    broken = parsed(FLAT.replace("Neg (s)", "m.gone (s)"))
    report = verify(broken, broken)
    assert not report
    assert not report.compared
    assert "could not be compared: no engine ran both" in str(report)


def test_a_model_that_computes_something_else_in_every_run_is_not_judged() -> None:
    random = parsed(f"{HEAD} (float[2] x) => (float[2] y) {{ r = RandomNormalLike (x) y = Add (x, r) }}")
    report = verify(random, random, engines=["onnxruntime"])
    assert report.engines[0].verdict == "unable"
    assert "something else in every run" in report.engines[0].reason


def test_integers_are_valid_indices_into_a_table_even_through_a_call() -> None:
    model = parsed(f"""{HEAD} (int64[N] i) => (float[N, 2] y)
        <float[3, 2] table = {{0.0, 1.0, 2.0, 3.0, 4.0, 5.0}}> {{ y = m.look (table, i) }}
        <domain: "m", opset_import: ["" : 18]> look (t, j) => (r) {{ k = Identity (j) r = Gather (t, k) }}""")
    maker = InputMaker.of(model)
    assert maker.bounds == {"i": 3}
    drawn = np.concatenate([maker.make(RECIPES[0], seed)["i"] for seed in range(50)])
    assert set(drawn.tolist()) == {0, 1, 2}
    assert verify(model, onnx_inline.inline_functions(model))


def test_other_integers_are_tried_until_the_model_runs() -> None:
    shape = parsed(f"{HEAD} (float[35] x, int64[2] s) => (float[K, M] y) {{ y = Reshape (x, s) }}")
    report = verify(shape, shape, engines=["reference"])
    assert not report.compared  # no recipe makes the 5 and the 7 that would do
    assert verify(shape, shape, inputs={"x": np.ones(35, np.float32), "s": np.array([5, 7])})
    largest = parsed(f"{HEAD} (float[2] x, int64[1] k) => (float[K] y) {{ y, i = TopK (x, k) }}")
    report = verify(largest, largest, engines=["onnxruntime"], samples=9)
    assert report
    assert report.inputs == "generated, open dimensions 2, integers in range(1, 3)"


def test_the_same_symbol_has_the_same_size_everywhere() -> None:
    model = parsed(f"{HEAD} (float[B, N] x, float[N, B] z) => (float[B, B] y) {{ y = MatMul (x, z) }}")
    feeds = InputMaker.of(model).make(RECIPES[0], 0)
    assert feeds["x"].shape == feeds["z"].shape[::-1]
    assert verify(model, model)


def test_truth_values_text_sequences_and_optionals_are_made_and_compared() -> None:
    model = parsed(f"""{HEAD} (bool[2] b, string[2] s, seq(float[2]) q, optional(float[2]) o)
        => (bool[2] nb, string[2] ns, float[2] f, bool has) {{
            nb = Not (b) ns = Identity (s) zero = Constant <value_int: int = 0> ()
            f = SequenceAt (q, zero) has = OptionalHasElement (o)
        }}""")
    feeds = InputMaker.of(model).make(RECIPES[0], 0)
    assert (feeds["b"].dtype.kind, feeds["s"].dtype.kind, len(feeds["q"])) == ("b", "O", 2)
    assert verify(model, model)


def test_a_seed_gives_the_same_inputs_again_and_another_seed_others() -> None:
    maker = InputMaker.of(parsed(FLAT))
    first, again, other = (maker.make(RECIPES[0], seed)["x"] for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_paths_protos_and_ir_models_can_be_mixed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(parsed(CALL), path)
    report = verify(path, ir.from_proto(parsed(FLAT)))
    assert report
    assert (report.a, report.b) == (str(path), "b")


def test_weights_in_a_file_of_their_own_are_found(tmp_path: Path) -> None:
    model = parsed(f"{HEAD} (float[2, 64] x) => (float[2, 64] y) <float[64, 64] w> {{ y = MatMul (x, w) }}")
    weights = onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    model.graph.initializer.add().CopyFrom(weights)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    same = parsed(f"{HEAD} (float[2, 64] x) => (float[2, 64] y) {{ y = Identity (x) }}")
    assert verify(tmp_path / "m.onnx", same)
    other = parsed(f"{HEAD} (float[2, 64] x) => (float[2, 64] y) {{ y = Neg (x) }}")
    report = verify(tmp_path / "m.onnx", other)
    assert [engine.verdict for engine in report.engines] == ["different", "different"]


def test_recursive_functions_are_refused_before_an_engine_meets_them() -> None:
    recursive = parsed(CALL.replace("t = Abs (a)", "t = m.f (a)"))
    with pytest.raises(onnx_inline.FunctionCycleError, match="m::f -> m::f"):
        verify(recursive, recursive)


def test_an_unknown_engine_is_refused_with_close_names() -> None:
    with pytest.raises(onnx_inline.UnknownNameError, match="no engine 'onnxrt'"):
        verify(parsed(FLAT), parsed(FLAT), engines=["onnxrt"])


def test_a_report_is_plain_data() -> None:
    import json

    plain = verify(parsed(CALL), parsed(WRONG)).to_dict()
    assert json.loads(json.dumps(plain))["same"] is False


EXACT = Tolerance(0, 0)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (np.array([1.0, np.nan, np.inf]), np.array([1.0, np.nan, np.inf]), True),
        (np.array([np.inf]), np.array([-np.inf]), False),
        (np.array([1.0]), np.array([np.nan]), False),
        (np.array([1.0]), np.array([np.inf]), False),
        (np.array([1.0], np.float32), np.array([1.0], np.float64), False),
        (np.array([1.0]), np.array([[1.0]]), False),
        (np.array([2**63 - 1]), np.array([2**63 - 2]), False),
        (np.array([255], np.uint8), np.array([0], np.uint8), False),
        (np.array(["a"], object), np.array(["a"]), True),
        (np.array(["a"], object), np.array(["b"], object), False),
        (np.array([True]), np.array([False]), False),
        (np.array([1 + 2j]), np.array([1 + 2j]), True),
        (np.zeros((0, 2)), np.zeros((0, 2)), True),
        ([np.zeros(1)], [np.zeros(1)], True),
        ([np.zeros(1)], [np.zeros(1), np.zeros(1)], False),
        (None, None, True),
        (None, np.zeros(1), False),
    ],
)
def test_results_are_compared_element_by_element(first: object, second: object, same: bool) -> None:
    assert compare(first, second, EXACT).same is same


def test_an_infinite_number_allows_no_difference_to_a_finite_one() -> None:
    assert not compare(np.array([np.inf]), np.array([1.0]), Tolerance(1e-3, 1e-3)).same
