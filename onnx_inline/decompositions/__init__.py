"""Bodies for operators whose schema has none, written with operators that can be differentiated."""

from onnx_inline.decompositions.bodies import has_body, operators, own_body
from onnx_inline.decompositions.call import Call

__all__ = ["Call", "has_body", "operators", "own_body"]
