"""Which function a call means, and which functions cannot be inlined."""

# ruff: noqa: E501  # a graph in an attribute is not broken over lines

from __future__ import annotations

from tests.engine.both_forms import FLAT, MAIN, F, assert_inlines, message, parsed, refused


def test_an_overload_is_a_function_of_its_own() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.f:v (x) y = l.f (a) }}
        {F} f (v) => (r) {{ r = Neg (v) }}
        <domain: "l", overload: "v", opset_import: ["" : 18, "l" : 1]> f (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Exp"] a = Exp (x)
           ["f_2/Neg"] y = Neg (a)
        }}
        """,
    )


def test_the_standard_domain_has_two_spellings() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        <domain: "l", opset_import: ["ai.onnx" : 18]> f (v) => (r) {{ t = ai.onnx.Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Neg"] "f/t" = Neg (x)
           ["f/Exp"] y = Exp ("f/t")
        }}
        """,
    )


def test_a_function_may_have_the_name_of_an_operator() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.Neg (x) y = Neg (a) }}
        {F} Neg (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["Neg/Exp"] a = Exp (x)
           y = Neg (a)
        }}
        """,
    )


def test_a_function_may_stand_for_an_operator() -> None:
    assert_inlines(
        """
        <ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[2] y) { a = Gelu (x) y = Neg (a) }
        <domain: "", opset_import: ["" : 18]> Gelu (v) => (r) { r = Tanh (v) }
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["Gelu/Tanh"] a = Tanh (x)
           y = Neg (a)
        }}
        """,
    )


def test_a_function_that_nothing_calls_goes() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = Neg (x) }}
        {F} f (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           y = Neg (x)
        }}
        """,
    )


def test_a_call_of_a_function_that_is_not_there_stays() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.f (x) y = l.lost (a) }}
        {F} f (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{
           ["f/Exp"] a = Exp (x)
           y = l.lost (a)
        }}
        """,
        check=False,
    )


def test_a_missing_overload_is_not_the_function_without_one() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.f:lost (x) y = l.f (a) }}
        {F} f (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{
           a = l.f:lost (x)
           ["f/Exp"] y = Exp (a)
        }}
        """,
        check=False,
    )


def test_the_same_function_twice_is_one() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ r = Exp (v) }}
        {F} f (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Exp"] y = Exp (x)
        }}
        """,
        check=False,
    )


def test_two_functions_of_one_name_are_refused() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ r = Exp (v) }}
        {F} f (v) => (r) {{ r = Neg (v) }}"""
    assert message(parsed(before)) == (
        "InvalidModelError: function l::f is defined twice, with different bodies; rename or remove one"
    )


def test_a_function_that_calls_itself_is_refused() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ r = l.f (v) }}"""
    assert refused(before) == (
        "FunctionCycleError: recursive functions cannot be inlined: the cycle is l::f -> l::f; "
        "take one of its calls out, or keep these functions"
    )


def test_a_circle_is_named_whole() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ r = l.g (v) }}
        {F} g (v) => (r) {{ r = l.h (v) }}
        {F} h (v) => (r) {{ r = l.f (v) }}"""
    assert refused(before) == (
        "FunctionCycleError: recursive functions cannot be inlined: the cycle is l::f -> l::g -> "
        "l::h -> l::f; take one of its calls out, or keep these functions"
    )


def test_a_circle_that_nothing_reaches_goes() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = Neg (x) }}
        {F} f (v) => (r) {{ r = l.g (v) }}
        {F} g (v) => (r) {{ r = l.f (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           y = Neg (x)
        }}
        """,
    )


def test_only_the_imports_that_are_used_are_left() -> None:
    assert_inlines(
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1, "unused" : 3]> main (float[2] x) => (float[2] y) { y = l.f (x) }
        <domain: "l", opset_import: ["" : 18, "ai.onnx.ml" : 3]> f (v) => (r) { r = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (v) }
        """,
        """
        <ir_version: 10, opset_import: ["ai.onnx.ml" : 3]> main (float[2] x) => (float[2] y) {
           ["f/Scaler"] y = ai.onnx.ml.Scaler <offset: floats = [0], scale: floats = [2]> (x)
        }
        """,
    )


def test_one_name_in_both_spellings_of_the_default_domain_is_defined_twice() -> None:
    said = refused(
        """
        <ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[2] y) { y = Own (x) }
        <domain: "ai.onnx", opset_import: ["" : 18]> Own (v) => (r) { r = Neg (v) }
        <domain: "", opset_import: ["" : 18]> Own (v) => (r) { r = Exp (v) }
        """
    )
    assert said == (
        "InvalidModelError: function Own is defined twice, with different bodies; rename or remove one"
    )
