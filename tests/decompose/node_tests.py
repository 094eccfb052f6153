"""ONNX's own node tests, each with its operators replaced by their bodies.

Run as a script, this writes the table of the documentation::

    python tests/decompose/node_tests.py docs/reference/coverage.md
"""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.loader
import onnx.numpy_helper
from onnx.backend.test.case.test_case import TestCase

import onnx_inline
from onnx_inline import decompositions, schemas
from onnx_inline.identifiers import OperatorId


@dataclass(frozen=True)
class Outcome:
    """What became of one test: ``equal``, ``random``, ``left``, ``unjudged``, or what was wrong.

    ``random``: the outputs are drawn, so that types and shapes are compared.
    """

    name: str
    operator: str
    verdict: str
    engine: str = ""

    @property
    def passed(self) -> bool:
        return self.verdict in ("equal", "random")

    @property
    def counts(self) -> bool:
        return self.verdict not in ("left", "unjudged")


@functools.cache
def cases() -> list[TestCase]:
    """Return the tests of nodes, those of ONNX's own expansions left out."""
    found = onnx.backend.test.loader.load_model_tests(kind="node")
    return [case for case in found if "_expanded" not in case.name]


def schema_cases() -> Iterator[tuple[TestCase, OperatorId]]:
    """Yield the tests with an operator whose schema has a body."""
    yield from _cases(schemas.has_body)


def own_cases() -> Iterator[tuple[TestCase, OperatorId]]:
    """Yield the tests with an operator whose schema has none, and that has a body of the package."""
    yield from _cases(
        lambda op, version: decompositions.has_body(op, version) and not schemas.has_body(op, version)
    )


def _cases(wanted: Any) -> Iterator[tuple[TestCase, OperatorId]]:
    for case in cases():
        model = _model(case)
        versions = {entry.domain: entry.version for entry in model.opset_import}
        for node in model.graph.node:
            op = OperatorId(node.domain, node.op_type)
            if wanted(op, versions.get(node.domain, 0)):
                yield case, op
                break


def _model(case: TestCase) -> onnx.ModelProto:
    return case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")


def outcome(case: TestCase, op: OperatorId) -> Outcome:
    """Replace an operator in a test's model, wherever it is, and run the test."""
    model = _model(case)
    try:
        decomposed = onnx_inline.decompose_operators(model, operators=[op])
    except onnx_inline.NoBodyError as error:
        # A body of ours need not serve every use; where it does not, the operator is left.
        left = "its body is for other" in error.reason
        return Outcome(case.name, str(op), "left" if left else f"refused: {error}")
    if any((node.domain, node.op_type) == op[:2] for node in decomposed.graph.node if not _compares_only(op)):
        return Outcome(case.name, str(op), "still there")
    verdicts = []
    for run in (_in_onnxruntime, _in_reference):
        verdict = _verdict(case, decomposed, run)
        if verdict in ("equal", "random"):
            return Outcome(case.name, str(op), verdict, run.__name__[4:])
        verdicts.append(verdict)
    if case.name + "_expanded" in _expanded() and not _can_judge(case):
        return Outcome(case.name, str(op), "unjudged")
    return Outcome(case.name, str(op), " / ".join(verdicts))


def _can_judge(case: TestCase) -> bool:
    """Say whether an engine gives the expected outputs for ONNX's own expansion of the test."""
    model = _expanded()[case.name + "_expanded"]
    return any(_verdict(case, model, run) == "equal" for run in (_in_onnxruntime, _in_reference))


@functools.cache
def _expanded() -> dict[str, onnx.ModelProto]:
    found = onnx.backend.test.loader.load_model_tests(kind="node")
    return {case.name: _model(case) for case in found if case.name.endswith("_expanded")}


def _compares_only(op: OperatorId) -> bool:
    """An extremum's body compares with the extremum, through which no gradient goes."""
    return op.name in ("ReduceMax", "ReduceMin")


def _verdict(case: TestCase, model: onnx.ModelProto, run: Any) -> str:
    for inputs, expected in _data_sets(case):
        try:
            results = run(model, inputs)
        except Exception as error:  # whatever an engine cannot do is not our fault
            return f"not run ({str(error).strip().splitlines()[0][:150]})"
        if "bernoulli" in case.name:
            if [np.shape(result) for result in results] != [np.shape(array) for array in expected]:
                return "another shape"
            continue
        for result, array in zip(results, expected, strict=True):
            if difference := _difference(result, array, case):
                return difference
    return "random" if "bernoulli" in case.name else "equal"


def _difference(result: Any, expected: Any, case: TestCase) -> str:
    if isinstance(expected, list):
        pairs = zip(result, expected, strict=True)
        return next((text for one, other in pairs if (text := _difference(one, other, case))), "")
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return f"{result.dtype}{result.shape} for {expected.dtype}{expected.shape}"
    if result.dtype.kind not in "fiub":
        one, other = result.astype(np.float32), expected.astype(np.float32)
    else:
        one, other = result, expected
    if np.allclose(one, other, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return ""
    return f"differs by {np.max(np.abs(one.astype(np.float64) - other.astype(np.float64))):.3g}"


def _data_sets(case: TestCase) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield inputs and expected outputs as arrays (loaded cases hold some as protobuf, some as scalars)."""
    for inputs, expected in case.data_sets:
        yield [_array(value) for value in inputs], [_array(value) for value in expected]


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value if isinstance(value, list) else np.asarray(value)


def _in_onnxruntime(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    results: list[Any] = session.run(None, _feeds(model, inputs))
    return results


def _in_reference(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[Any]:
    from onnx.reference import ReferenceEvaluator

    results: list[Any] = ReferenceEvaluator(model).run(None, _feeds(model, inputs))
    return results


def _feeds(model: onnx.ModelProto, inputs: Sequence[Any]) -> dict[str, Any]:
    return dict(zip([value.name for value in model.graph.input], inputs, strict=False))


def main() -> None:
    groups = {"schema": list(schema_cases()), "onnx_inline": list(own_cases())}
    rows: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for source, found in groups.items():
        for case, op in found:
            rows[op.name, source].append(outcome(case, op))
    Path(sys.argv[1]).write_text(table(rows), encoding="utf-8")


def table(rows: dict[tuple[str, str], list[Outcome]]) -> str:
    every = [one for outcomes in rows.values() for one in outcomes if one.counts]
    lines = [
        "# Operators that can be decomposed",
        "",
        "Made by `tests/decompose/node_tests.py`: each operator is replaced by its body in ONNX's own node",
        f"tests (onnx {onnx.__version__}). The result is run in ONNX Runtime, or where that does not take it",
        "in ONNX's reference evaluator, and compared with the outputs that ONNX expects.",
        "",
        f"**{sum(one.passed for one in every)} of {len(every)}** tests give the expected outputs.",
        "",
        "Not counted: where a body of the package is not for a test's types or attributes, the operator is",
        "left; some tests neither engine can judge, for it fails with ONNX's own expansion as well.",
        "",
        "| operator | body | tests | as expected | not counted | engine |",
        "|---|---|---|---|---|---|",
    ]
    for (name, source), outcomes in sorted(rows.items()):
        engines = ", ".join(sorted({one.engine for one in outcomes if one.engine}))
        passed = sum(one.passed for one in outcomes)
        counted = sum(one.counts for one in outcomes)
        left = len(outcomes) - counted
        lines.append(f"| {name} | {source} | {counted} | {passed} | {left or ''} | {engines} |")
    failures = [one for one in every if not one.passed]
    lines += ["", "Not as expected:", ""] if failures else []
    lines += [f"- `{one.name}`: {one.verdict}" for one in failures]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
