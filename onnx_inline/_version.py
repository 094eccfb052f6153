"""The version of onnx_inline."""

__version__ = "0.1.0"
