"""Weights are in memory about once while artifacts are generated, wherever they were."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MEBIBYTES = 128


@pytest.mark.parametrize("form", ["external", "single", "object"])
def test_the_peak_is_under_two_and_a_half_times_the_weights(tmp_path: Path, form: str) -> None:
    command = [sys.executable, "-m", "tests.training.large", str(MEBIBYTES), form, "MSELoss", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    own = MEBIBYTES if form == "object" else 0
    assert result["peak"] - result["before"] + own < 2.5 * MEBIBYTES
    assert result["loss"] is None or result["loss"] > 0
    assert {path.name for path in (tmp_path / "artifacts").iterdir()} == {
        "checkpoint",
        "eval_model.onnx",
        "optimizer_model.onnx",
        "training_model.onnx",
    }
