"""The one step that makes a save, and what comes before and after it when there is a data file."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator

from onnx_inline.errors import ExternalDataError
from onnx_inline.files import data_files, publish, system
from onnx_inline.files.layout import Layout, Piece
from onnx_inline.files.plan import Plan
from onnx_inline.files.publish import Target, Temporary
from onnx_inline.files.sources import Source


def commit(target: Target, pieces: list[Piece], source: Source | None, undo: Callable[[], None]) -> None:
    """Write the model file beside the target and rename it over it, or ``undo``."""
    folder = os.path.dirname(target.real)  # noqa: PTH120
    file = Temporary(folder, target.mode, exact=target.old is not None)
    try:
        with file:
            publish.write(pieces, file.descriptor, sum(map(len, pieces)))
            system.sync(file.descriptor)
            if source is not None:
                source.check_unchanged()
            publish.replace(file.path, target.real)
    except BaseException:
        if not file.renamed:
            undo()
        raise
    # the save is done: a folder that cannot be synced makes it less durable, not undone
    with contextlib.suppress(OSError):
        publish.sync_folder(folder)


def write(
    target: Target, plan: Plan, layout: Layout, source: Source | None, asked: str | None, old: Collection[str]
) -> str:
    """Write a data file and the model that names it; return the data file's name.

    A free name is used: nobody reads the data before the model is in place.  If ``asked`` is the name of
    the old model's data, the new pair is put in place under a free name first, and under the name asked
    for by a second save; so the model in the folder and the data that it names belong together at any time.
    """
    taken = asked is not None and _is_taken(target, asked, old)
    with Temporary(target.folder, target.mode, exact=target.old is not None) as data:
        publish.write(publish.at_offsets(layout.data.pieces), data.descriptor, layout.data.size)
        system.sync(data.descriptor)
        if asked is None or taken:
            name = _commit_under(_free_names(target, asked), target, plan, source, data)
        else:
            name = _commit_under([asked], target, plan, source, data)
        return _take_over(asked, name, target, plan, data) if asked and taken else name


def _is_taken(target: Target, name: str, old: Collection[str]) -> bool:
    """Tell whether the name asked for has to be taken from the old model; refuse to take it from others."""
    status = publish.status_of(_in(target, name))
    if status is None:
        return False
    if not stat.S_ISREG(status.st_mode):
        reason = "is a link" if stat.S_ISLNK(status.st_mode) else "is no file"
    elif others := data_files.users(target.folder, name, without=target.real):
        reason = f"holds the data of {others[0]!r}"
    elif name not in old:
        reason = "exists, and the model that is replaced does not use it"
    else:
        return True
    raise ExternalDataError(
        f"its data cannot be written to {name!r}, which {reason}",
        path=target.path,
        field="external_data",
        hint="choose another name, or remove that file",
    )


def _commit_under(
    names: Iterable[str], target: Target, plan: Plan, source: Source | None, data: Temporary
) -> str:
    """Give the data the first name that is free and commit the model that uses it."""
    for name in names:
        path = _in(target, name)
        # a model may name a file that is missing: that name is not free
        if publish.status_of(path) is None and not data_files.users(target.folder, name, without=target.real):
            with contextlib.suppress(FileExistsError):
                _commit_with(path, name, target, plan, source, data)
                return name
    raise ExternalDataError("its data file was created by somebody else just now", path=target.path)


def _commit_with(
    path: str, name: str, target: Target, plan: Plan, source: Source | None, data: Temporary
) -> None:
    def undo() -> None:
        status = publish.status_of(path)
        if status is not None and os.path.samestat(status, system.fstat(data.descriptor)):
            publish.remove(path)

    try:
        publish.link(data.path, path)
        publish.sync_folder(target.folder)
    except BaseException:
        undo()
        raise
    commit(target, plan.layout(name).pieces, source, undo)


def _take_over(asked: str, name: str, target: Target, plan: Plan, data: Temporary) -> str:
    """Give the data of a saved pair the name asked for; return the name they have in the end."""
    second = data.path.removesuffix(".tmp")[:-1] + ("0" if data.path[-5] != "0" else "1") + ".tmp"
    try:
        system.link(data.path, second)
        publish.replace(second, _in(target, asked))
        publish.sync_folder(target.folder)
        commit(target, plan.layout(asked).pieces, None, undo=nothing)
    except OSError as error:
        publish.remove(second)
        plan.notes.append(f"the data are in {name}, for {asked} could not be replaced: {error.strerror}")
        return name
    publish.remove(_in(target, name))
    return asked


def nothing() -> None:
    """Undo what left no trace."""


def _in(target: Target, name: str) -> str:
    return os.path.join(target.folder, name)  # noqa: PTH118


def _free_names(target: Target, asked: str | None) -> Iterator[str]:
    """Yield names in the order in which they are tried; short ones, whatever the model is called."""
    stem, suffix = os.path.splitext(asked or f"{os.path.basename(target.path)}.data")  # noqa: PTH119, PTH122
    stem = stem.encode("utf-8", "ignore")[:200].decode("utf-8", "ignore") or "model"
    if not asked:
        yield f"{stem}{suffix}"
    yield from (f"{stem}.{number}{suffix}" for number in itertools.count(2))
