"""outline-repeats makes functions of what is repeated; inlining them gives the same graph back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_inline import OutlineRepeatsPass, fold_modules, inline_functions
from onnx_inline.passes.structure import Keys, all_nodes
from tests.helpers import assert_leaves, assert_transforms, computed, parsed, printed

FIXTURES = Path(__file__).parents[2] / "fixtures"

HEADER = '<ir_version: 10, opset_import: ["" : 18]>'
OUTLINED = '<ir_version: 10, opset_import: ["" : 18, "outlined" : 1]>'
BODY = '<domain: "outlined", opset_import: ["" : 18]>'
SMALL = OutlineRepeatsPass("structure", min_nodes=3)


def structure(model: ir.Model) -> tuple[object, ...]:
    """The graph, names of values inside apart; names of inputs, outputs and initializers are part of it."""
    graph = model.graph
    names = [[value.name for value in values] for values in (graph.inputs, graph.outputs)]
    return Keys(graph.opset_imports).graph(graph), *names, list(graph.initializers)


def assert_sound(model: ir.Model) -> None:
    """No node reads a value of a node that is no longer there, and onnx's checker agrees."""
    for owner in (model.graph, *model.functions.values()):
        present = set(all_nodes(owner))
        for node in present:
            for value in node.inputs:
                assert value is None or value.producer() is None or value.producer() in present, (node, value)
        assert all(value.producer() in present for value in owner.outputs if value.producer() is not None)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def round_trip(model: ir.Model, pass_: OutlineRepeatsPass) -> ir.Model:
    """Outline, check that inlining gives the graph back, and return the outlined model."""
    before = structure(model)
    pass_(model)
    assert_sound(model)
    assert structure(inline_functions(model.clone())) == before
    return model


# ---- by structure


def test_a_stretch_with_other_weights_becomes_a_function_with_the_weights_as_inputs() -> None:
    weights = "<float[2] v = {1, 2}, float[2] w = {3, 4}>"
    assert_transforms(
        SMALL,
        before=f"""{HEADER} main (float[2] x) => (float[2] y) {weights} {{
            a = Mul (x, v)  b = Add (a, v)  c = Relu (b)  d = Mul (c, w)  e = Add (d, w)  y = Relu (e) }}""",
        after=f"""{OUTLINED} main (float[2] x) => (float[2] y) {weights} {{
            ["Repeat_1"] c = outlined.Repeat_1 (x, v)  ["Repeat_1_2"] y = outlined.Repeat_1 (c, w) }}
            {BODY} Repeat_1 (input, input_2) => (c) {{
            a = Mul (input, input_2)  b = Add (a, input_2)  c = Relu (b) }}""",
    )


def test_inputs_are_called_what_the_weights_names_end_in() -> None:
    model = parsed(f"""{HEADER} main (float[2] x) => (float[2] y) {{
        "h.0.bias" = Constant <value_floats = [1.0, 2.0]> ()
        "h.1.bias" = Constant <value_floats = [3.0, 2.0]> ()
        a = Neg (x)  b = Add (a, "h.0.bias")  c = Relu (b)  d = Neg (c)  e = Add (d, "h.1.bias")  y = Relu (e)
    }}""")
    (function,) = round_trip(model, SMALL).functions.values()
    assert [value.name for value in function.inputs] == ["input", "bias"]


@pytest.mark.parametrize(
    "second",
    [
        "d = Neg (c)  e = Add (d, x)  y = Abs (e)",  # another operator
        "d = Neg (c)  e = Add (x, d)  y = Relu (e)",  # connected otherwise
        "d = Neg (c)  e = Add (d, d)  y = Relu (e)",
        "d = Neg (c)  e = Add (d, x)",  # too short
    ],
)
def test_stretches_that_do_something_else_are_left(second: str) -> None:
    first = "a = Neg (x)  b = Add (a, x)  c = Relu (b)"
    text = f"{HEADER} main (float[2] x) => (float[2] y) {{ {first}  {second} }}"
    assert_leaves(SMALL, parsed(text.replace("e = Add (d, x) }", "y = Add (d, x) }")))


def test_attributes_and_small_constants_belong_to_the_structure() -> None:
    def line(slope: float) -> str:
        return f"LeakyRelu <alpha = {slope}>"

    text = f"""{HEADER} main (float[2] x) => (float[2] y) {{
        a = {line(0.5)} (x)  b = Neg (a)  c = Relu (b)  d = {line(0.25)} (c)  e = Neg (d)  y = Relu (e) }}"""
    assert_leaves(SMALL, parsed(text))
    assert SMALL(parsed(text.replace("0.25", "0.5"))).modified


def test_a_result_that_one_repeat_only_is_asked_for_is_an_output_of_all() -> None:
    model = parsed(f"""{HEADER} main (float[2] x) => (float[2] y, float[2] b) {{
        a = Neg (x)  b = Exp (a)  c = Relu (b)  d = Neg (c)  e = Exp (d)  f = Relu (e)  y = Add (f, e) }}""")
    assert [len(node.outputs) for node in round_trip(model, SMALL).graph] == [2, 2, 1]
    assert [value.name for value in model.graph.outputs] == ["y", "b"]


def test_branches_are_compared_and_what_they_capture_becomes_an_input() -> None:
    def block(x: str, c: str, y: str, w: str) -> str:
        return f"""{y}a = Neg ({x})
            {y}b = If ({c}) <then_branch = t () => (float[2] {y}t) {{ {y}t = Add ({y}a, {w}) }},
                            else_branch = e () => (float[2] {y}e) {{ {y}e = Mul ({x}, {w}) }}>
            {y} = Relu ({y}b)"""

    text = f"""{HEADER} main (float[2] x, bool c, float[2] v, float[2] w) => (float[2] z)
        {{ {block("x", "c", "y", "v")} {block("y", "c", "z", "w")} }}"""
    model = round_trip(parsed(text), SMALL)
    assert [node.op_type for node in model.graph] == ["Repeat_1", "Repeat_1"]
    for condition in (True, False):
        feeds = {k: np.array([i, -1], np.float32) for i, k in enumerate("xvw")} | {"c": np.array(condition)}
        assert np.array_equal(computed(model, feeds), computed(parsed(text), feeds))


def test_repeats_in_a_loop_body_become_calls_there() -> None:
    half = "{1} = Mul ({0}, w)  {2} = Exp ({1})  {3} = Relu ({2})"
    model = parsed(f"""{HEADER} main (int64 n, bool c, float[2] x, float[2] w) => (float[2] y) {{
        y = Loop (n, c, x) <body = b (int64 i, bool go, float[2] p) => (bool on, float[2] s) {{
            on = Identity (go)  {half.format(*"pqrt")}  {half.format(*"tuvs")} }}> }}""")
    feeds = {"n": np.array(3), "c": np.array(True), "x": np.array([0, -1], np.float32), "w": -np.ones(2, "f")}
    expected = computed(model, feeds)
    round_trip(model, SMALL)
    (loop,) = model.graph
    assert [node.op_type for node in loop.attributes["body"].as_graph()] == [
        "Identity",
        "Repeat_1",
        "Repeat_1",
    ]
    assert np.array_equal(computed(model, feeds), expected)


def test_repeats_in_functions_are_found_but_not_across_their_attributes() -> None:
    half = "{1} = Neg ({0})  {2} = Exp ({1})  {3} = LeakyRelu <alpha> ({2})"
    body = half.format(*"xabc") + half.format(*"cdey")
    text = f"""<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] y) {{ y = m.F <alpha = 0.5> (x) }}
        <domain: "m", opset_import: ["" : 18]> F <alpha> (x) => (y) {{ {body} }}"""
    reference = text.replace("LeakyRelu <alpha>", "LeakyRelu <alpha: float = @alpha>")
    assert_leaves(SMALL, parsed(reference))
    assert SMALL(parsed(text.replace("LeakyRelu <alpha>", "Relu"))).modified


def test_what_repeats_do_not_agree_on_is_left_out_of_the_function() -> None:
    model = parsed(f"""{HEADER} main (float[N] x) => (float[M] y) <float[N] a, float[M] d> {{
        a = Neg (x)  b = Exp (a)  c = Concat <axis = 0> (b, b)  d = Neg (c)  e = Exp (d)
        y = Concat <axis = 0> (e, e) }}""")
    for number, node in enumerate(model.graph):
        node.metadata_props.update({"same": node.op_type, "own": str(number), "layer": str(number // 3)})
    SMALL(model)
    (function,) = model.functions.values()
    assert [node.metadata_props for node in function] == [{"same": op} for op in ("Neg", "Exp", "Concat")]
    assert [node.metadata_props for node in model.graph] == [{"layer": "0"}, {"layer": "1"}]
    assert function[0].outputs[0].shape is None and function[0].outputs[0].dtype == ir.DataType.FLOAT


def test_nested_repeats_are_functions_too_on_request_in_front_of_their_callers() -> None:
    half = "{1} = Neg ({0})  {2} = Exp ({1})  {3} = Relu ({2})"

    def block(x: str, y: str) -> str:
        names = [f"{y}{number}" for number in range(6)]
        between = f"{names[3]} = Abs ({names[2]})"
        return f"{half.format(x, *names[:3])} {between} {half.format(names[3], *names[4:], y)}"

    text = f"{HEADER} main (float[2] x) => (float[2] z) {{ {block('x', 'y')} {block('y', 'z')} }}"
    flat = round_trip(parsed(text), OutlineRepeatsPass(min_nodes=3))
    assert [len(function) for function in flat.functions.values()] == [7]
    assert_leaves(OutlineRepeatsPass(min_nodes=3), flat)
    model = round_trip(parsed(text), OutlineRepeatsPass(min_nodes=3, nested=True))
    assert [(f.name, len(f)) for f in model.functions.values()] == [("Repeat_2", 3), ("Repeat_1", 3)]
    feeds = {"x": np.array([0.5, -1], np.float32)}
    assert np.array_equal(computed(model, feeds), computed(parsed(text), feeds))


def test_a_name_that_is_taken_is_left_to_its_owner() -> None:
    taken = f"{BODY} Repeat_1 (a) => (b) {{ b = Relu (a) }}"
    model = parsed(f"""{OUTLINED} main (float[2] x) => (float[2] y) {{ w = outlined.Repeat_1 (x)
        a = Neg (w)  b = Exp (a)  c = Relu (b)  d = Neg (c)  e = Exp (d)  y = Relu (e) }} {taken}""")
    SMALL(model)
    assert [node.op_type for node in model.graph] == ["Repeat_1", "Repeat_1_2", "Repeat_1_2"]


def test_min_repeats_is_how_often_at_least() -> None:
    text = f"""{HEADER} main (float[2] x) => (float[2] y) {{
        a = Neg (x)  b = Exp (a)  c = Relu (b)  d = Neg (c)  e = Exp (d)  y = Relu (e) }}"""
    assert_leaves(OutlineRepeatsPass(min_nodes=3, min_repeats=3), parsed(text))


UNARY, BINARY = ("Neg", "Relu", "Abs"), ("Add", "Mul")
steps = st.tuples(st.sampled_from(UNARY + BINARY), st.integers(1, 6), st.integers(0, 6))
programs = st.lists(
    st.tuples(st.lists(steps, min_size=1, max_size=6), st.integers(1, 4)), min_size=1, max_size=5
)


def program(parts: Any) -> ir.Model:
    """Each part a motif and how often it runs; a step reads values so far back, or a weight of its own."""
    values, lines, weights = ["x"], [], []
    for motif, times in parts:
        for operator, near, far in motif * times:
            operands = [values[-min(near, len(values))]]
            if operator in BINARY:
                weights.append(f"float[2] w{len(weights)} = {{{len(weights)}, 1}}")
                operands.append(values[-min(far, len(values))] if far else f"w{len(weights) - 1}")
            values.append(f"v{len(values)}")
            lines.append(f"{values[-1]} = {operator} ({', '.join(operands)})")
    declared = f"<{', '.join(weights)}>" if weights else ""
    return parsed(f"{HEADER} main (float[2] x) => (float[2] {values[-1]}) {declared} {{ {' '.join(lines)} }}")


@settings(deadline=None, max_examples=150)
@given(programs, st.integers(2, 4), st.booleans())
def test_inlining_gives_the_same_graph_back(parts: Any, min_nodes: int, nested: bool) -> None:
    model = program(parts)
    feeds = {"x": np.array([0.5, -1], np.float32)}
    with np.errstate(all="ignore"):
        expected = computed(model, feeds)
        round_trip(model, OutlineRepeatsPass(min_nodes=min_nodes, nested=nested))
        np.testing.assert_array_equal(computed(model, feeds), expected)


@settings(deadline=None, max_examples=30)
@given(programs)
def test_a_second_run_on_the_same_model_gives_the_same_bytes(parts: Any) -> None:
    one, other = program(parts), program(parts)
    assert SMALL(one).modified == SMALL(other).modified
    assert ir.to_proto(one).SerializeToString() == ir.to_proto(other).SerializeToString()


# ---- by provenance

NESTED = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
main (float[2,2] x, float[2,2] v, float[2,2] w) => (float[2,2] y) {
    ["first"] a = m.Block (x, v, w)  ["second"] b = m.Block (a, w, v)  ["last"] y = m.Linear (b, w)
}
<domain: "m", opset_import: ["" : 18]> Linear (x, w) => (y) {
    ["t"] t = Transpose (w)  ["mm"] y = MatMul (x, t)
}
<domain: "m", opset_import: ["" : 18, "m" : 1]> Block (x, v, w) => (y) {
    ["up"] u = m.Linear (x, v)  ["act"] r = Relu (u)  ["down"] d = m.Linear (r, w)  ["add"] y = Add (x, d)
}"""


REFOLDED = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
main (float[2,2] x, float[2,2] v, float[2,2] w) => (float[2,2] y) {
    ["first"] a = m.Block (v, x, w)  ["second"] b = m.Block (w, a, v)  ["last"] y = m.Linear (w, b)
}
<domain: "m", opset_import: ["" : 18]> Linear (input, input_2) => (u) {
    ["t"] t = Transpose (input)  ["mm"] u = MatMul (input_2, t)
}
<domain: "m", opset_import: ["" : 18, "m" : 1]> Block (input, input_2, input_3) => (a) {
    ["up"] u = m.Linear (input, input_2)  ["act"] r = Relu (u)
    ["down"] d = m.Linear (input_3, r)  ["add"] a = Add (input_2, d)
}"""


def test_calls_come_back_with_the_names_of_sites_functions_and_values_inside() -> None:
    flat = inline_functions(parsed(NESTED), provenance=True)
    OutlineRepeatsPass()(flat)
    assert printed(flat) == printed(parsed(REFOLDED))


def test_what_was_inlined_and_folded_back_inlines_to_the_same_bytes() -> None:
    flat = inline_functions(parsed(NESTED), provenance=True)
    before = ir.to_proto(flat)
    assert OutlineRepeatsPass()(flat).modified
    assert_sound(flat)
    assert len(flat.functions) == 2
    again = ir.to_proto(inline_functions(flat, provenance=True))
    assert list(again.graph.node) == list(before.graph.node)


def test_a_function_that_was_specialised_comes_back_in_its_several_forms() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] y) {
            ["a"] a = m.F <alpha = 0.5> (x)
            ["b"] b = m.F <alpha = 0.25> (a)  ["c"] y = m.F <alpha = 0.25> (b) }
        <domain: "m", opset_import: ["" : 18]>
        F <alpha> (x) => (y) { r = LeakyRelu <alpha: float = @alpha> (x)  y = Neg (r) }"""
    model = inline_functions(parsed(text), provenance=True)
    OutlineRepeatsPass()(model)
    assert [node.op_type for node in model.graph] == ["F_2", "F", "F"]
    feeds = {"x": np.array([1, -1], np.float32)}
    assert np.array_equal(computed(model, feeds), computed(inline_functions(parsed(text)), feeds))


def test_calls_in_branches_come_back_in_the_branches() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x, bool c) => (float[2] y) {
            ["if"] y = If (c) <then_branch = t () => (float[2] a) { ["one"] a = m.F (x) },
                               else_branch = e () => (float[2] b) { ["two"] b = m.F (x) }> }
        <domain: "m", opset_import: ["" : 18]> F (x) => (y) { ["n"] r = Neg (x)  ["r"] y = Relu (r) }"""
    model = inline_functions(parsed(text), provenance=True)
    OutlineRepeatsPass()(model)
    assert_sound(model)
    assert [node.op_type for node in all_nodes(model.graph)] == ["If", "F", "F"]


def test_nodes_moved_apart_are_folded_back_only_if_one_call_can_stand_for_them() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] x) => (float[2] y, float[2] z) { ["f"] p, q = m.F (x)  z = Abs (p)  y = Add (q, z) }
        <domain: "m", opset_import: ["" : 18]> F (x) => (p, q) { p = Neg (x)  q = Relu (p) }"""
    model = inline_functions(parsed(text), provenance=True)
    graph = model.graph
    relu, abs_ = graph[1], graph[2]
    graph.remove(relu)
    graph.insert_after(abs_, relu)
    OutlineRepeatsPass()(model)
    assert [node.op_type for node in graph] == ["F", "Abs", "Add"]
    # Now something of the call needs a result that needs another result of the call.
    model = inline_functions(parsed(text), provenance=True)
    relu, abs_ = model.graph[1], model.graph[2]
    relu.replace_input_with(0, abs_.outputs[0])
    model.graph.remove(relu)
    model.graph.insert_after(abs_, relu)
    assert not OutlineRepeatsPass()(model).modified


def test_metadata_that_cannot_be_read_is_no_provenance() -> None:
    model = parsed(f"{HEADER} main (float[2] x) => (float[2] y) {{ y = Neg (x) }}")
    for text in ("", "no json", "[1]", '{"a": 1}', "[[1,2,3]]"):
        model.graph[0].metadata_props["onnx_inline.call_path"] = text
        assert_leaves(OutlineRepeatsPass(), model)


# ---- by torch's modules


def exported_by_torch(name: str) -> ir.Model:
    return ir.load(FIXTURES / "torch_dynamo" / f"{name}.onnx")


def test_modules_of_a_dynamo_export_become_functions_called_like_the_modules() -> None:
    model = exported_by_torch("transformer")
    before = structure(model)
    assert OutlineRepeatsPass("modules")(model).modified
    assert_sound(model)
    assert [(node.name, node.op_type) for node in model.graph] == [
        ("embed", "Embedding"),
        ("blocks", "Sequential_2"),
        ("head", "Linear"),
    ]
    blocks = model.functions["torch.nn.modules.container", "Sequential_2", ""]
    assert [(node.name, node.op_type) for node in blocks] == [("0", "Block"), ("1", "Block")]
    assert not any("onnx_inline.call_path" in node.metadata_props for node in all_nodes(model.graph))
    assert structure(inline_functions(model)) == before


def test_a_node_that_does_not_say_is_in_the_modules_that_its_neighbours_have_in_common() -> None:
    model = exported_by_torch("transformer")
    for node in model.graph:
        if node.op_type == "Softmax":
            node.metadata_props.clear()
    OutlineRepeatsPass("modules")(model)
    assert [node.op_type for node in model.graph] == ["Embedding", "Sequential_2", "Linear"]


def test_modules_folded_to_a_class_are_the_blocks_that_a_pipeline_is_cut_into() -> None:
    model = exported_by_torch("transformer")
    OutlineRepeatsPass("modules")(model)
    fold_modules(model, classes="Block")
    assert [node.op_type for node in model.graph if node.domain] == ["Block", "Block"]
    assert list(model.functions) == [("__main__", "Block", "")]


def test_without_modules_or_with_metadata_that_cannot_be_read_nothing_is_folded() -> None:
    model = exported_by_torch("transformer")
    for text in ("", "['a'", "[1, 2]", "5", "['', 'a']", "__import__('os')", "[" * 5000):
        for node in model.graph:
            node.metadata_props["pkg.torch.onnx.name_scopes"] = text
        assert_leaves(OutlineRepeatsPass("modules"), model)


@pytest.mark.parametrize("options", [{"by": "size"}, {"min_nodes": 1}, {"min_repeats": 1}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        OutlineRepeatsPass(**options)


# ---- on what exporters write


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("[!b]*/*.onnx")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_exported_models_come_back_from_outlining_as_they_were(path: Path) -> None:
    nested = OutlineRepeatsPass("structure", min_nodes=3, nested=True)
    for pass_ in (SMALL, nested, OutlineRepeatsPass("provenance"), OutlineRepeatsPass("modules")):
        model = inline_functions(ir.load(path), provenance=True)
        before = structure(model)
        pass_(model)
        assert structure(inline_functions(model)) == before
