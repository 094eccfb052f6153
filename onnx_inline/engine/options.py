"""What a caller may ask of an inlining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onnx_inline.engine.selection import Patterns

DEFAULT_MAX_NODES = 10_000_000


@dataclass(frozen=True)
class Options:
    """The options of an inlining; see :func:`onnx_inline.inline_functions`."""

    only: Patterns = None
    keep: Patterns = None
    max_nodes: int = DEFAULT_MAX_NODES
    names: Literal["path", "flat"] = "path"
    provenance: bool = False

    def __post_init__(self) -> None:
        if self.names not in ("path", "flat"):
            raise ValueError(f"names must be 'path' or 'flat', not {self.names!r}")
        if self.max_nodes < 0:
            raise ValueError(f"max_nodes must not be negative, but is {self.max_nodes}")
