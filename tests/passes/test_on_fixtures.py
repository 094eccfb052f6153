"""Passes on every fixture: the structure stays right, and the results the same."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import onnx_inline
from onnx_inline import PassManager, check_structure, verify
from onnx_inline.instruments import Verification

FOLDER = Path(__file__).parents[2] / "fixtures"
#: onnx 1.17 cannot read names of nodes in text
UNREADABLE = {"handmade/taken_names.onnxtxt"} if onnx.__version__.startswith("1.17.") else set()
FIXTURES = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.glob("*/*.onnx*")
    if path.suffix in (".onnx", ".onnxtxt")
    and path.parent.name != "bad"
    and path.relative_to(FOLDER).as_posix() not in UNREADABLE
)
#: no rule of structure can know whether an operator of somebody else's differs between versions
BAD = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.glob("bad/*.onnxtxt")
    if path.stem != "other_domain_differs"
)

CHAINS = (
    "unique-names{style=path,alphabet=identifier}",
    "inline-functions,unique-names{style=short}",
    "shape-inference,inline-functions,topological-sort,unique-names",
)


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_chain_keeps_structure_and_results(fixture: str, chain: str) -> None:
    path = FOLDER / fixture
    model = onnx_inline.load(path)
    result = PassManager(chain, instruments=[Verification()])(model)
    report = verify(path, result.model, samples=1)
    # Some engines cannot run some of these as they are; none may find a difference.
    assert report.same or not report.compared, str(report)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_inlining_leaves_a_fixture_without_any_fault_of_structure(fixture: str) -> None:
    model = onnx_inline.load_proto(FOLDER / fixture)
    report = check_structure(onnx_inline.inline_functions(model), original=model)
    assert report, str(report)
    assert report.tolerated in ((), ("shadowing",))


@pytest.mark.parametrize("fixture", BAD)
def test_the_verifier_finds_something_in_what_inlining_refuses(fixture: str) -> None:
    model = onnx_inline.load_proto(FOLDER / fixture)
    assert not check_structure(model)
