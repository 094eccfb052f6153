"""The one step that makes a save, and what comes before and after it when there is a data file."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from onnx_inline.errors import ExternalDataError, FileError
from onnx_inline.files import data_files, publish, system
from onnx_inline.files.layout import Layout, Piece, Range
from onnx_inline.files.plan import Plan
from onnx_inline.files.publish import Target, Temporary
from onnx_inline.files.sources import Identity, Source, register


@dataclass(frozen=True)
class Save:
    """What a save needs at its end: the ``target``, what it replaces, and how a layout becomes a file.

    ``source`` is the file that must not have changed.
    """

    target: Target
    source: Source | None
    encode: Callable[[Layout], list[Piece]]


def commit(
    save: Save, pieces: list[Piece], publish_data: Callable[[bool], None], undo: Callable[[], None]
) -> None:
    """Write the model file beside the target and rename it over it, or ``undo``.

    ``publish_data`` is called just before, and told whether all other savers are kept out of the folder.
    """
    target = save.target
    folder = os.path.dirname(target.real)  # noqa: PTH120
    file = Temporary(folder, target.mode, exact=target.old is not None)
    try:
        with file:
            publish.write(pieces, file.descriptor, sum(map(len, pieces)))
            system.sync(file.descriptor)
            with publish.exclusive(target.folder) as alone, _marked(target) as marks:
                publish_data(alone)
                if save.source is not None:
                    save.source.check_unchanged()
                try:
                    publish.replace(file.path, target.real)
                finally:
                    publish.tidy(lambda: _finish(file, target.folder, marks, alone))
    except BaseException:
        if not file.settled:
            undo()
        raise


@contextlib.contextmanager
def _marked(target: Target) -> Iterator[dict[str, Temporary]]:
    """Leave marks for the data of the old model: if we die before they are removed, the next save does it."""
    with contextlib.ExitStack() as stack:
        marks: dict[str, Temporary] = {}
        for name in sorted(filter(publish.plain_name, data_files.named_by(target))):
            status = publish.status_of(_in(target, name))
            if status is not None and stat.S_ISREG(status.st_mode):
                mark = Temporary(target.folder, tag=publish.tag_of(status))
                marks[name] = stack.enter_context(mark)
        yield marks


def _finish(file: Temporary, folder: str, marks: Mapping[str, Temporary], alone: bool) -> None:
    """Do what follows a save that is done: whatever fails here makes it less durable or tidy, not undone."""
    # the disk is asked, for an interrupt may come between the step and its record
    file.settled = file.is_gone()
    if file.settled:
        for mark in marks.values():
            mark.settled = True
        with contextlib.suppress(Exception):
            publish.sync_folder(os.path.dirname(file.path))  # noqa: PTH120
        for name, mark in marks.items() if alone else ():
            mark.settled = not data_files.settle(folder, name)


def write(save: Save, plan: Plan, layout: Layout, asked: str | None) -> str:
    """Write a data file and the model that names it; return the data file's name.

    A free name is used: nobody reads the data before the model is in place.  If ``asked`` is the name of
    the old model's data, the new pair is put in place under a free name first, and under the name asked
    for by a second save, with a copy of the data; so the model in the folder and the data that it names
    belong together at any time.
    """
    taken = asked is not None and _is_taken(save.target, asked)
    names = [asked] if asked and not taken else _free_names(save.target, asked)
    first = _written(layout.data.pieces, layout.data.size, names, save, plan)
    if not asked or not taken:
        return first
    try:
        return _take_over(asked, first, layout.data.size, save, plan)
    except (OSError, MemoryError, FileError) as error:
        plan.notes.append(f"the data are in {first}, for {asked} could not be replaced: {error}")
        return first


def _written(
    pieces: Iterable[tuple[int, Piece]], size: int, names: Iterable[str], save: Save, plan: Plan
) -> str:
    """Write the data, publish them under the first name that is free, and commit the model that names it."""
    target = save.target
    with Temporary(target.folder, target.mode, exact=target.old is not None) as data:
        publish.write(publish.at_offsets(pieces), data.descriptor, size)
        system.sync(data.descriptor)
        with Temporary(target.folder, tag=publish.tag_of(system.fstat(data.descriptor))):
            return _commit_under(names, save, plan, data)


def _is_taken(target: Target, name: str) -> bool:
    """Tell whether the name asked for has to be taken from the old model; refuse to take it from others."""
    status = publish.status_of(_in(target, name))
    if status is None:
        return False
    if not stat.S_ISREG(status.st_mode):
        reason = "is a link" if stat.S_ISLNK(status.st_mode) else "is no file"
    elif others := data_files.users(target.folder, name, without=target.real):
        reason = f"holds the data of {others[0]!r}"
    elif name not in data_files.named_by(target):
        reason = "exists, and the model that is replaced does not use it"
    else:
        return True
    raise ExternalDataError(
        f"its data cannot be written to {name!r}, which {reason}",
        path=target.path,
        field="external_data",
        hint="choose another name, or remove that file",
    )


def _commit_under(names: Iterable[str], save: Save, plan: Plan, data: Temporary) -> str:
    for name in names:
        # a model may name a file that is missing: that name is not free
        if not _exists(save.target, name) and not _is_named(save.target, name):
            with contextlib.suppress(FileExistsError):
                _commit_with(name, save, plan, data)
                return name
    raise ExternalDataError(
        "its data file was created by somebody else just now", path=save.target.path, hint="try again"
    )


def _commit_with(name: str, save: Save, plan: Plan, data: Temporary) -> None:
    path = _in(save.target, name)

    def publish_data(_: bool) -> None:
        publish.rename_if_free(data.path, path)
        publish.sync_folder(save.target.folder)

    def undo() -> None:
        status = publish.status_of(path)
        if status is not None and os.path.samestat(status, system.fstat(data.descriptor)):
            system.unlink(path)

    commit(save, save.encode(plan.layout(name)), publish_data, lambda: publish.tidy(undo))


def _take_over(asked: str, first: str, size: int, save: Save, plan: Plan) -> str:
    """Put a copy of the data of a saved pair in the place of the old model's; return their final name."""
    target = save.target
    data = register(_in(target, first), Identity.of(system.lstat(_in(target, first))))
    with Temporary(target.folder, target.mode, exact=True) as copy:
        publish.write([Range(data, 0, size)], copy.descriptor, size)
        system.sync(copy.descriptor)
        with Temporary(target.folder, tag=publish.tag_of(system.fstat(copy.descriptor))) as mark:

            def publish_data(alone: bool) -> None:
                if not alone or data_files.users(target.folder, asked):
                    raise FileError("another process saves there just now")
                # if the second save fails, nobody names the copy: the mark stays and tells the next save
                mark.settled = True
                publish.replace(copy.path, _in(target, asked))
                publish.sync_folder(target.folder)

            commit(replace(save, source=None), save.encode(plan.layout(asked)), publish_data, nothing)
            mark.settled = False
    return asked


def _exists(target: Target, name: str) -> bool:
    return publish.status_of(_in(target, name)) is not None


def _is_named(target: Target, name: str) -> bool:
    return bool(data_files.users(target.folder, name, without=target.real))


def nothing(_: bool = True) -> None:
    """Publish no data; undo what left no trace."""


def _in(target: Target, name: str) -> str:
    return os.path.join(target.folder, name)  # noqa: PTH118


def _free_names(target: Target, asked: str | None) -> Iterator[str]:
    """Yield names in the order in which they are tried; short ones, whatever the model is called."""
    stem, suffix = os.path.splitext(asked or f"{os.path.basename(target.path)}.data")  # noqa: PTH119, PTH122
    stem = stem.encode("utf-8", "ignore")[:200].decode("utf-8", "ignore") or "model"
    if not asked:
        yield f"{stem}{suffix}"
    yield from (f"{stem}.{number}{suffix}" for number in itertools.count(2))
