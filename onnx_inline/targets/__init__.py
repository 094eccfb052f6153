"""What readers of models take: tables as data, and their loader."""

from onnx_inline.targets.loader import list_targets, load_target, target_from_table, target_table
from onnx_inline.targets.target import GradientRules, OpsetRange, Target

__all__ = [
    "GradientRules",
    "OpsetRange",
    "Target",
    "list_targets",
    "load_target",
    "target_from_table",
    "target_table",
]
