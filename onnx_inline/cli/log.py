"""What libraries log and warn of: nothing of it on the terminal, unless asked for."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

from onnx_inline.reports.text import escaped

#: The level that each further -v shows; without one, errors are all that matters, and those are raised.
_LEVELS = (logging.CRITICAL, logging.WARNING, logging.DEBUG)


class _Escaping(logging.Formatter):
    """Log messages quote names from models."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message with what a terminal would obey escaped."""
        return escaped(super().format(record))


@contextlib.contextmanager
def as_verbose_as(verbose: int) -> Iterator[None]:
    """Show log messages and warnings on stderr as far as ``--verbose`` asks for them, for a while."""
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(_Escaping("%(levelname)s: %(name)s: %(message)s"))
    handler.setLevel(_LEVELS[min(verbose, 2)])
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(before, handler.level))
    try:
        with warnings.catch_warnings():
            if not verbose:
                warnings.simplefilter("ignore")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
