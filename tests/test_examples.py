"""The examples in docstrings: those of functions, and the before and after of every pass."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import onnx_inline.passes
from tests.helpers import assert_transforms

PACKAGE = Path(onnx_inline.__file__).parent
MODULES = [
    ".".join(("onnx_inline", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if re.search(r"^ +>>> ", path.read_text(encoding="utf-8"), re.M) and "integrations" not in path.parts
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_right(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried
    assert not failed


def passes_with_examples() -> list[type]:
    """Return every pass whose docstring shows models before and after, from whichever module it is."""
    found: dict[str, type] = {}
    for info in pkgutil.iter_modules(onnx_inline.passes.__path__):
        module = importlib.import_module(f"onnx_inline.passes.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__ and "After::" in (inspect.getdoc(cls) or ""):
                found[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return list(found.values())


def block(cls: type, title: str) -> str:
    """Return the indented block after a title of a docstring."""
    match = re.search(rf"^{title}[^\n]*::\n\n((?:    .*\n|\n)+)", f"{inspect.getdoc(cls)}\n", re.M)
    assert match is not None, f"{cls.__name__} shows no model {title.lower()}"
    return textwrap.dedent(match[1])


def options(cls: type) -> dict[str, Any]:
    """Return the options that the title of the first block gives: ``n=3`` or ``names=[a, b]``."""
    given = re.findall(r"^Before, with ``(\w+)=(.*)``::", inspect.getdoc(cls) or "", re.M)
    return {
        name: tuple(value[1:-1].split(", ")) if value.startswith("[") else int(value) for name, value in given
    }


def test_there_are_passes_with_examples() -> None:
    assert "InlineFunctionsPass" in {cls.__name__ for cls in passes_with_examples()}


@pytest.mark.parametrize("cls", passes_with_examples(), ids=lambda cls: cls.__name__)
def test_a_pass_does_what_its_docstring_shows(cls: type) -> None:
    before, after = block(cls, "Before"), block(cls, "After")
    try:
        made = cls(**options(cls))
    except TypeError:
        pytest.skip("it needs options, which its docstring does not show as code")
    assert isinstance(made, ir.passes.PassBase)
    onnx.parser.parse_model(before)
    assert_transforms(made, before=before, after=after, again=False)
