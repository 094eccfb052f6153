"""What outlining costs, by structure and by provenance, for transformers of 16 to 1,600 blocks.

    python -m tests.benchmarks.outline            # about a minute
    python -m tests.benchmarks.outline --write    # and docs/reference/outline-cost.md

Times are the processor time of this process, the best of three runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_inline import OutlineRepeatsPass, inline_functions
from tests.benchmarks.workload import transformer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "outline-cost.md"
BLOCKS = (16, 160, 1600)
RUNS = 3

TEMPLATE = """# What outlining costs

Written by `python -m tests.benchmarks.outline --write`; all measured: processor time, best of three.

A transformer is inlined with provenance, and outlined again: by structure into one function, that of a block,
and by provenance into the functions that there were, which are nested three deep.

| blocks | nodes | by structure | a node | by provenance | a node |
|---|---|---|---|---|---|
{rows}
"""


def seconds(blocks: int, by: str) -> tuple[float, int]:
    """Return the best time of outlining, and the number of nodes before; check that each block is a call."""
    times = []
    for _ in range(RUNS):
        model = inline_functions(ir.from_proto(transformer(blocks)), provenance=True)
        nodes = len(model.graph)
        started = time.process_time()
        OutlineRepeatsPass(by)(model)  # type: ignore[arg-type]
        times.append(time.process_time() - started)
        assert len(model.graph) == blocks, "each block must be a call"
    return min(times), nodes


def row(blocks: int) -> str:
    """Return a line of the table."""
    cells = []
    for by in ("structure", "provenance"):
        taken, nodes = seconds(blocks, by)
        cells += [f"{taken:.3f} s", f"{taken / nodes * 1e6:.0f} µs"]
    return f"| {blocks:,} | {nodes:,} | {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> None:
    """Measure, print, and write if asked for."""
    page = TEMPLATE.format(rows="\n".join(map(row, BLOCKS)))
    print(page)
    if "--write" in arguments:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
