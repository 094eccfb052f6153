"""A sequence that is only taken apart again becomes Split."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_inline.passes.split_sequences import SplitSequencesPass
from tests.helpers import assert_leaves, assert_transforms, computed, parsed

HEAD = '<ir_version: 8, opset_import: ["" : 18]> main (float[2,7] x) => (float[2,n] y)'


def body(size: str, *places: int, axis: str = "axis = 1") -> str:
    """Return a graph that takes some parts and puts them side by side."""
    taken = " ".join(
        f"i{k} = Constant <value: tensor = int64 {{{place}}}> () "
        f"t{k} = SequenceAt (s, i{k}) r{k} = Relu (t{k})"
        for k, place in enumerate(places)
    )
    results = ", ".join(f"r{k}" for k in range(len(places)))
    split = f"z = Constant <value: tensor = {size}> () s = SplitToSequence <{axis}> (x, z)"
    return f"{HEAD} {{ {split} {taken} y = Concat <axis = 1> ({results}) }}"


def test_the_example_of_the_docstring() -> None:
    text = inspect.getdoc(SplitSequencesPass) or ""
    before, after = text.split("Before::")[1].split("After::")
    assert_transforms(SplitSequencesPass(), before=before, after=after)


@pytest.mark.parametrize(
    ("size", "places"),
    [
        ("int64 {3}", (0, 1, 2)),
        ("int64 {3}", (2,)),
        ("int64 {7}", (0, 0)),
        ("int64 {100}", (0,)),
        ("int64 {1}", (6, 0, 3)),
        ("int64 {3}", (-1, -3)),
        ("int64[3] {1, 2, 4}", (0, 2)),
        ("int64[2] {7, 0}", (0, 1)),
    ],
)
def test_the_parts_are_the_same(size: str, places: tuple[int, ...]) -> None:
    model = parsed(body(size, *places))
    x = np.random.default_rng(0).standard_normal((2, 7)).astype(np.float32)
    (expected,) = computed(model, {"x": x})
    result = SplitSequencesPass()(model)
    assert result.modified
    operators = [node.op_type for node in result.model.graph]
    assert not {"SplitToSequence", "SequenceAt"} & set(operators)
    assert operators.count("Constant") == 1, "what nobody reads any more is gone"
    (y,) = computed(result.model, {"x": x})
    np.testing.assert_array_equal(y, expected)
    assert_leaves(SplitSequencesPass(), result.model)


KNOWN = "z = Constant <value: tensor = int64 {3}> () i = Constant <value: tensor = int64 {0}> ()"
TAKEN = "s = SplitToSequence <axis = 1> (x, z) y = SequenceAt (s, i)"


@pytest.mark.parametrize(
    "text",
    [
        body("int64 {3}", 3),
        f"{HEAD.replace('float[2,7] x', 'float[2,m] x')} {{ {KNOWN} {TAKEN} }}",
        f"{HEAD.replace('x)', 'x, int64 i)')} {{ z = Constant <value: tensor = int64 {{3}}> () {TAKEN} }}",
        f"{HEAD.replace('x)', 'x, int64 z)')} {{ i = Constant <value: tensor = int64 {{0}}> () {TAKEN} }}",
        f"{HEAD} {{ {KNOWN} {TAKEN} n = SequenceLength (s) }}",
        f"{HEAD.replace('float[2,n] y', 'float[2] y')} {{ i = Constant <value: tensor = int64 {{0}}> () "
        "s = SplitToSequence <axis = 1, keepdims = 0> (x) y = SequenceAt (s, i) }",
    ],
    ids=["no such part", "size unknown", "place unknown", "sizes unknown", "used otherwise", "axis dropped"],
)
def test_what_is_not_certain_stays(text: str) -> None:
    assert_leaves(SplitSequencesPass(), parsed(text))


def test_a_part_that_is_a_graph_output_keeps_its_name_also_in_a_branch() -> None:
    model = parsed(
        '<ir_version: 8, opset_import: ["" : 18]> main (float[2,6] x, bool c) => (float[2,3] y) {'
        "z = Constant <value: tensor = int64 {3}> () s = SplitToSequence <axis = -1> (x, z)"
        "y = If (c) <then_branch = a () => (float[2,3] p) { i = Constant <value: tensor = int64 {0}> ()"
        " p = SequenceAt (s, i) }, else_branch = b () => (float[2,3] q) {"
        " j = Constant <value: tensor = int64 {1}> () q = SequenceAt (s, j) }> }"
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    assert SplitSequencesPass()(model).modified
    for condition, part in ((True, x[:, :3]), (False, x[:, 3:])):
        (y,) = computed(model, {"x": x, "c": np.array(condition)})
        np.testing.assert_array_equal(y, part)


def test_sizes_are_an_attribute_before_opset_13() -> None:
    text = body("int64 {3}", 1).replace('"" : 18', '"" : 12')
    result = SplitSequencesPass()(parsed(text))
    (split,) = [node for node in result.model.graph if node.op_type == "Split"]
    assert list(split.attributes["split"].as_ints()) == [3, 3, 1]
    onnx.checker.check_model(ir.to_proto(result.model), full_check=True)
