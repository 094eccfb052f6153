"""Standard input and output in place of files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.files.models import external, model_with, names, weights, write_data, written

PIPE = """
import sys
from onnx_inline.errors import OnnxInlineError
from onnx_inline.files import reduction, skeleton
from onnx_inline.files.skeleton import read_skeleton
from onnx_inline.files.writer import copy_model, write_model
if "ranged" in sys.argv:
    skeleton.WHOLE, reduction.LARGE = 0, 8
source, target, *options = (word for word in sys.argv[1:] if word != "ranged")
try:
    read = read_skeleton(source)
    if "copy_model" in options:
        copy_model(target, read)
    else:
        write_model(target, read.model, source=read, **dict(option.split("=") for option in options))
except OnnxInlineError as error:
    sys.exit(f"refused: {error}")
"""


def pipe(folder: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", PIPE, *arguments]
    return subprocess.run(command, input=given, capture_output=True, cwd=folder, check=False)


MODEL = model_with(weights()).SerializeToString()


@pytest.mark.parametrize("way", ["ranged", "whole"])
def test_a_model_goes_from_standard_input_to_standard_output(tmp_path: Path, way: str) -> None:
    extra = ["ranged"] if way == "ranged" else []
    assert pipe(tmp_path, "-", "-", *extra, given=MODEL).stdout == MODEL
    assert pipe(tmp_path, "-", "-", "copy_model", *extra, given=MODEL).stdout == MODEL
    assert pipe(tmp_path, "-", "out.onnx", *extra, given=MODEL).returncode == 0
    assert (tmp_path / "out.onnx").read_bytes() == MODEL
    assert pipe(tmp_path, "out.onnx", "-", *extra).stdout == MODEL


def test_input_that_ends_early_is_refused(tmp_path: Path) -> None:
    for end in (0, 1, 20, len(MODEL) - 1):
        done = pipe(tmp_path, "-", "out.onnx", given=MODEL[:end])
        assert done.stderr.startswith(b"refused: -:")
        assert b"Traceback" not in done.stderr
    assert names(tmp_path) == []


def test_external_data_go_inside_on_the_way_to_standard_output_or_are_kept(tmp_path: Path) -> None:
    write_data(tmp_path)
    model = model_with(external())
    written(tmp_path, model)
    inside = onnx.ModelProto.FromString(pipe(tmp_path, "m.onnx", "-").stdout)
    assert inside.graph.initializer[0].raw_data == weights().raw_data
    assert pipe(tmp_path, "m.onnx", "-", "external=keep").stdout == model.SerializeToString()
    for option in ("external=copy", "external_data=d"):
        assert b"name an output file" in pipe(tmp_path, "m.onnx", "-", option).stderr


def test_a_full_device_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    written(tmp_path, model_with(weights()))
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", PIPE, "m.onnx", "-"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    assert done.stderr.startswith(b"refused: -: cannot be written, No space left on device")


def test_the_format_of_standard_output_can_be_given(tmp_path: Path) -> None:
    written(tmp_path, model_with(weights()))
    text = pipe(tmp_path, "m.onnx", "-", "output_format=onnxtxt").stdout
    assert onnx.parser.parse_model(text.decode()).graph.node[0].op_type == "Add"
    assert b"'nothing' is no format" in pipe(tmp_path, "m.onnx", "-", "output_format=nothing").stderr
