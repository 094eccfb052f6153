"""merge-functions makes one function of equal ones, and on request of those that differ in constants only."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_inline import MergeFunctionsPass
from onnx_inline.errors import FunctionCycleError
from tests.helpers import assert_leaves, assert_transforms, computed, parsed

MAIN = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
main (float[2] x) => (float[2] y) {"""
BODY = '<domain: "m", opset_import: ["" : 18, "m" : 1]>'
CALLS = f"{MAIN} h = m.F (x)  y = m.G (h) }}"
FEEDS = {"x": np.array([1.5, -2], np.float32)}


def test_functions_equal_up_to_names_become_the_first() -> None:
    f = f"{BODY} F (a) => (c) {{ b = Relu (a)  c = Add (b, a) }}"
    assert_transforms(
        MergeFunctionsPass(),
        before=f"{CALLS} {f} {BODY} G (p) => (r) {{ q = Relu (p)  r = Add (q, p) }}",
        after=f"{MAIN} h = m.F (x)  y = m.F (h) }} {f}",
    )


def test_the_one_without_a_number_stays() -> None:
    model = parsed(f"{CALLS} {BODY} F (a) => (b) {{ b = Relu (a) }} {BODY} G (a) => (b) {{ b = Relu (a) }}")
    for identifier, name in ((("m", "F", ""), "Block.1"), (("m", "G", ""), "Block")):
        function = model.functions.pop(identifier)
        function.name = name
        model.functions[function.identifier()] = function
    for node, name in zip(model.graph, ("Block.1", "Block"), strict=True):
        node.op_type = name
    MergeFunctionsPass()(model)
    assert [function.name for function in model.functions.values()] == ["Block"]
    assert [node.op_type for node in model.graph] == ["Block", "Block"]


def test_functions_that_call_equal_functions_are_equal() -> None:
    leaves = f"{BODY} P (a) => (b) {{ b = Relu (a) }} {BODY} Q (a) => (b) {{ b = Relu (a) }}"
    assert_transforms(
        MergeFunctionsPass(),
        before=f"{CALLS} {leaves} {BODY} F (a) => (b) {{ b = m.P (a) }} "
        f"{BODY} G (a) => (b) {{ b = m.Q (a) }}",
        after=f"{MAIN} h = m.F (x)  y = m.F (h) }} {BODY} P (a) => (b) {{ b = Relu (a) }} "
        f"{BODY} F (a) => (b) {{ b = m.P (a) }}",
    )


@pytest.mark.parametrize(
    "other",
    [
        "G (p) => (r) { q = Relu (p)  r = Add (p, q) }",  # connected otherwise
        "G (p) => (r) { q = Relu (p)  r = Sub (q, p) }",  # another operator
        "G (p, o) => (r) { q = Relu (p)  r = Add (q, p) }",  # another interface
        "G (p) => (r, q) { q = Relu (p)  r = Add (q, p) }",
        "G <alpha> (p) => (r) { q = LeakyRelu <alpha: float = @alpha> (p)  r = Add (q, p) }",
    ],
)
def test_functions_that_differ_in_what_they_do_stay_apart(other: str) -> None:
    text = f"{CALLS} {BODY} F (a) => (c) {{ b = Relu (a)  c = Add (b, a) }} {BODY} {other}"
    for constants in ("keep", "attributes", "inputs"):
        assert_leaves(MergeFunctionsPass(constants), parsed(text))  # type: ignore[arg-type]


def test_functions_written_for_different_opsets_stay_apart() -> None:
    older = '<domain: "m", opset_import: ["" : 17]> G (a) => (b) { b = Relu (a) }'
    assert_leaves(MergeFunctionsPass(), parsed(f"{CALLS} {BODY} F (a) => (b) {{ b = Relu (a) }} {older}"))


def test_branches_are_compared_with_what_they_capture() -> None:
    def chosen(name: str, captured: str) -> str:
        return f"""{BODY} {name} (a) => (d) {{ b = Neg (a)  c = Constant <value = bool {{1}}> ()
            d = If (c) <then_branch = t () => (e) {{ e = Abs ({captured}) }},
                        else_branch = s () => (f) {{ f = Relu (b) }}> }}"""

    assert MergeFunctionsPass()(parsed(f"{CALLS} {chosen('F', 'a')} {chosen('G', 'a')}")).modified
    assert_leaves(MergeFunctionsPass(), parsed(f"{CALLS} {chosen('F', 'a')} {chosen('G', 'b')}"))


def test_an_attribute_that_the_body_does_not_use_makes_no_difference_and_goes_from_the_calls() -> None:
    assert_transforms(
        MergeFunctionsPass(),
        before=f"{MAIN} h = m.F (x)  y = m.G <unused = 3> (h) }} {BODY} F (a) => (b) {{ b = Relu (a) }} "
        f"{BODY} G <unused> (a) => (b) {{ b = Relu (a) }}",
        after=f"{MAIN} h = m.F (x)  y = m.F (h) }} {BODY} F (a) => (b) {{ b = Relu (a) }}",
    )


SCALED = (
    f"{CALLS} {BODY} F (a) => (b) {{ c = Constant <value_float = 2.0> ()  b = Mul (a, c) }} "
    f"{BODY} G (a) => (b) {{ c = Constant <value_float = 3.0> ()  b = Mul (a, c) }}"
)


def test_functions_that_differ_in_a_constant_stay_apart_unless_asked_for() -> None:
    assert_leaves(MergeFunctionsPass(), parsed(SCALED))


def test_constants_that_differ_become_attributes() -> None:
    assert_transforms(
        MergeFunctionsPass("attributes"),
        before=SCALED,
        after=f"{MAIN} h = m.F <value_float = 2.0> (x)  y = m.F <value_float = 3.0> (h) }} "
        f"{BODY} F <value_float> (a) => (b) "
        "{ c = Constant <value_float: float = @value_float> ()  b = Mul (a, c) }",
    )


def test_constants_that_differ_become_inputs() -> None:
    assert_transforms(
        MergeFunctionsPass("inputs"),
        before=SCALED,
        after=f"""{MAIN} ["F/c"] "F/c" = Constant <value_float = 2.0> ()  h = m.F (x, "F/c")
            ["G/c"] "G/c" = Constant <value_float = 3.0> ()  y = m.F (h, "G/c") }}
            {BODY} F (a, c_2) => (b) {{ b = Mul (a, c_2) }}""",
    )


def test_values_that_differ_alike_become_one_attribute() -> None:
    def leaky(name: str, alpha: float, axis: int) -> str:
        return (
            f"{BODY} {name} (a) => (d) {{ b = LeakyRelu <alpha = {alpha}> (a) "
            f"c = LeakyRelu <alpha = {alpha}> (b)  d = Softmax <axis = {axis}> (c) }}"
        )

    model = parsed(f"{CALLS} {leaky('F', 0.5, 0)} {leaky('G', 0.25, 0)}")
    MergeFunctionsPass("attributes")(model)
    (function,) = model.functions.values()
    assert list(function.attributes) == ["alpha"]
    assert [node.attributes["alpha"].as_float() for node in model.graph] == [0.5, 0.25]


@pytest.mark.parametrize("constants", ["attributes", "inputs"])
def test_constants_of_nested_functions_come_through_all_levels(constants: str) -> None:
    def level(name: str, inner: str, number: float) -> str:
        return (
            f"{BODY} {inner} (a) => (b) {{ c = Constant <value_float = {number}> ()  b = Mul (a, c) }} "
            f"{BODY} {name} (a) => (d) {{ b = m.{inner} (a)  c = m.{inner} (b)  d = Neg (c) }}"
        )

    text = f"{CALLS} {level('F', 'P', 2)} {level('G', 'Q', 3)}"
    model, before = parsed(text), parsed(text)
    MergeFunctionsPass(constants)(model)  # type: ignore[arg-type]
    assert [name for _, name, _ in model.functions] == ["P", "F"]
    assert np.array_equal(computed(model, FEEDS), computed(before, FEEDS))


def test_a_constant_that_is_an_output_stays_in_its_function() -> None:
    def constant(name: str, number: int) -> str:
        return f"{BODY} {name} (a) => (c) {{ c = Constant <value_floats = [{number}.0, 0.0]> () }}"

    assert_leaves(MergeFunctionsPass("inputs"), parsed(f"{CALLS} {constant('F', 1)} {constant('G', 2)}"))


def test_large_constants_are_weights_and_are_not_compared() -> None:
    def weighted(name: str) -> str:
        zeros = ", ".join(["0.0"] * 2000)
        constant = f"c = Constant <value = float[2000] {{{zeros}}}> ()"
        return f"{BODY} {name} (a) => (b) {{ {constant}  b = Mul (a, c) }}"

    assert_leaves(MergeFunctionsPass(), parsed(f"{CALLS} {weighted('F')} {weighted('G')}"))


def test_functions_in_a_circle_are_refused() -> None:
    text = (
        f"{MAIN} y = m.F (x) }} {BODY} F (a) => (b) {{ b = m.G (a) }} {BODY} G (a) => (b) {{ b = m.F (a) }}"
    )
    with pytest.raises(FunctionCycleError):
        MergeFunctionsPass()(parsed(text))


def test_a_choice_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="constants must be 'keep', 'attributes' or 'inputs', not 'all'"):
        MergeFunctionsPass("all")  # type: ignore[arg-type]
