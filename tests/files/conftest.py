from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnx_inline.files import reduction, skeleton


@pytest.fixture(params=["whole", "ranged"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read small files in both ways: parsed whole, and as large ones are, with payloads left in the file."""
    if request.param == "ranged":
        monkeypatch.setattr(skeleton, "WHOLE", 0)
        monkeypatch.setattr(reduction, "LARGE", 8)
    return str(request.param)


@pytest.fixture
def nightly(request: pytest.FixtureRequest) -> bool:
    """Whether the large counts were asked for."""
    return bool(request.config.getoption("--nightly"))


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Give a folder where a sync costs nothing, if there is one, to tests that save a thousand times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)
