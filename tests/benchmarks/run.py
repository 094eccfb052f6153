"""Measure onnx-inline beside its peers, each pair in one run, and write the table.

    python tests/benchmarks/run.py [--quick] [--table docs/reference/benchmarks.md] [--folder DIR]

Every figure is the best of several runs; whole processes are started anew each time.  ``--quick`` takes a
smaller model in place of the 1.2 GB one.  The exit code is 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
from workload import NODES_PER_BLOCK

#: a copy that is on the disk when it returns, as ours is; the first one is removed, not overwritten
COPY_AND_SYNC = "rm -f copy.onnx; cp large.onnx copy.onnx && sync copy.onnx"
COMMAND = [sys.executable, "-m", "onnx_inline"]


@dataclass(frozen=True)
class Row:
    """A line of the table: what was measured, the peer, the bound, and whether it holds."""

    what: str
    ours: str
    peer: str
    bound: str
    holds: bool


def best(run: Callable[[], Any], times: int = 3) -> float:
    """Return the shortest of several times, in seconds."""
    found = []
    for _ in range(times):
        gc.collect()
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def process(command: list[str], folder: Path, times: int = 3) -> tuple[float, float]:
    """Return the shortest time in seconds, and the largest peak memory in MB, of a whole process."""
    seconds, peak = [], 0.0
    for _ in range(times):
        started = time.perf_counter()
        child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds.append(time.perf_counter() - started)
        if status:
            raise SystemExit(f"{' '.join(command)} failed")
        peak = max(peak, usage.ru_maxrss / 1024)
    return min(seconds), peak


def make(folder: Path, name: str, blocks: int, width: int = 8) -> Path:
    """Save the workload from a process of its own: a child's peak memory counts from its parent's."""
    script = str(Path(__file__).parent / "workload.py")
    subprocess.run([sys.executable, script, str(blocks), str(width), str(folder / name)], check=True)
    return folder / name


def inline_command(source: str, target: str) -> list[str]:
    return [*COMMAND, "inline", source, target, "--force", "-q"]


# ------------------------------------------------------------------------------------- rows


def large_file(folder: Path, blocks: int, width: int) -> list[Row]:
    make(folder, "large.onnx", blocks, width)
    size = (folder / "large.onnx").stat().st_size / 1e9
    copies, durable, ours, peak = [], [], [], 0.0
    for _ in range(5):  # by turns, so that both meet the same disk
        copies.append(process(["cp", "large.onnx", "copy.onnx"], folder, 1)[0])
        durable.append(process(["sh", "-c", COPY_AND_SYNC], folder, 1)[0])
        seconds, memory = process(inline_command("large.onnx", "flat.onnx"), folder, 1)
        ours.append(seconds)
        peak = max(peak, memory)
    (folder / "copy.onnx").unlink()
    (folder / "flat.onnx").unlink()
    ratio = min(ours) / min(copies)
    return [
        Row(
            f"command line, {size:.2f} GB of weights inside",
            f"{min(ours):.2f} s, {peak:.0f} MB",
            f"`cp` {min(copies):.2f} s, `cp` and `sync` {min(durable):.2f} s",
            "<= 1.5 x `cp`, <= 250 MB",
            ratio <= 1.5 and peak <= 250,
        )
    ]


def external_file(folder: Path) -> list[Row]:
    script = (
        "import onnx\n"
        "model = onnx.load('large.onnx')\n"
        "onnx.save(model, 'outside.onnx', save_as_external_data=True, location='outside.data')\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)
    before = (folder / "outside.data").stat()
    seconds, peak = process(inline_command("outside.onnx", "outside_flat.onnx"), folder)
    after = (folder / "outside.data").stat()
    untouched = (before.st_mtime_ns, before.st_ino, before.st_atime_ns) == (
        after.st_mtime_ns, after.st_ino, after.st_atime_ns,
    )  # fmt: skip
    return [
        Row(
            "the same, weights in an external file",
            f"{seconds:.2f} s, {peak:.0f} MB",
            "data file neither read nor written" if untouched else "data file touched",
            "<= 1 s",
            seconds <= 1 and untouched,
        )
    ]


def file_to_file(folder: Path) -> list[Row]:
    import onnx_inline

    source, target = folder / "m1600.onnx", folder / "flat.onnx"
    make(folder, "m1600.onnx", 1600)

    def peer() -> None:
        onnx.save(onnx.inliner.inline_local_functions(onnx.load(source)), folder / "peer.onnx")

    ours, theirs = best(lambda: onnx_inline.inline_file(source, target), 5), best(peer, 5)
    nodes = 1600 * NODES_PER_BLOCK
    return [
        Row(
            f"file to file in one process, {nodes:,} nodes",
            f"{ours:.3f} s",
            f"onnx.load, onnx.inliner, onnx.save {theirs:.3f} s: {theirs / ours:.1f} x",
            ">= 5 x",
            theirs >= 5 * ours,
        )
    ]


def proto_to_proto(folder: Path) -> list[Row]:
    import onnx_inline

    model = onnx.load(folder / "m1600.onnx")
    ours = best(lambda: onnx_inline.inline_functions(model), 5)
    theirs = best(lambda: onnx.inliner.inline_local_functions(model), 5)
    return [
        Row(
            "the same, ModelProto to ModelProto",
            f"{ours:.3f} s",
            f"onnx.inliner {theirs:.3f} s: {theirs / ours:.1f} x",
            ">= 3 x",
            theirs >= 3 * ours,
        )
    ]


def ir_in_place(folder: Path) -> list[Row]:
    import onnx_ir as ir
    from onnx_ir.passes.common import InlinePass

    import onnx_inline

    make(folder, "m160.onnx", 160)

    def timed(path: str, run: Callable[[ir.Model], object]) -> tuple[float, ir.Model]:
        model = ir.load(folder / path)
        return best(lambda: run(model), 1), model

    def ours_on(path: str) -> tuple[float, ir.Model]:
        found = [timed(path, onnx_inline.inline_functions) for _ in range(5)]
        return min(seconds for seconds, _ in found), found[0][1]

    ours, flat = ours_on("m160.onnx")
    ten_times, _ = ours_on("m1600.onnx")
    theirs = min(timed("m160.onnx", InlinePass())[0] for _ in range(2))
    bare = min(bare_creation(flat) for _ in range(5))
    faster, ratio, growth = theirs / ours, ours / bare, ten_times / ours
    figure = f"{ours:.3f} s"
    return [
        Row(
            "onnx_ir.Model in place, 9,280 nodes",
            figure,
            f"onnx_ir InlinePass {theirs:.2f} s: {faster:.0f} x",
            ">= 20 x",
            faster >= 20,
        ),
        Row(
            "the same, beside creating the nodes",
            figure,
            f"ir.Node(...) alone {bare:.3f} s: {ratio:.2f} x",
            "<= 2 x",
            ratio <= 2,
        ),
        Row("ten times the work", f"{ten_times:.3f} s", f"{growth:.1f} x", "<= 12 x", growth <= 12),
    ]


def bare_creation(flat: Any) -> float:
    """Return the seconds that it takes to create a graph's nodes once more, and nothing else."""
    import onnx_ir as ir

    recipes = [
        (n.domain, n.op_type, n.inputs, tuple(n.attributes.values()), [v.name for v in n.outputs], n.name)
        for n in flat.graph
    ]

    def create() -> None:
        for domain, op_type, inputs, attributes, names, name in recipes:
            outputs = [ir.Value(name=n) for n in names]
            ir.Node(domain, op_type, inputs, attributes, outputs=outputs, name=name)

    return best(create, 1)


def many_blocks(folder: Path) -> list[Row]:
    make(folder, "m16000.onnx", 16_000)
    script = (
        "import sys, time, onnx_inline\n"
        "started = time.perf_counter()\n"
        "onnx_inline.inline_file(sys.argv[1], sys.argv[2])\n"
        "print(time.perf_counter() - started)\n"
    )

    def inside(source: str) -> tuple[float, float]:
        found = []
        for _ in range(3):
            command = [sys.executable, "-c", script, source, "flat.onnx"]
            child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
            assert child.stdout is not None
            seconds = float(child.stdout.read())
            _, _, usage = os.wait4(child.pid, 0)
            found.append((seconds, usage.ru_maxrss / 1024))
        return min(seconds for seconds, _ in found), max(memory for _, memory in found)

    small, _ = inside("m1600.onnx")
    large, peak = inside("m16000.onnx")
    ratio = large / small / 10
    (folder / "m16000.onnx").unlink()
    return [
        Row(
            f"file to file, {16_000 * NODES_PER_BLOCK:,} nodes",
            f"{large:.2f} s, {peak:.0f} MB",
            f"{ratio:.2f} x the time a node of 92,800 nodes",
            "<= 1.3 x, <= 1.5 GB",
            ratio <= 1.3 and peak <= 1500,
        )
    ]


def without_functions(folder: Path) -> list[Row]:
    process(inline_command("large.onnx", "plain.onnx"), folder, 1)
    copies, ours = [], []
    for _ in range(5):
        copies.append(process(["cp", "plain.onnx", "copy.onnx"], folder, 1)[0])
        ours.append(process(inline_command("plain.onnx", "same.onnx"), folder, 1)[0])
    same = subprocess.run(["cmp", "plain.onnx", "same.onnx"], cwd=folder, check=False).returncode == 0
    ratio = min(ours) / min(copies)
    return [
        Row(
            f"command line, no functions, {(folder / 'plain.onnx').stat().st_size / 1e9:.2f} GB",
            f"{min(ours):.2f} s",
            f"`cp` {min(copies):.2f} s: {ratio:.2f} x; {'same bytes' if same else 'other bytes'}",
            "<= 1.2 x, same bytes",
            ratio <= 1.2 and same,
        )
    ]


def start_up(folder: Path) -> list[Row]:
    make(folder, "small.onnx", 1)
    bare, _ = process([sys.executable, "-c", "import onnx"], folder, 7)
    usage, _ = process([*COMMAND, "--help"], folder, 7)
    small, _ = process(inline_command("small.onnx", "flat.onnx"), folder, 7)
    peer = f'`python -c "import onnx"` {bare:.2f} s'
    return [
        Row("`onnx-inline --help`", f"{usage:.2f} s", peer, "<= 0.25 s", usage <= 0.25),
        Row("command line, a small file", f"{small:.2f} s", peer, "<= 0.6 s", small <= 0.6),
    ]


# ------------------------------------------------------------------------------------ table


def table(rows: list[Row]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Measured by `python tests/benchmarks/run.py`, each line and its peer in one run, best of several.",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, "
        + ", ".join(f"{name} {version(name)}" for name in ("onnx", "onnx_ir", "onnxscript"))
        + ".  The workload is a transformer whose modules are functions, 58 nodes a block once flat.",
        "",
        "| what | onnx-inline | peer | bound | |",
        "|---|---|---|---|---|",
        *(
            f"| {r.what} | {r.ours} | {r.peer} | {r.bound} | {'holds' if r.holds else '**missed**'} |"
            for r in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def in_a_process(step: Callable[[], list[Row]]) -> list[Row]:
    """Run a step in a fresh process, so that none has the memory of another."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        rows = pool.submit(step).result()
    for row in rows:
        verdict = "ok    " if row.holds else "MISSED"
        print(f"{verdict} {row.what}: {row.ours} | {row.peer} | {row.bound}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    size = (24, 256) if arguments.quick else (24, 1024)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        steps: list[Callable[[], list[Row]]] = [
            partial(large_file, folder, *size),
            partial(external_file, folder),
            partial(file_to_file, folder),
            partial(proto_to_proto, folder),
            partial(ir_in_place, folder),
            partial(many_blocks, folder),
            partial(without_functions, folder),
            partial(start_up, folder),
        ]
        rows = [row for step in steps for row in in_a_process(step)]
    if arguments.table:
        arguments.table.write_text(table(rows), encoding="utf-8")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
