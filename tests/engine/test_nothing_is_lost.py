"""What is not about calls stays as it was: types, metadata, sharding, annotations, unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import Message
from onnx import TensorProto, helper

import onnx_inline
from onnx_inline.engine.provenance import CALL_PATH_KEY, NAMESPACE_KEY
from tests.engine.both_forms import MAIN, F, in_ir, parsed, serialized

#: a field of a number that no version of onnx has, holding "later"
UNKNOWN = b"\x9a\xfa\x01\x05later"


def two_levels() -> onnx.ModelProto:
    return parsed(
        f"""
        {MAIN} (float[2] x, bool c) => (float[2] y) {{ ["site"] y = l.f (x, c) }}
        {F} f (v, c) => (r) {{ ["inner"] t = l.g (v, c) ["last"] r = Neg (t) }}
        {F} g (v, c) => (r) {{
            ["if"] r = If (c) <then_branch = t () => (p) {{ ["w"] p = Exp (v) }},
            else_branch = e () => (q) <float[2] k = {{1, 2}}> {{ q = Add (v, k) }}>
        }}
        """
    )


def add_metadata(node: onnx.NodeProto, **entries: str) -> None:
    for key, value in entries.items():
        node.metadata_props.add(key=key, value=value)


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def messages(message: Message) -> Iterator[Message]:
    """Yield a message and those in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if isinstance(value, list) or hasattr(value, "add") else [value]:
                yield from messages(inner)


def both(model: onnx.ModelProto, **options: Any) -> list[onnx.ModelProto]:
    return [onnx_inline.inline_functions(model, **options), in_ir(model, **options)[0]]


def test_a_node_has_its_own_metadata_over_that_of_its_calls() -> None:
    model = two_levels()
    add_metadata(model.graph.node[0], a="site", b="site", c="site")
    add_metadata(model.functions[0].node[0], b="inner", c="inner")
    add_metadata(model.functions[1].node[0], c="if")
    for flat in both(model):
        conditional, last = flat.graph.node
        assert metadata(conditional) == {"a": "site", "b": "inner", "c": "if"}
        assert metadata(last) == {"a": "site", "b": "site", "c": "site"}
        assert metadata(conditional.attribute[0].g.node[0]) == {"a": "site", "b": "inner", "c": "inner"}


def test_provenance_says_which_calls_a_node_came_through() -> None:
    for flat in both(two_levels(), provenance=True):
        conditional, last = flat.graph.node
        assert metadata(conditional) == {
            CALL_PATH_KEY: '[["site", "l::f"], ["inner", "l::g"]]',
            NAMESPACE_KEY: "site: l::f/inner: l::g",
        }
        assert metadata(last)[CALL_PATH_KEY] == '[["site", "l::f"]]'
        assert metadata(conditional.attribute[0].g.node[0]) == metadata(conditional)


def test_doc_strings_of_nodes_and_graphs_stay() -> None:
    model = two_levels()
    node = model.functions[1].node[0]
    node.doc_string = "node"
    node.attribute[0].g.doc_string = "graph"
    for flat in both(model):
        assert flat.graph.node[0].doc_string == "node"
        assert flat.graph.node[0].attribute[0].g.doc_string == "graph"


def test_initializers_of_a_branch_go_with_it() -> None:
    for flat in both(two_levels()):
        (kept,) = flat.graph.node[0].attribute[1].g.initializer
        assert (kept.name, list(kept.float_data)) == ("site/inner/k", [1, 2])


def test_a_function_s_symbol_is_not_the_model_s() -> None:
    model = parsed(
        f"""
        {MAIN} (float[N, 2] x) => (float[N, 2] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """
    )
    model.functions[0].value_info.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, ["M", 2]))
    for flat in both(model):
        (entry,) = [v for v in flat.graph.value_info if v.name == "f/t"]
        rows, columns = entry.type.tensor_type.shape.dim
        assert rows.dim_param in ("", "N")
        assert columns.dim_value == 2


def test_a_type_that_does_not_fit_the_call_is_not_carried_over() -> None:
    model = parsed(
        f"""
        {MAIN} (float[3] x) => (float[3] y) {{ y = l.f (x) }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """
    )
    model.functions[0].value_info.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [2]))
    for flat in both(model):
        assert not flat.graph.value_info
        onnx.checker.check_model(flat, full_check=True)


def test_a_type_of_a_value_that_is_not_there_keeps_its_name() -> None:
    model = parsed(
        f"""
        {MAIN} (float[2] x) => (float[2] y) <float[5,5] "f/t"> {{ y = l.f (x) }}
        {F} f (v) => (r) {{ t = Neg (v) r = Exp (t) }}
        """
    )
    flat = onnx_inline.inline_functions(model)
    assert flat.graph.node[0].output == ["f_2/t"]
    onnx.checker.check_model(flat, full_check=True)


def test_sparse_initializers_stay() -> None:
    model = two_levels()
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [3.0])
    indices = helper.make_tensor("", TensorProto.INT64, [1], [1])
    branch = model.functions[1].node[0].attribute[0].g
    for graph in (model.graph, branch):
        graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    flat = onnx_inline.inline_functions(model)
    assert flat.graph.sparse_initializer == model.graph.sparse_initializer
    (moved,) = flat.graph.node[0].attribute[0].g.sparse_initializer
    assert moved.values.name == "site/inner/w"
    assert moved.indices == indices


def test_quantization_annotations_follow_their_values() -> None:
    model = two_levels()
    branch = model.functions[1].node[0].attribute[1].g
    for graph, name, scale in ((model.graph, "x", "c"), (branch, "q", "k")):
        annotation = graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=scale)
    for flat in both(model):
        assert flat.graph.quantization_annotation == model.graph.quantization_annotation
        (moved,) = flat.graph.node[0].attribute[1].g.quantization_annotation
        assert moved.tensor_name == "site/inner/q"
        assert moved.quant_parameter_tensor_names[0].value == "site/inner/k"


def test_quantization_annotations_may_name_values_around_their_graph() -> None:
    model = parsed(
        f"""
        {MAIN} (float[2] x, float zero, bool c) => (float[2] y) {{ y = l.f (x, zero, c) }}
        {F} f (v, point, c, low) => (r) {{ scale = Constant <value_float: float = 0.5> () r = If (c)
        <then_branch = t () => (p) {{ zero = Exp (v) p = Neg (zero) }},
        else_branch = e () => (q) {{ q = Abs (v) }}> }}
        """
    )
    annotation = model.functions[0].node[1].attribute[0].g.quantization_annotation.add(tensor_name="zero")
    for key, value in (("SCALE_TENSOR", "scale"), ("ZERO_POINT_TENSOR", "point"), ("MIN", "low")):
        annotation.quant_parameter_tensor_names.add(key=key, value=value)
    for flat in both(model):
        assert [node.op_type for node in flat.graph.node] == ["Constant", "If"]
        (moved,) = flat.graph.node[1].attribute[0].g.quantization_annotation
        assert moved.tensor_name == "f/zero"
        named = {entry.key: entry.value for entry in moved.quant_parameter_tensor_names}
        assert named == {"SCALE_TENSOR": "f/scale", "ZERO_POINT_TENSOR": "zero"}  # "low" is not given


def test_sharding_follows_the_values_that_it_names() -> None:
    model = two_levels()
    model.ir_version = 11  # the first with sharding
    model.configuration.add(name="two", num_devices=2)
    configured = model.functions[0].node[1].device_configurations.add(configuration_id="two")
    for name in ("t", "r"):
        configured.sharding_spec.add(tensor_name=name, device=[0, 1])
    for flat in both(model):
        (moved,) = flat.graph.node[1].device_configurations
        assert moved.configuration_id == "two"
        assert [(spec.tensor_name, list(spec.device)) for spec in moved.sharding_spec] == [
            ("site/t", [0, 1]),
            ("y", [0, 1]),
        ]


def test_training_graphs_lose_their_calls_as_well() -> None:
    model = two_levels()
    info = model.training_info.add()
    info.algorithm.CopyFrom(model.graph)
    info.algorithm.node[0].output[0] = "z"
    info.algorithm.output[0].name = "z"
    info.update_binding.add(key="x", value="z")
    flat = onnx_inline.inline_functions(model)
    (kept,) = flat.training_info
    assert kept.update_binding == info.update_binding
    assert [node.op_type for node in kept.algorithm.node] == ["If", "Neg"]
    assert kept.algorithm.node[1].output == ["z"]
    assert not {n for node in kept.algorithm.node for n in node.output} & {
        n for node in flat.graph.node for n in node.output
    }


def test_fields_of_a_later_version_stay_in_every_message() -> None:
    model = two_levels()
    tensor = model.functions[1].node[0].attribute[1].g.initializer[0]
    kinds = []
    for message in messages(model):
        if not isinstance(message, onnx.FunctionProto | onnx.OperatorSetIdProto):
            message.MergeFromString(UNKNOWN)
            kinds.append(type(message).__name__)
    assert {
        "ModelProto",
        "GraphProto",
        "NodeProto",
        "AttributeProto",
        "ValueInfoProto",
        "TensorProto",
    } <= set(kinds)
    flat = onnx_inline.inline_functions(model)
    assert tensor.SerializeToString().endswith(UNKNOWN)
    for message in messages(flat):
        if not isinstance(message, onnx.OperatorSetIdProto):
            assert UNKNOWN in message.SerializeToString(), type(message).__name__
    # Calls are gone with what they said; each node and attribute that is left has kept its own.
    assert serialized(flat).count(UNKNOWN) == sum(
        not isinstance(message, onnx.OperatorSetIdProto) for message in messages(flat)
    )


@pytest.mark.parametrize("form", ["proto", "ir"])
def test_weights_in_other_files_are_not_read(form: str) -> None:
    model = two_levels()
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1 << 40])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="not/there.bin")
    if form == "proto":
        flat = onnx_inline.inline_functions(model)
    else:
        flat = ir.to_proto(onnx_inline.inline_functions(ir.from_proto(model)))
    assert list(flat.graph.initializer[0].dims) == [1 << 40]
    assert flat.graph.initializer[0].external_data[0].value == "not/there.bin"
    assert not flat.functions


def test_a_model_without_functions_is_left_byte_for_byte() -> None:
    model = parsed(f"{MAIN} (float[2] x) => (float[2] y) {{ y = Neg (x) }}")
    model.MergeFromString(UNKNOWN)
    assert serialized(onnx_inline.inline_functions(model)) == serialized(model)
