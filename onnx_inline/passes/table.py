"""Which passes there are, by name: ours, those of onnx_ir and onnxscript that fit, and third parties'."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from onnx_inline.errors import PassUnavailableError, UnknownPassError
from onnx_inline.passes import PASSES

if TYPE_CHECKING:
    import onnx_ir as ir

#: third parties name their passes in this group of entry points
ENTRY_POINTS = "onnx_inline.passes"


@dataclass(frozen=True)
class PassOption:
    """An option of a pass: a parameter of its class.

    Attributes:
        name: as in Python; in text a hyphen may stand for an underscore.
        type: the type hint, ``Any`` if there is none.
        default: the value if nothing is given, ``inspect.Parameter.empty`` if one must be.
    """

    name: str
    type: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is inspect.Parameter.empty

    def to_dict(self) -> dict[str, Any]:
        """Return the option as plain strings."""
        default = {} if self.required else {"default": repr(self.default)}
        return {"name": self.name, "type": _spelled(self.type), **default}


@dataclass(frozen=True)
class PassEntry:
    """A pass in the table.

    Attributes:
        name: its name in text, as ``fold-modules``.
        home: module and class, as ``onnx_inline.passes.fold_modules:FoldModulesPass``.
        origin: the distribution that it comes from.
    """

    name: str
    home: str
    origin: str

    def load(self) -> type[ir.passes.PassBase]:
        """Import the class.

        Raises:
            PassUnavailableError: it cannot be imported.
        """
        module, _, name = self.home.partition(":")
        try:
            found: type[ir.passes.PassBase] = getattr(importlib.import_module(module), name)
        except Exception as error:  # a third party's module may raise anything
            raise PassUnavailableError(self.name, self.origin, str(error)) from error
        return found

    def options(self) -> tuple[PassOption, ...]:
        """Return the options, in the order of the class's parameters."""
        return options_of(self.load())

    def summary(self) -> str:
        """Return the first line of the class's docstring, or the name as a sentence."""
        # inspect.getdoc would hand down what a base class says about passes in general.
        own = self.load().__doc__ or self.name.replace("-", " ").capitalize() + "."
        return inspect.cleandoc(own).partition("\n")[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry, with options and summary, as plain dictionaries, lists and strings."""
        options = [option.to_dict() for option in self.options()]
        return {"name": self.name, "origin": self.origin, "summary": self.summary(), "options": options}


@functools.cache
def known_passes() -> Mapping[str, PassEntry]:
    """Return every pass there is, by name; a name of ours cannot be taken by a third party."""
    own = {name: PassEntry(name, home, _origin(home)) for name, home in PASSES.items()}
    return {**_third_party(), **own}


def _third_party() -> dict[str, PassEntry]:
    points = sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name)
    return {p.name: PassEntry(p.name, p.value, p.dist.name if p.dist else p.module) for p in points}


def _origin(home: str) -> str:
    if home.startswith("onnx_inline.passes.borrowed:"):
        return "onnxscript"
    return home.partition(".")[0]


def entry_of(name: str) -> PassEntry:
    """Return the pass of a name.

    Raises:
        UnknownPassError: there is none; it names those that are spelled alike.
    """
    if name not in known_passes():
        raise UnknownPassError(f"there is no pass {name!r}", name=name, close=_close(name))
    return known_passes()[name]


def _close(name: str) -> list[str]:
    alike = difflib.get_close_matches(name, known_passes(), n=3)
    return list(dict.fromkeys([*alike, *(known for known in known_passes() if name and name in known)]))[:3]


def name_of(pass_: ir.passes.PassBase) -> str:
    """Return what to call a pass: its name in the table, its own name, or its class's in kebab case."""
    cls = type(pass_)
    own = getattr(pass_, "name", None) or _names_by_class().get(cls.__name__)
    if isinstance(own, str):
        return own
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__.removesuffix("Pass")).lower()


@functools.cache
def _names_by_class() -> Mapping[str, str]:
    return {entry.home.partition(":")[2]: name for name, entry in known_passes().items()}


@functools.cache
def options_of(cls: type[ir.passes.PassBase]) -> tuple[PassOption, ...]:
    """Return the options of a pass, in the order of the class's parameters."""
    hints = _hints(cls)
    given = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(cls).parameters.values()
    return tuple(PassOption(p.name, hints.get(p.name, Any), p.default) for p in parameters if p.kind in given)


def _hints(cls: type) -> Mapping[str, Any]:
    try:
        return get_type_hints(cls.__init__)  # type: ignore[misc]  # also a dataclass's, for all its fields
    except (NameError, TypeError):  # a type imported for type checking only, perhaps joined by |
        return {}


def _spelled(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and hint.__module__ == "builtins" else str(hint)
