"""fold_modules keeps the functions that a reader wants as blocks, and inlines the others into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_inline import FoldModulesPass, UnknownFunctionError, fold_modules
from onnx_inline.errors import FunctionCycleError
from tests.helpers import assert_transforms, computed, parsed

MAIN = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
main (float[2] x) => (float[2] y) {"""
BODY = '<domain: "m", opset_import: ["" : 18, "m" : 1]>'

ACT = f"{BODY} Act (a) => (c) {{ b = Relu (a)  c = Neg (b) }}"
LAYER = f'{BODY} Layer (a) => (c) {{ ["act"] b = m.Act (a)  c = Abs (b) }}'
BLOCK = f'{BODY} Block (a) => (d) {{ ["one"] b = m.Layer (a)  ["two"] c = m.Layer (b)  d = Neg (c) }}'
NET = f'{MAIN} ["block"] h = m.Block (x)  y = Neg (h) }} {ACT} {LAYER} {BLOCK}'


def wired(function: onnx.FunctionProto) -> list[Any]:
    return [function.name, *((node.op_type, list(node.input), list(node.output)) for node in function.node)]


def kept(**options: Any) -> dict[str, list[str]]:
    """What remains of NET: the functions and the graph (``main``), each with the operators in it."""
    model = onnx.parser.parse_model(NET)
    folded = fold_modules(model, **options)
    in_place = ir.to_proto(fold_modules(ir.from_proto(model), **options))
    feeds = {"x": np.array([1, -2], np.float32)}
    assert np.array_equal(computed(folded, feeds), computed(model, feeds))
    owners = [("main", folded.graph), *((f.name, f) for f in folded.functions)]
    assert [wired(f) for f in in_place.functions] == [wired(f) for f in folded.functions]
    return {name: [node.op_type for node in owner.node] for name, owner in owners}


FLAT = ["Relu", "Neg", "Abs"]


def test_depth_0_leaves_no_function() -> None:
    assert kept(depth=0) == {"main": [*FLAT, *FLAT, "Neg", "Neg"]}


def test_depth_1_leaves_the_functions_of_the_graph_with_primitive_operators_only() -> None:
    assert kept(depth=1) == {"main": ["Block", "Neg"], "Block": [*FLAT, *FLAT, "Neg"]}


def test_depth_2_folds_the_innermost_only() -> None:
    assert kept(depth=2) == {"main": ["Block", "Neg"], "Layer": FLAT, "Block": ["Layer", "Layer", "Neg"]}


def test_without_conditions_all_functions_that_do_something_stay() -> None:
    assert list(kept()) == ["main", "Act", "Layer", "Block"] == list(kept(depth=5))


def test_the_classes_named_stay_and_what_is_around_and_in_them_goes() -> None:
    assert kept(classes="Layer") == {"main": ["Layer", "Layer", "Neg", "Neg"], "Layer": FLAT}
    assert list(kept(classes=["m::B*", "Act"])) == ["main", "Act", "Block"]
    assert list(kept(classes=["Block", "Act"], depth=1)) == ["main", "Block"]


def test_functions_of_at_most_so_many_nodes_stay() -> None:
    assert list(kept(max_nodes=3)) == ["main", "Act", "Layer"]
    assert list(kept(max_nodes=3, depth=1)) == ["main", "Layer"]
    assert list(kept(max_nodes=7)) == ["main", "Act", "Layer", "Block"]


def test_a_class_name_means_torchs_numbered_instances_too() -> None:
    model = parsed(NET)
    function = model.functions.pop(("m", "Layer", ""))
    function.name = "Layer.1"
    model.functions[function.identifier()] = function
    for node in model.functions["m", "Block", ""]:
        node.op_type = node.op_type.replace("Layer", "Layer.1")
    assert list(fold_modules(model, classes="Layer").functions) == [("m", "Layer.1", "")]


def test_a_class_that_no_function_is_of_is_refused_with_what_is_spelled_alike() -> None:
    model = parsed(NET)
    with pytest.raises(UnknownFunctionError, match=r"of the class 'Blok'; did you mean Block\?"):
        fold_modules(model, classes="Blok")
    assert len(model.functions) == 3


def test_a_function_called_at_two_depths_counts_as_deep_as_its_deepest_call() -> None:
    model = parsed(f"{MAIN} h = m.Act (x)  y = m.Layer (h) }} {LAYER} {ACT}")
    fold_modules(model, depth=1)
    assert [node.op_type for node in model.graph] == ["Relu", "Neg", "Layer"]
    assert [node.op_type for node in model.functions["m", "Layer", ""]] == FLAT


def test_a_wrapper_goes_even_if_named_and_adds_no_depth() -> None:
    wrapper = f'{BODY} _FlattenedModule (a) => (c) {{ ["layer"] b = m.Layer (a)  c = Identity (b) }}'
    assert_transforms(
        FoldModulesPass(depth=1, classes=("_FlattenedModule", "Layer")),
        before=f'{MAIN} ["top"] y = m._FlattenedModule (x) }} {wrapper} {LAYER} {ACT}',
        after='<ir_version: 10, opset_import: ["" : 18, "m" : 1]> '
        "main (float[2] x) => (float[2] y) "
        '{ ["top/layer"] "top/b" = m.Layer (x)  ["top/Identity"] y = Identity ("top/b") } '
        '<domain: "m", opset_import: ["" : 18]> '
        'Layer (a) => (c) { ["act/Relu"] "act/b" = Relu (a)  ["act/Neg"] b = Neg ("act/b")  c = Abs (b) }',
        again=False,
    )


def test_calls_in_branches_count() -> None:
    model = parsed(f"""{MAIN} c = Constant <value = bool {{1}}> ()
        y = If (c) <then_branch = t () => (float[2] a) {{ a = m.Layer (x) }},
                    else_branch = e () => (float[2] b) {{ b = m.Act (x) }}> }} {LAYER} {ACT}""")
    fold_modules(model, depth=1)
    assert list(model.functions) == [("m", "Layer", "")]


def test_functions_in_a_circle_are_refused_and_the_model_is_left() -> None:
    text = (
        f"{MAIN} y = m.F (x) }} {BODY} F (a) => (b) {{ b = m.G (a) }} {BODY} G (a) => (b) {{ b = m.F (a) }}"
    )
    model = parsed(text)
    with pytest.raises(FunctionCycleError) as caught:
        FoldModulesPass(depth=0)(model)
    assert isinstance(caught.value, ir.passes.PreconditionError)
    assert len(model.functions) == 2


@pytest.mark.parametrize("option", ["depth", "max_nodes"])
def test_a_negative_number_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must not be negative, but is -1"):
        FoldModulesPass(**{option: -1})
