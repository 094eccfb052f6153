"""Let ONNX Runtime's ORTModule (1.19, the last release for CPU) run on a current PyTorch.

ORTModule was written for older versions of torch.  What it misses is private, and has moved or changed:

- modules and functions of the TorchScript exporter are at new places: they get their old names as well;
- ``torch.cuda.nvtx`` fails without CUDA: its ranges become no-ops;
- of its two C++ extensions only ``aten_op_executor`` compiles; it is built into torch's extension cache at
  first use (about half a minute, once; needs a C++ compiler and ninja).  ``torch_interop_utils`` is replaced
  by one that refuses: a ``torch.autograd.Function`` of one's own cannot be exported.

Each is done only where it is needed, so an environment where ORTModule works stays as it is.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_EXTENSIONS = "onnxruntime.training.ortmodule.torch_cpp_extensions"
_EXPORTER = "torch.onnx._internal.torchscript_exporter"

#: old module name -> where it is now
_MOVED_MODULES = {
    "torch.onnx._internal.jit_utils": f"{_EXPORTER}.jit_utils",
    "torch.onnx._internal.registration": f"{_EXPORTER}.registration",
    "torch.onnx._internal.onnx_proto_utils": f"{_EXPORTER}.onnx_proto_utils",
    "torch.onnx._globals": f"{_EXPORTER}._globals",
    "torch.onnx._type_utils": f"{_EXPORTER}._type_utils",
}
#: functions that torch's forwarding modules leave out
_MOVED_FUNCTIONS = {"torch.onnx.symbolic_opset9": ("_convolution", "_convolution_mode")}


@contextlib.contextmanager
def ortmodule_on_current_torch() -> Iterator[None]:
    """Give ORTModule what it misses, while the context lasts; afterwards everything is as it was.

    Raises:
        ImportError: onnxruntime-training or torch is not installed.
        RuntimeError: the C++ extension cannot be compiled; the message is the compiler's.

    Example::

        with ortmodule_on_current_torch():
            from onnxruntime.training.ortmodule import ORTModule
    """
    with contextlib.ExitStack() as changes:
        for old, new in _MOVED_MODULES.items():
            _alias_module(changes, old, new)
        for module, names in _MOVED_FUNCTIONS.items():
            _alias_functions(changes, module, names)
        _silence_nvtx(changes)
        _provide_extensions(changes)
        yield


def _alias_module(changes: contextlib.ExitStack, old: str, new: str) -> None:
    if importlib.util.find_spec(old) is None and importlib.util.find_spec(new) is not None:
        _put_module(changes, old, importlib.import_module(new))


def _alias_functions(changes: contextlib.ExitStack, module: str, names: tuple[str, ...]) -> None:
    holder = importlib.import_module(module)
    source = f"{_EXPORTER}.{module.rpartition('.')[2]}"
    for name in names:
        if not hasattr(holder, name):
            put(changes, holder, name, getattr(importlib.import_module(source), name))


def _put_module(changes: contextlib.ExitStack, name: str, module: types.ModuleType) -> None:
    """Make ``module`` importable as ``name``."""
    parent, _, leaf = name.rpartition(".")
    put(changes, importlib.import_module(parent), leaf, module)
    sys.modules[name] = module
    changes.callback(sys.modules.pop, name, None)


def put(changes: contextlib.ExitStack, holder: Any, name: str, value: Any) -> None:
    """Set an attribute until ``changes`` is closed, then put back exactly what was there, or nothing."""
    if name in vars(holder):
        changes.callback(setattr, holder, name, vars(holder)[name])
    else:
        changes.callback(delattr, holder, name)
    setattr(holder, name, value)


def _silence_nvtx(changes: contextlib.ExitStack) -> None:
    import torch

    if not torch.cuda.is_available():
        put(changes, torch.cuda.nvtx, "range_push", lambda message: 0)
        put(changes, torch.cuda.nvtx, "range_pop", lambda: 0)


def _provide_extensions(changes: contextlib.ExitStack) -> None:
    """Build the extension that compiles, replace the other, and tell ORTModule that they are there."""
    import onnxruntime

    folder = Path(onnxruntime.__file__).parent / "training" / "ortmodule" / "torch_cpp_extensions"
    if any(folder.glob("*.so")) or any(folder.glob("*.dylib")) or any(folder.glob("*.dll")):
        return
    source = folder / "cpu" / "aten_op_executor" / "aten_op_executor.cc"
    ortmodule = importlib.import_module("onnxruntime.training.ortmodule")
    put(changes, ortmodule, "_FALLBACK_INIT_EXCEPTION", None)
    _put_module(changes, f"{_EXTENSIONS}.aten_op_executor", _compiled(source))
    _put_module(changes, f"{_EXTENSIONS}.torch_interop_utils", _interop_that_refuses())
    _import_without_custom_autograd()


def _import_without_custom_autograd() -> None:
    """Import the module that turns support for custom autograd functions on by importing it, without that."""
    from onnxruntime.capi import _pybind_state

    with contextlib.ExitStack() as changes:
        put(changes, _pybind_state, "is_torch_interop_default_on", lambda: False)
        importlib.import_module("onnxruntime.training.ortmodule._custom_autograd_function")


def _compiled(source: Path) -> types.ModuleType:
    from torch.utils import cpp_extension

    module: types.ModuleType = cpp_extension.load(source.stem, [str(source)], verbose=False)
    return module


def _interop_that_refuses() -> types.ModuleType:
    module = types.ModuleType("torch_interop_utils")
    vars(module).update(clear_all_grad_fns=_nothing, __getattr__=_refuse)
    return module


def _nothing() -> None:
    """Clear no gradient functions: there are none."""


def _refuse(name: str) -> Callable[..., Any]:
    raise AttributeError(
        f"{name}: ONNX Runtime's torch_interop_utils does not compile with this torch, so that "
        "ORTModule cannot run a custom torch.autograd.Function; use torch's own operators"
    )
