"""Which functions go: exact identifiers, globs and predicates, for ``only`` and for ``keep``."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest

import onnx_inline
from tests.engine.both_forms import MAIN, F, message, parsed, refused

MODEL = f"""
    {MAIN} (float[2] x) => (float[2] y) {{ a = l.f (x) b = l.f:v (a) y = l.linear (b) }}
    {F} f (v) => (r) {{ t = l.g (v) r = Neg (t) }}
    <domain: "l", overload: "v", opset_import: ["" : 18]> f (v) => (r) {{ r = Exp (v) }}
    {F} g (v) => (r) {{ r = Abs (v) }}
    {F} linear (v) => (r) {{ r = l.g (v) }}
"""


def short(function: Any) -> bool:
    """Say whether a function has one node, in either form."""
    return len(function.node if isinstance(function, onnx.FunctionProto) else function) == 1


def left(**options: Any) -> list[str]:
    """Return the functions that are left, the same in both forms."""
    flat = onnx_inline.inline_functions(parsed(MODEL), **options)
    onnx.checker.check_model(flat, full_check=True)
    names = [f"{f.name}:{f.overload}" if f.overload else f.name for f in flat.functions]
    held = onnx_inline.inline_functions(ir.from_proto(parsed(MODEL)), **options)
    assert [f"{f.name}:{f.overload}" if f.overload else f.name for f in held.functions.values()] == names
    return names


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"keep": [("l", "f")]}, ["f"]),
        ({"keep": [("l", "f", "v")]}, ["f:v"]),
        ({"keep": "l::*"}, ["f", "f:v", "g", "linear"]),
        ({"keep": "f*"}, ["f", "f:v"]),
        ({"keep": ["*::lin*", ("l", "g")]}, ["g", "linear"]),
        ({"keep": lambda function: function.name == "g"}, ["g"]),
        ({"only": [("l", "g")]}, ["f", "f:v", "linear"]),
        ({"only": "l::f"}, ["g", "linear"]),
        ({"only": ["*"], "keep": ["*r"]}, ["linear"]),
        ({"only": short}, ["f"]),
        ({"only": []}, ["f", "f:v", "g", "linear"]),
        ({"keep": []}, []),
    ],
)
def test_what_is_chosen_goes_and_the_rest_stays(options: dict[str, Any], expected: list[str]) -> None:
    assert left(**options) == expected


def test_calls_in_a_function_that_is_kept_go() -> None:
    flat = onnx_inline.inline_functions(parsed(MODEL), keep=[("l", "f")])
    (kept,) = flat.functions
    assert [node.op_type for node in kept.node] == ["Abs", "Neg"]


@pytest.mark.parametrize("option", ["only", "keep"])
@pytest.mark.parametrize("wrong", [("l", "lineer"), "l::lineer", ("m", "linear"), "Linear"])
def test_a_name_that_is_not_there_is_answered_with_close_ones(option: str, wrong: Any) -> None:
    said = refused(MODEL, **{option: [wrong]})
    assert said.startswith("UnknownFunctionError: no function matches ")
    assert said.endswith("the model has 4 functions; did you mean l::linear?")


def test_a_model_without_functions_has_none_to_choose() -> None:
    said = refused(f"{MAIN} (float[2] x) => (float[2] y) {{ y = Neg (x) }}", only=["f"])
    assert said == "UnknownFunctionError: no function matches 'f': the model has no local functions"


CIRCLE = f"""
    {MAIN} (float[2] x) => (float[2] y) {{ a = l.f (x) y = l.g (a) }}
    {F} f (v) => (r) {{ r = l.f (v) }}
    {F} g (v) => (r) {{ r = Neg (v) }}
"""


@pytest.mark.parametrize("form", ["proto", "ir"])
@pytest.mark.parametrize("only", ["l::*", lambda function: True], ids=["glob", "predicate"])
def test_what_was_chosen_and_cannot_go_is_left_with_the_reason(form: str, only: Any) -> None:
    model: Any = parsed(CIRCLE) if form == "proto" else ir.from_proto(parsed(CIRCLE))
    _, report = onnx_inline.inline_functions(model, only=only, with_report=True)
    (reason,) = report.left
    assert (reason.function, reason.calls) == ("l::f", 1)
    assert reason.reason.startswith("recursive functions cannot be inlined")
    assert report.removed == ("l::g",)


def test_what_was_named_and_cannot_go_is_an_error() -> None:
    assert "recursive functions" in refused(CIRCLE, only=[("l", "f"), "*"])


@pytest.mark.parametrize("options", [{"names": "long"}, {"max_nodes": -1}], ids=str)
def test_an_option_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        message(parsed(MODEL), **options)
