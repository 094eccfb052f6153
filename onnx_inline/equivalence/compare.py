"""Two results, compared element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tolerance:
    """Two numbers are the same if they differ by at most ``atol + rtol * abs(expected)``; NaN equals NaN."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Difference:
    """How two results differ.

    Attributes:
        same: whether they count as the same.
        largest_absolute: the largest absolute difference of two numbers.
        largest_relative: the largest difference relative to the expected number.
        reason: in words, empty if they are the same.
    """

    same: bool = True
    largest_absolute: float = 0.0
    largest_relative: float = 0.0
    reason: str = ""

    def joined(self, other: Difference) -> Difference:
        """Return what is true of both together."""
        return Difference(
            self.same and other.same,
            max(self.largest_absolute, other.largest_absolute),
            max(self.largest_relative, other.largest_relative),
            self.reason or other.reason,
        )


def compare(expected: Any, found: Any, tolerance: Tolerance) -> Difference:
    """Compare two results: arrays, lists of results, or None for an absent optional."""
    if isinstance(expected, list) or isinstance(found, list):
        return _compare_lists(expected, found, tolerance)
    if expected is None or found is None:
        return Difference() if expected is found else _other(f"{_kind(expected)} became {_kind(found)}")
    return _compare_arrays(np.asarray(expected), np.asarray(found), tolerance)


def _other(reason: str) -> Difference:
    return Difference(False, float("inf"), float("inf"), reason)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{np.asarray(value).dtype} of shape {np.asarray(value).shape}"


def _compare_lists(expected: Any, found: Any, tolerance: Tolerance) -> Difference:
    if not (isinstance(expected, list) and isinstance(found, list)) or len(expected) != len(found):
        return _other("a sequence has another length")
    whole = Difference()
    for first, second in zip(expected, found, strict=True):
        whole = whole.joined(compare(first, second, tolerance))
    return whole


def _compare_arrays(expected: Array, found: Array, tolerance: Tolerance) -> Difference:
    if expected.shape != found.shape or _family(expected) != _family(found):
        return _other(f"{_kind(expected)} became {_kind(found)}")
    if expected.dtype.kind in "OSUb":
        wrong = int(np.count_nonzero(expected.astype(object) != found.astype(object)))
        return Difference() if not wrong else _other(f"{wrong} of {expected.size} elements differ")
    return _compare_numbers(expected, found, tolerance)


def _family(array: Array) -> str:
    """Return the type; engines give text as different ones."""
    return "text" if array.dtype.kind in "OSU" else str(array.dtype)


def _compare_numbers(expected: Array, found: Array, tolerance: Tolerance) -> Difference:
    if expected.size == 0:
        return Difference()
    exact = expected.dtype.kind in "iu"
    wide = np.complex128 if expected.dtype.kind == "c" else object if exact else np.float64
    old, new = expected.astype(wide), found.astype(wide)
    with np.errstate(all="ignore"):
        gap = np.abs(old - new)
        if exact:
            return _exact(old, gap)
        equal = (old == new) | (np.isnan(old) & np.isnan(new))
        gap = np.where(equal, 0.0, np.where(np.isnan(gap), np.inf, gap))
        relative = np.where(equal, 0.0, gap / np.maximum(np.abs(old), np.finfo(np.float64).tiny))
        allowed = tolerance.atol + tolerance.rtol * np.abs(old)
        wrong = int(np.count_nonzero(~equal & ~(gap <= np.where(np.isfinite(allowed), allowed, 0.0))))
    reason = f"{wrong} of {expected.size} elements differ" if wrong else ""
    return Difference(not wrong, float(gap.max()), float(relative.max()), reason)


def _exact(old: Array, gap: Array) -> Difference:
    wrong = int(np.count_nonzero(gap))
    if not wrong:
        return Difference()
    relative = gap / np.maximum(np.abs(old), 1)
    reason = f"{wrong} of {old.size} elements differ"
    return Difference(False, float(gap.max()), float(relative.max()), reason)
