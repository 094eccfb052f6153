from __future__ import annotations

import pytest

from tests.files.fuzz_reader import run


@pytest.mark.parametrize("seed", range(2))
def test_the_reader_accepts_what_protobuf_accepts_and_loses_nothing(seed: int) -> None:
    """A quick count; ``python tests/files/fuzz_reader.py --inputs 1000000`` does as many as one likes."""
    assert run(5_000, seed) > 1_000
