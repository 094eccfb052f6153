"""The call graph as a drawing, by Graphviz."""

from __future__ import annotations

import shutil
import subprocess

from onnx_inline.errors import FileError
from onnx_inline.reports.hierarchy import MAIN, Hierarchy
from onnx_inline.reports.text import escaped_name


def dot_text(hierarchy: Hierarchy) -> str:
    """Return the call graph in Graphviz's language: a box a function, an arrow a caller with its calls."""
    numbers = {name: number for number, name in enumerate(hierarchy.functions)}
    lines = ["digraph calls {", "  rankdir=LR; node [shape=box, fontname=sans];"]
    for name, facts in hierarchy.functions.items():
        title = "main graph" if name == MAIN else escaped_name(str(name))
        flat = "recursive" if facts.flat_nodes is None else f"{facts.flat_nodes:,} flat"
        label = f"{_quoted(title)}\\n{facts.nodes:,} nodes, {flat}"
        lines.append(f'  f{numbers[name]} [label="{label}"];')
    for name, facts in hierarchy.functions.items():
        for callee, times in facts.callees.items():
            lines.append(f'  f{numbers[name]} -> f{numbers[callee]} [label="{times:,}"];')
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def svg_text(dot: str) -> str:
    """Return a graph in Graphviz's language as SVG, drawn by the program ``dot``.

    Raises:
        FileError: the program is not there, or fails.
    """
    program = shutil.which("dot")
    if program is None:
        raise FileError("an SVG needs Graphviz's program dot", hint="install Graphviz, or write --dot")
    done = subprocess.run([program, "-Tsvg"], input=dot.encode("utf-8"), capture_output=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[:300]
        raise FileError(f"dot failed: {reason}", hint="write --dot, and run it yourself")
    return done.stdout.decode("utf-8")
