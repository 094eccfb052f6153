"""ORTModule trains what torch exports as functions, and is itself again afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("functions", ["all", "classes"])
@pytest.mark.parametrize("net", ["one linear", "transformer", "cnn"])
def test_the_script_of_the_report_trains(net: str, functions: str) -> None:
    done = python("-m", "tests.training.report_a", net, functions, "enabled")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["output"] < 1e-5
    assert result["gradient"] < 1e-6
    assert result["losses"][-1] < result["losses"][0]


def test_without_compatibility_the_error_says_what_to_do() -> None:
    done = python("-c", "from onnx_inline.integrations import ortmodule; ortmodule.enable()")
    assert "ImportError" in done.stderr
    assert "enable(compatibility=True)" in done.stderr


def test_without_inlining_it_fails_as_reported() -> None:
    done = python("-m", "tests.training.report_a", "one linear", "all")
    assert done.returncode != 0
    assert "The gradient builder has not been registered: _FlattenedModule" in done.stderr


SWITCHES = """
    import sys
    import torch
    import torch.onnx
    from onnx_inline.integrations import ortmodule

    with ortmodule.enable(compatibility=True):  # ORTModule cannot even be imported without
        import onnxruntime.training.ortmodule
    from onnxruntime.training.ortmodule._graph_execution_manager import GraphExecutionManager
    from onnxruntime.training.ortmodule._graph_transition_manager import GraphTransitionManager
    from onnxruntime.training import ortmodule as theirs
    from torch.onnx import symbolic_opset9

    def state():
        names = ("_get_exported_model", "_export_extra_kwargs")
        holders = (GraphTransitionManager, GraphExecutionManager)
        return (
            [vars(holder).get(name) for holder in holders for name in names],
            theirs._FALLBACK_INIT_EXCEPTION,
            torch.cuda.nvtx.range_push,
            hasattr(symbolic_opset9, "_convolution"),
            "torch.onnx._internal.jit_utils" in sys.modules,
            "torch.onnx._globals" in sys.modules,
            [name for name in sys.modules if name.endswith(("aten_op_executor", "torch_interop_utils"))],
        )

    before = state()
    outer = ortmodule.enable(compatibility=True)
    during = state()
    assert during[0] != before[0]
    ortmodule.enable()
    assert state() == during, "a second call changes nothing"
    with ortmodule.enable(compatibility=True):
        pass
    assert state() == during, "an inner context leaves what it found"
    ortmodule.disable()
    assert state() == before, "everything is back"
    ortmodule.disable()
    assert state() == before
    try:
        with ortmodule.enable():
            assert state() != before
            raise KeyError
    except KeyError:
        pass
    assert state() == before, "also after an exception"
"""


def test_enabling_twice_is_enabling_once_and_disabling_undoes_it() -> None:
    done = python("-c", textwrap.dedent(SWITCHES))
    assert done.returncode == 0, done.stderr[-2000:]


CUSTOM = """
    import torch
    from onnx_inline.integrations import ortmodule
    with ortmodule.enable(compatibility=True):
        from onnxruntime.training.ortmodule.torch_cpp_extensions import torch_interop_utils
        torch_interop_utils.clear_all_grad_fns()
        torch_interop_utils.get_custom_function_forward_runner()
"""


def test_what_does_not_compile_with_this_torch_is_refused_in_words() -> None:
    done = python("-c", textwrap.dedent(CUSTOM))
    assert done.returncode != 0
    assert "ORTModule cannot run a custom torch.autograd.Function" in done.stderr


CACHED = """
    import os, sys
    os.environ["ORTMODULE_CACHE_DIR"] = sys.argv[1]
    import torch
    from onnx_inline.integrations import ortmodule
    from tests.training.report_a import train
    with ortmodule.enable(compatibility=True):
        print(train("mlp", {"export_modules_as_functions": True}))
"""


def test_a_model_from_the_cache_is_inlined_too(tmp_path: Path) -> None:
    for _ in range(2):
        done = python("-c", textwrap.dedent(CACHED), str(tmp_path))
        assert done.returncode == 0, done.stderr[-2000:]
    assert "Cached model detected" in done.stderr + done.stdout
    assert len(list(tmp_path.glob("*.onnx"))) == 1
