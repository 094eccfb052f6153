"""Inputs and outputs of calls: passed through, repeated, left out."""

from __future__ import annotations

from tests.engine.both_forms import FLAT, MAIN, F, assert_inlines, message, parsed, refused


def test_an_input_that_is_returned_gets_an_identity() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y, float[2] z) {{ y, z = l.f (x) }}
        {F} f (v) => (v, r) {{ r = Neg (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y, float[2] z) {{
           ["f/Neg"] z = Neg (x)
           ["f/Identity"] y = Identity (x)
        }}
        """,
    )


def test_an_output_listed_twice_gets_an_identity() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y, float[2] z) {{ y, z = l.f (x) }}
        {F} f (v) => (r, r) {{ r = Neg (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y, float[2] z) {{
           ["f/Neg"] y = Neg (x)
           ["f/Identity"] z = Identity (y)
        }}
        """,
    )


def test_a_function_without_nodes_only_passes_through() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (v) {{ }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Identity"] y = Identity (x)
        }}
        """,
    )


def test_what_only_an_omitted_output_needs_is_not_computed() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ "", y = l.f (x) }}
        {F} f (v) => (a, b) {{ t = Exp (v) a = Neg (t) b = Abs (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Abs"] y = Abs (x)
        }}
        """,
    )


def test_trailing_outputs_may_be_left_out() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (a, b) {{ a = Neg (v) b = Abs (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Neg"] y = Neg (x)
        }}
        """,
    )


def test_a_value_of_the_graph_itself_stays_read_or_not() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ u = l.f (x) y = Neg (x) }}
        {F} f (v) => (a) {{ a = Neg (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Neg"] u = Neg (x)
           y = Neg (x)
        }}
        """,
    )


def test_omitted_outputs_count_through_levels() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ "", r = l.g (v) }}
        {F} g (v) => (a, b) {{ a = l.h (v) b = Abs (v) }}
        {F} h (v) => (r) {{ r = Exp (v) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/g/Abs"] y = Abs (x)
        }}
        """,
    )


def test_an_output_may_be_used_inside_as_well() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y, float[2] z) {{ y, z = l.f (x) }}
        {F} f (v) => (a, b) {{ a = Neg (v) b = Abs (a) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y, float[2] z) {{
           ["f/Neg"] y = Neg (x)
           ["f/Abs"] z = Abs (y)
        }}
        """,
    )


def test_one_value_given_twice_is_one_value() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x, x) }}
        {F} f (a, b) => (c) {{ d = Exp (a) c = Sub (d, b) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Exp"] "f/d" = Exp (x)
           ["f/Sub"] y = Sub ("f/d", x)
        }}
        """,
    )


def test_an_input_left_out_is_left_out_inside() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, float h) => (float[2] y) {{ y = l.f (x, "", h) }}
        {F} f (x, lo, hi) => (y) {{ y = Clip (x, lo, hi) }}
        """,
        f"""
        {FLAT} (float[2] x, float h) => (float[2] y) {{
           ["f/Clip"] y = Clip (x, "", h)
        }}
        """,
    )


def test_trailing_inputs_may_be_left_out() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (x, lo, hi) => (y) {{ y = Clip (x, lo, hi) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y) {{
           ["f/Clip"] y = Clip (x)
        }}
        """,
    )


def test_an_input_left_out_stays_so_through_levels() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, float h) => (float[2] y) {{ y = l.f (x, "", h) }}
        {F} f (x, lo, hi) => (y) {{ y = l.g (x, lo, hi) }}
        {F} g (x, lo, hi) => (y) {{ y = Clip (x, lo, hi) }}
        """,
        f"""
        {FLAT} (float[2] x, float h) => (float[2] y) {{
           ["f/g/Clip"] y = Clip (x, "", h)
        }}
        """,
    )


def test_an_input_left_out_is_left_out_in_branches() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.f (x, "", c) }}
        {F} f (x, lo, c) => (y) {{ y = If (c) <then_branch = t () => (p) {{ p = Clip (x, lo) }},
        else_branch = e () => (q) {{ q = Neg (x) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/If"] y = If (c) <then_branch: graph = t () => ( "f/p") {{
              ["f/Clip"] "f/p" = Clip (x)
           }}, else_branch: graph = e () => ( "f/q") {{
              ["f/Neg"] "f/q" = Neg (x)
           }}>
        }}
        """,
    )


def test_an_input_that_is_needed_must_be_given() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (a, b) => (y) {{ y = Add (a, b) }}"""
    assert refused(before) == (
        "InvalidModelError: cannot inline l::f: input 'b' is not given, but Add needs it as its "
        "input B; give it at the call"
    )


def test_an_input_that_is_returned_must_be_given() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y, z = l.f (x) }}
        {F} f (a, b) => (y, b) {{ y = Neg (a) }}"""
    assert refused(before) == (
        "InvalidModelError: cannot inline l::f: input 'b' is not given, but the function returns "
        "it; give it at the call"
    )


def test_a_call_gives_no_more_inputs_than_there_are() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x, x) }}
        {F} f (a) => (y) {{ y = Neg (a) }}"""
    assert refused(before) == (
        "CallSiteError: cannot inline l::f at node 'f': the call has 2 inputs, the function has "
        "1; drop the surplus"
    )


def test_a_call_takes_no_more_outputs_than_there_are() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y, z = l.f (x) }}
        {F} f (a) => (y) {{ y = Neg (a) }}"""
    assert refused(before) == (
        "CallSiteError: cannot inline l::f at node 'f': the call has 2 outputs, the function has "
        "1; drop the surplus"
    )


def test_an_output_must_be_made() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (a) => (y) {{ z = Neg (a) }}"""
    assert message(parsed(before)) == (
        "InvalidModelError: function l::f: its output 'y' is defined by none of its nodes; the "
        "exporter that wrote the model left it out: export again, or keep this function"
    )


def test_a_body_reads_nothing_from_outside() -> None:
    before = f"""
        {MAIN} (float[2] x) => (float[2] y) {{ y = l.f (x) }}
        {F} f (a) => (y) {{ y = Add (a, x) }}"""
    assert message(parsed(before)) == (
        "InvalidModelError: function l::f: Add reads 'x', which nothing defines before it"
    )
