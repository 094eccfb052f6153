"""More files that are wrong or odd, through the command line's reader, ``load`` and ``load_proto`` alike."""

from __future__ import annotations

import base64
import gzip
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from onnx_inline import load, load_proto
from onnx_inline.errors import FileError
from onnx_inline.files.wire import encode_varint, header
from tests.files.models import external, model_with, weights, write_data, written

Make = Callable[[Path], Path]


def at(location: str) -> Make:
    def make(folder: Path) -> Path:
        (folder / "sub").mkdir()
        write_data(folder)
        return written(folder, model_with(external(location)))

    return make


def between(**entries: str | int) -> Make:
    def make(folder: Path) -> Path:
        write_data(folder)
        return written(folder, model_with(external(**entries)))

    return make


def tensor(**fields: object) -> Make:
    return lambda folder: written(folder, model_with(TensorProto(name="w", **fields)))


def file(data: bytes, name: str = "m.onnx") -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def linked_folder_outside(folder: Path) -> Path:
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    write_data(folder / "out")
    (folder / "in" / "sub").symlink_to("../out")
    return written(folder / "in", model_with(external("sub/w.bin")))


def two_links_outside(folder: Path) -> Path:
    (folder / "in").mkdir()
    write_data(folder, "secret")
    (folder / "in" / "w.bin").symlink_to("second")
    (folder / "in" / "second").symlink_to("../secret")
    return written(folder / "in", model_with(external()))


def circle_of_two(folder: Path) -> Path:
    (folder / "w.bin").symlink_to("second")
    (folder / "second").symlink_to("w.bin")
    return written(folder, model_with(external()))


def environment(folder: Path) -> Path:
    (folder / "w.bin").symlink_to("/proc/self/environ")
    return written(folder, model_with(external()))


def second_name_of_the_model(folder: Path) -> Path:
    path = written(folder, model_with(external()))
    (folder / "w.bin").hardlink_to(path)
    return path


def in_sparse(folder: Path) -> Path:
    model = model_with()
    indices = helper.make_tensor("i", TensorProto.INT64, [6], range(6))
    model.graph.sparse_initializer.add(values=external("../w"), indices=indices, dims=[9])
    return written(folder, model)


def in_training(folder: Path) -> Path:
    model = model_with()
    model.training_info.add().algorithm.initializer.append(external("../w"))
    return written(folder, model)


def in_a_default(folder: Path) -> Path:
    function = helper.make_function("d", "f", [], [], [], [helper.make_opsetid("", 18)])
    function.attribute_proto.append(helper.make_attribute("k", external("../w")))
    return written(folder, model_with(functions=(function,)))


def nothing_past_the_end(folder: Path) -> Path:
    write_data(folder)
    nothing = external(offset=25, length=0)
    nothing.dims[:] = [0]
    return written(folder, model_with(nothing))


def no_bytes(folder: Path) -> Path:
    (folder / "w.bin").touch()
    return written(folder, model_with(external()))


def three_gigabytes_of_zeros(folder: Path) -> Path:
    path = written(folder, model_with(weights()))
    os.truncate(path, 3 << 30)
    return path


GOOD = model_with(weights()).SerializeToString()
FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING

REFUSED: dict[str, Make] = {
    **{f"location {location[:20]!r}": at(location) for location in (
        "%2e%2e/w.bin", "~/w.bin", "./../w.bin", "sub/..", "sub/../sub/../../w.bin", "w.bin::$DATA", "NUL",
        "/proc/self/mem", "/dev/stdin", "file:///etc/passwd", "http://x.example/w.bin", "w\n.bin",
        "\x1b[2Jw.bin", "*.bin", "$HOME/w.bin", "...", " ", "w.bin\0.onnx", "a/" * 1500 + "w",
        "./" * 2100 + "w.bin", "\u202ew.bin", "W.BIN", "w\u0301.bin", "w.bin ",
    )},
    "folder linked outside": linked_folder_outside,
    "two links outside": two_links_outside,
    "circle of two links": circle_of_two,
    "link to the environment": environment,
    "second name of the model": second_name_of_the_model,
    "in a sparse initializer": in_sparse,
    "in training info": in_training,
    "in a default value": in_a_default,
    "no model": lambda folder: folder / "m.onnx",
    "planted stamp": between(**{"onnx_inline.source": "0.0.0.0"}),
    **{f"range {entries!r}"[:60]: between(**entries) for entries in (
        {"offset": 24}, {"offset": 1 << 64}, {"offset": (1 << 63) - 1, "length": 24},
        {"offset": (1 << 64) - 8, "length": 32}, {"offset": "1e1"}, {"length": "0x18"}, {"length": "+24"},
        {"length": "２４"}, {"offset": "²"}, {"length": "24\n"}, {"length": ""}, {"length": 25},
        {"length": 1}, {"length": "24.0"}, {"length": "24\0"}, {"offset": "0" * 21},
    )},
    "nothing past the end": nothing_past_the_end,
    "no bytes": no_bytes,
    "shape -1": tensor(data_type=FLOAT, dims=[-1], raw_data=bytes(4)),
    "shape -2**63": tensor(data_type=FLOAT, dims=[-(1 << 63)], raw_data=b""),
    "shape huge, then -1": tensor(data_type=FLOAT, dims=[1 << 40, 1 << 40, -1], raw_data=b""),
    "shape 2**64 bytes": tensor(data_type=TensorProto.DOUBLE, dims=[1 << 61, 8], raw_data=bytes(8)),
    "scalar without bytes": tensor(data_type=FLOAT, raw_data=b""),
    "strings in raw_data": tensor(data_type=STRING, dims=[1], raw_data=b"a"),
    "2**40 strings": tensor(data_type=STRING, dims=[1 << 40], string_data=[b"a"]),
    "2**62 fours": tensor(data_type=TensorProto.INT4, dims=[1 << 62], raw_data=b"\0"),
    "booleans as int64": tensor(data_type=TensorProto.BOOL, dims=[1], int64_data=[1]),
    "half a complex": tensor(data_type=TensorProto.COMPLEX64, dims=[2], float_data=[1, 2, 3]),
    "type -1": tensor(data_type=-1, dims=[1], raw_data=b"a"),
    "type 2**31 - 1": tensor(data_type=(1 << 31) - 1, dims=[1], raw_data=b"a"),
    "three gigabytes of zeros": three_gigabytes_of_zeros,
    **{f"wire {name}": file(data) for name, data in {
        "ones": b"\xff" * 1000, "zeros": bytes(1000), "tag 0": GOOD + b"\x02\0",
        "zero at the end": GOOD + b"\0",
        "field 2**29": GOOD + encode_varint(1 << 32) + b"\0", "byte order mark": b"\xef\xbb\xbf" + GOOD,
        "UTF-16": GOOD.hex().encode("utf-16"), "base64": base64.b64encode(GOOD), "gzip": gzip.compress(GOOD),
        "line ends": GOOD.replace(b"\n", b"\r\n"), "graph as a number": b"\x08\x0a\x38\x01",
        "a tensor": weights().SerializeToString(), "a graph": model_with().graph.SerializeToString(),
        "pickle": pickle.dumps({"a": 1}), "PNG": b"\x89PNG\r\n\x1a\n" + bytes(50),
        "ELF": b"\x7fELF" + bytes(99),
        "safetensors": (2).to_bytes(8, "little") + b"{}", "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(99),
        "GGUF": b"GGUF" + bytes(99), "HTML": b"<!doctype html>", "TFLite": b"\x1c\0\0\0TFL3" + bytes(99),
        "5,000 groups": GOOD + encode_varint(99 << 3 | 3) * 5000 + encode_varint(99 << 3 | 4) * 5000,
        "2 GiB declared": GOOD + header(7, (1 << 31) - 100) + bytes(50),
    }.items()},
    **{f"text {name}": file(text, f"m.{name.split()[0]}") for name, text in {
        "onnxtxt empty": b"", "onnxtxt nested": b"<" * 5000, "json NaN": b'{"irVersion": NaN}',
        "json array": b"[]", "json twice": b'{"graph":{},"graph":{}}', "json protobuf": GOOD,
        "json nested": b'{"graph":{"node":[{"attribute":[{"g":' * 3000, "textproto cut": b"graph { node {",
        "textproto protobuf": b"\x08\x0a\x3a", "textproto digits": b"ir_version: " + b"9" * 100_000,
    }.items()},
}  # fmt: skip


def linked_folder_inside(folder: Path) -> Path:
    (folder / "real").mkdir()
    write_data(folder / "real")
    (folder / "sub").symlink_to("real")
    return written(folder, model_with(external("sub/w.bin")))


def named(name: str) -> Make:
    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir(exist_ok=True)
        write_data(folder, name)
        return written(folder, model_with(external(name)))

    return make


def overlapping(folder: Path) -> Path:
    (folder / "w.bin").write_bytes(bytes(41))
    parts = external(offset=0, length=24), external(name="v", offset=17, length=24)
    return written(folder, model_with(*parts))


def five_thousand_references(folder: Path) -> Path:
    write_data(folder)
    return written(folder, model_with(*(external(name=f"w{number}") for number in range(5000))))


ACCEPTED: dict[str, Make] = {
    "folder linked inside": linked_folder_inside,
    **{f"location {name!r}": named(name) for name in ("./w.bin", "sub//w.bin", "..w.bin", "w w.bin", "%2e")},
    "20 zeros": between(offset="0" * 20, length="024"),
    "overlapping": overlapping,
    "5,000 references": five_thousand_references,
    "nothing of a huge shape": tensor(data_type=FLOAT, dims=[0, 1 << 62, 1 << 62], raw_data=b""),
    "100,000 dimensions": tensor(data_type=FLOAT, dims=[1] * 100_000, raw_data=bytes(4)),
    "three twos": tensor(data_type=25, dims=[3], raw_data=b"\x01"),
    "halves as int32": tensor(data_type=TensorProto.FLOAT16, dims=[2], int32_data=[1, 2]),
    "99 groups": file(GOOD + encode_varint(99 << 3 | 3) * 99 + encode_varint(99 << 3 | 4) * 99),
    "unknown field": file(GOOD + header(900, 3) + b"abc"),
}  # fmt: skip


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("kind", REFUSED)
def test_each_wrong_file_gets_one_error_with_a_hint(tmp_path: Path, kind: str) -> None:
    path = REFUSED[kind](tmp_path)
    said = set()
    for read in (load, load_proto):
        with pytest.raises(FileError) as caught:
            read(path)
        said.add(str(caught.value))
    (text,) = said
    assert text.startswith(f"{path}: ")
    assert "; " in text
    assert "\n" not in text
    assert len(text) < 1500
    if kind.startswith(("location", "range", "shape")) or caught.value.tensor:
        assert "tensor 'w'" in text


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("kind", ACCEPTED)
def test_each_odd_file_is_read_alike(tmp_path: Path, kind: str) -> None:
    path = ACCEPTED[kind](tmp_path)
    expected = onnx.load(path, load_external_data=False)
    assert len(load_proto(path).graph.initializer) == len(expected.graph.initializer)
    assert [node.op_type for node in load(path).graph] == [node.op_type for node in expected.graph.node]


@pytest.mark.parametrize("kind", [*list(REFUSED)[::12], *list(ACCEPTED)[::4]])
def test_the_command_line_says_the_same(tmp_path: Path, kind: str) -> None:
    """Every twelfth wrong file and every fourth odd one, for each is a process; all were run by hand."""
    path = (REFUSED | ACCEPTED)[kind](tmp_path)
    command = [sys.executable, "-m", "onnx_inline", "inline", path.name, str(tmp_path / "result.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, timeout=60, check=False)
    assert done.returncode == (2 if kind in REFUSED else 0)
    assert (tmp_path / "result.onnx").exists() == (kind in ACCEPTED)
    if kind in REFUSED:
        assert done.stderr.startswith(f"error: {path.name}: ")
        assert "\nhint: " in done.stderr
        assert done.stderr.count("\n") == 2
