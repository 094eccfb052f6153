"""Bodies of another opset: whatever comes out computes what the body computes in its own, or is refused."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest

import onnx_inline
from onnx_inline.errors import OpsetConflictError
from tests.engine.both_forms import assert_inlines, in_ir, parsed, refused, serialized
from tests.engine.opset_bodies import BODIES

#: versions before which something changed, and the newest that onnxruntime 1.20 knows
TARGETS = (9, 12, 13, 18, 21)
#: going up, only these may be refused, and not always
MAY_BE_REFUSED = ("Hardmax", "GroupNormalization", "Resize", "Upsample", "Dropout")


def names(declarations: str) -> str:
    return ", ".join(part.split()[-1] for part in re.sub(r"\[[^]]*\]", "", declarations).split(","))


def in_version(version: int, inputs: str, outputs: str, body: str) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["" : {version}]>'
    return parsed(f"{head} main ({inputs}) => ({outputs}) {{ {body} }}")


def as_function(version: int, target: int, inputs: str, outputs: str, body: str) -> onnx.ModelProto:
    given, taken = names(inputs), names(outputs)
    return parsed(
        f"""
        <ir_version: 8, opset_import: ["" : {target}, "l" : 1]>
        main ({inputs}) => ({outputs}) {{ {taken} = l.f ({given}) }}
        <domain: "l", opset_import: ["" : {version}]> f ({given}) => ({taken}) {{ {body} }}
        """
    )


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(0)
    made = {}
    for value in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        drawn = numbers.uniform(-1, 1, shape) if dtype == np.float32 else numbers.integers(0, 2, shape)
        made[value.name] = np.array(drawn, dtype)
    return made


def run(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(serialized(model), providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, feeds(model))
    return outputs


@pytest.mark.parametrize("row", BODIES, ids=lambda row: f"{row[0]}: {row[3]}")
def test_a_body_means_the_same_in_every_opset_that_takes_it(row: tuple[int, str, str, str]) -> None:
    version, inputs, outputs, body = row
    expected = run(in_version(*row))
    for target in TARGETS:
        model = as_function(version, target, inputs, outputs, body)
        try:
            flat = onnx_inline.inline_functions(model)
        except OpsetConflictError:
            assert target < version or any(op in body for op in MAY_BE_REFUSED)
            continue
        assert in_ir(model)[0].graph.node == flat.graph.node
        for got, wanted in zip(run(flat), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_an_operator_that_changed_only_its_types_stays_as_it_is() -> None:
    report = assert_inlines(
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x) => (float[2] y) { y = l.f (x) }
        <domain: "l", opset_import: ["" : 13]> f (v) => (r) { t = Relu (v) r = Add (t, v) }
        """,
        """
        <ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[2] y) {
            ["f/Relu"] "f/t" = Relu (x)
            ["f/Add"] y = Add ("f/t", x)
        }
        """,
    )
    assert not report.conversions


def test_an_operator_that_changed_is_converted_and_the_report_says_so() -> None:
    report = assert_inlines(
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x) => (float[1] y) { y = l.f (x) }
        <domain: "l", opset_import: ["" : 12]> f (v) => (r) { r = ReduceSum <axes = [0]> (v) }
        """,
        """
        <ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[1] y) {
            ["f/Constant"] "f/ReduceSum_Constant" = Constant <value: tensor = int64[1] {0}> ()
            ["f/ReduceSum"] y = ReduceSum (x, "f/ReduceSum_Constant")
        }
        """,
    )
    assert "converted ReduceSum in l::f from ai.onnx 12 to 18" in str(report)


def test_what_no_converter_can_do_names_function_operator_and_both_versions() -> None:
    said = refused(
        """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x) => (float[2] y) { y = l.f (x) }
        <domain: "l", opset_import: ["" : 20]> f (v) => (r) { r = Gelu (v) }
        """
    )
    assert said.startswith("OpsetConflictError: cannot inline l::f: operator Gelu of ai.onnx 20 cannot be ")
    assert "converted to version 18, which the model imports" in said


@pytest.mark.parametrize(
    ("version", "target", "body", "why"),
    [
        (
            22,
            18,
            "r = AveragePool <kernel_shape = [2, 2], dilations = [2, 2]> (v)",
            "no attribute dilations|No Adapter",
        ),
        (19, 18, 'r = Pad <mode = "wrap"> (v, p)', "mode 'wrap' came with version 19"),
        (18, 16, 'r = ScatterND <reduction = "max"> (v, p, v)', "reduction 'max' came with version 18"),
        (13, 12, "r = Softmax <axis = 1> (v)", "flattened axes"),
        (12, 13, "r = Hardmax <axis = 1> (v)", "flattened axes"),
        (12, 10, "r = Concat <axis = -1> (v, v)", "negative axis came with version 11"),
        (18, 21, "r = GroupNormalization <num_groups = 1> (v, p, p)", "per group before 21"),
        (6, 7, "r = PRelu (v, p)", "slopes go with channels before 7"),
        (11, 12, "r, p2 = Dropout (v) s = Not (p2)", "its mask changed"),
    ],
)
def test_a_conversion_that_would_compute_something_else_is_refused(
    version: int, target: int, body: str, why: str
) -> None:
    outputs = "r, s" if " s = " in body else "r"
    model = f"""
        <ir_version: 8, opset_import: ["" : {target}, "l" : 1]>
        main (float[1,2,4,4] v, int64[8] p) => (float[1,2,4,4] r) {{ {outputs} = l.f (v, p) }}
        <domain: "l", opset_import: ["" : {version}]> f (v, p) => ({outputs}) {{ {body} }}
        """
    said = refused(model)  # by onnx's converter itself if it is old
    assert any(part in said for part in why.split("|"))


@pytest.mark.parametrize("body", ["r = Softmax ()", "r = Squeeze ()", "r = Clip (v, p, v, p)"])
def test_a_node_that_the_native_converter_could_crash_on_is_refused(body: str) -> None:
    model = f"""
        <ir_version: 8, opset_import: ["" : 18, "l" : 1]>
        main (float[2] v, float[2] p) => (float[2] r) {{ r = l.f (v, p) }}
        <domain: "l", opset_import: ["" : 10]> f (v, p) => (r) {{ {body} }}
        """
    assert refused(model).startswith("OpsetConflictError: cannot inline l::f: operator ")


def test_two_versions_of_one_domain_are_refused() -> None:
    text = """
        <ir_version: 10, opset_import: ["" : 18, "l" : 1]> main (float[2] x) => (float[2] y) { y = l.f (x) }
        <domain: "l", opset_import: ["" : 18]> f (v) => (r) { r = Exp (v) }
    """
    for where, imports in (("the model", '["" : 18, "l"'), ("function l::f", '["" : 18]')):
        said = refused(text.replace(imports, imports.replace('"" : 18', '"" : 18, "ai.onnx" : 11')))
        assert said == (
            f"InvalidModelError: {where}: domain 'ai.onnx' is imported in versions 18 and 11; "
            "remove one of the imports"
        )
