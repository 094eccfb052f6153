"""The passes of onnx_inline."""
