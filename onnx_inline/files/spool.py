"""Standard input as a file: what cannot be read twice is put where it can."""

from __future__ import annotations

import tempfile

from onnx_inline.files import system


def spooled(stream: int) -> int:
    """Copy a stream into a file without a name and return its descriptor."""
    with tempfile.TemporaryFile() as file:
        while data := system.read_some(stream):
            system.write_all(file.fileno(), [data])
        return system.duplicate(file.fileno())
