"""What of onnx_inline works in this installation: each part is tried, not looked up."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Part:
    """A library or program, and what came of trying it.

    Attributes:
        name: what it is called where one installs it.
        version: the installed version; None if it is not installed or has none.
        purpose: what onnx_inline uses it for.
        required: whether onnx_inline is of no use without it.
        fault: why it does not work; None if it does.
    """

    name: str
    version: str | None
    purpose: str
    required: bool
    fault: str | None


#: distribution, module, purpose, whether it is required
_LIBRARIES = (
    ("onnx", "onnx", "models", True),
    ("numpy", "numpy", "tensors", True),
    ("onnx-ir", "onnx_ir", "passes on onnx_ir.Model", True),
    ("click", "click", "the command line", True),
    ("rich", "rich", "tables", True),
    (
        "onnxruntime",
        "onnxruntime",
        "verify and --check, which use onnx's evaluator without it",
        False,
    ),
    ("onnxscript", "onnxscript", "constant folding, decompositions, opset conversion", False),
    ("torch", "torch", "bind weights from .pt, exporter and training integrations", False),
)


def examine() -> list[Part]:
    """Import every library that onnx_inline can use and say which work.

    Example:
        >>> [part.name for part in examine()][:2]
        ['Python', 'onnx']
    """
    return [Part("Python", platform.python_version(), sys.platform, True, None), *_libraries(), _graphviz()]


def _libraries() -> Iterator[Part]:
    for name, module, purpose, required in _LIBRARIES:
        yield Part(name, installed_version(name), purpose, required, _fault(module))


def _graphviz() -> Part:
    fault = None if shutil.which("dot") else "no program 'dot' on the PATH"
    return Part("dot (Graphviz)", None, "inspect --svg", False, fault)


def _fault(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return f"not installed ({error.name})"
    except Exception as error:  # a broken library may raise anything, and that is the finding
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, without importing it, or None.

    Example:
        >>> installed_version("no-such-distribution") is None
        True
    """
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def parts_dict(parts: list[Part]) -> dict[str, Any]:
    """Return plain data for JSON."""
    return {"parts": [asdict(part) for part in parts]}


def parts_table(parts: list[Part]) -> Table:
    """Return the parts as a rich table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("part", "version", "works", "used for"):
        table.add_column(title)
    for part in parts:
        state = "yes" if part.fault is None else f"no: {part.fault}"
        style = None if part.fault is None else "red" if part.required else "dim"
        table.add_row(part.name, part.version or "", state, part.purpose, style=style)
    return table
