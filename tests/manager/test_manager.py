"""Chains of passes: all or nothing, and what they say when they fail."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx
import onnx_ir as ir
import pytest
from helpers import parsed, printed

import onnx_inline
from onnx_inline import PassManager, parse_passes, run_file, run_passes
from onnx_inline.manager import Instrument
from onnx_inline.passes import table

HEAD = '<ir_version: 10, opset_import: ["" : 18, "m" : 1]> main (float[2] x) => (float[2] y)'
FUNCTION = '<domain: "m", opset_import: ["" : 18]> f (a) => (b) { unused = Exp (a) b = Abs (a) }'
TEXT = f'{HEAD} {{ ["call"] t = m.f (x) ["end"] y = Neg (t) }} {FUNCTION}'
FLAT = """<ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[2] y) {
    ["call/Abs"] t = Abs (x) ["end"] y = Neg (t)
}"""
RECURSIVE = f"{HEAD} {{ y = m.f (x) }} " + FUNCTION.replace("]> f", ', "m" : 1]> f').replace("Abs", "m.f")


@dataclass(frozen=True)
class SpoilPass(ir.passes.InPlacePass):
    """Rename every node, then fail."""

    name: ClassVar[str] = "spoil"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in model.graph:
            node.name = "spoilt"
        model.metadata_props["spoilt"] = "yes"
        raise ZeroDivisionError("on purpose")


def test_passes_run_one_after_the_other() -> None:
    model = parsed(TEXT)
    result = PassManager("inline-functions,remove-unused-nodes,verify")(model)
    assert result.modified
    assert result.model is model
    assert printed(model) == printed(parsed(FLAT))


def test_a_manager_is_a_pass_in_onnx_irs_managers_and_in_itself() -> None:
    ours = PassManager("inline-functions")
    model = parsed(TEXT)
    chain = ir.passes.PassManager([ours, PassManager([PassManager("remove-unused-nodes"), ours])], steps=2)
    assert chain(model).modified
    assert printed(model) == printed(parsed(FLAT))
    assert not chain(model).modified


def test_a_manager_that_has_nothing_to_do_changes_nothing() -> None:
    assert not PassManager(())(parsed(TEXT)).modified
    assert not PassManager("inline-functions,topological-sort")(parsed(FLAT)).modified


def test_a_chain_with_a_functional_pass_is_not_in_place() -> None:
    assert PassManager("inline-functions").in_place
    chain = PassManager("inline-functions,convert-opset{version=20}")
    assert not chain.in_place
    model = parsed(TEXT)
    assert chain(model).model is not model
    assert chain(parsed(TEXT)).model.opset_imports == {"": 20}


def test_a_failure_says_which_pass_of_how_many_and_how_to_reproduce_it() -> None:
    manager = PassManager("topological-sort,inline-functions,verify", source="in dir/m.onnx")
    with pytest.raises(onnx_inline.PassFailedError) as caught:
        manager(parsed(RECURSIVE))
    error = caught.value
    assert (error.index, error.count, error.failed) == (2, 3, "inline-functions")
    assert error.command == "onnx-inline run 'in dir/m.onnx' --passes topological-sort,inline-functions"
    assert str(error).startswith("pass 2 of 3, inline-functions, failed: recursive functions cannot be")
    assert str(error).endswith(f"; to reproduce it, run {error.command}")
    assert isinstance(error.__cause__, onnx_inline.FunctionCycleError)
    assert isinstance(error, ir.passes.PassError)


def test_a_pass_of_another_that_raises_anything_is_named_too() -> None:
    with pytest.raises(
        onnx_inline.PassFailedError, match="pass 1 of 1, spoil, failed: ZeroDivisionError: on"
    ):
        PassManager([SpoilPass()])(parsed(TEXT))


def test_atomic_puts_everything_back() -> None:
    model = parsed(TEXT)
    before = ir.to_proto(model)
    chain = [*parse_passes("inline-functions,clear-metadata"), SpoilPass()]
    with pytest.raises(onnx_inline.PassFailedError):
        PassManager(chain, atomic=True)(model)
    assert ir.to_proto(model) == before
    # And the model is whole: it can go on.
    assert PassManager("inline-functions,remove-unused-nodes")(model).modified
    assert printed(model) == printed(parsed(FLAT))


def test_an_interruption_puts_everything_back_too() -> None:
    class Interrupt(Instrument):
        def before(self, step: object, model: ir.Model) -> None:
            if "y" in model.graph.node(-1).outputs[0].name and not model.functions:
                raise KeyboardInterrupt

    model = parsed(TEXT)
    before = ir.to_proto(model)
    with pytest.raises(KeyboardInterrupt):
        PassManager("inline-functions,topological-sort", atomic=True, instruments=[Interrupt()])(model)
    assert ir.to_proto(model) == before


def test_without_atomic_the_model_is_as_the_last_good_pass_left_it() -> None:
    model = parsed(RECURSIVE)
    before = ir.to_proto(model)
    with pytest.raises(onnx_inline.PassFailedError):
        PassManager("topological-sort,inline-functions")(model)
    assert ir.to_proto(model) == before  # a pass of ours that fails has changed nothing


def test_the_model_before_the_failing_pass_can_be_had(tmp_path: Path) -> None:
    dump = tmp_path / "before.onnx"
    chain = [*parse_passes("inline-functions"), SpoilPass()]
    with pytest.raises(onnx_inline.PassFailedError) as caught:
        PassManager(chain, dump_on_failure=dump)(parsed(TEXT))
    assert caught.value.dump == str(dump)
    expected = run_passes(onnx.parser.parse_model(TEXT), "inline-functions")
    assert onnx.load(dump) == expected


def test_the_command_in_the_error_runs_the_failing_pass_on_the_dump(tmp_path: Path) -> None:
    dump = tmp_path / "before.onnx"
    with pytest.raises(onnx_inline.PassFailedError) as caught:
        PassManager("topological-sort,inline-functions", dump_on_failure=dump)(parsed(RECURSIVE))
    assert caught.value.command == f"onnx-inline run {dump} --passes inline-functions"
    with pytest.raises(onnx_inline.PassFailedError, match="recursive functions"):
        run_file(dump, None, "inline-functions")


# ------------------------------------------------------------------------------ protos and files


def test_a_proto_gives_a_new_one_and_stays_as_it_is() -> None:
    model = onnx.parser.parse_model(TEXT)
    before = model.SerializeToString(deterministic=True)
    flat = run_passes(model, "inline-functions,remove-unused-nodes")
    assert printed(ir.from_proto(flat)) == printed(parsed(FLAT))
    assert model.SerializeToString(deterministic=True) == before
    with pytest.raises(onnx_inline.PassFailedError):
        run_passes(model, [*parse_passes("inline-functions"), SpoilPass()])
    assert model.SerializeToString(deterministic=True) == before


def test_what_onnx_ir_cannot_hold_is_refused_and_not_lost() -> None:
    training = onnx.parser.parse_model(TEXT)
    training.training_info.add()
    newer = onnx.parser.parse_model(TEXT)
    newer.graph.MergeFromString(b"\xfa\x3f\x03abc")
    sparse = onnx.parser.parse_model(TEXT)
    sparse.graph.sparse_initializer.add().values.name = "w"
    for model, what in (
        (training, "training_info"),
        (newer, "protobuf fields that are newer"),
        (sparse, "sparse initializers"),
    ):
        with pytest.raises(onnx_inline.InvalidModelError, match=f"the model has {what}.*inline_functions"):
            run_passes(model, "inline-functions")


def test_from_file_to_file_the_report_says_what_each_pass_did(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), source)
    report = run_file(source, target, "inline-functions,remove-unused-nodes,verify")
    assert [(one.text, one.modified, one.nodes_before, one.nodes_after) for one in report.passes] == [
        ("inline-functions", True, 4, 2),
        ("remove-unused-nodes", False, 2, 2),
        ("verify", False, 2, 2),
    ]
    assert report.passes[0].operators == {"Exp": -1, "m::f": -1}
    assert str(report).startswith("ran 3 passes: 4 -> 2 nodes in ")
    assert printed(ir.load(target)) == printed(parsed(FLAT))


def test_a_failure_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(RECURSIVE), source)
    target.write_bytes(b"old")
    with pytest.raises(onnx_inline.PassFailedError):
        run_file(source, target, "topological-sort,inline-functions")
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.onnx", "out.onnx"]


def test_a_file_may_be_written_over_itself_but_not_over_another_unless_forced(tmp_path: Path) -> None:
    source, other = tmp_path / "in.onnx", tmp_path / "other.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), source)
    other.write_bytes(b"old")
    with pytest.raises(onnx_inline.FileError, match="exists and is not the source"):
        run_file(source, other, "inline-functions", force=False)
    run_file(source, source, "inline-functions", force=False)
    assert not onnx.load(source).functions


# ------------------------------------------------------------------------------ third parties


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install passes of a third party: one that works, one that is broken, one that takes a name of ours."""
    module = types.ModuleType("third_party_passes")
    module.SpoilPass = SpoilPass  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "third_party_passes", module)
    points = [
        importlib.metadata.EntryPoint(name, value, table.ENTRY_POINTS)
        for name, value in (
            ("spoil", "third_party_passes:SpoilPass"),
            ("broken", "no_such_module:Pass"),
            ("verify", "third_party_passes:SpoilPass"),
        )
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    table.known_passes.cache_clear()
    table._names_by_class.cache_clear()
    yield
    table.known_passes.cache_clear()
    table._names_by_class.cache_clear()


@pytest.mark.usefixtures("third_party")
def test_passes_of_third_parties_have_names_in_text() -> None:
    assert onnx_inline.format_passes(parse_passes("spoil,verify")) == "spoil,verify"
    assert type(parse_passes("verify")[0]).__name__ == "VerifyPass"


@pytest.mark.usefixtures("third_party")
def test_a_pass_that_cannot_be_imported_is_named_with_its_origin() -> None:
    with pytest.raises(
        onnx_inline.PassUnavailableError, match="the pass broken cannot be imported: No module"
    ):
        parse_passes("broken")
