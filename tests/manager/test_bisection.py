"""Bisecting a chain of passes, and a pass."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx
import onnx_ir as ir
import pytest
from helpers import parsed, printed

import onnx_inline
from onnx_inline import bisect, run_file
from onnx_inline.bisection import by_command
from onnx_inline.freezing import all_nodes, run_frozen, touched

FUNCTIONS = """<domain: "m", opset_import: ["" : 18, "m" : 1]> f (a) => (b) { t = m.g (a) b = Abs (t) }
<domain: "m", opset_import: ["" : 18]> g (a) => (b) { b = Neg (a) }"""


def calls(count: int) -> str:
    body = "\n".join(f'["c{k}"] v{k + 1} = m.f (v{k})' for k in range(count))
    return f"""<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] v0) => (float[2] v{count}) {{ {body} }} {FUNCTIONS}"""


def lacks(prefix: str) -> object:
    """Return a predicate: is no node of the graph called so?"""
    return lambda model: not any((node.name or "").startswith(prefix) for node in model.graph)


@dataclass(frozen=True)
class WrongReluPass(ir.passes.InPlacePass):
    """Make each Relu a ThresholdedRelu, right with ``alpha`` 0, but an Abs where it is called ``bad``."""

    name: ClassVar[str] = "wrong-relu"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in model.graph:
            if node.op_type == "Relu":
                node.op_type = "Abs" if node.name == "bad" else "ThresholdedRelu"
                if node.name != "bad":
                    node.attributes["alpha"] = ir.AttrFloat32("alpha", 0.0)
        return ir.passes.PassResult(model, True)


RELUS = """<ir_version: 10, opset_import: ["" : 18]> main (float[4] x) => (float[4] y) {
    ["one"] a = Relu (x) ["two"] b = Neg (x) ["bad"] c = Relu (b) ["three"] d = Exp (c) ["four"] y = Relu (d)
}"""


def test_sixty_four_passes_and_a_thousand_calls_take_at_most_twenty_runs(bad: int = 317) -> None:
    chain = ["topological-sort"] * 40 + ["inline-functions"] + ["remove-unused-nodes"] * 23
    report = bisect(parsed(calls(1000)), ",".join(chain), lacks(f"c{bad}/"))
    assert (report.index, report.pass_) == (41, "inline-functions")
    assert report.site == f"node 'c{bad}' of m::f in the graph"
    assert report.alone
    assert report.candidates == 1000 + 1  # g is called in f as well
    assert report.runs <= 20


@pytest.mark.parametrize("bad", [0, 1, 30])
def test_the_first_and_the_last_call_are_found_too(bad: int) -> None:
    report = bisect(parsed(calls(31)), "inline-functions", lacks(f"c{bad}/"))
    assert (report.site, report.alone) == (f"node 'c{bad}' of m::f in the graph", True)


def test_the_node_that_a_wrong_rewrite_gets_wrong_is_found_by_what_the_model_computes() -> None:
    chain = [*onnx_inline.parse_passes("topological-sort"), WrongReluPass()]
    report = bisect(parsed(RELUS), chain, "outputs")
    assert (report.index, report.count, report.pass_) == (2, 2, "wrong-relu")
    assert (report.site, report.candidates) == ("node 'bad' of Relu in the graph", 3)


def test_a_structure_that_goes_wrong_is_found_by_the_checker() -> None:
    @dataclass(frozen=True)
    class GonePass(ir.passes.InPlacePass):
        def call(self, model: ir.Model) -> ir.passes.PassResult:
            for node in model.graph:
                if node.op_type == "Neg":
                    node.op_type = "Gone"
            return ir.passes.PassResult(model, True)

    report = bisect(parsed(RELUS), [GonePass()], "checker")
    assert (report.index, report.site) == (1, "node 'two' of Neg in the graph")


def test_a_command_decides_and_what_was_found_is_written_and_can_be_reproduced(tmp_path: Path) -> None:
    script = tmp_path / "good.py"
    script.write_text(
        "import sys, onnx\nsys.exit(any(n.name == 'c2/Abs' for n in onnx.load(sys.argv[1]).graph.node))"
    )
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    source, output = tmp_path / "in.onnx", tmp_path / "bad.onnx"
    onnx.save(onnx.parser.parse_model(calls(3)), source)
    report = bisect(source, "inline-functions", command, output=output)
    assert report.site == "node 'c2' of m::f in the graph"
    assert (report.before, report.failing) == (str(tmp_path / "bad.before.onnx"), str(output))
    assert report.command == f"onnx-inline run {report.before} --passes inline-functions"
    assert not by_command(command)(ir.load(output))
    run_file(report.before, tmp_path / "again.onnx", report.pass_)
    assert not by_command(command)(ir.load(tmp_path / "again.onnx"))
    # The smallest failing model inlines no other call, the one inside f neither.
    assert [node.op_type for node in onnx.load(output).graph.node] == ["f", "f", "g", "Abs"]


def test_a_pass_that_raises_is_found() -> None:
    report = bisect(parsed(calls(2)), "topological-sort,inline-functions{only=gone}", "checker")
    assert (report.index, report.site, report.model) == (2, "", None)
    assert "raises UnknownFunctionError" in report.reason


@pytest.mark.parametrize(
    ("predicate", "reason", "runs"),
    [
        (lambda model: True, "the model is good after the last pass", 2),
        (lambda model: False, "the model is bad before the first pass", 1),
    ],
)
def test_where_there_is_nothing_to_find_the_report_says_why(
    predicate: object, reason: str, runs: int
) -> None:
    report = bisect(parsed(calls(2)), "inline-functions", predicate)  # type: ignore[arg-type]
    assert (report.reproduced, report.reason, report.runs) == (False, reason, runs)
    assert str(report) == f"nothing found: {reason}"


def test_a_pass_that_goes_wrong_whatever_it_touches_is_found_without_a_node() -> None:
    @dataclass(frozen=True)
    class MarkPass(ir.passes.InPlacePass):
        def call(self, model: ir.Model) -> ir.passes.PassResult:
            model.doc_string = "marked"
            return ir.passes.PassResult(model, True)

    report = bisect(parsed(calls(2)), [MarkPass()], lambda model: model.doc_string != "marked")
    assert (report.index, report.site, report.candidates) == (1, "", 0)


def test_the_model_given_stays_as_it_is() -> None:
    model = parsed(calls(5))
    before = ir.to_proto(model)
    bisect(model, "inline-functions", lacks("c3/"))
    assert ir.to_proto(model) == before


def test_a_command_that_does_not_exist_is_an_error_and_no_bad_model() -> None:
    with pytest.raises(onnx_inline.OnnxInlineError, match="cannot run 'no-such-command'"):
        bisect(parsed(calls(2)), "inline-functions", "no-such-command {}")


def test_a_command_that_takes_too_long_means_a_bad_model() -> None:
    waits = by_command(f'{shlex.quote(sys.executable)} -c "import time; time.sleep(30)"', timeout=0.2)
    assert waits(parsed(calls(1))) is False


def test_frozen_calls_stay_and_keep_their_functions() -> None:
    model = parsed(calls(3))
    inline = onnx_inline.InlineFunctionsPass()
    result = run_frozen(inline, model, [0, 2])
    assert [(node.domain, node.op_type) for node in result.graph] == [
        ("m", "f"), ("", "Neg"), ("", "Abs"), ("m", "f"),
    ]  # fmt: skip
    assert sorted(function.name for function in result.functions.values()) == ["f", "g"]
    assert onnx_inline.check_structure(result, original=model)
    assert onnx_inline.verify(model, result)
    assert printed(model) == printed(parsed(calls(3)))


def test_with_all_frozen_nothing_is_inlined_and_with_none_everything_is() -> None:
    model = parsed(calls(3))
    inline = onnx_inline.InlineFunctionsPass()
    assert printed(run_frozen(inline, model, touched(inline, model))) == printed(model)
    whole = run_frozen(inline, model, [])
    assert printed(whole) == printed(onnx_inline.inline_functions(parsed(calls(3))))


@pytest.mark.parametrize("frozen", range(4))
def test_what_a_call_computes_is_the_same_whichever_calls_are_frozen(frozen: int) -> None:
    model = parsed(calls(3))
    inline = onnx_inline.InlineFunctionsPass()
    some = [index for bit, index in enumerate(touched(inline, model)) if frozen >> bit & 1]
    assert onnx_inline.verify(model, run_frozen(inline, model, some), samples=1)


def test_the_number_of_runs_grows_with_the_logarithms() -> None:
    for count in (10, 100):
        report = bisect(parsed(calls(count)), "inline-functions", lacks(f"c{count - 1}/"))
        assert report.runs <= 3 + math.ceil(math.log2(count + 2)) + 1


def test_a_node_of_a_clone_has_the_index_of_the_original() -> None:
    model = parsed(calls(4))
    names = [node.name for node in all_nodes(model)]
    assert [node.name for node in all_nodes(model.clone())] == names
