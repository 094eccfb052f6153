"""The first value that differs between two models, found by halving what is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from onnx_inline.equivalence.compare import Tolerance, compare
from onnx_inline.equivalence.engines import Run, Subject
from onnx_inline.equivalence.inputs import Feeds
from onnx_inline.equivalence.report import FirstDifference

#: values fetched in one run
_MOST = 512

#: characters of a node's text
_LONGEST = 160


def first_difference(
    a: Subject, b: Subject, engine: Callable[[Subject], Run], feeds: Feeds, tolerance: Tolerance
) -> FirstDifference | None:
    """Return the first value of both models that differs, or None if it cannot be found.

    Values are matched by name and ordered as the second model computes them.  Each run fetches half of
    those that may still be the first, so that the one found is the first.
    """
    made_a, made_b = _makers(a.proto), _makers(b.proto)
    names = [name for name in made_b if name in made_a]

    def differing(chosen: Sequence[str]) -> str | None:
        results = [engine(subject.with_outputs(chosen))(feeds) for subject in (a, b)]
        pairs = zip(chosen, *results, strict=True)
        return next((name for name, old, new in pairs if not compare(old, new, tolerance).same), None)

    try:
        found = _first(names, differing)
    except Exception:  # an engine may not give out a value; then the outputs have to do
        return None
    if found is None:
        return None
    return FirstDifference(found, _text(made_a[found]), _text(made_b[found]), len(names))


def _first(names: Sequence[str], differing: Callable[[Sequence[str]], str | None]) -> str | None:
    start = 0
    while start < len(names):
        half = (len(names) - start + 1) // 2
        end = start + min(half, _MOST)
        if (found := differing(names[start:end])) is not None:
            return found
        start = end
    return None


def _makers(model: onnx.ModelProto) -> Mapping[str, onnx.NodeProto]:
    """Return, in order, the values that the nodes of the graph compute, and those nodes."""
    return {name: node for node in model.graph.node for name in node.output if name}


def _text(node: onnx.NodeProto) -> str:
    # onnx prints single nodes only from 1.18 on, and all of their attributes.
    label = f'["{node.name}"] ' if node.name else ""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    text = f"{label}{', '.join(node.output)} = {operator} ({', '.join(node.input)})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
