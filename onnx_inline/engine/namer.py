"""The names of what is stamped."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_inline.engine.options import Options
from onnx_inline.engine.plan import PlannedSite
from onnx_inline.engine.survey import Survey
from onnx_inline.names import NameScope, Prefixes, joined


class Namer:
    """Chooses the names of what is stamped into one set of graphs that see each other."""

    def __init__(self, options: Options, survey: Survey) -> None:
        self._flat = options.names == "flat"
        self._prefixes = Prefixes([*survey.values, *survey.labels])
        if self._flat:
            self._values, self._labels = NameScope(survey.values), NameScope(survey.labels)

    def names(self, site: PlannedSite) -> tuple[str, tuple[str, ...]]:
        """Return the call site's prefix, and with flat names those of the values and the nodes inside."""
        prefix = self._prefixes.claim(joined("", site.label))
        if not self._flat:
            return prefix, ()
        values = [self._values.claim(name.leaf) for name in site.template.names]
        labels = [self._labels.claim(label.leaf) for label in site.template.labels]
        return prefix, (*values, *labels)


def slot_names(site: PlannedSite, outer: Sequence[str], prefix: str, own: Sequence[str]) -> list[str]:
    """Return the name of each slot of a stamp; ``outer`` are those of its inputs and outputs."""
    if own:
        return [*outer, *own[: len(site.template.names)]]
    return [*outer, *(f"{prefix}/{name}" for name in site.template.names)]
