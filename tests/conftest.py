"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import onnx
import pytest

#: Whether this onnx reads node names in its text form, as it does from 1.18.
NAMES_IN_TEXT = not onnx.__version__.startswith("1.17.")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "how many random models each property test tries"
    parser.addoption("--examples", type=int, default=200, help=help_text)
    parser.addoption("--nightly", action="store_true", help="the large counts of tests/files: a night's work")


def pytest_configure(config: pytest.Config) -> None:
    """Let property tests try as many examples as ``--examples`` says, however long each takes."""
    hypothesis.settings.register_profile(
        "onnx_inline",
        max_examples=config.getoption("--examples"),
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("onnx_inline")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test that writes its model with node names where onnx cannot read them."""
    try:
        return (yield)
    except onnx.parser.ParseError as error:
        if NAMES_IN_TEXT:
            raise
        pytest.skip(f"the text form of onnx {onnx.__version__} has no node names: {error}")


#: What is run with all dependencies and versions of Python would take too long with these, which start many
#: processes or try very many cases, and hardly depend on either.
SLOW = (
    # onnxruntime before 1.24, the last for Python 3.10, hardly ends on 25 branches nested in one another.
    "engine/test_corpus.py",
    # It also pools otherwise before opset 19 than since, where it should not.
    "engine/test_opsets.py",
    "properties/",
    "files/test_faults.py",
    "files/test_kill.py",
    "files/test_machine.py",
    "files/test_power.py",
    "test_readme.py",
    "test_cli_bind.py",
    "test_cli_comparing.py",
    "test_cli_looking.py",
    "test_cli_preparing.py",
    "test_cli_run.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what :data:`SLOW` lists."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix().startswith(SLOW):
            item.add_marker("slow")
