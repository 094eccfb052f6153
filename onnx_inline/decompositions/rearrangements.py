"""Bodies that move elements."""

from __future__ import annotations

from onnx_inline.decompositions.call import Call, ints


def _spatial(call: Call) -> str:
    """Return the text that makes the block size and the spatial shape."""
    size = call.attribute("blocksize")
    return f"""
        shape = Shape (x)  {ints("two", [2])}  {ints("four", [4])}  spatial = Slice (shape, two, four)
        {ints("block", [size, size])}  {ints("size", [size])}  {ints("same", [0])}  {ints("rest", [-1])}
    """


def _depth_to_space(call: Call) -> str:
    columns_first = call.attribute("mode", "DCR") == "DCR"
    split = "same, size, size, rest, spatial" if columns_first else "same, rest, size, size, spatial"
    order = "[0, 3, 4, 1, 5, 2]" if columns_first else "[0, 1, 4, 2, 5, 3]"
    return f"""(x) => (y) {{
        {_spatial(call)}
        split_shape = Concat <axis = 0> ({split})  split = Reshape (x, split_shape)
        moved = Transpose <perm = {order}> (split)
        grown = Mul (spatial, block)
        y_shape = Concat <axis = 0> (same, rest, grown)  y = Reshape (moved, y_shape)
    }}"""


def _space_to_depth(call: Call) -> str:
    return f"""(x) => (y) {{
        {_spatial(call)}
        shrunk = Div (spatial, block)  {ints("first", [0])}  {ints("second", [1])}
        height = Gather (shrunk, first)  width = Gather (shrunk, second)
        split_shape = Concat <axis = 0> (same, same, height, size, width, size)
        split = Reshape (x, split_shape)
        moved = Transpose <perm = [0, 3, 5, 1, 2, 4]> (split)
        y_shape = Concat <axis = 0> (same, rest, shrunk)  y = Reshape (moved, y_shape)
    }}"""


BODIES = {"DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth}
