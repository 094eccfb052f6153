"""The only place where a new name is chosen."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

#: A path longer than this many characters is shortened in the middle.
LONGEST_PATH = 120


def joined(path: str, site: str) -> str:
    """Return the path one call further down, shortened if it gets long: names must not grow with the depth.

    Example:
        >>> joined("encoder", "layer_3")
        'encoder/layer_3'
    """
    whole = f"{path}/{site}" if path else site
    return whole if len(whole) <= LONGEST_PATH else f"{whole[:40]}~{whole[-LONGEST_PATH + 41 :]}"


class NameScope:
    """Names already taken; hands out fresh ones, the same ones on every run.

    Example:
        >>> scope = NameScope(["x"])
        >>> scope.claim("x"), scope.claim("x"), scope.claim("y")
        ('x_2', 'x_3', 'y')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def claim(self, preferred: str) -> str:
        """Return ``preferred`` if it is free, else ``preferred_2``, ``preferred_3``, ..."""
        if preferred and preferred not in self._taken:
            self._taken.add(preferred)
            return preferred
        for number in itertools.count(self._next.get(preferred, 2)):
            fresh = f"{preferred}_{number}"
            if fresh not in self._taken:
                self._next[preferred] = number + 1
                self._taken.add(fresh)
                return fresh
        raise AssertionError("itertools.count ended")
