"""Ask a reader which operators it takes, as its target file lists them.

Run in an environment that holds the reader::

    python tests/probes/probe.py onnx-ad            # prints the lists
    python tests/probes/probe.py onnx-ad --compare  # says how the target file differs; exit code 1 if it does

ONNX Runtime training needs ``onnxruntime-training-cpu``; jaxonnxruntime needs jax beside it,
onnx2torch torch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import onnx
import onnx.defs
import onnx.parser

Entries = dict[str, list[str]]


def history(name: str, domain: str = "") -> list[int]:
    """Return the versions of the domain in which an operator changed."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return sorted(s.since_version for s in schemas if s.name == name and s.domain == domain)


def entry(name: str, known: Iterable[int]) -> str | None:
    """Return the target file's entry for an operator of which some schema versions are known."""
    versions, known = history(name), set(known)
    if not known & set(versions):
        return None
    spans: list[list[int | None]] = []
    for version, following in zip(versions, [*versions[1:], None], strict=True):
        if version not in known:
            continue
        if spans and spans[-1][1] == version - 1:
            spans[-1][1] = following and following - 1
        else:
            spans.append([version, following and following - 1])
    if spans == [[versions[0], None]]:
        return name
    return f"{name} {','.join(f'{low}-{high or str()}' for low, high in spans)}"


def standard(entries: Iterable[str | None]) -> Entries:
    return {"ai.onnx": sorted(found for found in entries if found)}


# ------------------------------------------------------------------------ ONNX Runtime training


def ort_training() -> Entries:
    """Every known operator name, as a local function in a one-node model, given to the gradient builder.

    The builder looks names up without their domain, so the function's name decides.
    """
    schemas = onnx.defs.get_all_schemas_with_history()
    names = {s.name for s in schemas if s.domain == ""}
    runtime = {*_runtime_names()} - names
    return {
        "ai.onnx": sorted({*filter(_has_builder, names), *_rewritten()}),
        "com.microsoft": sorted(filter(_has_builder, runtime)),
    }


def _rewritten() -> list[str]:
    """Return what ONNX Runtime makes into an operator with a gradient first: BatchNormalization."""
    from onnxruntime import SessionOptions
    from onnxruntime.capi._pybind_state import get_optimized_model

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, float[3] s) => (float[2,3] y)'
        " <float[3] b = {0,0,0}, float[3] m = {0,0,0}, float[3] v = {1,1,1}>"
        " { y, q, r = BatchNormalization<training_mode = 1> (x, s, b, m, v) }"
    )
    optimized = onnx.load_model_from_string(
        get_optimized_model(model.SerializeToString(), {"s"}, SessionOptions())
    )
    made = {node.op_type for node in optimized.graph.node}
    return ["BatchNormalization"] if "BatchNormInternal" in made else []


def _runtime_names() -> Iterator[str]:
    from onnxruntime.capi import onnxruntime_pybind11_state

    library = Path(onnxruntime_pybind11_state.__file__).read_bytes()
    # A linker stores "FastGelu" as the end of "GemmFastGelu", so every ending counts.
    for found in set(re.findall(rb"[A-Z][A-Za-z0-9]{2,40}(?=\x00)", library)):
        yield from (found[m.start() :].decode() for m in re.finditer(rb"[A-Z]", found))


def _has_builder(name: str) -> bool:
    from onnxruntime.capi._pybind_state import GradientGraphBuilder

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "probe" : 1]> g (float[2] x) => (float[2] y)'
        " { y = probe.F (x) }"
        ' <domain: "probe", opset_import: ["" : 17]> F (a) => (b) { b = Relu (a) }'
    )
    model.graph.node[0].op_type = model.functions[0].name = name
    try:
        with _quiet():
            GradientGraphBuilder(model.SerializeToString(), {"y"}, {"x"}, "y").build()
    except Exception as error:  # what it raises depends on what it misses
        return "has not been registered" not in str(error)
    return True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what native code prints to nowhere."""
    saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)


# ------------------------------------------------------------------------------------ registries


def onnx_ad() -> Entries:
    """What has both rules, and what is lowered to such operators before the walk."""
    from onnx_ad import lower, recurrent, rules

    names = {*(rules.FORWARD.keys() & rules.REVERSE.keys()), *lower.LOWERINGS, *recurrent.RECURRENT}
    # A constant needs no rule.
    return {"ai.onnx": sorted({*names, "Constant"})}


def onnx2torch() -> Entries:
    """What its registry of converters holds; an operator is looked up by the version of its schema."""
    _stand_in_for_torchvision()
    import onnx2torch  # noqa: F401  # fills the registry
    from onnx2torch.node_converters.registry import _CONVERTER_REGISTRY

    found: dict[str, set[int]] = {}
    for description in _CONVERTER_REGISTRY:
        if description.domain == "":
            found.setdefault(description.operation_type, set()).add(description.version)
    # The graph reader takes constants itself.
    found.setdefault("Constant", set()).update(history("Constant"))
    return standard(entry(name, versions) for name, versions in found.items())


def _stand_in_for_torchvision() -> None:
    """Let the imports succeed: the registry is filled without a call."""
    ops = types.ModuleType("torchvision.ops")
    ops.__getattr__ = lambda name: None  # type: ignore[method-assign]
    sys.modules.setdefault("torchvision", types.ModuleType("torchvision")).ops = ops  # type: ignore[attr-defined]
    sys.modules.setdefault("torchvision.ops", ops)


def jaxonnxruntime() -> Entries:
    """What its handlers hold; each version of a schema is a method."""
    from jaxonnxruntime import onnx_ops  # noqa: F401  # fills the registry
    from jaxonnxruntime.core.handler import Handler

    return standard(
        entry(handler.OP_TYPE, [int(m[8:]) for m in dir(handler) if m.startswith("version_")])
        for handler in Handler.__subclasses__()
        if handler.DOMAIN == ""
    )


def tinygrad() -> Entries:
    """What its table holds; a table inside it gives the versions from which an implementation holds."""
    from tinygrad.nn.onnx import onnx_ops

    found: Entries = {"ai.onnx": [], "com.microsoft": []}
    names = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    for name, implementation in onnx_ops.items():
        spelled = {spelling.lower(): spelling for spelling in names}.get(name.lower(), name)
        if spelled != name:
            continue
        if isinstance(implementation, dict):
            for opset in implementation:
                found.setdefault(opset.domain.value, []).append(name)
        else:
            found["ai.onnx" if name in names else "com.microsoft"].append(name)
    return {domain: sorted(set(entries)) for domain, entries in found.items()}


PROBES: Mapping[str, Callable[[], Entries]] = {
    "ort-training": ort_training,
    "onnx-ad": onnx_ad,
    "onnx2torch": onnx2torch,
    "jaxonnxruntime": jaxonnxruntime,
    "tinygrad": tinygrad,
}


def toml(found: Entries) -> str:
    """Return the lists as a target file holds them."""
    lines = ["[operators]"]
    for domain, entries in found.items():
        lines.append(f"{json.dumps(domain)} = [")
        lines += [f"    {json.dumps(text)}," for text in entries]
        lines.append("]")
    return "\n".join(lines)


def differences(name: str, found: Entries) -> list[str]:
    """Return how a target file differs from what was found."""
    from onnx_inline.targets import target_table

    listed = target_table(name)["operators"]
    lines = []
    for domain in sorted({*listed, *found}):
        theirs, ours = set(found.get(domain, ())), set(listed.get(domain, ()))
        lines += [f"{domain}: not in the file: {text}" for text in sorted(theirs - ours)]
        lines += [f"{domain}: only in the file: {text}" for text in sorted(ours - theirs)]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=PROBES)
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    found = PROBES[arguments.target]()
    lines = differences(arguments.target, found) if arguments.compare else [toml(found)]
    print("\n".join(lines))
    return int(arguments.compare and bool(lines))


if __name__ == "__main__":
    sys.exit(main())
