"""Names: by the path, free in every scope, and the same on every run."""

from __future__ import annotations

from tests.engine.both_forms import FLAT, MAIN, F, assert_inlines


def test_each_call_has_names_of_its_own() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.f (x) b = l.f (a) y = Add (a, b) }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Neg"] "f/t" = Neg (x)
           ["f/Exp"] a = Exp ("f/t")
           ["f_2/Neg"] "f_2/t" = Neg (a)
           ["f_2/Exp"] b = Exp ("f_2/t")
           y = Add (a, b)
        }}
        """,
    )


def test_the_name_of_a_call_is_the_path_of_what_is_inside() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ ["enc/layer_3"] y = l.f (x) }}
        {F} f (v) => (r) {{ ["/mm/"] t = Neg (v) ["inner"] r = l.g (t) }}
        {F} g (v) => (r) {{ t = Exp (v) r = Neg (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["enc/layer_3/mm"] "enc/layer_3/t" = Neg (x)
           ["enc/layer_3/inner/Exp"] "enc/layer_3/inner/t" = Exp ("enc/layer_3/t")
           ["enc/layer_3/inner/Neg"] y = Neg ("enc/layer_3/inner/t")
        }}
        """,
    )


def test_a_value_that_has_a_path_already_keeps_it() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ "f/t" = Abs (x) a = l.f (x) y = Add (a, "f/t") }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           "f/t" = Abs (x)
           ["f_2/Neg"] "f_2/t" = Neg (x)
           ["f_2/Exp"] a = Exp ("f_2/t")
           y = Add (a, "f/t")
        }}
        """,
    )


def test_a_name_defined_after_the_call_is_left_to_its_owner() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ a = l.f (x) "f/t" = Abs (x) y = Add (a, "f/t") }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f_2/Neg"] "f_2/t" = Neg (x)
           ["f_2/Exp"] a = Exp ("f_2/t")
           "f/t" = Abs (x)
           y = Add (a, "f/t")
        }}
        """,
    )


def test_a_name_in_a_branch_is_left_to_its_owner() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{
        a = l.f (x)
        y = If (c) <then_branch = t () => (float[2] p) {{ "f/t" = Abs (x) p = Add (a, "f/t") }},
        else_branch = e () => (float[2] q) {{ q = Identity (a) }}>
        }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f_2/Neg"] "f_2/t" = Neg (x)
           ["f_2/Exp"] a = Exp ("f_2/t")
           y = If (c) <then_branch: graph = t () => (float[2] p) {{
              "f/t" = Abs (x)
              p = Add (a, "f/t")
           }}, else_branch: graph = e () => (float[2] q) {{
              q = Identity (a)
           }}>
        }}
        """,
    )


def test_a_node_name_is_not_given_twice_either() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ ["f/Neg"] a = Abs (x) y = l.f (a) }}
        {F} f (v) => (r) {{ r = Neg (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Neg"] a = Abs (x)
           ["f_2/Neg"] y = Neg (a)
        }}
        """,
    )


def test_arguments_may_change_places() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] a, float[2] b) => (float[2] c) {{ c = l.f (b, a) }}
        {F} f (a, b) => (c) {{ d = Mul (a, a) c = Sub (d, b) }}
        """,
        f"""
        {FLAT} (float[2] a, float[2] b) => (float[2] c) {{
           ["f/Mul"] "f/d" = Mul (b, b)
           ["f/Sub"] c = Sub ("f/d", a)
        }}
        """,
    )


def test_an_output_may_have_the_name_of_a_formal_input() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] y) => (float[2] z) {{ x = l.f (y) z = Add (x, y) }}
        {F} f (x) => (y) {{ n = Neg (x) y = Mul (n, x) }}
        """,
        f"""
        {FLAT} (float[2] y) => (float[2] z) {{
           ["f/Neg"] "f/n" = Neg (y)
           ["f/Mul"] x = Mul ("f/n", y)
           z = Add (x, y)
        }}
        """,
    )


def test_two_nodes_and_two_values_of_one_name_are_numbered() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ ["n"] a = Neg (v) ["n"] b = Neg (a) r = l.g (b) }}
        {F} g (v) => (r) {{ ["n"] a = Neg (v) r = Neg (a) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/n"] "f/a" = Neg (x)
           ["f/n_2"] "f/b" = Neg ("f/a")
           ["f/g/n"] "f/g/a" = Neg ("f/b")
           ["f/g/Neg"] y = Neg ("f/g/a")
        }}
        """,
    )


def test_equal_calls_inside_one_function_are_numbered() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ a = l.g (v) b = l.g (a) r = Neg (b) }}
        {F} g (v) => (r) {{ t = Exp (v) r = Neg (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/g/Exp"] "f/g/t" = Exp (x)
           ["f/g/Neg"] "f/a" = Neg ("f/g/t")
           ["f/g_2/Exp"] "f/g_2/t" = Exp ("f/a")
           ["f/g_2/Neg"] "f/b" = Neg ("f/g_2/t")
           ["f/Neg"] y = Neg ("f/b")
        }}
        """,
    )


def test_flat_names_are_short_and_numbered() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ t = Abs (x) ["enc"] a = l.f (t) b = l.f (a) y = Add (a, b) }}
        {F} f (v) => (r) {{ t = Neg (v) r = l.g (t) }}
        {F} g (v) => (r) {{ t = Exp (v) r = Neg (t) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           t = Abs (x)
           [Neg] t_2 = Neg (t)
           [Exp] t_3 = Exp (t_2)
           [Neg_2] a = Neg (t_3)
           [Neg_3] t_4 = Neg (a)
           [Exp_2] t_5 = Exp (t_4)
           [Neg_4] b = Neg (t_5)
           y = Add (a, b)
        }}
        """,
        names="flat",
    )


def test_flat_names_avoid_those_of_branches() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{
        a = l.f (x)
        y = If (c) <then_branch = g () => (float[2] p) {{ t = Abs (a) p = l.f (t) }},
        else_branch = e () => (float[2] q) {{ q = Identity (a) }}>
        }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           [Neg] t_2 = Neg (x)
           [Exp] a = Exp (t_2)
           y = If (c) <then_branch: graph = g () => (float[2] p) {{
              t = Abs (a)
              [Neg_2] t_3 = Neg (t)
              [Exp_2] p = Exp (t_3)
           }}, else_branch: graph = e () => (float[2] q) {{
              q = Identity (a)
           }}>
        }}
        """,
        names="flat",
    )
