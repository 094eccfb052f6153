"""Hold a model to the rules of its structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.errors import VerificationError
from onnx_inline.verifier import ALL_RULES, TIDINESS, check_structure

_DEFAULT = tuple(rule for rule in ALL_RULES if rule not in TIDINESS)


class StructureError(VerificationError, ir.passes.PostconditionError):
    """The structure of a model is wrong."""


@dataclass(frozen=True)
class VerifyPass(ir.passes.InPlacePass):
    """Raise if the structure of the model is wrong; change nothing.

    Attributes:
        rules: the names of the rules to look at, as for :func:`onnx_inline.check_structure`; if None, all but
            ``shadowing``, ``unused-imports`` and ``node-names``, which good models of some producers break.

    Before::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { y = Abs (x) }

    After::

        <ir_version: 10, opset_import: ["" : 18]>
        main (float[2] x) => (float[2] y) { y = Abs (x) }

    Raises:
        VerificationError: with all findings; the model is as it was.
    """

    name: ClassVar[str] = "verify"

    rules: tuple[str, ...] | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Return the model as it is."""
        return ir.passes.PassResult(model, modified=False)

    def ensures(self, model: ir.Model) -> None:
        """Raise if the structure is wrong."""
        report = check_structure(model, rules=_DEFAULT if self.rules is None else self.rules)
        if not report:
            raise StructureError(str(report), findings=report.findings)
