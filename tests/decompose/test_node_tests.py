"""ONNX's own node tests still give the expected outputs when their operators are decomposed."""

from __future__ import annotations

import warnings

import pytest
from onnx.backend.test.case.test_case import TestCase

with warnings.catch_warnings():
    # Making the cases casts out of range and divides by zero, on purpose.
    warnings.simplefilter("ignore")
    from node_tests import outcome, own_cases, schema_cases

    CASES = [*schema_cases(), *own_cases()]

from onnx_inline.identifiers import OperatorId


@pytest.mark.slow
@pytest.mark.parametrize(("case", "op"), CASES, ids=[case.name for case, _ in CASES])
def test_the_outputs_are_those_that_onnx_expects(case: TestCase, op: OperatorId) -> None:
    result = outcome(case, op)
    if result.counts:
        assert result.passed, result.verdict


@pytest.mark.slow
def test_there_are_as_many_of_them_as_onnx_had_in_2026() -> None:
    assert len(CASES) > 450
