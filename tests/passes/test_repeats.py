"""Repeated stretches of a sequence: those found are repeats, and the obvious ones are found."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from onnx_inline.passes.repeats import Repeat, repeats

sequences = st.lists(st.integers(0, 3), max_size=60)


def found(sequence: list[int], shortest: int = 2, cuts: list[int] | None = None) -> list[Repeat]:
    return repeats(sequence, cuts or [0] * (len(sequence) + 1), shortest)


@given(sequences, st.integers(2, 5))
def test_whatever_is_returned_occurs_at_its_places_and_does_not_overlap_itself(
    sequence: list[int], shortest: int
) -> None:
    for repeat in found(sequence, shortest):
        stretches = {tuple(sequence[start : start + repeat.length]) for start in repeat.starts}
        assert len(stretches) == 1 and len(next(iter(stretches))) == repeat.length >= shortest
        assert len(repeat.starts) >= 2
        assert all(b - a >= repeat.length for a, b in pairwise(repeat.starts))


@given(sequences, st.integers(2, 5))
def test_the_best_come_first_and_a_second_search_finds_the_same(sequence: list[int], shortest: int) -> None:
    result = found(sequence, shortest)
    assert [repeat.saved for repeat in result] == sorted((repeat.saved for repeat in result), reverse=True)
    assert found(sequence, shortest) == result


@given(st.integers(4, 12), st.integers(2, 9), st.integers(0, 7), st.integers(0, 7))
def test_a_block_repeated_back_to_back_is_found_whole(
    length: int, times: int, before: int, after: int
) -> None:
    block = list(range(100, 100 + length))
    sequence = [*range(before), *block * times, *range(50, 50 + after)]
    best = found(sequence)[0]
    assert best == Repeat(length, tuple(range(before, before + length * times, length)))


@given(st.integers(4, 12), st.lists(st.integers(1, 5), min_size=2, max_size=6))
def test_a_block_with_other_elements_between_is_found_whole(length: int, gaps: list[int]) -> None:
    sequence, starts = [], []
    for number, gap in enumerate(gaps):
        starts.append(len(sequence))
        sequence += [*range(100, 100 + length), *(1000 * (number + 1) + i for i in range(gap))]
    assert found(sequence)[0] == Repeat(length, tuple(starts))


def test_of_all_phases_of_a_period_the_one_with_the_least_cut_is_returned() -> None:
    # Whatever element the period begins with, it fits three times; only before a 2 the cut is cheap.
    sequence = [3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    cuts = [1 if number == 2 else 5 for number in [*sequence, 0]]
    assert found(sequence, 3, cuts)[0] == Repeat(3, (2, 5, 8))
    assert found(sequence, 3)[0] == Repeat(3, (0, 3, 6))


def test_nothing_repeats_in_a_short_or_a_varied_sequence() -> None:
    assert found([]) == found([1, 2, 3]) == found(list(range(1000))) == []


def test_the_time_grows_little_faster_than_the_length() -> None:
    def seconds(times: int) -> float:
        sequence = [*range(1000, 1003), *list(range(58)) * times]
        started = time.process_time()
        assert found(sequence, 8)[0].length == 58
        return time.process_time() - started

    seconds(10)
    # 20 times as long; sorting alone would take about 28 times as long.
    assert seconds(2000) < 60 * max(seconds(100), 0.01)
