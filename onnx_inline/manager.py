"""Run passes one after the other: all or nothing, watched by instruments."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.errors import OnnxInlineError, PassFailedError, PassTextError, UnknownPassError
from onnx_inline.passes.text import described, format_passes, parse_passes

#: one pass, several, or the text of some
Passes = ir.passes.PassBase | Iterable[ir.passes.PassBase] | str


@dataclass(frozen=True)
class Step:
    """A pass in a chain.

    Attributes:
        index: its place, counted from 1.
        count: how many passes the chain has.
        pass_: the pass.
    """

    index: int
    count: int
    pass_: ir.passes.PassBase

    def __str__(self) -> str:
        return described(self.pass_)


class Instrument:
    """Watches a chain of passes and changes nothing; each method does nothing unless overridden.

    An exception in ``after`` stops the chain as one in the pass does.

    Example:
        >>> class Printer(Instrument):
        ...     def after(self, step, model, modified):
        ...         print(step.index, step, modified)
    """

    def start(self, model: ir.Model, count: int) -> None:
        """Called before the first of ``count`` passes."""

    def before(self, step: Step, model: ir.Model) -> None:
        """Called before each pass."""

    def after(self, step: Step, model: ir.Model, modified: bool) -> None:
        """Called after each pass that succeeded."""

    def finish(self, model: ir.Model | None) -> None:
        """Called at the end, with None if a pass failed."""


class ChainError(PassFailedError, ir.passes.PassError):
    """A pass of a chain failed."""


@dataclass(frozen=True)
class PassManager(ir.passes.PassBase):
    """Runs passes one after the other; is a pass itself.

    Attributes:
        passes: the passes, or their text form (see :func:`onnx_inline.parse_passes`).
        atomic: when a pass fails, put the model back to what it was before the first.  The price is a clone
            of the graphs (tensors are shared).  Without it, the model is as the last pass left it.
        instruments: what watches.
        dump_on_failure: where to write the model as it was before the pass that failed.  The price is a
            clone of the graphs, and the passes before that one once more.
        source: what to call the model in the command that reproduces a failure.

    Raises:
        PassFailedError: a pass failed; it says which of how many, and how to reproduce it.

    Example:
        >>> import onnx_ir as ir
        >>> from onnx_inline import PassManager
        >>> manager = PassManager("inline-functions,remove-unused-nodes")
        >>> model = ir.from_onnx_text('''
        ...     <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        ...     main (float[2] x) => (float[2] y) { y = local.twice (x) }
        ...     <domain: "local", opset_import: ["" : 18]>
        ...     twice (a) => (b) { b = Add (a, a) }
        ... ''')
        >>> manager(model).modified
        True
        >>> print(manager)
        inline-functions,remove-unused-nodes
    """

    name: ClassVar[str] = "pass-manager"

    passes: Passes = ()
    atomic: bool = False
    instruments: Sequence[Instrument] = ()
    dump_on_failure: str | os.PathLike[str] | None = None
    source: str = field(default="MODEL.onnx", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "passes", as_passes(self.passes))
        object.__setattr__(self, "instruments", tuple(self.instruments))

    @property
    def in_place(self) -> bool:
        """Whether the model given is the one returned: no pass returns another."""
        return all(pass_.in_place for pass_ in self._chain)

    @property
    def changes_input(self) -> bool:
        """Whether the model given is changed."""
        return any(pass_.changes_input for pass_ in self._chain[:1]) or self.in_place

    @property
    def _chain(self) -> tuple[ir.passes.PassBase, ...]:
        assert isinstance(self.passes, tuple), "made one on construction"
        return self.passes

    def __str__(self) -> str:
        return ",".join(map(described, self._chain))

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the passes."""
        with restoring(model, self.atomic), self._watched(model) as watch:
            modified = False
            held = model.clone() if self.dump_on_failure is not None else None
            for step in self._steps():
                try:
                    result = watch.run(step, model)
                except Exception as error:  # a third party's pass may raise anything
                    raise self._failure(step, error, held) from error
                model, modified = result.model, modified or result.modified
            watch.result = model
        return ir.passes.PassResult(model, modified)

    def _steps(self) -> Iterator[Step]:
        count = len(self._chain)
        return (Step(index, count, pass_) for index, pass_ in enumerate(self._chain, 1))

    @contextmanager
    def _watched(self, model: ir.Model) -> Iterator[_Watch]:
        watch = _Watch(self.instruments)
        for instrument in self.instruments:
            instrument.start(model, len(self._chain))
        try:
            yield watch
        finally:
            for instrument in self.instruments:
                instrument.finish(watch.result)

    def _failure(self, step: Step, error: Exception, held: ir.Model | None) -> ChainError:
        dump = "" if held is None else os.fspath(self.dump_on_failure or "")
        if held is not None:
            self._dump(held, step, dump)
        reason = str(error) if isinstance(error, OnnxInlineError) else f"{type(error).__name__}: {error}"
        command = self._command(step, dump)
        return ChainError(
            reason, failed=str(step), index=step.index, count=step.count, command=command, dump=dump
        )

    def _dump(self, model: ir.Model, failed: Step, path: str) -> None:
        from onnx_inline.files.lazy import save

        for pass_ in self._chain[: failed.index - 1]:
            model = pass_(model).model
        save(model, path)

    def _command(self, step: Step, dump: str) -> str:
        chain = [step.pass_] if dump else self._chain[: step.index]
        try:
            text = format_passes(chain)
        except (UnknownPassError, PassTextError):
            # A pass without a text form can only be run from Python.
            names = ", ".join(map(described, chain))
            return f"PassManager([{names}]) on {dump or self.source}"
        return f"onnx-inline run {shlex.quote(dump or self.source)} --passes {shlex.quote(text)}"


class _Watch:
    """Runs one pass with instruments around it."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._instruments = instruments
        self.result: ir.Model | None = None

    def run(self, step: Step, model: ir.Model) -> ir.passes.PassResult:
        for instrument in self._instruments:
            instrument.before(step, model)
        result = step.pass_(model)
        for instrument in reversed(self._instruments):
            instrument.after(step, result.model, result.modified)
        return result


def as_passes(passes: Passes) -> tuple[ir.passes.PassBase, ...]:
    """Return passes as a tuple, whatever way they are given."""
    if isinstance(passes, str):
        return parse_passes(passes)
    if isinstance(passes, ir.passes.PassBase):
        return (passes,)
    return tuple(passes)


@contextmanager
def restoring(model: ir.Model, wanted: bool) -> Iterator[None]:
    """Put the model back to what it is now if the block does not succeed, interruptions included."""
    former = _Snapshot(model) if wanted else None
    try:
        yield
    except BaseException:
        if former is not None:
            former.restore(model)
        raise


class _Snapshot:
    """A model as it was; weights are shared."""

    _PLAIN = (
        *("graph", "ir_version", "producer_name", "producer_version", "domain", "model_version"),
        *("doc_string", "device_configurations"),
    )

    def __init__(self, model: ir.Model) -> None:
        self._clone = model.clone()
        self._meta = dict(model.meta)

    def restore(self, model: ir.Model) -> None:
        """Make the model what it was; its graph, nodes and values are new objects."""
        for attribute in self._PLAIN:
            if hasattr(self._clone, attribute):  # older versions of onnx_ir have no device configurations
                setattr(model, attribute, getattr(self._clone, attribute))
        for mine, former in (
            (model.functions, self._clone.functions),
            (model.metadata_props, self._clone.metadata_props),
            (model.meta, self._meta),
        ):
            mine.clear()
            mine.update(former)  # type: ignore[arg-type]  # each pair is of one type
