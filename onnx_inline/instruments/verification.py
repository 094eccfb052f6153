"""Verification after each pass: the structure always, the numbers if asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_inline.equivalence import VerifyReport, verify
from onnx_inline.errors import VerificationError
from onnx_inline.manager import Instrument, Step
from onnx_inline.verifier import StructureReport, check_structure


@dataclass
class Verification(Instrument):
    """Holds the model after each pass to the rules of its structure, and compares it with the original.

    A rule that the original broke already is not held against a pass.

    Attributes:
        numeric: compare what the model computes with what the original computes.
        rules: the rules to look at, as for :func:`onnx_inline.check_structure`; all if None.
        engines: as for :func:`onnx_inline.verify`.
        rtol: likewise.
        atol: likewise.
        seed: likewise.
        reports: what each comparison of numbers found, in order.

    Raises:
        VerificationError: from ``after``, which stops the chain.
    """

    numeric: bool = False
    rules: Sequence[str] | None = None
    engines: Sequence[str] = ("onnxruntime", "reference")
    rtol: float = 1e-4
    atol: float = 1e-5
    seed: int = 0
    reports: list[VerifyReport] = field(default_factory=list)

    def start(self, model: ir.Model, count: int) -> None:
        """Look at the original."""
        self.reports.clear()
        self._baseline: StructureReport = check_structure(model, rules=self.rules)
        self._original = model.clone() if self.numeric else None

    def after(self, step: Step, model: ir.Model, modified: bool) -> None:
        """Look at what the pass made, whatever it says that it did."""
        structure = check_structure(model, original=self._baseline, rules=self.rules)
        if not structure:
            message = f"after {step}, {structure}; the pass has a fault"
            raise VerificationError(message, findings=structure.findings)
        if self._original is not None:
            self._compare(step, self._original, model)

    def finish(self, model: ir.Model | None) -> None:
        """Let go of the original."""
        self._original = None

    def _compare(self, step: Step, original: ir.Model, model: ir.Model) -> None:
        report = verify(original, model, rtol=self.rtol, atol=self.atol, seed=self.seed, engines=self.engines)
        self.reports.append(report)
        if report.compared and not report.same:
            raise VerificationError(f"after {step}, {report}; the pass has a fault", report=report)
