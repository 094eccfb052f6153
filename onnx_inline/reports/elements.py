"""How many bits an element of each ONNX tensor type takes."""

from __future__ import annotations

#: element type (``onnx.TensorProto.DataType``) -> bits; strings have no fixed size.
BITS = (
    dict.fromkeys((2, 3, 9, 17, 18, 19, 20, 24), 8)
    | dict.fromkeys((4, 5, 10, 16), 16)
    | dict.fromkeys((1, 6, 12), 32)
    | dict.fromkeys((7, 11, 13, 14), 64)
    | {15: 128}
    | dict.fromkeys((21, 22, 23), 4)
    | dict.fromkeys((25, 26), 2)
    | dict.fromkeys((27, 28), 6)
)
