"""What watches a chain of passes: time and memory, counts, changes, verification, progress."""

from __future__ import annotations

from onnx_inline.instruments.changes import Changes
from onnx_inline.instruments.counts import NodeCounts, PassCounts
from onnx_inline.instruments.progress import Progress
from onnx_inline.instruments.timing import PassTime, Timing
from onnx_inline.instruments.verification import Verification

__all__ = ["Changes", "NodeCounts", "PassCounts", "PassTime", "Progress", "Timing", "Verification"]
