"""Real exports and what producers write, inlined: same results, same interface, nothing left over.

``fixtures/README.md`` says what each fixture is for.  Inputs and its producer's own outputs are beside each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import onnx_inline
from onnx_inline import errors

FOLDER = Path(__file__).parents[1] / "fixtures"
GOOD = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.glob("*/*.npz"))

#: onnxruntime 1.32 refuses these as they are; inlined, it runs them
REFUSED_WITH_FUNCTIONS = {
    "handmade/older_opset_converted": "it inlines the body of another opset without converting it",
    "handmade/output_listed_twice": "it takes no function that lists an output twice",
    "handmade/overloads": "it does not find overloads",
    "handmade/own_domain_not_imported": "it wants the domain imported",
    "handmade/passed_through": "it takes no function with an input among its outputs",
    "onnxscript/if_in_function": "a body calls a function in a branch without importing its domain",
    "onnxscript/loop_in_function": "a body calls a function in a loop without importing its domain",
    "onnxscript/overloads": "it does not find overloads",
    "onnxscript/scan_in_function": "a body calls a function in a scan without importing its domain",
    "onnxscript/while_in_function": "a body calls a function in a loop without importing its domain",
    "spox/chosen": "it takes no domain of version 0",
    "spox/iterated": "it takes no domain of version 0",
    "spox/rescaled": "it takes no domain of version 0",
    "spox/square_plus": "it takes no domain of version 0",
    "spox/swapped": "it takes no domain of version 0",
    "spox/two_opsets": "it takes no domain of version 0",
}

#: onnxruntime cannot run these, inlined or not
NOT_FOR_ONNXRUNTIME = {
    "torch_dynamo/mlp_bfloat16": "it has no bfloat16 Gemm for CPUs",
    "torchscript/mlp_bfloat16": "it has no bfloat16 Gemm for CPUs",
}

#: onnx's reference evaluator does not compute these as the specification says
NOT_FOR_REFERENCE = {
    "onnxscript/loop_in_function": "it never enters a Loop whose condition is left out",
    "onnxscript/loops_in_loops": "it never enters a Loop whose condition is left out",
    "torchscript/recurrent": "not every version of it that is supported has a bidirectional GRU",
}

#: fixture -> largest error allowed, where float32 is not what it computes in
TOLERANCE = {"mlp_float16": 5e-3, "mlp_bfloat16": 5e-2}

OLD_ONNX = tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 19)
if OLD_ONNX:
    GOOD.remove("handmade/taken_names")  # The text syntax had no names of nodes.
    NOT_FOR_REFERENCE |= {
        "torch_dynamo/mlp_bfloat16": "it computed nonsense from bfloat16",
        "torchscript/mlp_bfloat16": "it computed nonsense from bfloat16",
    }

each_fixture = pytest.mark.parametrize("fixture", GOOD)


def inlined_proto(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx_inline.inline_functions(model)


def inlined_ir(model: onnx.ModelProto) -> onnx.ModelProto:
    return ir.to_proto(onnx_inline.inline_functions(ir.from_proto(model)))


both_forms = pytest.mark.parametrize("inline", [inlined_proto, inlined_ir])


def load(fixture: str) -> onnx.ModelProto:
    text = FOLDER / f"{fixture}.onnxtxt"
    if text.exists():
        return onnx.parser.parse_model(text.read_text())
    return onnx.load(FOLDER / f"{fixture}.onnx")


@functools.cache
def inlined(fixture: str, inline: Callable[[onnx.ModelProto], onnx.ModelProto]) -> onnx.ModelProto:
    return inline(load(fixture))


def arrays(fixture: str, kind: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{fixture}.npz") as stored:
        return {key.removeprefix(kind): stored[key] for key in stored.files if key.startswith(kind)}


def run_onnxruntime(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[Any] = session.run(None, dict(feeds))
    return results


def run_reference(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    return ReferenceEvaluator(model).run(None, dict(feeds))


def assert_as_stored(fixture: str, run: Callable[..., list[Any]], model: onnx.ModelProto) -> None:
    results, expected = run(model, arrays(fixture, "in:")), arrays(fixture, "out:")
    tolerance = TOLERANCE.get(fixture.partition("/")[2], 1e-5)
    assert len(results) == len(expected)
    for k, result in enumerate(results):
        assert result.dtype == expected[str(k)].dtype
        np.testing.assert_allclose(result, expected[str(k)], rtol=tolerance, atol=tolerance)


def graphs(graph: onnx.GraphProto) -> Iterable[onnx.GraphProto]:
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for subgraph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from graphs(subgraph)


def nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for graph in graphs(model.graph) for node in graph.node]


def interface(model: onnx.ModelProto) -> list[bytes]:
    parts = (model.graph.input, model.graph.output, model.graph.initializer)
    return [entry.SerializeToString(deterministic=True) for part in parts for entry in part]


def skip_if_in(table: Mapping[str, str], fixture: str) -> None:
    if fixture in table:
        pytest.skip(table[fixture])


@each_fixture
def test_not_inlined_onnxruntime_gives_what_the_producer_computed(fixture: str) -> None:
    skip_if_in(REFUSED_WITH_FUNCTIONS | NOT_FOR_ONNXRUNTIME, fixture)
    assert_as_stored(fixture, run_onnxruntime, load(fixture))


@both_forms
@each_fixture
def test_inlined_onnxruntime_gives_what_the_producer_computed(fixture: str, inline: Any) -> None:
    skip_if_in(NOT_FOR_ONNXRUNTIME, fixture)
    assert_as_stored(fixture, run_onnxruntime, inlined(fixture, inline))


@each_fixture
def test_inlined_the_reference_gives_what_the_producer_computed(fixture: str) -> None:
    skip_if_in(NOT_FOR_REFERENCE, fixture)
    assert_as_stored(fixture, run_reference, inlined(fixture, inlined_proto))


@both_forms
@each_fixture
def test_no_function_and_no_unused_import_is_left(fixture: str, inline: Any) -> None:
    model = inlined(fixture, inline)
    assert not model.functions
    assert {entry.domain for entry in model.opset_import} == {node.domain for node in nodes(model)}


@both_forms
@each_fixture
def test_the_checker_accepts_the_result(fixture: str, inline: Any) -> None:
    onnx.checker.check_model(inlined(fixture, inline), full_check=True)


@both_forms
@each_fixture
def test_the_interface_stays(fixture: str, inline: Any) -> None:
    assert interface(inlined(fixture, inline)) == interface(load(fixture))


@both_forms
@each_fixture
def test_no_attribute_that_only_a_call_had_is_left(fixture: str, inline: Any) -> None:
    model = load(fixture)
    # torch gives each call its weights a second time; jax2onnx has Constants that happen to equal a weight.
    weights = {weight.raw_data for weight in model.graph.initializer} if "torchscript" in fixture else set()
    attributes = [attribute for node in nodes(inlined(fixture, inline)) for attribute in node.attribute]
    assert not [a.name for a in attributes if a.name.startswith("inferred::") or a.ref_attr_name]
    assert not [a.name for a in attributes if len(a.t.raw_data) > 8 and a.t.raw_data in weights]


@each_fixture
def test_both_forms_give_the_same_model(fixture: str) -> None:
    as_ir = ir.to_proto(ir.from_proto(inlined(fixture, inlined_proto)))
    assert onnx.printer.to_text(as_ir) == onnx.printer.to_text(inlined(fixture, inlined_ir))


@both_forms
@each_fixture
def test_a_second_run_changes_nothing(fixture: str, inline: Any) -> None:
    once = inlined(fixture, inline)
    assert inline(once) == once


@each_fixture
def test_the_input_is_untouched_and_the_result_is_the_same_each_time(fixture: str) -> None:
    model = load(fixture)
    result = inlined_proto(model)
    assert model == load(fixture)
    assert result.SerializeToString() == inlined(fixture, inlined_proto).SerializeToString()


@pytest.mark.parametrize("fixture", [name for name in GOOD if "external" in name])
def test_weights_in_another_file_need_not_be_loaded(fixture: str) -> None:
    model = onnx.load(FOLDER / f"{fixture}.onnx", load_external_data=False)
    assert any(weight.data_location == onnx.TensorProto.EXTERNAL for weight in model.graph.initializer)
    result = inlined_proto(model)
    assert interface(result) == interface(model)
    onnx.load_external_data_for_model(result, str((FOLDER / fixture).parent))
    assert result == inlined(fixture, inlined_proto)


#: a file in fixtures/bad -> the error, and what its message says
BAD_MODELS: dict[str, tuple[type[Exception], list[str]]] = {
    "recursive": (errors.FunctionCycleError, ["example::a", "example::b", "example::c"]),
    "recursive_in_branch": (errors.FunctionCycleError, ["example::again"]),
    "too_many_inputs": (errors.CallSiteError, ["example::negated"]),
    "too_many_outputs": (errors.CallSiteError, ["example::negated"]),
    "undefined_output": (errors.InvalidModelError, ["example::windows", "shifted_windows"]),
    "undefined_value": (errors.InvalidModelError, ["example::masked", "mask"]),
    "defined_twice": (errors.InvalidModelError, ["example::changed"]),
    "operator_too_new": (errors.OpsetConflictError, ["example::activated", "Mish", "18", "13"]),
    "other_domain_differs": (errors.OpsetConflictError, ["example::folded", "custom.ops", "2", "1"]),
}

#: onnx_ir cannot hold these
NOT_FOR_IR = {"defined_twice", "undefined_output"}

BAD_FILES: dict[str, tuple[type[Exception], list[str]]] = {
    "text": (errors.NotAModelError, ["text.onnx"]),
    "empty": (errors.NotAModelError, ["empty.onnx"]),
    "truncated": (errors.NotAModelError, ["truncated.onnx"]),
    "missing_external": (errors.ExternalDataError, ["weight", "nowhere.data"]),
}


def assert_says(caught: pytest.ExceptionInfo[Exception], words: Iterable[str]) -> None:
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{caught.value!r} does not say {missing}"


@pytest.mark.parametrize("fixture", BAD_MODELS)
def test_a_model_that_cannot_be_inlined_is_refused_and_untouched(fixture: str) -> None:
    text = (FOLDER / "bad" / f"{fixture}.onnxtxt").read_text()
    model, (error, words) = onnx.parser.parse_model(text), BAD_MODELS[fixture]
    with pytest.raises(error) as caught:
        onnx_inline.inline_functions(model)
    assert_says(caught, words)
    assert model == onnx.parser.parse_model(text)


@pytest.mark.parametrize("fixture", [name for name in BAD_MODELS if name not in NOT_FOR_IR])
def test_an_ir_model_that_cannot_be_inlined_is_refused_and_untouched(fixture: str) -> None:
    text = (FOLDER / "bad" / f"{fixture}.onnxtxt").read_text()
    model, (error, words) = ir.from_proto(onnx.parser.parse_model(text)), BAD_MODELS[fixture]
    before = ir.to_proto(model)
    with pytest.raises(error) as caught:
        onnx_inline.inline_functions(model)
    assert_says(caught, words)
    assert ir.to_proto(model) == before


@pytest.mark.parametrize("fixture", BAD_FILES)
def test_a_file_that_is_no_whole_model_is_refused_and_nothing_is_written(
    fixture: str, tmp_path: Path
) -> None:
    error, words = BAD_FILES[fixture]
    with pytest.raises(error) as caught:
        onnx_inline.inline_file(FOLDER / "bad" / f"{fixture}.onnx", tmp_path / "out.onnx")
    assert_says(caught, words)
    assert not list(tmp_path.iterdir())


def test_every_bad_file_is_tested() -> None:
    assert {path.stem for path in (FOLDER / "bad").iterdir()} == {*BAD_MODELS, *BAD_FILES}
