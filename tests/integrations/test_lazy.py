"""Importing an integration imports no framework."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["ort_training", "ortmodule", "torch_compat"])
def test_a_framework_is_imported_when_it_is_used(module: str) -> None:
    code = (
        f"import sys, onnx_inline.integrations.{module}; "
        "print(sorted({'torch', 'onnxruntime', 'onnx_ir'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
