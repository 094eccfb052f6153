from __future__ import annotations

import pytest

from onnx_inline.files import reduction, skeleton


@pytest.fixture(params=["whole", "ranged"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read small files in both ways: parsed whole, and as large ones are, with payloads left in the file."""
    if request.param == "ranged":
        monkeypatch.setattr(skeleton, "WHOLE", 0)
        monkeypatch.setattr(reduction, "LARGE", 8)
    return str(request.param)
