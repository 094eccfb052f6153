"""Targets: what a reader takes, read from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_inline.errors import FileError, TargetFileError, UnknownTargetError
from onnx_inline.identifiers import OperatorId
from onnx_inline.targets import OpsetRange, Target, list_targets, load_target, target_from_table

OWN = """
name = "mine"
max_ir_version = 9

[max_opset]
"ai.onnx" = 20

[operators]
"ai.onnx" = ["Add", "Softmax 1-10,13-"]
"acme" = ["Fuse"]

[gradients]
ignores_domain = true
without = ["Shape"]

[gradients.stops]
Clip = [1, 2]
"""


def test_the_targets_of_the_package_are_listed_and_each_can_be_loaded() -> None:
    assert list_targets() == ("jaxonnxruntime", "onnx-ad", "onnx2torch", "ort-training", "tinygrad")
    assert [load_target(name).name for name in list_targets()] == list(list_targets())


def test_ort_training_takes_gelu_and_lacks_sum() -> None:
    target = load_target("ort-training")
    assert target.supports(OperatorId("ai.onnx", "Gelu"), 20)
    assert not target.supports(OperatorId("", "Sum"), 13)
    assert (target.max_opset, target.max_ir_version) == ({"": 21}, 10)


def test_a_users_own_target_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(OWN, encoding="utf-8")
    target = load_target(path)
    assert target == load_target(str(path))
    assert [v for v in range(1, 15) if target.supports(OperatorId("", "Softmax"), v)] == [
        *range(1, 11),
        13,
        14,
    ]
    assert target.supports(OperatorId("acme", "Fuse"), 1)
    assert target.gradients is not None
    assert [target.gradients.carries("Clip", place) for place in range(3)] == [True, False, False]
    assert not target.gradients.carries("Shape", 0)


def test_a_target_is_handed_through() -> None:
    target = Target("t", operators={OperatorId("", "Add"): (OpsetRange(7, 13),)})
    assert load_target(target) is target
    assert [target.supports(OperatorId("", "Add"), v) for v in (6, 7, 13, 14)] == [False, True, True, False]


def test_an_unknown_name_is_answered_with_what_is_close() -> None:
    with pytest.raises(UnknownTargetError, match=r"no target 'ort_training'.*did you mean ort-training\?"):
        load_target("ort_training")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 3", "name must be a string, but is 3"),
        ('name = "t"', "the key 'operators' is missing"),
        ('name = "t"\noperaters = 1', "unknown key 'operaters'"),
        ('name = "t"\nmax_ir_version = true\n[operators]', "max_ir_version must be an integer, but is True"),
        ('name = "t"\n[operators]\n"" = ["Add 13"]', "'Add 13' is no operator with opset ranges"),
        ('name = "t"\n[operators]\n"" = [1]', r"operators\. must be a list of strings"),
        ('name = "t"\n[operators]\n[gradients]\nstop = 1', r"unknown key 'gradients\.stop'"),
        ('name = "t"\n[operators]\n[gradients.stops]\nClip = [-1]', "Clip must be a whole number, but is -1"),
        ('name = "t"\n[operators]\n[max_opset]\n"" = "x"', "must be a whole number, but is 'x'"),
        ("name = ", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TargetFileError, match=message):
        load_target(path)


def test_a_missing_file_is_an_error_about_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: No such file"):
        load_target(tmp_path / "none.toml")


def test_a_number_is_no_target() -> None:
    with pytest.raises(TypeError, match="not int"):
        load_target(3)  # type: ignore[arg-type]


def test_a_table_is_a_target() -> None:
    assert str(target_from_table({"name": "t", "reader": "r 1", "operators": {}})) == (
        "t (r 1, inference, 0 operators)"
    )
