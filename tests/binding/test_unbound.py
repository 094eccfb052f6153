"""unbound_initializers lists what has no data, and nothing else."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from onnx_inline.errors import UnboundInitializersError
from onnx_inline.unbound import UnboundInitializer, require_bound, unbound_initializers

HEADER = '<ir_version: 10, opset_import: ["": 18]>'

WEIGHTLESS = f"""{HEADER} g (bool c, float[2] x) => (float[2] y) <float[2] w> {{
    y = If (c) <
        then_branch = t () => (float[2] a) {{ a = Add (x, w) }},
        else_branch = e () => (float[2] b) {{ b = Sub (w, v) }}
    >
}}"""

COMPLETE = f"""{HEADER} g (bool c, float[2] x) => (float[2] y, float[2] z)
    <float[2] w = {{1, 2}}, float[0] none = {{}}>
{{
    y = If (c) <
        then_branch = t () => (float[2] a) <float[2] v = {{3, 4}}> {{ a = Add (z, v) }},
        else_branch = e () => (float[2] b) {{ v = Neg (w)  b = Add (x, v) }}
    >
    z = Concat <axis = 0> (w, none)
}}"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def both_forms(model: onnx.ModelProto) -> list[onnx.ModelProto | ir.Model]:
    return [model, ir.from_proto(model)]


@pytest.mark.parametrize("model", both_forms(parsed(COMPLETE)), ids=["proto", "ir"])
def test_a_complete_model_has_none_in_whatever_order_its_nodes_stand(
    model: onnx.ModelProto | ir.Model,
) -> None:
    assert unbound_initializers(model) == ()
    require_bound(model)


@pytest.mark.parametrize("model", both_forms(parsed(WEIGHTLESS)), ids=["proto", "ir"])
def test_a_name_that_nothing_defines_is_listed_once_with_its_first_reader(
    model: onnx.ModelProto | ir.Model,
) -> None:
    found = unbound_initializers(model)
    assert [(weight.name, weight.why) for weight in found] == [
        ("w", "node Add reads it, and nothing defines it"),
        ("v", "node Sub reads it, and nothing defines it"),
    ]


def test_a_proto_says_the_type_of_an_undefined_name_if_it_declares_one() -> None:
    w, v = unbound_initializers(parsed(WEIGHTLESS))
    assert (w.type, w.shape, v.type, v.shape) == ("FLOAT", (2,), None, None)


def test_an_undefined_output_of_the_graph_is_listed() -> None:
    model = parsed(f"{HEADER} g (float[2] x) => (float[2] w, float[2] y) {{ y = Neg (x) }}")
    why = "the output of graph g reads it, and nothing defines it"
    assert [weight.why for weight in unbound_initializers(model)] == [why]


def initializer(**fields: object) -> onnx.ModelProto:
    model = parsed(f"{HEADER} g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add (x, w) }}")
    model.graph.initializer[0].CopyFrom(onnx.TensorProto(name="w", data_type=1, **fields))  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize("form", [0, 1], ids=["proto", "ir"])
@pytest.mark.parametrize("fields", [{}, {"raw_data": b""}], ids=["no data", "empty raw_data"])
def test_an_initializer_with_a_shape_and_no_data_is_listed(fields: dict[str, bytes], form: int) -> None:
    model = both_forms(initializer(dims=[2, 3], **fields))[form]
    assert unbound_initializers(model) == (UnboundInitializer("w", "FLOAT", (2, 3), "it has no data"),)


@pytest.mark.parametrize(
    "fields", [{"dims": [2, 0]}, {"dims": [2], "raw_data": bytes(8)}, {"dims": [], "float_data": [1.0]}]
)
def test_a_tensor_of_no_elements_or_with_data_of_either_kind_is_bound(fields: dict[str, object]) -> None:
    assert unbound_initializers(initializer(**fields)) == ()


def test_external_data_is_data_if_it_says_where() -> None:
    entry = onnx.StringStringEntryProto(key="location", value="weights.bin")
    external = {"dims": [2], "data_location": onnx.TensorProto.EXTERNAL}
    assert unbound_initializers(initializer(external_data=[entry], **external)) == ()
    (nowhere,) = unbound_initializers(initializer(**external))
    assert nowhere.why == "it refers to external data without a location"


def test_a_value_without_a_tensor_is_listed_also_in_a_subgraph() -> None:
    model = ir.from_proto(parsed(COMPLETE))
    (then_branch, *_) = model.graph.subgraphs()
    model.graph.initializers["w"].const_value = None
    then_branch.initializers["v"].const_value = None
    found = unbound_initializers(model)
    assert [str(weight) for weight in found] == [
        "w (FLOAT[2]: it has no value)",
        "v (FLOAT[2]: it has no value)",
    ]


def test_a_sparse_initializer_defines_its_name() -> None:
    model = parsed(f"{HEADER} g (float[2] x) => (float[2] y) {{ y = Add (x, w) }}")
    model.graph.sparse_initializer.add().values.name = "w"
    assert unbound_initializers(model) == ()


def test_the_refusal_names_them_and_the_command_that_binds() -> None:
    with pytest.raises(UnboundInitializersError) as caught:
        require_bound(parsed(WEIGHTLESS))
    assert caught.value.unbound == unbound_initializers(parsed(WEIGHTLESS))
    assert "w (FLOAT[2]: node Add reads it" in str(caught.value)
    assert "onnx-inline bind MODEL.onnx WEIGHTS.safetensors -o OUTPUT.onnx" in str(caught.value)
