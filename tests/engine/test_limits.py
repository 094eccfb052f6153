"""Sizes: deep, wide, many, and too large."""

from __future__ import annotations

import gc
import itertools
import time
import tracemalloc
from collections.abc import Iterable

import onnx
import onnx_ir as ir
import pytest

import onnx_inline
from tests.engine.both_forms import MAIN, F, in_ir, message, parsed, refused, serialized


def model_of(main: str, functions: Iterable[str]) -> onnx.ModelProto:
    bodies = " ".join(f"{F} {function}" for function in functions)
    return parsed(f"{MAIN} (float[2] x) => (float[2] y) {{ {main} }} {bodies}")


def doubling(levels: int) -> onnx.ModelProto:
    """Return functions that each call the next one twice: 2 ** levels nodes in the end."""
    inner = [f"f{n} (a) => (c) {{ b = l.f{n + 1} (a) c = l.f{n + 1} (b) }}" for n in range(levels)]
    return model_of("y = l.f0 (x)", [*inner, f"f{levels} (a) => (b) {{ b = Neg (a) }}"])


def chain(levels: int) -> onnx.ModelProto:
    inner = [f"f{n} (a) => (c) {{ b = Abs (a) c = l.f{n + 1} (b) }}" for n in range(levels)]
    return model_of("y = l.f0 (x)", [*inner, f"f{levels} (a) => (b) {{ b = Neg (a) }}"])


def in_a_row(calls: int) -> onnx.ModelProto:
    model = model_of("y = l.f (x)", ["f (a) => (c) { b = Abs (a) c = Neg (b) }"])
    del model.graph.node[:]
    names = ["x", *(f"v{n}" for n in range(1, calls)), "y"]
    for number, (source, target) in enumerate(itertools.pairwise(names)):
        model.graph.node.append(onnx.helper.make_node("f", [source], [target], f"call_{number}", domain="l"))
    return model


def seconds(model: onnx.ModelProto) -> float:
    gc.collect()
    started = time.perf_counter()
    onnx_inline.inline_functions(model)
    return time.perf_counter() - started


def test_what_would_grow_too_large_is_refused_with_its_exact_number() -> None:
    started = time.perf_counter()
    said = refused(doubling(40))
    assert time.perf_counter() - started < 2
    assert said == (
        "ModelTooLargeError: inlining would give 1099511627776 nodes, more than the 10000000 allowed; "
        "the functions that multiply it are l::f0, l::f1, l::f2, l::f3, l::f4; "
        "keep some of them, or raise max_nodes"
    )


def test_a_number_of_more_digits_than_python_prints_is_printed() -> None:
    assert "inlining would give 1125899906842624" in message(doubling(50))
    assert len(message(doubling(15_000))) > 4_500


def test_the_limit_is_exact() -> None:
    model = doubling(6)
    assert len(onnx_inline.inline_functions(model, max_nodes=64).graph.node) == 64
    assert "would give 64 nodes" in refused(model, max_nodes=63)


def test_nodes_that_stay_count() -> None:
    model = model_of("a = Abs (x) y = l.f (a)", ["f (a) => (c) { b = Abs (a) c = Neg (b) }"])
    assert len(onnx_inline.inline_functions(model, max_nodes=3).graph.node) == 3
    assert "would give 3 nodes" in refused(model, max_nodes=2)


def test_a_graph_that_doubles_from_call_to_call_is_refused() -> None:
    levels = 30
    bodies = [
        f"""f{n} <g> (c) => (y) {{ y = l.f{n + 1} <g = b () => (z) {{
            z = If (c) <then_branch: graph = @g, else_branch: graph = @g> }}> (c) }}"""
        for n in range(levels)
    ]
    last = f"f{levels} <g> (c) => (y) {{ y = If (c) <then_branch: graph = @g, else_branch: graph = @g> }}"
    model = model_of("", [*bodies, last])
    call = "y = l.f0 <g = b () => (float[2] o) { o = Neg (x) }> (c)"
    model.graph.CopyFrom(parsed(f"{MAIN} (float[2] x, bool c) => (float[2] y) {{ {call} }}").graph)
    assert refused(model).startswith("ModelTooLargeError: ")


@pytest.mark.parametrize("levels", [1000, 3000])
def test_calls_may_be_nested_deep(levels: int) -> None:
    model = chain(levels)
    flat = onnx_inline.inline_functions(model)
    assert [node.op_type for node in flat.graph.node] == ["Abs"] * levels + ["Neg"]
    assert max(len(node.name) for node in flat.graph.node) < 160
    assert in_ir(model)[0].graph.node == flat.graph.node


def test_time_grows_with_the_result_and_not_with_its_square() -> None:
    short, long = in_a_row(1_000), in_a_row(10_000)
    seconds(short)
    quick = min(seconds(short) for _ in range(3))
    assert min(seconds(long) for _ in range(3)) < 30 * quick
    assert len(onnx_inline.inline_functions(long).graph.node) == 20_000


def test_twenty_thousand_functions_take_seconds() -> None:
    names = range(20_000)
    model = model_of("y = l.f (x)", ["f (a) => (b) { b = Neg (a) }"])
    for number in names:
        model.functions.add().CopyFrom(model.functions[0])
        model.functions[-1].name = f"g{number}"
        node = onnx.helper.make_node(f"g{number}", ["x"], [f"v{number}"], domain="l")
        model.graph.node.append(node)
    started = time.perf_counter()
    flat = onnx_inline.inline_functions(model)
    assert time.perf_counter() - started < 20
    assert len(flat.graph.node) == 20_001


def test_weights_are_copied_once_into_the_new_model_and_no_further() -> None:
    model = in_a_row(10)
    model.graph.initializer.add(name="w", data_type=1, dims=[8 << 20], raw_data=bytes(32 << 20))
    tracemalloc.start()
    try:
        onnx_inline.inline_functions(model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20  # protobuf's own memory is not seen by Python: what is seen must not hold weights


@pytest.mark.parametrize("depth", [40, 100, 400])
@pytest.mark.parametrize("place", ["main", "function"])
def test_graphs_that_no_file_can_hold_are_refused(depth: int, place: str) -> None:
    model = model_of("y = l.f (x)", ["f (a) => (b) { b = Neg (a) }"])
    nodes = model.functions[0].node if place == "function" else model.graph.node
    for level in range(depth):
        node = nodes.add(op_type="If", name=f"n{level}")
        node.input.append("a" if place == "function" else "x")
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        nodes = graph.node
    assert "graphs are nested more than 32 deep" in message(model)


@pytest.mark.parametrize("depth", [40, 400])
def test_they_are_refused_in_memory_too(depth: int) -> None:
    held = ir.from_proto(model_of("y = l.f (x)", ["f (a) => (b) { b = Neg (a) }"]))
    node = next(iter(held.graph))
    graph = ir.Graph([], [], nodes=[ir.Node("l", "f", [node.inputs[0]])])
    for _ in range(depth):
        graph = ir.Graph([], [], nodes=[ir.Node("", "If", [], [ir.AttrGraph("then_branch", graph)])])
    held.graph.append(ir.Node("", "If", [node.inputs[0]], [ir.AttrGraph("then_branch", graph)]))
    assert "graphs are nested more than 32 deep" in message(held)
    assert len(held.functions) == 1


def test_the_same_bytes_come_out_on_every_run() -> None:
    model = chain(20)
    assert serialized(onnx_inline.inline_functions(model)) == serialized(onnx_inline.inline_functions(model))
