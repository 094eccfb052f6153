"""What the manager costs: nothing watched, each instrument, a clone; medians of CPU time over 41 runs."""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnx_inline import PassManager, parse_passes
from onnx_inline.instruments import Changes, NodeCounts, Timing, Verification

CHAIN = "inline-functions,remove-unused-nodes,identity-elimination,topological-sort"
RUNS = 41


def model(calls: int) -> onnx.ModelProto:
    """Return a model that calls a function of ten nodes again and again."""
    body = "\n".join(f'["c{k}"] v{k + 1} = m.f (v{k})' for k in range(calls))
    ops = "\n".join(f"t{k + 1} = {'Neg' if k % 2 else 'Abs'} (t{k})" for k in range(10))
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18, "m" : 1]>
        main (float[2] v0) => (float[2] v{calls}) {{ {body} }}
        <domain: "m", opset_import: ["" : 18]> f (t0) => (t10) {{ {ops} }}""")


def one_after_the_other(passes: tuple[ir.passes.PassBase, ...]) -> Callable[[ir.Model], object]:
    def run(loaded: ir.Model) -> None:
        for pass_ in passes:
            pass_(loaded)

    return run


def measure(ways: dict[str, Callable[[ir.Model], object]], proto: onnx.ModelProto) -> dict[str, float]:
    """Return the median seconds of each way, their runs interleaved so that the machine's moods even out."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RUNS):
        for name, run in random.sample(list(ways.items()), len(ways)):
            loaded = ir.from_proto(proto)
            gc.collect()
            # Time of the process, not on the wall: other work on the machine does not count.
            started = time.process_time()
            run(loaded)
            times[name].append(time.process_time() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


@dataclass(frozen=True)
class NothingPass(ir.passes.InPlacePass):
    """Do nothing, to see what is left."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, False)


def main(calls: int) -> None:
    passes = parse_passes(CHAIN)
    ways: dict[str, Callable[[ir.Model], object]] = {
        "the passes alone": one_after_the_other(passes),
        "manager": PassManager(passes),
        "manager, atomic": PassManager(passes, atomic=True),
        "manager, dump_on_failure": PassManager(passes, dump_on_failure="unused.onnx"),
        "Timing": PassManager(passes, instruments=[Timing()]),
        "NodeCounts": PassManager(passes, instruments=[NodeCounts()]),
        "Verification": PassManager(passes, instruments=[Verification()]),
        "Changes": PassManager(passes, instruments=[Changes(lambda text: None)]),
    }
    medians = measure(ways, model(calls))
    base = medians["the passes alone"]
    print(f"{calls} calls of 10 nodes, {CHAIN}")
    for name, seconds in medians.items():
        print(f"{name:28}{seconds * 1000:9.2f} ms {100 * (seconds / base - 1):+8.1f} %")


def each_pass(count: int) -> None:
    """Print what the manager costs a pass."""
    passes = (NothingPass(),) * count
    ways = {"alone": one_after_the_other(passes), "manager": PassManager(passes)}
    medians = measure(ways, model(1))
    print(f"a pass of the manager costs {1e6 * (medians['manager'] - medians['alone']) / count:.2f} us")


if __name__ == "__main__":
    each_pass(10_000)
    for argument in sys.argv[1:] or ["100", "1000"]:
        main(int(argument))
