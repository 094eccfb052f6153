"""What the docstring of a pass shows, before and after, is what the pass does."""

from __future__ import annotations

import inspect
import re
import textwrap

import onnx_ir as ir
import pytest
from helpers import assert_transforms

from onnx_inline.passes import PASSES
from onnx_inline.passes.table import entry_of, options_of
from onnx_inline.passes.text import parse_passes

#: options to run the example with, where the defaults do nothing or are none
OPTIONS: dict[str, dict[str, object]] = {
    "fold-modules": {"depth": 1},
    "convert-opset": {"version": 20},
}

#: a pass that works on what no text shows, and one whose result is long
NO_EXAMPLE = {"bind-initializers", "expand-frozen"}

OURS = [name for name, home in PASSES.items() if home.startswith("onnx_inline.")]


def shown(cls: type, title: str) -> str:
    """Return the model text under a title of a class's docstring, empty if there is none."""
    found = re.search(rf"^{title}(, with ``.*``)?::\n", inspect.getdoc(cls) or "", re.MULTILINE)
    lines: list[str] = []
    for line in found.string[found.end() :].splitlines() if found else []:
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines)).strip()


def example(name: str, cls: type) -> ir.passes.PassBase:
    """Return the pass with the options that its docstring says the example is for."""
    said = re.search(r"^Before, with ``(.*)``::$", inspect.getdoc(cls) or "", re.MULTILINE)
    if said:
        (made,) = parse_passes(f"{name}{{{said[1]}}}")
        return made
    return cls(**OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", [name for name in OURS if name not in NO_EXAMPLE])
def test_the_example_in_the_docstring_is_true(name: str) -> None:
    cls = entry_of(name).load()
    before, after = shown(cls, "Before"), shown(cls, "After")
    assert before, f"{name} has no example"
    assert after
    assert_transforms(example(name, cls), before=before, after=after)


@pytest.mark.parametrize("name", OURS)
def test_every_option_is_described(name: str) -> None:
    cls = entry_of(name).load()
    text = inspect.getdoc(cls) or ""
    described = text.partition("Attributes:")[2]
    for option in options_of(cls):
        assert f"{option.name}" in described, f"{name} does not describe {option.name}"


@pytest.mark.parametrize("name", OURS)
def test_passes_of_ours_are_frozen_and_carry_their_names(name: str) -> None:
    cls = entry_of(name).load()
    assert issubclass(cls, ir.passes.PassBase)
    assert cls.name == name  # type: ignore[attr-defined]
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
