"""The target files say what the installed gradient builders say when they are asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).parent.parent / "probes" / "probe.py"


@pytest.mark.parametrize("target", ["ort-training", "onnx-ad"])
def test_a_target_file_is_what_its_probe_finds(target: str) -> None:
    # In a process of its own: building gradients for hundreds of names leaves traces.
    run = subprocess.run([sys.executable, PROBE, target, "--compare"], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr[-2000:]
