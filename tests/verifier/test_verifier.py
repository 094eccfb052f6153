"""The verifier: each rule finds what it is there for, in both forms, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from onnx_inline import UnknownNameError, VerificationError, VerifyPass, check_structure
from onnx_inline.verifier import ALL_RULES

HEAD = '<ir_version: 10, opset_import: ["" : 18, "m" : 1]> main (float[2] x) => (float[2] y)'
FUNCTION = '<domain: "m", opset_import: ["" : 18]> f (a) => (b) { b = Abs (a) }'
GOOD = f"{HEAD} {{ y = m.f (x) }} {FUNCTION}"


def proto(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def as_ir(text: str) -> ir.Model:
    return ir.from_proto(proto(text))


in_both_forms = pytest.mark.parametrize("form", [proto, as_ir])


@in_both_forms
def test_a_model_that_is_right_has_no_findings(form: Callable[[str], Any]) -> None:
    report = check_structure(form(GOOD), original=form(GOOD))
    assert report
    assert str(report) == f"the structure is right by {len(ALL_RULES)} rules"


#: rule, model, finding
FAULTS = {
    "a read of nothing": (
        "dangling-reads",
        f"{HEAD} {{ t = m.f (x) y = Add (t, z) }} {FUNCTION}",
        "the graph, node Add at 1: 'z' is read and is defined nowhere",
    ),
    "a read before the definition": (
        "dangling-reads",
        f"{HEAD} {{ y = m.f (t) t = Abs (x) }} {FUNCTION}",
        "the graph, node m::f at 0: 't' is read before it is defined",
    ),
    "a function reads a value of the graph": (
        "dangling-reads",
        f"{HEAD} {{ y = m.f (x) }} {FUNCTION.replace('Abs (a)', 'Add (a, x)')}",
        "function m::f, node Add at 0: 'x' is read and is defined nowhere",
    ),
    "a branch hides a value": (
        "shadowing",
        f"""{HEAD} {{ t = m.f (x) s = ReduceSum <keepdims: int = 0> (x) go = Cast <to: int = 9> (s)
            y = If (go) < then_branch = p () => (float[2] a) {{ t = Abs (x) a = Neg (t) }},
                          else_branch = q () => (float[2] a) {{ a = Abs (x) }} > }} {FUNCTION}""",
        "then_branch of If '': 't' hides a value of the graph",
    ),
    "a reference to an attribute in the graph": (
        "reference-attributes",
        f"{HEAD} {{ t = m.f (x) y = LeakyRelu <alpha: float = @slope> (t) }} {FUNCTION}",
        "the graph, node LeakyRelu at 1: attribute alpha refers to 'slope', which is no attribute here",
    ),
    "an import that only a function has": (
        "opset-imports",
        f"""<ir_version: 10, opset_import: ["m" : 1]> main (float[2] x) => (float[2] y) {{ y = m.f (x) }}
            {FUNCTION}""",
        "function m::f: domain ai.onnx is used, but the model does not import it",
    ),
    "an import too many": (
        "unused-imports",
        GOOD.replace('"m" : 1', '"m" : 1, "other" : 1', 1),
        "the graph: domain other is imported but not used",
    ),
    "an import too few": (
        "opset-imports",
        GOOD.replace(', "m" : 1', "", 1),
        "the graph: domain m is used but not imported",
    ),
    "too many arguments": (
        "calls-resolve",
        f"{HEAD} {{ y = m.f (x, x) }} {FUNCTION}",
        "the graph, node m::f at 0: it has 2 inputs, function m::f has 1",
    ),
    "a call of an overload that is not there": (
        "calls-resolve",
        f"{HEAD} {{ t = m.f (x) y = m.f:other (t) }} {FUNCTION}",
        "the graph, node m::f:other at 1: there is no function m::f:other",
    ),
    "a function that calls itself": (
        "no-recursion",
        f"{HEAD} {{ y = m.f (x) }} "
        '<domain: "m", opset_import: ["" : 18, "m" : 1]> f (a) => (b) { t = Abs (a) b = m.f (t) }',
        "function m::f: functions call each other in a circle: m::f -> m::f",
    ),
    "two nodes of one name": (
        "node-names",
        f'{HEAD} {{ ["n"] t = m.f (x) ["n"] y = Abs (t) }} {FUNCTION}',
        "the graph: 2 nodes are called 'n'",
    ),
    "what onnx's checker refuses": (
        "checker",
        f"{HEAD} {{ t = m.f (x) y = Abs (t, t) }} {FUNCTION}",
        "the model: ",
    ),
}


@in_both_forms
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_by_its_rule(name: str, form: Callable[[str], Any]) -> None:
    rule, text, message = FAULTS[name]
    report = check_structure(form(text), rules=[rule])
    assert report.rules == (rule,)
    assert len(report.findings) == 1
    assert str(report.findings[0]).startswith(f"{rule}: {message}")
    assert not check_structure(form(text))


@in_both_forms
@pytest.mark.parametrize("name", FAULTS)
def test_what_the_original_broke_already_is_tolerated(name: str, form: Callable[[str], Any]) -> None:
    rule, text, _ = FAULTS[name]
    report = check_structure(form(text), original=form(text))
    assert report
    assert rule in report.tolerated


def test_a_finding_shows_the_nodes_around_it() -> None:
    text = f"{HEAD} {{ s = m.f (x) t = Add (s, z) y = Abs (t) }} {FUNCTION}"
    (finding,) = check_structure(proto(text), rules=["dangling-reads"]).findings
    assert finding.neighbourhood == ("  s = m::f (x)", "> t = Add (s, z)", "  y = Abs (t)")


def test_findings_of_all_rules_come_together() -> None:
    text = f'{HEAD} {{ ["n"] s = m.f (x, x) ["n"] y = Add (s, z) }} {FUNCTION}'
    rules = {finding.rule for finding in check_structure(proto(text)).findings}
    assert {"dangling-reads", "calls-resolve", "node-names"} <= rules


def test_a_value_defined_twice_is_found() -> None:
    model = proto(f"{HEAD} {{ t = m.f (x) t = Neg (x) y = Abs (t) }} {FUNCTION}")
    (finding,) = check_structure(model, rules=["single-definition"]).findings
    assert (finding.where, finding.message) == ("the graph", "'t' is defined 2 times")


def test_an_output_that_a_branch_takes_from_outside_is_found() -> None:
    model = proto(f"""{HEAD} {{ t = m.f (x) s = ReduceSum <keepdims: int = 0> (x) go = Cast <to: int = 9> (s)
        y = If (go) < then_branch = p () => (float[2] t) {{ }},
                      else_branch = q () => (float[2] a) {{ a = Abs (x) }} > }} {FUNCTION}""")
    (finding,) = check_structure(model, rules=["outputs-defined"]).findings
    assert finding.where == "then_branch of If ''"


def test_types_for_values_that_are_not_there_are_found() -> None:
    model = proto(GOOD)
    model.graph.value_info.add(name="gone")
    (finding,) = check_structure(model, rules=["value-info"]).findings
    assert finding.message == "value_info for 'gone', which is not defined"


def test_two_objects_of_one_name_are_two_values_in_onnx_ir() -> None:
    model = as_ir(GOOD)
    node = model.graph.node(0)
    node.replace_input_with(0, ir.Value(name="x"))
    (finding,) = check_structure(model, rules=["dangling-reads"]).findings
    assert "'x' is read and is defined nowhere" in finding.message


def test_a_value_without_a_name_is_found() -> None:
    model = as_ir(f"{HEAD} {{ t = m.f (x) y = Abs (t) }} {FUNCTION}")
    model.graph.node(0).outputs[0].name = None
    assert {f.rule for f in check_structure(model, rules=["named-values"]).findings} == {"named-values"}


@in_both_forms
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("float[2] x)", "float[3] x)", "the types of the inputs x changed"),
        ("(float[2] y)", "(float[2] y, float[2] x)", "the outputs were ['y'] and are ['y', 'x']"),
    ],
)
def test_another_interface_is_found(form: Callable[[str], Any], old: str, new: str, message: str) -> None:
    report = check_structure(form(GOOD.replace(old, new)), original=form(GOOD), rules=["same-interface"])
    assert [finding.message for finding in report.findings] == [message]


def test_an_earlier_report_stands_for_the_original() -> None:
    before = check_structure(proto(GOOD))
    assert check_structure(proto(GOOD), original=before)
    assert not check_structure(proto(GOOD.replace("float[2] x", "float[3] x")), original=before)


def test_weights_are_not_read() -> None:
    model = proto(
        '<ir_version: 10, opset_import: ["" : 18]> main (float[2] x) => (float[2] y) { y = Abs (x) }'
    )
    big = model.graph.initializer.add(name="w", data_type=1, dims=[1 << 20])
    big.data_location = onnx.TensorProto.EXTERNAL
    big.external_data.add(key="location", value="not/there.bin")
    assert check_structure(model)
    assert check_structure(ir.from_proto(model))


def test_a_rule_that_does_not_exist_is_refused_with_close_names() -> None:
    with pytest.raises(UnknownNameError, match="there is no rule 'shadow'; did you mean shadowing"):
        check_structure(proto(GOOD), rules=["shadow"])


def test_the_pass_raises_all_findings_as_a_postcondition_and_lets_good_models_be() -> None:
    result = VerifyPass()(as_ir(GOOD))
    assert not result.modified
    with pytest.raises(VerificationError) as caught:
        VerifyPass()(as_ir(f"{HEAD} {{ y = m.f (x, x) }} {FUNCTION}"))
    assert isinstance(caught.value, ir.passes.PostconditionError)
    assert [finding.rule for finding in caught.value.findings] == ["calls-resolve"]


def test_what_only_untidy_models_break_the_pass_looks_at_when_asked() -> None:
    untidy = GOOD.replace('"m" : 1', '"m" : 1, "other" : 1', 1)
    VerifyPass()(as_ir(untidy))
    with pytest.raises(VerificationError, match="domain other is imported but not used"):
        VerifyPass(rules=("unused-imports",))(as_ir(untidy))
