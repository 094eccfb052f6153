"""Graphs: those given as attributes, and calls in and around control flow."""

# ruff: noqa: E501  # a graph in an attribute is not broken over lines

from __future__ import annotations

import onnx_inline
from tests.engine.both_forms import FLAT, MAIN, F, assert_inlines, in_ir, parsed, refused


def test_a_graph_may_be_given() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{
        a = Abs (x)
        y = l.f <body = b () => (float[2] o) {{ o = Neg (a) }}> (x, c)
        }}
        {F} f <body> (v, c) => (r) {{ a = Exp (v) r = If (c) <then_branch: graph = @body,
        else_branch = e () => (q) {{ q = Neg (a) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           a = Abs (x)
           ["f/Exp"] "f/a" = Exp (x)
           ["f/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/o") {{
              ["f/Neg"] "f/o" = Neg (a)
           }}, else_branch: graph = e () => ( "f/q") {{
              ["f/Neg_2"] "f/q" = Neg ("f/a")
           }}>
        }}
        """,
    )


def test_a_graph_may_be_handed_on() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.f <body = b () => (float[2] o) {{ o = Neg (x) }}> (x, c) }}
        {F} f <body> (v, c) => (r) {{ x = Exp (v) r = l.g <h: graph = @body> (x, c) }}
        {F} g <h> (v, c) => (r) {{ x = Abs (v) r = If (c) <then_branch: graph = @h,
        else_branch = e () => (q) {{ q = Neg (x) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/Exp"] "f/x" = Exp (x)
           ["f/g/Abs"] "f/g/x" = Abs ("f/x")
           ["f/g/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/g/o") {{
              ["f/g/Neg"] "f/g/o" = Neg (x)
           }}, else_branch: graph = e () => ( "f/g/q") {{
              ["f/g/Neg_2"] "f/g/q" = Neg ("f/g/x")
           }}>
        }}
        """,
    )


def test_a_graph_may_be_used_twice() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.f <body = b () => (float[2] o) {{ t = Abs (x) o = Neg (t) }}> (c) }}
        {F} f <body> (c) => (r) {{ r = If (c) <then_branch: graph = @body,
        else_branch: graph = @body> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/o") {{
              ["f/Abs"] "f/t" = Abs (x)
              ["f/Neg"] "f/o" = Neg ("f/t")
           }}, else_branch: graph = b () => (float[2] "f/o_2") {{
              ["f/Abs_2"] "f/t_2" = Abs (x)
              ["f/Neg_2"] "f/o_2" = Neg ("f/t_2")
           }}>
        }}
        """,
    )


def test_calls_in_a_graph_that_is_given_go_as_well() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{
        y = l.f <body = b () => (float[2] o) {{ o = l.g (x) }}> (x, c)
        }}
        {F} f <body> (v, c) => (r) {{ r = If (c) <then_branch: graph = @body,
        else_branch = e () => (q) {{ q = l.g (v) }}> }}
        {F} g (v) => (r) {{ t = Exp (v) r = Neg (t) }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/o") {{
              ["f/g/Exp"] "f/g/t" = Exp (x)
              ["f/g/Neg"] "f/o" = Neg ("f/g/t")
           }}, else_branch: graph = e () => ( "f/q") {{
              ["f/g_2/Exp"] "f/g_2/t" = Exp (x)
              ["f/g_2/Neg"] "f/q" = Neg ("f/g_2/t")
           }}>
        }}
        """,
    )


def test_a_call_that_is_given_a_graph_may_be_in_one() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{
        y = l.f <body = b () => (float[2] o) {{ o = l.f <body = d () => (float[2] p) {{ p = Neg (x) }}> (x, c) }}> (x, c)
        }}
        {F} f <body> (v, c) => (r) {{ r = If (c) <then_branch: graph = @body,
        else_branch = e () => (q) {{ q = Exp (v) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/o") {{
              ["f/f/If"] "f/o" = If (c) <then_branch: graph = d () => (float[2] "f/f/p") {{
                 ["f/f/Neg"] "f/f/p" = Neg (x)
              }}, else_branch: graph = e () => ( "f/f/q") {{
                 ["f/f/Exp"] "f/f/q" = Exp (x)
              }}>
           }}, else_branch: graph = e () => ( "f/q") {{
              ["f/Exp"] "f/q" = Exp (x)
           }}>
        }}
        """,
    )


def test_a_reference_in_a_graph_belongs_to_who_gives_it() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.k <a = 0.5> (x, c) }}
        {F} k <a> (x, c) => (y) {{ y = l.f <a = 0.25, body = b () => (float[2] o) {{ o = LeakyRelu <alpha: float = @a> (x) }}> (x, c) }}
        {F} f <a, body> (v, c) => (r) {{ r = If (c) <then_branch: graph = @body,
        else_branch = e () => (q) {{ q = LeakyRelu <alpha: float = @a> (v) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["k/f/If"] y = If (c) <then_branch: graph = b () => (float[2] "k/f/o") {{
              ["k/f/LeakyRelu"] "k/f/o" = LeakyRelu <alpha: float = 0.5> (x)
           }}, else_branch: graph = e () => ( "k/f/q") {{
              ["k/f/LeakyRelu_2"] "k/f/q" = LeakyRelu <alpha: float = 0.25> (x)
           }}>
        }}
        """,
    )


def test_it_does_so_in_a_function_that_is_kept() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.k <a = 0.5> (x, c) }}
        {F} k <a> (x, c) => (y) {{ y = l.f <a = 0.25, body = b () => (float[2] o) {{ o = LeakyRelu <alpha: float = @a> (x) }}> (x, c) }}
        {F} f <a, body> (v, c) => (r) {{ r = If (c) <then_branch: graph = @body,
        else_branch = e () => (q) {{ q = LeakyRelu <alpha: float = @a> (v) }}> }}
        """,
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x, bool c) => (float[2] y) {
           y = l.k <a: float = 0.5> (x, c)
        }
        <
          domain: "l",
          opset_import: ["" : 18]
        >
        k <a>(x, c) => (y)
        {
           ["f/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/o") {
              ["f/LeakyRelu"] "f/o" = LeakyRelu <alpha: float = @a> (x)
           }, else_branch: graph = e () => ( "f/q") {
              ["f/LeakyRelu_2"] "f/q" = LeakyRelu <alpha: float = 0.25> (x)
           }>
        }
        """,
        keep=[("l", "k")],
    )


def test_calls_in_branches_go() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] p) {{ p = l.f (x) }},
        else_branch = e () => (float[2] q) {{ q = Abs (x) }}> }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           y = If (c) <then_branch: graph = t () => (float[2] p) {{
              ["f/Neg"] "f/t" = Neg (x)
              ["f/Exp"] p = Exp ("f/t")
           }}, else_branch: graph = e () => (float[2] q) {{
              q = Abs (x)
           }}>
        }}
        """,
    )


def test_branches_side_by_side_have_names_of_their_own() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] p) {{ p = l.f (x) }},
        else_branch = e () => (float[2] q) {{ q = l.f (x) }}> }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           y = If (c) <then_branch: graph = t () => (float[2] p) {{
              ["f/Neg"] "f/t" = Neg (x)
              ["f/Exp"] p = Exp ("f/t")
           }}, else_branch: graph = e () => (float[2] q) {{
              ["f_2/Neg"] "f_2/t" = Neg (x)
              ["f_2/Exp"] q = Exp ("f_2/t")
           }}>
        }}
        """,
    )


def test_a_loop_in_a_function_reads_from_around_it() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) <int64 n = {{2}}, bool go = {{1}}> {{ y = l.f (x, n, go) }}
        {F} f (v, n, go) => (r) {{ t = Neg (v) r = Loop (n, go, v) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] t2) {{ co = Identity (ci) t2 = Add (s, t) }}> }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y)
           <int64 n =  {{2}}, bool go =  {{1}}>
        {{
           ["f/Neg"] "f/t" = Neg (x)
           ["f/Loop"] y = Loop (n, go, x) <body: graph = b (int64 "f/i", bool "f/ci", float[2] "f/s") => (bool "f/co", float[2] "f/t2") {{
              ["f/Identity"] "f/co" = Identity ("f/ci")
              ["f/Add"] "f/t2" = Add ("f/s", "f/t")
           }}>
        }}
        """,
    )


def test_a_call_in_a_loop_reads_what_is_around_the_loop() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x) => (float[2] y) <int64 n = {{2}}, bool go = {{1}}> {{ t = Abs (x) y = Loop (n, go, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] u) {{ co = Identity (ci) u = l.f (s, t) }}> }}
        {F} f (v, w) => (r) {{ t = Neg (v) r = Add (t, w) }}
        """,
        f"""
        {FLAT} (float[2] x) => (float[2] y)
           <int64 n =  {{2}}, bool go =  {{1}}>
        {{
           t = Abs (x)
           y = Loop (n, go, x) <body: graph = b (int64 i, bool ci, float[2] s) => (bool co, float[2] u) {{
              co = Identity (ci)
              ["f/Neg"] "f/t" = Neg (s)
              ["f/Add"] u = Add ("f/t", t)
           }}>
        }}
        """,
    )


def test_what_a_branch_does_not_need_is_not_computed() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ y = l.f (x, c) }}
        {F} f (v, c) => (r) {{ r = If (c) <then_branch = t () => (p) {{ dead = Exp (v) p = Neg (v) }},
        else_branch = e () => (q) {{ q = Abs (v) }}> }}
        """,
        f"""
        {FLAT} (float[2] x, bool c) => (float[2] y) {{
           ["f/If"] y = If (c) <then_branch: graph = t () => ( "f/p") {{
              ["f/Neg"] "f/p" = Neg (x)
           }}, else_branch: graph = e () => ( "f/q") {{
              ["f/Abs"] "f/q" = Abs (x)
           }}>
        }}
        """,
    )


#: a function with a graph as default, in which another function is called
BY_DEFAULT = f"""
    {F} f <body: graph = b () => (float[2] o) <float[2] x = {{1, 2}}> {{ o = l.g (x) }}> (v, c) => (r) {{ r = If (c) <then_branch: graph = @body,
    else_branch = e () => (float[2] q) {{ q = Identity (v) }}> }}
    {F} g (v) => (r) {{ t = Neg (v) r = Exp (t) }}
"""


def test_a_call_in_a_graph_that_is_a_default_goes() -> None:
    assert_inlines(
        f"""
        {MAIN} (float[2] v, bool c) => (float[2] y) {{ x = Abs (v) y = l.f (x, c) }}
        {BY_DEFAULT}
        """,
        f"""
        {FLAT} (float[2] v, bool c) => (float[2] y) {{
           x = Abs (v)
           ["f/If"] y = If (c) <then_branch: graph = b () => (float[2] "f/o")
              <float[2] "f/x" = {{1,2}}>
           {{
              ["f/g/Neg"] "f/g/t" = Neg ("f/x")
              ["f/g/Exp"] "f/o" = Exp ("f/g/t")
           }}, else_branch: graph = e () => (float[2] "f/q") {{
              ["f/Identity"] "f/q" = Identity (x)
           }}>
        }}
        """,
    )


def test_a_call_in_the_default_of_a_kept_function_goes() -> None:
    model = parsed(f"{MAIN} (float[2] v, bool c) => (float[2] y) {{ y = l.f (v, c) }} {BY_DEFAULT}")
    flat = onnx_inline.inline_functions(model, keep=[("l", "f")])
    for result in (flat, in_ir(model, keep=[("l", "f")])[0]):
        (function,) = result.functions
        assert [node.op_type for node in function.attribute_proto[0].g.node] == ["Neg", "Exp"]


def test_functions_may_not_go_in_a_circle_through_a_default() -> None:
    text = f"{MAIN} (float[2] v, bool c) => (float[2] y) {{ y = l.f (v, c) }} {BY_DEFAULT}"
    assert refused(
        text.replace("t = Neg (v) r = Exp (t)", "c = Constant <value = bool {1}> () r = l.f (v, c)")
    ).startswith("FunctionCycleError: recursive functions cannot be inlined: the cycle is l::")


def test_a_call_that_hands_on_an_effect_is_not_dropped() -> None:
    assert_inlines(
        f"""
        <ir_version: 10, opset_import: ["" : 18, "l" : 1, "own" : 1]> main (float[2] x, bool c) => (float[2] y) {{ y = l.f (x, c) }}
        <domain: "l", opset_import: ["" : 18, "l" : 1, "own" : 1]> f (v, c) => (r) {{ unused = l.g <body = b () => (float[2] o) {{ o = own.Print (v) }}> (v, c) r = Neg (v) }}
        {F} g <body> (v, c) => (r) {{ r = If (c) <then_branch: graph = @body, else_branch = e () => (q) {{ q = Abs (v) }}> }}
        """,
        """
        <ir_version: 10, opset_import: ["" : 18, "own" : 1]> main (float[2] x, bool c) => (float[2] y) {
           ["f/g/If"] "f/g/r" = If (c) <then_branch: graph = b () => (float[2] "f/g/o") {
              ["f/g/Print"] "f/g/o" = own.Print (x)
           }, else_branch: graph = e () => ( "f/g/q") {
              ["f/g/Abs"] "f/g/q" = Abs (x)
           }>
           ["f/Neg"] y = Neg (x)
        }
        """,
    )
