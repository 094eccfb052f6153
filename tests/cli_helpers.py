"""Run the command line as a person would, in a process of its own, or faster in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import onnx

HEADER = '<ir_version: 10, opset_import: ["" : 18, "l" : 1]>'
FUNCTION = '<domain: "l", opset_import: ["" : 18, "l" : 1]>'

NESTED = f"""{HEADER}
main (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{
    a = l.outer (x, w)
    y = l.inner (a, w)
}}
{FUNCTION} outer (p, q) => (r) {{ t = l.inner (p, q)  r = Neg (t) }}
{FUNCTION} inner (p, q) => (r) {{ t = Abs (p)  r = Add (t, q) }}
"""

#: A name that would set the terminal's title, turn the text red in rich, and reverse the writing direction.
EVIL = "e\x1b]0;owned\x07[red]\u202ex"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return {**kept, "PYTHONIOENCODING": "utf-8", **changes}


def run(*arguments: object, stdin: bytes = b"", cwd: Path | None = None, **env: str) -> Outcome:
    """Run one command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "onnx_inline", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(**env),
        timeout=120,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def model(text: str = NESTED) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def saved(folder: Path, proto: onnx.ModelProto | None = None, name: str = "in.onnx") -> Path:
    path = folder / name
    path.write_bytes((proto or model()).SerializeToString())
    return path


def evil_model() -> onnx.ModelProto:
    """Return the nested model with an untrustworthy name for a function, a value and the producer."""
    proto = model()
    proto.producer_name = EVIL
    for function in proto.functions:
        if function.name == "inner":
            function.name = EVIL
        for node in function.node:
            node.op_type = EVIL if node.op_type == "inner" else node.op_type
    for node in proto.graph.node:
        node.op_type = EVIL if node.op_type == "inner" else node.op_type
    return proto
