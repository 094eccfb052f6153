"""The files of onnx_inline."""
