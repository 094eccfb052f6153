"""The pass that names values and nodes."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from helpers import assert_leaves, assert_transforms, parsed

from onnx_inline import UniqueNamesPass, check_structure, inline_functions, verify

HEAD = '<ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[2] y)'
BRANCHES = f"""{HEAD} {{
    ["size"] s = ReduceSum <keepdims: int = 0> (x)
    ["yes"] go = Cast <to: int = 9> (s)
    ["if"] y = If (go) <
        then_branch = one () => (float[2] a) {{ ["size"] t = Abs (x) ["n"] a = Neg (t) }},
        else_branch = two () => (float[2] a) {{ ["n"] a = Exp (x) }}
    >
}}"""


def test_names_that_are_unique_stay_and_a_second_owner_gets_a_free_one() -> None:
    assert_transforms(
        UniqueNamesPass(),
        before=f'{HEAD} {{ ["a"] v = Abs (x) ["a_2"] w = Neg (v) ["a"] y = Exp (w) }}',
        after=f'{HEAD} {{ ["a"] v = Abs (x) ["a_2"] w = Neg (v) ["a_3"] y = Exp (w) }}',
    )


def test_a_node_without_a_name_is_called_by_its_operator() -> None:
    assert_transforms(
        UniqueNamesPass(),
        before=f"{HEAD} {{ v = Abs (x) y = Abs (v) }}",
        after=f'{HEAD} {{ ["Abs"] v = Abs (x) ["Abs_2"] y = Abs (v) }}',
    )


def test_branches_do_not_share_names_with_each_other_or_the_graph_around() -> None:
    assert_transforms(
        UniqueNamesPass(),
        before=BRANCHES,
        after=f"""{HEAD} {{
            ["size"] s = ReduceSum <keepdims: int = 0> (x)
            ["yes"] go = Cast <to: int = 9> (s)
            ["if"] y = If (go) <
                then_branch = one () => (float[2] a) {{ ["size_2"] t = Abs (x) ["n"] a = Neg (t) }},
                else_branch = two () => (float[2] a_2) {{ ["n_2"] a_2 = Exp (x) }}
            >
        }}""",
    )


def test_paths_say_where_a_node_is_and_values_follow_their_nodes() -> None:
    assert_transforms(
        UniqueNamesPass(style="path"),
        before=BRANCHES,
        after=f"""{HEAD} {{
            ["size"] size_out = ReduceSum <keepdims: int = 0> (x)
            ["yes"] yes_out = Cast <to: int = 9> (size_out)
            ["if"] y = If (yes_out) <
                then_branch = one () => (float[2] "if/then_branch/n_out") {{
                    ["if/then_branch/size"] "if/then_branch/size_out" = Abs (x)
                    ["if/then_branch/n"] "if/then_branch/n_out" = Neg ("if/then_branch/size_out")
                }},
                else_branch = two () => (float[2] "if/else_branch/n_out") {{
                    ["if/else_branch/n"] "if/else_branch/n_out" = Exp (x)
                }}
            >
        }}""",
    )


def test_short_names_are_numbers_and_pass_over_those_of_the_interface() -> None:
    assert_transforms(
        UniqueNamesPass(style="short"),
        before='<ir_version: 10, opset_import: ["" : 18]> main (float[2] v1) => (float[2] y) '
        '{ ["long/name"] "long/out" = Abs (v1) y = Neg ("long/out") }',
        after='<ir_version: 10, opset_import: ["" : 18]> main (float[2] v1) => (float[2] y) '
        '{ ["n1"] v1_2 = Abs (v1) ["n2"] y = Neg (v1_2) }',
    )


def test_identifiers_have_no_other_characters_and_do_not_begin_with_a_digit() -> None:
    assert_transforms(
        UniqueNamesPass(alphabet="identifier"),
        before=f'{HEAD} {{ ["a/b.0"] "1" = Abs (x) ["c"] _1 = Neg ("1") ["d"] y = Exp (_1) }}',
        after=f'{HEAD} {{ ["a_b_0"] _1 = Abs (x) ["c"] _1_2 = Neg (_1) ["d"] y = Exp (_1_2) }}',
    )


def test_a_function_is_named_by_itself_and_keeps_its_interface() -> None:
    head = '<ir_version: 10, opset_import: ["" : 18, "m" : 1]> main (float[2] x) => (float[2] y)'
    function = '<domain: "m", opset_import: ["" : 18]> f (x) => (y)'
    assert_transforms(
        UniqueNamesPass(style="short"),
        before=f'{head} {{ ["call"] y = m.f (x) }} {function} {{ t = Abs (x) y = Neg (t) }}',
        after=f'{head} {{ ["n1"] y = m.f (x) }} {function} {{ ["n1"] v1 = Abs (x) ["n2"] y = Neg (v1) }}',
    )


def test_initializers_of_a_branch_may_exchange_their_names() -> None:
    model = parsed(f"""{HEAD} {{
        s = ReduceSum <keepdims: int = 0> (x)
        go = Cast <to: int = 9> (s)
        y = If (go) <
            then_branch = one () => (float[2] a)
                <float[2] v4 = {{1.0, 2.0}}, float[2] v3 = {{3.0, 4.0}}> {{ a = Sub (v3, v4) }},
            else_branch = two () => (float[2] b) {{ b = Abs (x) }}
        >
    }}""")
    before = ir.to_proto(model)
    assert UniqueNamesPass(style="short")(model).modified
    assert_leaves(UniqueNamesPass(style="short"), model)
    (branch, _) = (a.as_graph() for a in model.graph.node(2).attributes.values())
    assert list(branch.initializers) == ["v3", "v4"]
    assert verify(before, model)


def test_names_under_which_quantization_refers_to_a_value_follow_it() -> None:
    model = parsed(f"{HEAD} {{ scale = Abs (x) y = Mul (x, scale) }}")
    value = model.graph.node(1).outputs[0]
    value.meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "scale"}
    UniqueNamesPass(style="short")(model)
    assert value.meta["quant_parameter_tensor_names"] == {"SCALE_TENSOR": "v1"}


@pytest.mark.parametrize("style", ["keep", "path", "short"])
@pytest.mark.parametrize("alphabet", ["any", "identifier"])
def test_after_inlining_every_style_keeps_what_the_model_computes(style: str, alphabet: str) -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] y) { ["0/a"] t = m.f (x) ["0.a"] y = m.f (t) }
        <domain: "m", opset_import: ["" : 18]> f (a) => (c) { ["n"] b = Abs (a) ["n"] c = Neg (b) }"""
    original = parsed(text)
    model = inline_functions(parsed(text))
    UniqueNamesPass(style, alphabet)(model)  # type: ignore[arg-type]
    assert check_structure(model, original=original)
    assert verify(original, model)


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ValueError, match="style must be keep, path or short, not 'long'"):
        UniqueNamesPass("long")  # type: ignore[arg-type]
