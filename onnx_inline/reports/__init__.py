"""The reports of onnx_inline."""
