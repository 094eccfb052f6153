"""Every net trains by one of the exporters; the rest of the matrix is ``python -m tests.training.matrix``."""

from __future__ import annotations

import pytest

from tests.training import matrix
from tests.training.nets import NETS


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str], matrix.Cell]:
    chosen = matrix.subset()
    return dict(zip(chosen, matrix.run(chosen), strict=True))


@pytest.mark.parametrize(("net", "exporter"), matrix.subset())
def test_a_net_trains(cells: dict[tuple[str, str], matrix.Cell], net: str, exporter: str) -> None:
    assert list(matrix.faults(cells[net, exporter])) == []


def test_the_matrix_has_every_net() -> None:
    assert tuple(NETS) == matrix.NETS
    assert {exporter for _, exporter in matrix.subset()} == set(matrix.EXPORTERS)


GOOD = {
    "net": "mlp",
    "exporter": "functions",
    "functions": 3,
    "parameters": 4,
    "before": "fails",
    "failure": "",
    "losses": {"MSELoss": {"error": 1e-7, "absolute": 1e-8, "losses": [2.0, 1.0]}},
    "onnx_ad": 1e-7,
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, []),
        ({"failure": "it broke"}, ["mlp by functions: it broke"]),
        ({"before": ""}, ["mlp by functions: trains without inlining, so it proves nothing"]),
        ({"onnx_ad": 1e-3}, ["mlp by functions: a gradient of onnx-ad is off by 1.0e-03"]),
        ({"onnx_ad": float("nan")}, ["mlp by functions: a gradient of onnx-ad is off by nan"]),
        ({"onnx_ad": "no rule"}, ["mlp by functions: onnx-ad says no rule"]),
        (
            {"losses": {"L1Loss": {"error": 1e-3, "absolute": 0.0, "losses": [1.0, 2.0]}}},
            [
                "mlp by functions, L1Loss: a gradient is off by 1.0e-03",
                "mlp by functions, L1Loss: the loss went from 1.0 to 2.0",
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_cell_is_found(change: matrix.Cell, fault: list[str]) -> None:
    assert list(matrix.faults({**GOOD, **change})) == fault


def test_the_page_counts_what_was_measured() -> None:
    page = matrix.page([GOOD, {**GOOD, "functions": 0, "before": ""}])  # type: ignore[list-item]
    assert "2 exports (1 nets by 1 exporters)" in page
    assert "1 of the 1 exports that have functions fail" in page
    assert "| mlp | functions | 3 | fails | 1e-07 | fails | fails | fails | 1e-07 |" in page
