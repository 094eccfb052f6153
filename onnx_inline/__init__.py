"""ONNX graph passes centred on function inlining.

Everything public is imported on first use, so that ``import onnx_inline`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onnx_inline._version import __version__

if TYPE_CHECKING:
    from onnx_inline.api import inline_file, inline_functions
    from onnx_inline.binding import BindReport, Mismatch, bind_initializers
    from onnx_inline.engine.report import InlineReport
    from onnx_inline.errors import (
        BindingError,
        CallSiteError,
        ExternalDataError,
        FileError,
        FunctionCycleError,
        InvalidModelError,
        ModelError,
        ModelTooLargeError,
        NotAModelError,
        OnnxInlineError,
        OpsetConflictError,
        SourceChangedError,
        TargetFileError,
        TensorDataError,
        UnboundInitializersError,
        UnknownFunctionError,
        UnknownNameError,
        UnknownTargetError,
        WriteError,
    )
    from onnx_inline.files.lazy import load, save
    from onnx_inline.files.protos import load_proto, save_proto
    from onnx_inline.files.writer import WriteReport
    from onnx_inline.gradients import GradientFinding, GradientReport, check_gradients
    from onnx_inline.passes.bind_initializers import BindInitializersPass
    from onnx_inline.passes.fold_modules import FoldModulesPass, fold_modules
    from onnx_inline.passes.inline_functions import InlineFunctionsPass
    from onnx_inline.passes.merge_functions import MergeFunctionsPass
    from onnx_inline.passes.outline_repeats import OutlineRepeatsPass
    from onnx_inline.targets import Target, list_targets, load_target
    from onnx_inline.unbound import UnboundInitializer, unbound_initializers

#: public name -> the module that defines it
_HOME = {
    "UnknownTargetError": "errors",
    "TargetFileError": "errors",
    "list_targets": "targets",
    "load_target": "targets",
    "Target": "targets",
    "GradientFinding": "gradients",
    "GradientReport": "gradients",
    "check_gradients": "gradients",
    "InlineFunctionsPass": "passes.inline_functions",
    "inline_functions": "api",
    "inline_file": "api",
    "InlineReport": "engine.report",
    "CallSiteError": "errors",
    "FunctionCycleError": "errors",
    "InvalidModelError": "errors",
    "ModelTooLargeError": "errors",
    "OpsetConflictError": "errors",
    "UnknownFunctionError": "errors",
    "OnnxInlineError": "errors",
    "ModelError": "errors",
    "FileError": "errors",
    "UnknownNameError": "errors",
    "NotAModelError": "errors",
    "TensorDataError": "errors",
    "ExternalDataError": "errors",
    "SourceChangedError": "errors",
    "WriteError": "errors",
    "WriteReport": "files.writer",
    "load_proto": "files.protos",
    "save_proto": "files.protos",
    "load": "files.lazy",
    "save": "files.lazy",
    "BindingError": "errors",
    "UnboundInitializersError": "errors",
    "BindReport": "binding",
    "Mismatch": "binding",
    "bind_initializers": "binding",
    "UnboundInitializer": "unbound",
    "unbound_initializers": "unbound",
    "FoldModulesPass": "passes.fold_modules",
    "fold_modules": "passes.fold_modules",
    "MergeFunctionsPass": "passes.merge_functions",
    "OutlineRepeatsPass": "passes.outline_repeats",
    "BindInitializersPass": "passes.bind_initializers",
}

__all__ = [
    "BindInitializersPass",
    "BindReport",
    "BindingError",
    "CallSiteError",
    "ExternalDataError",
    "FileError",
    "FoldModulesPass",
    "FunctionCycleError",
    "GradientFinding",
    "GradientReport",
    "InlineFunctionsPass",
    "InlineReport",
    "InvalidModelError",
    "MergeFunctionsPass",
    "Mismatch",
    "ModelError",
    "ModelTooLargeError",
    "NotAModelError",
    "OnnxInlineError",
    "OpsetConflictError",
    "OutlineRepeatsPass",
    "SourceChangedError",
    "Target",
    "TargetFileError",
    "TensorDataError",
    "UnboundInitializer",
    "UnboundInitializersError",
    "UnknownFunctionError",
    "UnknownNameError",
    "UnknownTargetError",
    "WriteError",
    "WriteReport",
    "__version__",
    "bind_initializers",
    "check_gradients",
    "fold_modules",
    "inline_file",
    "inline_functions",
    "list_targets",
    "load",
    "load_proto",
    "load_target",
    "save",
    "save_proto",
    "unbound_initializers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
