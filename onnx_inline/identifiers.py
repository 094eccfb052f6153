"""Operator identifiers, and patterns over them."""

from __future__ import annotations

from typing import NamedTuple


def normalized_domain(domain: str | None) -> str:
    """Return ``domain`` with the two spellings of the standard domain made one, ``""``."""
    return "" if domain is None or domain == "ai.onnx" else domain


class OperatorId(NamedTuple):
    """What identifies an operator or a model-local function: domain (normalized), name and overload."""

    domain: str
    name: str
    overload: str = ""

    def __str__(self) -> str:
        qualified = f"{self.domain}::{self.name}" if self.domain else self.name
        return f"{qualified}:{self.overload}" if self.overload else qualified
