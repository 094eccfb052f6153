"""Damaged models: one of our own errors or a model, and never anything else, nor a changed input."""

from __future__ import annotations

import logging
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnx_inline
from tests.properties.models import models
from tests.properties.mutations import damaged

OPTIONS = st.fixed_dictionaries(
    {"names": st.sampled_from(["path", "flat"]), "provenance": st.booleans(), "max_nodes": st.just(20_000)},
    optional={"keep": st.sampled_from(["*f*", "l::*"]), "only": st.just("*")},
)


def serialized(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    """Leave out what onnx_ir logs about each damaged model."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@given(model=models(), seed=st.integers(0, 2**32), options=OPTIONS)
def test_a_damaged_proto_is_refused_or_comes_out_as_a_model(
    model: onnx.ModelProto, seed: int, options: dict[str, Any]
) -> None:
    broken = damaged(model, seed)
    untouched = serialized(broken)
    try:
        flat = onnx_inline.inline_functions(broken, **options)
    except onnx_inline.OnnxInlineError as error:
        assert str(error)
    else:
        assert isinstance(onnx.ModelProto.FromString(serialized(flat)), onnx.ModelProto)
    assert serialized(broken) == untouched


@given(model=models(), seed=st.integers(0, 2**32), options=OPTIONS)
def test_a_damaged_ir_model_is_refused_and_left_as_it_was(
    model: onnx.ModelProto, seed: int, options: dict[str, Any]
) -> None:
    try:
        held = ir.from_proto(damaged(model, seed))
        before = serialized(ir.to_proto(held))
    except Exception:  # what onnx_ir cannot hold it refuses itself, in many ways
        return
    try:
        onnx_inline.inline_functions(held, **options)
    except onnx_inline.OnnxInlineError as error:
        assert str(error)
        assert serialized(ir.to_proto(held)) == before
