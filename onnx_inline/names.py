"""The only place where a new name is chosen."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence

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


class Prefixes:
    """Hands out prefixes that nothing begins with, so that every name under one is free.

    Args:
        taken: all names in the scopes that can see each other.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        # Only a name with a slash can begin with a prefix and a slash.
        self._slashed = sorted(name for name in taken if "/" in name)
        self._claimed: set[str] = set()
        self._parents: set[str] = set()
        self._next: dict[str, int] = {}

    def claim(self, preferred: str) -> str:
        """Return a prefix such that no name, now or later, begins with it and a slash."""
        if self._is_free(preferred):
            return self._take(preferred)
        for number in itertools.count(self._next.get(preferred, 2)):
            fresh = f"{preferred}_{number}"
            if self._is_free(fresh):
                self._next[preferred] = number + 1
                return self._take(fresh)
        raise AssertionError("itertools.count ended")

    def _is_free(self, prefix: str) -> bool:
        if prefix in self._claimed or prefix in self._parents:
            return False
        if any(parent in self._claimed for parent in _parents(prefix)):
            return False
        start = prefix + "/"
        index = bisect.bisect_left(self._slashed, start)
        return index == len(self._slashed) or not self._slashed[index].startswith(start)

    def _take(self, prefix: str) -> str:
        self._claimed.add(prefix)
        self._parents.update(_parents(prefix))
        return prefix


def _parents(path: str) -> Sequence[str]:
    """Return every path that the given one lies under."""
    if "/" not in path:
        return ()
    return [path[:end] for end, character in enumerate(path) if character == "/"]
