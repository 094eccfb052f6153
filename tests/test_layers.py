"""The rooms of the package stand in layers; a module imports only from layers before its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "onnx_inline"

#: A module or folder of the package a line, the lowest first.
LAYERS = (
    *(
        "_version",
        "errors",
        "identifiers",
        "names",
        "calls",
        "opsets",
        "targets",
        "engine",
        "shadow",
        "inference",
        "paths",
        "support",
        "unbound",
        "files",
    ),
    *(
        "verifier",
        "schemas",
        "decompositions",
        "safetensors_file",
        "weights",
        "binding",
        "verifier",
        "equivalence",
        "passes",
        "manager",
        "instruments",
        "chaining",
        "freezing",
        "chaining",
        "bisection",
    ),
    *("gradients", "preparation", "reports", "integrations", "api", "cli"),
)

MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def room(module: str) -> str:
    return module.split("/")[0].removesuffix(".py")


def imported_rooms(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and room of each import of the package in ``source``, at whatever depth it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("onnx_inline."):
                yield node.lineno, name.split(".")[1]


def wrong_imports(module: str, source: str) -> list[str]:
    own = LAYERS.index(room(module))
    return [
        f"{module}:{line} imports {other}, which is not below {room(module)}"
        for line, other in imported_rooms(source)
        if other in LAYERS and other != room(module) and LAYERS.index(other) > own
    ]


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("__")])
def test_every_module_has_a_layer_and_imports_only_from_lower_ones(module: str) -> None:
    assert room(module) in LAYERS, f"{room(module)} has no place in LAYERS"
    assert wrong_imports(module, (PACKAGE / module).read_text(encoding="utf-8")) == []


def test_an_import_that_goes_the_wrong_way_is_found_even_inside_a_function() -> None:
    source = "def f():\n    from onnx_inline.cli import main\n    import onnx_inline.api\n"
    assert wrong_imports("engine/resolve.py", source) == [
        "engine/resolve.py:2 imports cli, which is not below engine",
        "engine/resolve.py:3 imports api, which is not below engine",
    ]
