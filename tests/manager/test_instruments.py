"""What watches a chain of passes."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass

import onnx_ir as ir
import pytest
from helpers import parsed

from onnx_inline import PassFailedError, PassManager, VerificationError
from onnx_inline.instruments import Changes, NodeCounts, Progress, Timing, Verification
from onnx_inline.manager import Instrument, Step

TEXT = """<ir_version: 10, opset_import: ["" : 18, "m" : 1]> main (float[2] x) => (float[2] y) {
    ["call"] t = m.f (x) ["end"] y = Neg (t)
} <domain: "m", opset_import: ["" : 18]> f (a) => (b) { b = Abs (a) }"""


@dataclass(frozen=True)
class SwapPass(ir.passes.InPlacePass):
    """Make another operator of one: as wrong as a pass can be that keeps the structure."""

    old: str = "Neg"
    new: str = "Exp"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in model.graph:
            if node.op_type == self.old:
                node.op_type = self.new
        return ir.passes.PassResult(model, True)


@dataclass(frozen=True)
class SleepPass(ir.passes.InPlacePass):
    """Take some time."""

    seconds: float

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        time.sleep(self.seconds)
        return ir.passes.PassResult(model, False)


def test_each_method_is_called_in_its_turn() -> None:
    heard: list[object] = []

    class Listener(Instrument):
        def start(self, model: ir.Model, count: int) -> None:
            heard.append(("start", count))

        def before(self, step: Step, model: ir.Model) -> None:
            heard.append(("before", step.index, str(step)))

        def after(self, step: Step, model: ir.Model, modified: bool) -> None:
            heard.append(("after", step.index, modified))

        def finish(self, model: ir.Model | None) -> None:
            heard.append(("finish", model is not None))

    PassManager("inline-functions,verify", instruments=[Listener()])(parsed(TEXT))
    assert heard == [
        ("start", 2),
        ("before", 1, "inline-functions"),
        ("after", 1, True),
        ("before", 2, "verify"),
        ("after", 2, False),
        ("finish", True),
    ]


def test_time_and_memory_are_taken_for_each_pass() -> None:
    timing = Timing()
    PassManager([SleepPass(0.05), SleepPass(0.0)], instruments=[timing])(parsed(TEXT))
    first, second = timing.times
    assert 0.05 <= first.seconds < 5
    assert second.seconds < 0.05
    assert str(timing).startswith("sleep: 0.0")


def test_memory_that_a_pass_keeps_shows_up() -> None:
    held = []

    @dataclass(frozen=True)
    class KeepPass(ir.passes.InPlacePass):
        def call(self, model: ir.Model) -> ir.passes.PassResult:
            held.append(bytearray(b"x" * (64 << 20)))
            return ir.passes.PassResult(model, False)

    timing = Timing()
    PassManager([KeepPass()], instruments=[timing])(parsed(TEXT))
    memory = timing.times[0].memory
    assert memory is None or memory > 32 << 20


def test_nodes_are_counted_by_operator_before_and_after_each_pass() -> None:
    counts = NodeCounts()
    PassManager("inline-functions,verify", instruments=[counts])(parsed(TEXT))
    first, second = counts.counts
    assert (first.nodes_before, first.nodes_after, first.functions_before, first.functions_after) == (
        3,
        2,
        1,
        0,
    )
    assert first.operators == {"m::f": -1}
    assert str(second) == "verify: no change"


def test_changes_are_shown_as_a_diff_and_only_where_there_are_some() -> None:
    texts: list[str] = []
    PassManager("verify,inline-functions,verify", instruments=[Changes(texts.append, context=0)])(
        parsed(TEXT)
    )
    (text,) = texts
    assert text.splitlines()[:2] == ["--- before", "+++ after inline-functions"]
    assert "-   [call] t = m.f (x)" in text
    assert '+   ["call/Abs"] t = Abs (x)' in text
    assert "Neg" not in text


def test_a_pass_that_breaks_the_structure_is_stopped_at() -> None:
    chain = PassManager([SwapPass("Neg", "Gone"), SleepPass(0)], instruments=[Verification()])
    with pytest.raises(PassFailedError, match="pass 1 of 2, swap, failed: after swap, 1 finding:") as caught:
        chain(parsed(TEXT))
    assert isinstance(caught.value.__cause__, VerificationError)
    assert [finding.rule for finding in caught.value.__cause__.findings] == ["checker"]


def test_a_pass_that_changes_results_is_stopped_at_if_numbers_are_compared() -> None:
    wrong = [SwapPass()]
    assert PassManager(wrong, instruments=[Verification()])(parsed(TEXT)).modified
    with pytest.raises(PassFailedError, match="compute different results"):
        PassManager(wrong, instruments=[Verification(numeric=True, engines=["reference"])])(parsed(TEXT))


def test_right_passes_go_through_with_numbers_compared_after_each() -> None:
    watch = Verification(numeric=True)
    PassManager("inline-functions,unique-names,remove-unused-nodes", instruments=[watch])(parsed(TEXT))
    assert [report.same for report in watch.reports] == [True, True, True]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_once_the_delay_is_over() -> None:
    screen = Terminal()
    PassManager([SleepPass(0.4)], instruments=[Progress(screen, delay=0.05)])(parsed(TEXT))
    assert "sleep" in screen.getvalue()


def test_progress_is_not_shown_for_short_chains_or_elsewhere() -> None:
    screen, pipe = Terminal(), io.StringIO()
    PassManager([SleepPass(0)], instruments=[Progress(screen), Progress(pipe, delay=0)])(parsed(TEXT))
    assert (screen.getvalue(), pipe.getvalue()) == ("", "")
