"""These tests belong to one environment, where torch and onnxruntime-training are installed together.

There, tox's ``train``, they are always collected: something missing is an error.  Anywhere else they are left
out, unless everything that they need happens to be installed.
"""

from __future__ import annotations

import importlib.util
import os


def _complete() -> bool:
    try:
        return all(map(importlib.util.find_spec, ("torch", "onnx_ad", "onnxruntime.training.artifacts")))
    except ModuleNotFoundError:
        return False


if os.environ.get("TOX_ENV_NAME") != "train" and not _complete():
    collect_ignore_glob = ["test_*.py"]
