"""Repeated stretches of a sequence, found in time near to linear in its length.

Knows nothing of models: elements are numbers, equal where what they stand for is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

#: Only so many lengths are looked at in one go; what is left is found when the first finds are folded.
_LENGTHS = 8
#: Only so many stretches of one length are looked at, those with most places first.
_STRETCHES = 64


@dataclass(frozen=True)
class Repeat:
    """A stretch of ``length`` elements that occurs at each of ``starts``, which do not overlap."""

    length: int
    starts: tuple[int, ...]

    @property
    def saved(self) -> int:
        """How many elements fewer there are if each place becomes one and the stretch is kept once."""
        return (len(self.starts) - 1) * (self.length - 1) - 1


def repeats(elements: Sequence[int], cuts: Sequence[int], shortest: int) -> list[Repeat]:
    """Return stretches that occur at least twice, those that save most first.

    Of a stretch that is repeated back to back the shortest period is returned, beginning where most whole
    periods fit and then where the cut is least.

    Args:
        elements: the sequence.
        cuts: for each boundary, from before the first element to after the last, what it costs to cut there.
        shortest: the least length of a stretch.
    """
    sequence, costs = np.asarray(elements, np.int64), np.asarray(cuts, np.int64)
    if len(sequence) < 2 * shortest:
        return []
    ranks = _ranks(sequence)
    lengths = _promising_lengths(ranks, shortest)
    found = {repeat: None for length in lengths for repeat in _of_length(ranks, length, costs)}
    return sorted(found, key=lambda repeat: (-repeat.saved, repeat.starts[0], -repeat.length))


def _ranks(sequence: Numbers) -> list[Numbers]:
    """Return for each power of two the number of the window of that length that begins at each place.

    Equal windows have equal numbers, so that windows of any length can be compared by two overlapping ones.
    The last level is the last that has equal windows.
    """
    levels = [np.unique(sequence, return_inverse=True)[1].astype(np.int64)]
    while 2 ** len(levels) <= len(sequence) and _has_equal(levels[-1]):
        before = levels[-1]
        half = 2 ** (len(levels) - 1)
        pairs = before[:-half] * (before.max() + 1) + before[half:]
        levels.append(np.unique(pairs, return_inverse=True)[1].astype(np.int64))
    return levels if len(levels) == 1 or _has_equal(levels[-1]) else levels[:-1]


def _has_equal(numbers: Numbers) -> bool:
    return int(numbers.max()) + 1 < len(numbers)


def _windows(ranks: list[Numbers], length: int) -> Numbers:
    """Return for each place a number that is equal where the windows of ``length`` are."""
    level = min(length.bit_length(), len(ranks)) - 1
    numbers, size = ranks[level], 2**level
    if length >= 2 * size:  # no two windows so long are equal
        return np.arange(max(0, len(ranks[0]) - length + 1))
    shift = length - size
    first = numbers[: len(numbers) - shift]
    return first * (int(numbers.max()) + 1) + numbers[shift:]


def _promising_lengths(ranks: list[Numbers], shortest: int) -> list[int]:
    """Return the lengths of stretches that promise to save most.

    Each window that occurs again is compared with its next occurrence: as far as the two go on alike is one
    candidate length, and where they overlap, their distance.  A stretch of some length that occurs c times
    on its own is met c - 1 times; one that is repeated back to back, as many times at each of its elements.
    """
    promise = np.zeros(len(ranks[0]) + 1, np.int64)
    for level in range(len(ranks)):
        first, second = _next_occurrences(ranks, level)
        alike, distance = _extent(ranks, level, first, second), second - first
        apart = distance >= alike
        np.add.at(promise, alike[apart], alike[apart])
        np.add.at(promise, distance[~apart], 1)
    promise[:shortest] = 0
    order = np.argsort(-promise, kind="stable")[:_LENGTHS]
    return [int(length) for length in order if promise[length] > 0]


def _next_occurrences(ranks: list[Numbers], level: int) -> tuple[Numbers, Numbers]:
    """Return the pairs of consecutive places with equal windows, but not those also equal a level up."""
    numbers = ranks[level]
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    equal = numbers[order[1:]] == numbers[order[:-1]]
    first, second = order[:-1][equal], order[1:][equal]
    if level + 1 < len(ranks):
        above = ranks[level + 1]
        inside = second < len(above)
        equal_above = np.zeros(len(first), bool)
        equal_above[inside] = above[first[inside]] == above[second[inside]]
        first, second = first[~equal_above], second[~equal_above]
    return first, second


def _extent(ranks: list[Numbers], level: int, first: Numbers, second: Numbers) -> Numbers:
    """Return how far the sequence goes on alike from each pair of places that are equal at ``level``."""
    extent = np.full(len(first), 2**level, np.int64)
    for lower in range(level - 1, -1, -1):
        numbers = ranks[lower]
        at_first, at_second = first + extent, second + extent
        inside = np.flatnonzero(at_second < len(numbers))
        more = inside[numbers[at_first[inside]] == numbers[at_second[inside]]]
        extent[more] += 2**lower
    return extent


def _of_length(ranks: list[Numbers], length: int, costs: Numbers) -> Iterator[Repeat]:
    """Yield the best repeat of one length, and those that do not overlap it or each other."""
    windows = _windows(ranks, length)
    order = np.argsort(windows, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(windows[order])) + 1)
    groups = sorted((g for g in groups if len(g) > 1), key=lambda g: (-len(g), g[0]))[: _phases(length)]
    candidates = [Repeat(length, _apart(group, length)) for group in groups]
    several = [repeat for repeat in candidates if len(repeat.starts) > 1]
    taken = np.zeros(len(costs), bool)
    for repeat in sorted(several, key=lambda repeat: _rank(repeat, costs)):
        places = np.asarray(repeat.starts)
        if not (taken[places].any() or taken[places + length - 1].any()):
            for start in repeat.starts:
                taken[start : start + length] = True
            yield repeat


def _phases(length: int) -> int:
    """Return how many stretches to compare: all phases of a period, and some more."""
    return length + _STRETCHES


def _apart(places: Numbers, length: int) -> tuple[int, ...]:
    """Return the places from the left that do not overlap."""
    if len(places) < 2 or np.diff(places).min() >= length:
        return tuple(places.tolist())
    kept, free = [], 0
    for place in places.tolist():
        if place >= free:
            kept.append(place)
            free = place + length
    return tuple(kept)


def _rank(repeat: Repeat, costs: Numbers) -> tuple[int, int, int]:
    first = repeat.starts[0]
    return -len(repeat.starts), int(costs[first] + costs[first + repeat.length]), first
