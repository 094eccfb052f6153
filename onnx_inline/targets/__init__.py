"""The targets of onnx_inline."""
