"""The decompositions of onnx_inline."""
