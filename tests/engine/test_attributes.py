"""Attributes: references, defaults, and who they belong to."""

# ruff: noqa: E501  # a graph in an attribute is not broken over lines

from __future__ import annotations

from tests.engine.both_forms import FLAT, MAIN, F, assert_inlines, refused


def test_a_reference_takes_the_value_that_the_call_gives() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <slope = 0.5> (x) }}
        {F} f <slope> (v) => (r) {{ r = LeakyRelu <alpha: float = @slope> (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/LeakyRelu"] y = LeakyRelu <alpha: float = 0.5> (x)
        }}
        """,
    )


def test_a_reference_without_a_value_is_left_out() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f <slope> (v) => (r) {{ r = LeakyRelu <alpha: float = @slope> (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/LeakyRelu"] y = LeakyRelu (x)
        }}
        """,
    )


def test_a_default_holds_where_the_call_gives_nothing() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.f (x) y = l.f <slope = 0.5> (a) }}
        {F} f <slope: float = 0.25> (v) => (r) {{ r = LeakyRelu <alpha: float = @slope> (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/LeakyRelu"] a = LeakyRelu <alpha: float = 0.25> (x)
           ["f_2/LeakyRelu"] y = LeakyRelu <alpha: float = 0.5> (a)
        }}
        """,
    )


def test_references_go_through_levels_under_other_names() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <a = 0.5> (x) }}
        {F} f <a> (v) => (r) {{ r = l.g <b: float = @a> (v) }}
        {F} g <b> (v) => (r) {{ r = LeakyRelu <alpha: float = @b> (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/g/LeakyRelu"] y = LeakyRelu <alpha: float = 0.5> (x)
        }}
        """,
    )


def test_a_default_further_in_holds_where_nothing_was_handed_on() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f <a> (v) => (r) {{ r = l.g <b: float = @a> (v) }}
        {F} g <b: float = 0.125> (v) => (r) {{ r = LeakyRelu <alpha: float = @b> (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/g/LeakyRelu"] y = LeakyRelu <alpha: float = 0.125> (x)
        }}
        """,
    )


def test_names_of_attributes_belong_to_their_function() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <a = 0.5, b = 0.25> (x) }}
        {F} f <a, b> (v) => (r) {{ r = l.g <a: float = @b, b: float = @a> (v) }}
        {F} g <a, b> (v) => (r) {{ t = LeakyRelu <alpha: float = @a> (v) r = LeakyRelu <alpha: float = @b> (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/g/LeakyRelu"] "f/g/t" = LeakyRelu <alpha: float = 0.25> (x)
           ["f/g/LeakyRelu_2"] y = LeakyRelu <alpha: float = 0.5> ("f/g/t")
        }}
        """,
    )


def test_references_in_branches_are_resolved() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.f <slope = 0.5> (x, c) }}
        {F} f <slope> (v, c) => (r) {{ r = If (c) <then_branch = t () => (p) {{ p = LeakyRelu <alpha: float = @slope> (v) }},
        else_branch = e () => (q) {{ q = Neg (v) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/If"] y = If (c) <then_branch: graph = t () => ( "f/p") {{
              ["f/LeakyRelu"] "f/p" = LeakyRelu <alpha: float = 0.5> (x)
           }}, else_branch: graph = e () => ( "f/q") {{
              ["f/Neg"] "f/q" = Neg (x)
           }}>
        }}
        """,
    )


def test_a_tensor_may_be_given() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <t = float[2] {{1, 2}}> (x) }}
        {F} f <t> (v) => (r) {{ c = Constant <value: tensor = @t> () r = Add (v, c) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Constant"] "f/c" = Constant <value: tensor = float[2] {{1,2}}> ()
           ["f/Add"] y = Add (x, "f/c")
        }}
        """,
    )


def test_integers_and_strings_may_be_given() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2,3] x) => (float[3,2] y) {{ y = l.f <p = [1, 0], e = "ij->ij"> (x) }}
        {F} f <p, e> (v) => (r) {{ t = Transpose <perm: ints = @p> (v) r = Einsum <equation: string = @e> (t) }}
        """,
        f"""
        {FLAT} (float[2,3] x) => (float[3,2] y) {{
           ["f/Transpose"] "f/t" = Transpose <perm: ints = [1, 0]> (x)
           ["f/Einsum"] y = Einsum <equation: string = "ij->ij"> ("f/t")
        }}
        """,
    )


def test_an_attribute_that_no_one_declared_is_dropped() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <unknown = 3> (x) }}
        {F} f (v) => (r) {{ r = Neg (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Neg"] y = Neg (x)
        }}
        """,
    )


def test_an_attribute_that_is_needed_must_be_given() -> None:
    before = f"""
        {MAIN} (float[2] x) => (int64[2] y) {{ y = l.f (x) }}
        {F} f <to> (v) => (r) {{ r = Cast <to: int = @to> (v) }}"""
    assert refused(before) == (
        "InvalidModelError: cannot inline l::f: attribute 'to' is not given and has no default, "
        "but Cast needs it as its attribute to; give it at the call"
    )


def test_an_attribute_of_another_type_is_refused() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <slope = 1> (x) }}
        {F} f <slope> (v) => (r) {{ r = LeakyRelu <alpha: float = @slope> (v) }}"""
    assert refused(before) == (
        "InvalidModelError: cannot inline l::f: attribute 'slope' is given as INT, but LeakyRelu "
        "takes it as FLOAT; give it in that type"
    )


def test_a_kept_function_keeps_its_references() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.k <a = 0.5> (x) }}
        {F} k <a> (v) => (r) {{ r = l.g <b: float = @a> (v) }}
        {F} g <b> (v) => (r) {{ r = LeakyRelu <alpha: float = @b> (v) }}
        """,
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x) => (float[2] y) {
           y = l.k <a: float = 0.5> (x)
        }
        <
          domain: "l",
          opset_import: ["" : 18]
        >
        k <a>(v) => (r)
        {
           ["g/LeakyRelu"] r = LeakyRelu <alpha: float = @a> (v)
        }
        """,
        keep=[("l", "k")],
    )


def test_a_default_that_a_kept_function_could_lose_is_refused() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.k (x) }}
        {F} k <a> (v) => (r) {{ r = l.g <b: float = @a> (v) }}
        {F} g <b: float = 0.125> (v) => (r) {{ r = LeakyRelu <alpha: float = @b> (v) }}"""
    assert refused(before, keep=[("l", "k")]) == (
        "InvalidModelError: cannot inline l::g: attribute 'b' comes from attribute 'a' of the "
        "kept function around the call, which may be absent, and then the default here would be "
        "lost; give that attribute a default, or keep this function too"
    )


def test_a_default_is_not_lost_if_the_kept_function_has_its_own() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.k (x) }}
        {F} k <a: float = 0.5> (v) => (r) {{ r = l.g <b: float = @a> (v) }}
        {F} g <b: float = 0.125> (v) => (r) {{ r = LeakyRelu <alpha: float = @b> (v) }}
        """,
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x) => (float[2] y) {
           y = l.k (x)
        }
        <
          domain: "l",
          opset_import: ["" : 18]
        >
        k (v) => (r)
        {
           ["g/LeakyRelu"] r = LeakyRelu <alpha: float = @a> (v)
        }
        """,
        keep=[("l", "k")],
    )


def test_a_call_in_the_graph_refers_to_no_attribute() -> None:
    said = refused(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f <a: float = @b> (x) }}
        {F} f <a> (v) => (r) {{ r = LeakyRelu <alpha: float = @a> (v) }}
        """
    )
    assert said == (
        "InvalidModelError: node 'f': attribute 'a' of l::f refers to the attribute 'b' of a function, "
        "but the node is in none; give it a value"
    )
