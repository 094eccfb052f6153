"""The shared corpus of adversarial cases, if it lies beside the checkout: every case, in both forms."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import onnx_inline

FOLDER = Path(__file__).parents[3] / "shared" / "corpus"

if not FOLDER.is_dir():
    pytest.skip("the corpus is not beside this checkout, in ../shared/corpus", allow_module_level=True)

#: what onnx_ir cannot hold: it drops these while it reads
NOT_IN_IR = {
    "dup_conflicting_definitions": "it keeps one of two functions of one name",
    "sparse_initializer_in_function_branch": "it has no sparse initializers",
    "sparse_initializer_in_main": "it has no sparse initializers",
    "training_info_graph_calls_functions": "it has no training info",
}


def module(name: str) -> ModuleType:
    """Import a module of the corpus, which is no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        spec.loader.exec_module(made)
        return made
    finally:
        sys.path.remove(str(FOLDER))


cases, peers = module("cases"), module("run_peers")
NAMES = [name for name, case in cases.CASES.items() if not case.schema_ops]


def as_proto(model: onnx.ModelProto, *, keep: Any = None) -> onnx.ModelProto:
    return onnx_inline.inline_functions(model, keep=None if keep is None else [tuple(k) for k in keep])


def as_ir(model: onnx.ModelProto, *, keep: Any = None) -> onnx.ModelProto:
    held = ir.from_proto(model)
    return ir.to_proto(onnx_inline.inline_functions(held, keep=keep and [tuple(k) for k in keep]))


def verdict(inline: Any, name: str) -> str:
    found, why = peers.judge("onnx_inline", inline, cases.CASES[name])
    return found if found == "ok" else f"{found}: {why}"


def test_the_corpus_is_all_there() -> None:
    assert len(NAMES) > 100


@pytest.mark.parametrize("name", NAMES)
def test_a_proto_comes_out_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert verdict(as_proto, name) == "ok"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_IN_IR])
def test_an_ir_model_comes_out_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert verdict(as_ir, name) == "ok"


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in NOT_IN_IR and cases.CASES[name].expect != "error"]
)
def test_both_forms_give_the_same_nodes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = cases.CASES[name]
    one = as_proto(case.build()[0], keep=case.keep)
    other = as_ir(case.build()[0], keep=case.keep)
    assert [signature(node) for node in other.graph.node] == [signature(node) for node in one.graph.node]


def signature(node: onnx.NodeProto) -> tuple[object, ...]:
    """Return what of a node has to be the same, that of nodes in its graphs included."""
    inner = [signature(n) for a in node.attribute for g in (a.g, *a.graphs) for n in g.node]
    return (node.domain, node.op_type, node.overload, node.name, *node.input, "->", *node.output, inner)
