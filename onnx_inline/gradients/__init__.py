"""What stands between a model and its reader, a gradient builder above all."""

from onnx_inline.gradients.check import check_gradients
from onnx_inline.gradients.report import GradientFinding, GradientReport

__all__ = ["GradientFinding", "GradientReport", "check_gradients"]
