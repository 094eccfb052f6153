"""The text form of a chain of passes: ``inline-functions{keep=m::Attn},fold-modules{depth=1},verify``."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from onnx_inline.errors import PassTextError, UnknownPassError
from onnx_inline.passes.options import (
    DoesNotFitError,
    Several,
    UnwritableError,
    Word,
    Written,
    decoded,
    encoded,
    expected,
)
from onnx_inline.passes.table import PassOption, entry_of, known_passes, name_of, options_of

if TYPE_CHECKING:
    import onnx_ir as ir

#: lists in lists deeper than this have no meaning for any option
_DEEPEST = 20

_TOKEN = re.compile(
    r"""\s*(?: (?P<mark>[,{}\[\]=]) | (?P<quoted>"(?:[^"\\]|\\.)*") | (?P<word>[^\s,{}\[\]="]+) )""",
    re.VERBOSE | re.DOTALL,
)


def parse_passes(text: str) -> tuple[ir.passes.PassBase, ...]:
    """Return the passes that a text describes.

    The text is a list of names of passes separated by commas, each with options in braces if it has any:
    ``name{option=value,option=value}``.  A value is a word, a text in double quotes (with the escapes of
    JSON; needed for blanks and for any of ``, { } [ ] = "``), or a list in brackets, ``[a,b]``.  ``none``,
    ``true`` and ``false`` are those values unless in quotes; an option alone means ``true``.  Blanks and
    line breaks may stand between all of these.

    Args:
        text: the text; blank for no passes.

    Raises:
        UnknownPassError: there is no pass of a name; close ones are named.
        PassTextError: the text is not well formed, or an option does not exist or does not fit; ``position``
            is the character that is wrong, counted from 0.
        PassUnavailableError: a pass cannot be imported.

    Example:
        >>> from onnx_inline import format_passes, parse_passes
        >>> passes = parse_passes('fold-modules{depth=1}, remove-unused-nodes')
        >>> passes[0].depth
        1
        >>> format_passes(passes)
        'fold-modules{depth=1},remove-unused-nodes'
    """
    reader = _Reader(text)
    passes: list[ir.passes.PassBase] = []
    while not reader.at_end():
        if passes:
            reader.expect(",", "between passes")
        passes.append(_read_pass(reader))
    return tuple(passes)


def format_passes(passes: Iterable[ir.passes.PassBase]) -> str:
    """Return the text that :func:`parse_passes` makes the same passes of.

    Options that have their default value are left out.

    Raises:
        UnknownPassError: a pass is not in the table, so that no text can name it.
        PassTextError: an option has a value that no text can give, as a predicate.
    """
    return ",".join(map(format_pass, passes))


def format_pass(pass_: ir.passes.PassBase) -> str:
    """Return the text of one pass; see :func:`format_passes`."""
    name = name_of(pass_)
    if name not in known_passes() or entry_of(name).load() is not type(pass_):
        raise UnknownPassError(f"{type(pass_).__name__} is not among the passes that have a name", name=name)
    options = ",".join(_formatted_options(pass_, name))
    return f"{name}{{{options}}}" if options else name


def described(pass_: ir.passes.PassBase) -> str:
    """Return the text of a pass, or just its name if it has no text."""
    try:
        return format_pass(pass_)
    except (UnknownPassError, PassTextError):
        return name_of(pass_)


def _formatted_options(pass_: ir.passes.PassBase, name: str) -> Iterator[str]:
    for option in options_of(type(pass_)):
        value = getattr(pass_, option.name)
        if option.required or not _same(value, option.default):
            try:
                yield f"{option.name.replace('_', '-')}={encoded(value)}"
            except UnwritableError as error:
                raise PassTextError(f"option {option.name} of {name} cannot be written: {error}") from error


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _read_pass(reader: _Reader) -> ir.passes.PassBase:
    position, name = reader.word("the name of a pass")
    try:
        entry = entry_of(name)
    except UnknownPassError as error:
        # The same error, now with its place.
        raise UnknownPassError(
            f"character {position}: there is no pass {name!r}", name=name, close=error.close
        ) from None
    cls = entry.load()
    values = dict(_read_options(reader, name, options_of(cls)))
    missing = [o.name for o in options_of(cls) if o.required and o.name not in values]
    if missing:
        raise PassTextError(
            f"{name} needs {', '.join(missing)}; write {name}{{{missing[0]}=...}}", reader.text, position
        )
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise PassTextError(f"{name}: {error}", reader.text, position) from error


def _read_options(reader: _Reader, name: str, options: tuple[PassOption, ...]) -> Iterator[tuple[str, Any]]:
    if not reader.skip("{"):
        return
    known = {option.name: option for option in options}
    seen: set[str] = set()
    while not reader.skip("}"):
        if seen:
            reader.expect(",", "between options")
        position, spelled = reader.word("the name of an option")
        key = spelled.replace("-", "_")
        if key not in known:
            raise _unknown_option(reader, position, name, spelled, known)
        if key in seen:
            raise PassTextError(f"option {spelled} of {name} is given twice", reader.text, position)
        seen.add(key)
        yield key, _read_value(reader, known[key], f"{spelled} of {name}")


def _unknown_option(
    reader: _Reader, position: int, name: str, spelled: str, known: Iterable[str]
) -> PassTextError:
    names = [option.replace("_", "-") for option in known]
    close = difflib.get_close_matches(spelled.replace("_", "-"), names, n=3)
    has = f"it has {', '.join(names)}" if names else "it has none"
    meant = f"did you mean {', '.join(close)}?" if close else has
    return PassTextError(f"{name} has no option {spelled!r}; {meant}", reader.text, position, close=close)


def _read_value(reader: _Reader, option: PassOption, what: str) -> Any:
    written: Written = Word("true", False, reader.position)
    if reader.skip("="):
        written = reader.value()
    try:
        return decoded(written, option.type)
    except DoesNotFitError:
        takes = expected(option.type)
        message = f"option {what} takes {takes}" if takes else f"option {what} cannot be given as text"
        raise PassTextError(message, reader.text, written.position) from None


class _Reader:
    """Reads a text token by token."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self._tokens = self._split()
        self._next()

    def _split(self) -> Iterator[tuple[str, str, int]]:
        end, offset = len(self.text.rstrip()), 0
        while offset < end:
            match = _TOKEN.match(self.text, offset)
            if match is None:
                raise PassTextError("a quotation mark has no end", self.text, self.text.find('"', offset))
            kind = match.lastgroup or ""
            yield kind, match[kind], match.start(kind)
            offset = match.end()

    def _next(self) -> None:
        self._kind, self._token, self.position = next(self._tokens, ("end", "", len(self.text)))

    def at_end(self) -> bool:
        return self._kind == "end"

    def skip(self, mark: str) -> bool:
        """Go past a mark if it is next."""
        found = self._kind == "mark" and self._token == mark
        if found:
            self._next()
        return found

    def expect(self, mark: str, where: str) -> None:
        """Go past a mark that must be next."""
        if not self.skip(mark):
            raise self._wrong(f"{mark!r} {where}")

    def word(self, what: str) -> tuple[int, str]:
        """Read a word that is not in quotes."""
        position, token = self.position, self._token
        if self._kind != "word":
            raise self._wrong(what)
        self._next()
        return position, token

    def value(self, depth: int = 0) -> Written:
        """Read a value."""
        position, token, kind = self.position, self._token, self._kind
        if self.skip("["):
            if depth == _DEEPEST:
                raise PassTextError(f"lists are nested more than {_DEEPEST} deep", self.text, position)
            return Several(tuple(self._items(depth)), position)
        if kind not in ("word", "quoted"):
            raise self._wrong("a value")
        self._next()
        if kind == "quoted":
            return Word(self._unquoted(token, position), True, position)
        return Word(token, False, position)

    def _items(self, depth: int) -> Iterator[Written]:
        first = True
        while not self.skip("]"):
            if not first:
                self.expect(",", "or ']' in a list")
            first = False
            yield self.value(depth + 1)

    def _unquoted(self, token: str, position: int) -> str:
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            raise PassTextError(
                f"{token} has an escape that JSON does not know", self.text, position
            ) from None

    def _wrong(self, wanted: str) -> PassTextError:
        found = "the end" if self.at_end() else repr(self._token)
        return PassTextError(f"{wanted} is expected, not {found}", self.text, self.position)
