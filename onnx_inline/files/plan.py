"""Choose where each tensor's data go: into the model file, into a new data file, or nowhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from onnx_inline.errors import ExternalDataError, FileError
from onnx_inline.files.layout import Fate, Layout, Payload, lay_out
from onnx_inline.files.locations import Folder
from onnx_inline.files.publish import Target
from onnx_inline.files.sources import Source

External = Literal["auto", "copy", "keep", "inline"]
#: what protobuf reads at most
LIMIT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asked for."""

    external: External
    external_data: str | None
    threshold: int
    force: bool


def stays_valid(target: Target) -> Callable[[Payload], bool]:
    """Return what tells whether a reader of the target finds, at the same location, the same data."""
    folder = Folder.around(target.path, None)

    # a model is laid out several times: what is found once holds for all of them
    @functools.cache
    def found(location: str) -> Source | None:
        try:
            return folder.find(location, "", target.path)
        except ExternalDataError:
            return None

    return lambda payload: found(payload.location) is payload.source


class Plan:
    """Decides where each tensor's data go, and lays the model out accordingly."""

    def __init__(
        self, model: bytes, nodes: Sequence[bytes] | None, request: Request, stays: Callable[[Payload], bool]
    ) -> None:
        self._model, self._nodes, self._request, self._stays = model, nodes, request, stays
        self._move_own = request.external_data is not None
        self._move_all = False
        self.notes: list[str] = []

    def layout(self, name: str) -> Layout:
        """Lay the model out with the data file of that name."""
        smallest = max(self._request.threshold, 1) if self._move_own else None
        return lay_out(self._model, self._nodes, self._fate, name, smallest)

    def settled(self, name: str) -> Layout:
        """Lay out as asked; differently where that would make two data files, or more than 2 GiB."""
        layout = self.layout(name)
        if self._request.external_data and layout.kept and layout.data.pieces:
            self._move_all = True
            layout = self.layout(name)
        if layout.size > LIMIT:
            self._move_own = self._move_all = True
            layout = self.layout(name)
            self.notes.append("the model is larger than 2 GiB; its weights are in a data file of their own")
        if layout.size > LIMIT:
            raise FileError(
                f"{layout.size} bytes are more than a model file can have, 2 GiB, without its weights",
                hint="inline fewer functions, or split the model",
            )
        return layout

    def _fate(self, payload: Payload) -> Fate:
        if payload.location:
            return self._fate_of_external(payload)
        moves = self._move_own and payload.movable and payload.size >= max(self._request.threshold, 1)
        return Fate.DATA if moves else Fate.INSIDE

    def _fate_of_external(self, payload: Payload) -> Fate:
        asked = self._request.external
        if asked == "keep":
            return Fate.KEEP
        if self._move_all or asked == "copy":
            return Fate.DATA
        if asked == "inline":
            return Fate.INSIDE
        right_name = self._request.external_data in (None, payload.location)
        return Fate.KEEP if right_name and self._stays(payload) else Fate.DATA
