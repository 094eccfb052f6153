"""Random models: inlining keeps what they compute, their interface, and every rule of the specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import onnx_inline
from tests.properties.models import feeds, models
from tests.properties.oracle import Interpreter

#: its warnings are about initializers that nothing reads, which the models do have
onnxruntime.set_default_logger_severity(3)


def serialized(model: onnx.ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def graphs(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield attribute.g
                yield from graphs(attribute.g.node)


def all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [n for graph in (model.graph, *graphs(model.graph.node)) for n in graph.node]


def calls(model: onnx.ModelProto) -> set[tuple[str, str, str]]:
    bodies = [n for f in model.functions for g in graphs(f.node) for n in g.node]
    bodies += [n for f in model.functions for n in f.node]
    return {(n.domain, n.op_type, n.overload) for n in (*all_nodes(model), *bodies)}


def in_ir(model: onnx.ModelProto, **options: Any) -> tuple[onnx.ModelProto, onnx_inline.InlineReport]:
    held, report = onnx_inline.inline_functions(ir.from_proto(model), with_report=True, **options)
    return ir.to_proto(held), report


def essence(nodes: Sequence[onnx.NodeProto]) -> list[Any]:
    """Return all of nodes but what onnx_ir writes in another way: types inside of subgraphs."""
    return [
        (
            *(n.domain, n.op_type, n.overload, n.name, given_names(n.input), given_names(n.output)),
            sorted((e.key, e.value) for e in n.metadata_props),
            [essence_of_attribute(a) for a in n.attribute],
        )
        for n in nodes
    ]


def given_names(names: Sequence[str]) -> list[str]:
    """Return names up to the last that is given; onnx_ir writes no others."""
    return list(names)[: max((n + 1 for n, name in enumerate(names) if name), default=0)]


def essence_of_attribute(attribute: onnx.AttributeProto) -> Any:
    if not attribute.HasField("g"):
        return attribute.SerializeToString(deterministic=True)
    graph = attribute.g
    names = [[v.name for v in values] for values in (graph.input, graph.output, graph.initializer)]
    return attribute.name, names, essence(graph.node)


def assert_names_are_unique(nodes: Sequence[onnx.NodeProto], seen: set[str]) -> None:
    """Check that no scope gives a name again that it or one around it has given before."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                graph = attribute.g
                inner = [*(v.name for v in graph.input), *(t.name for t in graph.initializer)]
                assert not seen.intersection(inner), (seen, inner)
                assert_names_are_unique(graph.node, seen | set(inner))
        made = [name for name in node.output if name]
        assert not seen.intersection(made) and len(set(made)) == len(made), made
        seen.update(made)


def assert_right(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Check interface, results and rules."""
    if not after.functions or accepted(before):
        onnx.checker.check_model(after, full_check=True)
    for field in ("input", "output", "initializer"):
        assert getattr(before.graph, field) == getattr(after.graph, field)
    given = [*(v.name for v in after.graph.input), *(t.name for t in after.graph.initializer)]
    assert_names_are_unique(after.graph.node, set(given))
    for function in after.functions:
        assert_names_are_unique(function.node, set(function.input))
    expected = Interpreter(before).run(feeds(before))
    assert_close(Interpreter(after).run(feeds(before)), expected)


def accepted(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def assert_close(got: Sequence[Any], expected: Sequence[Any]) -> None:
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@given(model=models(), names=st.sampled_from(["path", "flat"]), provenance=st.booleans())
def test_a_flat_model_computes_the_same(model: onnx.ModelProto, names: Any, provenance: bool) -> None:
    untouched = serialized(model)
    flat, report = onnx_inline.inline_functions(model, names=names, provenance=provenance, with_report=True)
    assert serialized(model) == untouched
    assert not flat.functions
    assert report.modified == bool(model.functions) == (serialized(flat) != untouched)
    assert report.nodes_after == len(all_nodes(flat))
    assert {e.domain for e in flat.opset_import} == {n.domain for n in all_nodes(flat)} or not model.functions
    assert_right(model, flat)
    expected = Interpreter(model).run(feeds(model))
    session = onnxruntime.InferenceSession(serialized(flat), providers=["CPUExecutionProvider"])
    assert_close(session.run(None, feeds(model)), expected)
    assert_close(ReferenceEvaluator(flat).run(None, feeds(model)), expected)


@given(model=models(), names=st.sampled_from(["path", "flat"]), provenance=st.booleans())
def test_both_forms_come_out_alike(model: onnx.ModelProto, names: Any, provenance: bool) -> None:
    options = {"names": names, "provenance": provenance}
    flat, report = onnx_inline.inline_functions(model, with_report=True, **options)
    other, same = in_ir(model, **options)
    assert essence(other.graph.node) == essence(flat.graph.node)
    assert other.opset_import == flat.opset_import
    assert {**same.to_dict(), "seconds": 0} == {**report.to_dict(), "seconds": 0}


@given(model=models())
def test_a_second_run_changes_nothing(model: onnx.ModelProto) -> None:
    flat = onnx_inline.inline_functions(model)
    again, report = onnx_inline.inline_functions(flat, with_report=True)
    assert again == flat and not report.modified
    assert serialized(onnx_inline.inline_functions(model)) == serialized(flat)


@given(model=models(), data=st.data())
def test_functions_that_are_kept_still_work(model: onnx.ModelProto, data: st.DataObject) -> None:
    identifiers = [(f.domain, f.name, f.overload) for f in model.functions]
    keep = data.draw(st.lists(st.sampled_from(identifiers), unique=True)) if identifiers else []
    try:
        part = onnx_inline.inline_functions(model, keep=keep)
    except onnx_inline.ModelError as error:
        assert "may be absent" in str(error)  # a default lost in a kept function
        return
    assert {(f.domain, f.name, f.overload) for f in part.functions} == set(keep)
    assert not (set(identifiers) - set(keep)) & calls(part)
    assert_right(model, part)
    other, _ = in_ir(model, keep=keep)
    assert essence(other.graph.node) == essence(part.graph.node)
    bodies = {(f.domain, f.name, f.overload): essence(f.node) for f in part.functions}
    assert {(f.domain, f.name, f.overload): essence(f.node) for f in other.functions} == bodies
    assert onnx_inline.inline_functions(part, keep=keep) == part


@given(model=models())
def test_a_limit_is_kept_to_the_node(model: onnx.ModelProto) -> None:
    _, report = onnx_inline.inline_functions(model, with_report=True)
    if not report.calls:  # nothing grows
        return
    with pytest.raises(onnx_inline.ModelTooLargeError) as refused:
        onnx_inline.inline_functions(model, max_nodes=0)
    assert refused.value.nodes == report.nodes_after
    assert onnx_inline.inline_functions(model, max_nodes=refused.value.nodes)
