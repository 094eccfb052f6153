"""What each pass changed, as a diff of the model's text."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnx_inline.manager import Instrument, Step
from onnx_inline.verifier.scopes_ir import light_model


@dataclass
class Changes(Instrument):
    """Writes a unified diff of the model's text after each pass that changed it; weights are left out.

    Attributes:
        write: takes the text, ``print`` for one.
        context: lines around each change.
    """

    write: Callable[[str], object] = print
    context: int = 3

    def start(self, model: ir.Model, count: int) -> None:
        """Remember the model's text."""
        self._text = model_text(model)

    def after(self, step: Step, model: ir.Model, modified: bool) -> None:
        """Write what changed, whatever the pass says."""
        before, self._text = self._text, model_text(model)
        diff = difflib.unified_diff(
            before, self._text, "before", f"after {step}", n=self.context, lineterm=""
        )
        if text := "\n".join(diff):
            self.write(text)


def model_text(model: ir.Model) -> list[str]:
    """Return the lines of a model in ONNX's syntax, large initializers as inputs."""
    return str(onnx.printer.to_text(light_model(model))).splitlines()
