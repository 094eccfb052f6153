"""Names from a model as text that is safe to print."""

from __future__ import annotations

import re

#: Control characters (C0 but the line feed, DEL, C1), what turns the writing direction, lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Return ``text`` with everything that a terminal would obey written as an escape; line feeds stay.

    Example:
        >>> escaped("red \x1b[31m")
        'red \\x1b[31m'
    """
    return _UNPRINTABLE.sub(_escape, text)


def escaped_name(name: str) -> str:
    r"""Return ``name`` on one line, escaped.

    Example:
        >>> escaped_name("two\nlines")
        'two\\nlines'
    """
    return escaped(name).replace("\n", "\\n")


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun.

    Example:
        >>> quantity(1, "call"), quantity(1204, "node")
        ('1 call', '1,204 nodes')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def byte_size(size: int) -> str:
    """Return a number of bytes in the unit that suits it.

    Example:
        >>> byte_size(512), byte_size(1_234_567_890)
        ('512 B', '1.1 GiB')
    """
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_BYTE_UNITS))
    return f"{size / 1024**power:,.1f} {_BYTE_UNITS[power - 1]}"


_BYTE_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
