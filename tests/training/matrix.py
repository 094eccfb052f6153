"""Measure the training matrix: every net by every exporter with every loss; write the page with the results.

    python -m tests.training.matrix                     # all of it, about ten minutes on two cores
    python -m tests.training.matrix --write             # and docs/reference/training-matrix.md
    python -m tests.training.matrix mlp:functions vit:dynamo

The exit code is 1 if a cell is not as it should be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "training-matrix.md"
EXPORTERS = ("functions", "class set", "dynamo", "onnxscript")
NETS = (
    *("one linear", "mlp", "embedding", "activations", "buffer", "tied weights", "two instances", "nested 4"),
    *("dropout", "dropout, random", "cnn", "cnn, batch norm", "recurrent"),
    *("transformer", "gpt-2", "bert", "vit"),
)
RTOL = 1e-4
Cell = dict[str, Any]

TEMPLATE = """# Training matrix

Written by `python -m tests.training.matrix --write`; every number is measured.

{cells} exports ({nets} nets by {exporters} exporters), each trained with four losses (mean squared error, L1,
binary cross-entropy with logits, cross-entropy) by ONNX Runtime training 1.19.2.

- Without onnx_inline, {failing} of the {with_functions} exports that have functions fail.
- With it, {trained} of {cells} exports train, and {falls} of {losses} losses fall over 20 steps.
- The gradients of the first step were compared with torch's for every parameter, {compared} times. The
  largest difference is {relative:.1e} relative, {absolute:.1e} absolute.
- onnx-ad, a second and independent builder, gave the gradients of {second} exports; the largest relative
  difference is {second_error:.1e}.

A difference is relative to the largest entry of that parameter's gradient, or to a hundredth of the largest
gradient of the net where that is more. A net with random dropout has no gradient to compare. "functions" is
`export_modules_as_functions=True`, "class set" the same with a set of classes, "dynamo" the current exporter
(it writes no functions), "onnxscript" the current exporter with onnxscript functions for some operators.
"before" says what ONNX Runtime does without onnx_inline.

| net | exporter | functions | before | MSE | L1 | BCE | cross-entropy | onnx-ad |
|---|---|---|---|---|---|---|---|---|
{rows}
"""

#: What cannot be, and why: (net, exporter, what) -> reason. Everything else must work.
_TRAINING_MODE = "refuses training mode"
LIMITS: dict[tuple[str, str, str], str] = {
    ("cnn, batch norm", "functions", "onnx-ad"): _TRAINING_MODE,
    ("cnn, batch norm", "class set", "onnx-ad"): _TRAINING_MODE,
    ("dropout", "functions", "onnx-ad"): _TRAINING_MODE,
    ("dropout", "class set", "onnx-ad"): _TRAINING_MODE,
}


def all_cells() -> list[tuple[str, str]]:
    return [(net, exporter) for net in NETS for exporter in EXPORTERS]


def subset() -> list[tuple[str, str]]:
    """Return every net once, the exporters in turn: quick, and the same on every run."""
    return [(net, EXPORTERS[place % len(EXPORTERS)]) for place, net in enumerate(NETS)]


def run(cells: Iterable[tuple[str, str]]) -> list[Cell]:
    """Measure each cell in a process of its own, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda cell: _run_one(*cell), cells))


def _run_one(net: str, exporter: str) -> Cell:
    command = [sys.executable, "-m", "tests.training.cells", net, exporter]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        return {"net": net, "exporter": exporter, "functions": 0, "failure": done.stderr[-400:], "losses": {}}
    cell: Cell = json.loads(done.stdout)
    return cell


def faults(cell: Cell) -> Iterator[str]:
    """Say what is not as it should be."""
    name = f"{cell['net']} by {cell['exporter']}"
    if cell["failure"]:
        yield f"{name}: {cell['failure']}"
        return
    if cell["functions"] and not cell["before"]:
        yield f"{name}: trains without inlining, so it proves nothing"
    for loss, result in cell["losses"].items():
        if result["error"] is not None and not result["error"] <= RTOL:
            yield f"{name}, {loss}: a gradient is off by {result['error']:.1e}"
        first, last = result["losses"]
        if not last < first:
            yield f"{name}, {loss}: the loss went from {first} to {last}"
    if not isinstance(cell["onnx_ad"], float):
        if (cell["net"], cell["exporter"], "onnx-ad") not in LIMITS and cell["onnx_ad"] != "random":
            yield f"{name}: onnx-ad says {cell['onnx_ad']}"
    elif not cell["onnx_ad"] <= RTOL:
        yield f"{name}: a gradient of onnx-ad is off by {cell['onnx_ad']:.1e}"


def page(cells: Sequence[Cell]) -> str:
    """Return the page with the measured table."""
    return TEMPLATE.format(
        cells=len(cells),
        nets=len({cell["net"] for cell in cells}),
        exporters=len({cell["exporter"] for cell in cells}),
        rows="\n".join(map(_row, cells)),
        **_totals(cells),
    )


def _totals(cells: Sequence[Cell]) -> dict[str, Any]:
    trained = [cell for cell in cells if not cell["failure"]]
    results = [result for cell in trained for result in cell["losses"].values()]
    compared = [result for result in results if result["error"] is not None]
    with_functions = [cell for cell in cells if cell["functions"]]
    second = [cell["onnx_ad"] for cell in trained if isinstance(cell["onnx_ad"], float)]
    return {
        "with_functions": len(with_functions),
        "failing": sum(bool(cell["before"]) for cell in with_functions),
        "trained": len(trained),
        "losses": len(results),
        "falls": sum(result["losses"][1] < result["losses"][0] for result in results),
        "compared": len(compared),
        "relative": max(result["error"] for result in compared),
        "absolute": max(result["absolute"] for result in compared),
        "second": len(second),
        "second_error": max(second),
    }


def _row(cell: Cell) -> str:
    losses = cell["losses"]
    names = ("MSELoss", "L1Loss", "BCEWithLogitsLoss", "CrossEntropyLoss")
    shown = [_shown(losses[name]) if name in losses else "fails" for name in names]
    before = "fails" if cell.get("before") else "trains"
    columns = [cell["net"], cell["exporter"], str(cell["functions"]), before, *shown, _second(cell)]
    return f"| {' | '.join(columns)} |"


def _shown(result: dict[str, Any]) -> str:
    if result["error"] is None:
        return "falls" if result["losses"][1] < result["losses"][0] else "does not fall"
    return f"{result['error']:.0e}"


def _second(cell: Cell) -> str:
    value = cell.get("onnx_ad", "")
    if isinstance(value, float):
        return f"{value:.0e}"
    return LIMITS.get((cell["net"], cell["exporter"], "onnx-ad"), value)


def main(arguments: Sequence[str]) -> int:
    """Measure, say what is wrong, write the page if asked to."""
    named = [tuple(one.split(":")) for one in arguments if ":" in one]
    cells = run(named or all_cells())  # type: ignore[arg-type]
    for fault in (fault for cell in cells for fault in faults(cell)):
        print(fault)
    if "--write" in arguments:
        PAGE.write_text(page(cells), encoding="utf-8")
    print(f"{len(cells)} cells, {sum(any(True for _ in faults(cell)) for cell in cells)} with faults")
    return int(any(fault for cell in cells for fault in faults(cell)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
