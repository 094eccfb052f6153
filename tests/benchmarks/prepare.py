"""What ``prepare`` costs beside exporting, for transformers of several depths.

    python -m tests.benchmarks.prepare            # in the training environment
    python -m tests.benchmarks.prepare --write    # and docs/reference/prepare-cost.md

Each export runs in a process of its own; ``prepare`` is the best of three runs there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "prepare-cost.md"
EXPORTERS = ("functions", "dynamo", "onnxscript")
DEPTHS = (2, 6, 12)
RUNS = 3

TEMPLATE = """# What preparing costs

Written by `python -m tests.benchmarks.prepare --write`; every number is measured, on {cores} cores.

A transformer of blocks of width 256 (attention, GELU, two LayerNorms) is exported by torch and prepared for
ONNX Runtime training. "share" is what preparing takes of the time of the export.

| blocks | exporter | file, MB | nodes exported | nodes prepared | export, s | prepare, s | share |
|---|---|---|---|---|---|---|---|
{rows}
"""


def measure(exporter: str, depth: int) -> dict[str, Any]:
    """Export once, prepare RUNS times."""
    import torch
    from torch import nn

    from onnx_inline.preparation import prepare
    from tests.training.cells import quiet
    from tests.training.exporters import export
    from tests.training.nets import Net, PreNormBlock

    def build() -> nn.Module:
        return nn.Sequential(*(PreNormBlock(256, 4) for _ in range(depth)))

    net = Net(build, lambda: torch.randn(2, 32, 256))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, quiet():
        model, seconds = timed(
            lambda: export(exporter, Path(folder, "m.onnx"), net.build(), net.inputs(), net)
        )
        runs = [timed(lambda: prepare(model, "ort-training", with_report=True)) for _ in range(RUNS)]
        size = Path(folder, "m.onnx").stat().st_size
    return {
        "depth": depth,
        "exporter": exporter,
        "file": size / 1e6,
        "exported": len(model.graph.node) + sum(len(function.node) for function in model.functions),
        "prepared": len(runs[0][0][0].graph.node),
        "export": seconds,
        "prepare": min(taken for _, taken in runs),
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def in_a_process(exporter: str, depth: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.prepare", "one", exporter, str(depth)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def row(result: dict[str, Any]) -> str:
    return (
        f"| {result['depth']} | {result['exporter']} | {result['file']:.1f} | {result['exported']} "
        f"| {result['prepared']} | {result['export']:.2f} | {result['prepare']:.3f} "
        f"| {result['prepare'] / result['export']:.1%} |"
    )


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["one"]:
        print(json.dumps(measure(arguments[1], int(arguments[2]))))
        return
    results = [in_a_process(exporter, depth) for depth in DEPTHS for exporter in EXPORTERS]
    page = TEMPLATE.format(cores=os.cpu_count(), rows="\n".join(map(row, results)))
    print(page)
    if "--write" in arguments:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
