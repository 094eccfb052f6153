"""Where an inlined node came from, as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable

from onnx_inline.engine.body import CallPath
from onnx_inline.identifiers import OperatorId

#: JSON: the calls that a node came through, outermost first, as pairs of call site name and function
CALL_PATH_KEY = "onnx_inline.call_path"
#: the key that graph viewers group nodes by
NAMESPACE_KEY = "namespace"


def call_path(site: str, function: OperatorId, calls: CallPath | None) -> list[tuple[str, str]]:
    """Return the calls from a call site down to a node, outermost first."""
    inner = []
    while calls is not None:
        inner.append((calls.site, str(calls.function)))
        calls = calls.parent
    return [(site, str(function)), *reversed(inner)]


def provenance_of(site: str, function: OperatorId, calls: CallPath | None) -> dict[str, str]:
    """Return the metadata that says which calls a node came through."""
    path = call_path(site, function, calls)
    return {CALL_PATH_KEY: json.dumps(path), NAMESPACE_KEY: namespace(path)}


def namespace(path: Iterable[tuple[str, str]]) -> str:
    """Return a call path as viewers read it: levels separated by slashes."""
    return "/".join(f"{site}: {function}".replace("/", ".") for site, function in path)
