"""Which functions a caller means: exact identifiers, globs and predicates."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_inline.errors import UnknownFunctionError
from onnx_inline.identifiers import OperatorId, normalized_domain

#: one entry of ``only`` or ``keep``
Pattern = str | tuple[str, str] | tuple[str, str, str] | Callable[[Any], bool]
Patterns = str | Callable[[Any], bool] | Iterable[Pattern] | None


@dataclass(frozen=True)
class Selection:
    """The functions to inline; ``named`` are those that must be, the others may be left with a reason."""

    wanted: frozenset[OperatorId]
    named: frozenset[OperatorId]


def select(functions: Mapping[OperatorId, Any], only: Patterns, keep: Patterns) -> Selection:
    """Return the functions that ``only`` (None: all of them) and ``keep`` choose together.

    Raises:
        UnknownFunctionError: an entry matches no function of the model.
    """
    kept = frozenset(found for entry in _entries(keep) for found in _matches(functions, entry))
    if only is None:
        wanted = frozenset(functions) - kept
        return Selection(wanted, wanted)
    chosen = {entry_key(entry): _matches(functions, entry) for entry in _entries(only)}
    named = frozenset(f for (exact, _), found in chosen.items() if exact for f in found)
    return Selection(frozenset(f for found in chosen.values() for f in found) - kept, named - kept)


def entry_key(entry: Pattern) -> tuple[bool, Pattern]:
    """Say whether an entry names one function exactly."""
    return isinstance(entry, tuple), entry


def _entries(patterns: Patterns) -> Sequence[Pattern]:
    if patterns is None:
        return ()
    if isinstance(patterns, str | OperatorId) or callable(patterns):
        return (patterns,)
    return [tuple(p) if isinstance(p, list) else p for p in patterns]


def _matches(functions: Mapping[OperatorId, Any], entry: Pattern) -> tuple[OperatorId, ...]:
    if callable(entry):
        return tuple(f for f, function in functions.items() if entry(function))
    if isinstance(entry, str):
        found = tuple(
            f for f in functions if any(fnmatch.fnmatchcase(s, entry) for s in _spellings(f, entry))
        )
    else:
        exact = OperatorId(normalized_domain(entry[0]), *entry[1:])
        found = (exact,) if exact in functions else ()
    if not found:
        raise _unknown(functions, entry)
    return found


def _spellings(function: OperatorId, pattern: str) -> Iterable[str]:
    name = f"{function.name}:{function.overload}" if function.overload else function.name
    names = {function.name, name}
    domains = [function.domain] if function.domain else ["", "ai.onnx"]
    yield from (f"{domain}::{name}" for domain in domains for name in names)
    if "::" not in pattern:
        yield from names


def _unknown(functions: Mapping[OperatorId, Any], entry: Pattern) -> UnknownFunctionError:
    text = entry if isinstance(entry, str) else str(OperatorId(*entry))  # type: ignore[misc]
    known = [str(function) for function in functions]
    close = difflib.get_close_matches(text, known, n=3, cutoff=0.5)
    close += [k for k in known if text.rsplit("::", 1)[-1].lower() == k.rsplit("::", 1)[-1].lower()]
    what = "the model has no local functions" if not known else f"the model has {len(known)} functions"
    return UnknownFunctionError(
        f"no function matches {text!r}: {what}", name=text, close=tuple(dict.fromkeys(close))[:3]
    )
