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
    from onnx_inline.bisection import BisectReport, bisect
    from onnx_inline.chaining import PassReport, RunReport, run_file, run_passes
    from onnx_inline.engine.report import InlineReport
    from onnx_inline.equivalence import EngineReport, FirstDifference, VerifyReport, verify
    from onnx_inline.errors import (
        BindingError,
        CallSiteError,
        ExternalDataError,
        FileError,
        FunctionCycleError,
        InvalidModelError,
        ModelError,
        ModelTooLargeError,
        NoBodyError,
        NotAModelError,
        OnnxInlineError,
        OpsetConflictError,
        OutputNamesError,
        PassFailedError,
        PassTextError,
        PassUnavailableError,
        SourceChangedError,
        TargetFileError,
        TensorDataError,
        UnboundInitializersError,
        UnknownFunctionError,
        UnknownNameError,
        UnknownPassError,
        UnknownTargetError,
        VerificationError,
        VersionError,
        WriteError,
    )
    from onnx_inline.files.lazy import load, save
    from onnx_inline.files.protos import load_proto, save_proto
    from onnx_inline.files.writer import WriteReport
    from onnx_inline.gradients import GradientFinding, GradientReport, check_gradients
    from onnx_inline.manager import Instrument, PassManager, Step
    from onnx_inline.passes.adapt_to_builder import AdaptToBuilderPass
    from onnx_inline.passes.bind_initializers import BindInitializersPass
    from onnx_inline.passes.borrowed import ConstantFoldingPass, ConvertOpsetPass
    from onnx_inline.passes.casts import RemoveNoopCastsPass
    from onnx_inline.passes.decompose_operators import (
        DecomposeOperatorsPass,
        DecomposeReport,
        decompose_operators,
    )
    from onnx_inline.passes.expand_frozen import ExpandFrozenPass
    from onnx_inline.passes.fold_integers import FoldIntegersPass
    from onnx_inline.passes.fold_modules import FoldModulesPass, fold_modules
    from onnx_inline.passes.inline_functions import InlineFunctionsPass
    from onnx_inline.passes.lower_versions import LowerVersionsPass
    from onnx_inline.passes.merge_functions import MergeFunctionsPass
    from onnx_inline.passes.outline_repeats import OutlineRepeatsPass
    from onnx_inline.passes.restore_output_names import RestoreOutputNamesPass
    from onnx_inline.passes.take_constant_ifs import TakeConstantIfsPass
    from onnx_inline.passes.text import format_passes, parse_passes
    from onnx_inline.passes.unique_names import UniqueNamesPass
    from onnx_inline.passes.verify import VerifyPass
    from onnx_inline.preparation import PrepareReport, prepare, prepare_file
    from onnx_inline.targets import Target, list_targets, load_target
    from onnx_inline.unbound import UnboundInitializer, unbound_initializers
    from onnx_inline.verifier import Finding, StructureReport, check_structure

#: public name -> the module that defines it
_HOME = {
    "ExpandFrozenPass": "passes.expand_frozen",
    "VersionError": "errors",
    "OutputNamesError": "errors",
    "TakeConstantIfsPass": "passes.take_constant_ifs",
    "FoldIntegersPass": "passes.fold_integers",
    "RemoveNoopCastsPass": "passes.casts",
    "LowerVersionsPass": "passes.lower_versions",
    "AdaptToBuilderPass": "passes.adapt_to_builder",
    "RestoreOutputNamesPass": "passes.restore_output_names",
    "PrepareReport": "preparation",
    "prepare_file": "preparation",
    "prepare": "preparation",
    "NoBodyError": "errors",
    "DecomposeReport": "passes.decompose_operators",
    "DecomposeOperatorsPass": "passes.decompose_operators",
    "decompose_operators": "passes.decompose_operators",
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
    "PassManager": "manager",
    "Instrument": "manager",
    "Step": "manager",
    "parse_passes": "passes.text",
    "format_passes": "passes.text",
    "run_passes": "chaining",
    "run_file": "chaining",
    "RunReport": "chaining",
    "PassReport": "chaining",
    "verify": "equivalence",
    "VerifyReport": "equivalence",
    "EngineReport": "equivalence",
    "FirstDifference": "equivalence",
    "check_structure": "verifier",
    "StructureReport": "verifier",
    "Finding": "verifier",
    "bisect": "bisection",
    "BisectReport": "bisection",
    "UniqueNamesPass": "passes.unique_names",
    "VerifyPass": "passes.verify",
    "ConstantFoldingPass": "passes.borrowed",
    "ConvertOpsetPass": "passes.borrowed",
    "UnknownPassError": "errors",
    "PassUnavailableError": "errors",
    "PassTextError": "errors",
    "PassFailedError": "errors",
    "VerificationError": "errors",
}

__all__ = [
    "AdaptToBuilderPass",
    "BindInitializersPass",
    "BindReport",
    "BindingError",
    "BisectReport",
    "CallSiteError",
    "ConstantFoldingPass",
    "ConvertOpsetPass",
    "DecomposeOperatorsPass",
    "DecomposeReport",
    "EngineReport",
    "ExpandFrozenPass",
    "ExternalDataError",
    "FileError",
    "Finding",
    "FirstDifference",
    "FoldIntegersPass",
    "FoldModulesPass",
    "FunctionCycleError",
    "GradientFinding",
    "GradientReport",
    "InlineFunctionsPass",
    "InlineReport",
    "Instrument",
    "InvalidModelError",
    "LowerVersionsPass",
    "MergeFunctionsPass",
    "Mismatch",
    "ModelError",
    "ModelTooLargeError",
    "NoBodyError",
    "NotAModelError",
    "OnnxInlineError",
    "OpsetConflictError",
    "OutlineRepeatsPass",
    "OutputNamesError",
    "PassFailedError",
    "PassManager",
    "PassReport",
    "PassTextError",
    "PassUnavailableError",
    "PrepareReport",
    "RemoveNoopCastsPass",
    "RestoreOutputNamesPass",
    "RunReport",
    "SourceChangedError",
    "Step",
    "StructureReport",
    "TakeConstantIfsPass",
    "Target",
    "TargetFileError",
    "TensorDataError",
    "UnboundInitializer",
    "UnboundInitializersError",
    "UniqueNamesPass",
    "UnknownFunctionError",
    "UnknownNameError",
    "UnknownPassError",
    "UnknownTargetError",
    "VerificationError",
    "VerifyPass",
    "VerifyReport",
    "VersionError",
    "WriteError",
    "WriteReport",
    "__version__",
    "bind_initializers",
    "bisect",
    "check_gradients",
    "check_structure",
    "decompose_operators",
    "fold_modules",
    "format_passes",
    "inline_file",
    "inline_functions",
    "list_targets",
    "load",
    "load_proto",
    "load_target",
    "parse_passes",
    "prepare",
    "prepare_file",
    "run_file",
    "run_passes",
    "save",
    "save_proto",
    "unbound_initializers",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
