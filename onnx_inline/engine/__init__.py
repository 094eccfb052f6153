"""The engine of onnx_inline."""
