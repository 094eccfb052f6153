"""The integrations of onnx_inline."""
