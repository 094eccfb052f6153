"""Do two models compute the same?"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_inline.equivalence.compare import Difference, Tolerance, compare
from onnx_inline.equivalence.divergence import first_difference
from onnx_inline.equivalence.engines import ENGINES, Run, Subject, functions_in_order, version_of
from onnx_inline.equivalence.inputs import Feeds, InputMaker, recipes
from onnx_inline.equivalence.report import EngineReport, FirstDifference, VerifyReport
from onnx_inline.errors import UnknownNameError
from onnx_inline.files.lazy import save
from onnx_inline.files.protos import load_proto

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["EngineReport", "FirstDifference", "VerifyReport", "verify"]


def verify(
    a: onnx.ModelProto | ir.Model | str | os.PathLike[str],
    b: onnx.ModelProto | ir.Model | str | os.PathLike[str],
    *,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    seed: int = 0,
    samples: int = 3,
    engines: Sequence[str] = ("onnxruntime", "reference"),
    locate: bool = True,
) -> VerifyReport:
    """Say whether two models have the same interface and compute the same.

    Both are run by each engine on the same inputs.  An engine that cannot run both says why and has no
    vote, except that a second model that it cannot run, where it runs the first, is different.

    Args:
        a: the model as it should be: a path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        b: the model to compare with it.
        inputs: values by input name, once or several times, to be used instead of generated ones.
        rtol: the relative tolerance.
        atol: the absolute tolerance; numbers are the same if they differ by at most
            ``atol + rtol * abs(a)``.  Integers, truth values and text must be equal.
        seed: the seed of the first set of inputs; each next set has the next one.
        samples: how many sets of inputs are generated.  Open dimensions get small sizes, the same symbol
            the same one; integers are valid indices where that can be seen, else other ranges are tried
            until ``a`` runs.
        engines: of ``onnxruntime`` and ``reference`` (onnx's reference evaluator).
        locate: look for the first value inside that differs.

    Returns:
        What was compared and what was found; true if the models are the same.

    Raises:
        UnknownNameError: there is no engine of a name.
        FileError: a file cannot be read.
        FunctionCycleError: functions of a model call each other in a circle.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        ...     main (float[N] x) => (float[N] y) { y = local.twice (x) }
        ...     <domain: "local", opset_import: ["" : 18]>
        ...     twice (a) => (b) { b = Add (a, a) }
        ... ''')
        >>> onnx_inline.verify(model, onnx_inline.inline_functions(model)).same
        True
    """
    _refuse_unknown(engines)
    with ExitStack() as stack:
        first, second = (_subject(model, title, stack) for model, title in ((a, "a"), (b, "b")))
        interface = tuple(_interface_changes(first.proto, second.proto))
        feeding = _Feeding.of(first.proto, inputs, seed, samples)
        comparison = _Comparison(first, second, feeding, Tolerance(rtol, atol), locate)
        reports = () if interface else tuple(comparison.by(engine) for engine in engines)
    made = "; ".join(dict.fromkeys(comparison.made)) or "none that a runs with"
    return VerifyReport(first.title, second.title, interface, reports, made, rtol, atol, seed)


def _refuse_unknown(engines: Sequence[str]) -> None:
    for engine in engines:
        if engine not in ENGINES:
            close = difflib.get_close_matches(engine, ENGINES) or list(ENGINES)
            raise UnknownNameError(f"there is no engine {engine!r}", name=engine, close=close)


def _subject(model: Any, title: str, stack: ExitStack) -> Subject:
    if isinstance(model, str | os.PathLike):
        subject = Subject(os.fspath(model), load_proto(model))
    elif isinstance(model, onnx.ModelProto):
        subject = Subject(title, model)
    else:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="onnx-inline-"))
        save(model, Path(folder, "model.onnx"))
        subject = Subject(title, load_proto(Path(folder, "model.onnx")))
    functions_in_order(subject.proto)
    stack.callback(subject.close)
    return subject


def _interface_changes(a: onnx.ModelProto, b: onnx.ModelProto) -> Iterator[str]:
    for what in ("input", "output"):
        old, new = (list(getattr(model.graph, what)) for model in (a, b))
        if [info.name for info in old] != [info.name for info in new]:
            yield f"{what}s: {[i.name for i in old]} became {[i.name for i in new]}"
            continue
        for before, after in zip(old, new, strict=True):
            if before.type != after.type:
                yield f"{what} {_typed(before)} became {_typed(after)}"


def _typed(info: onnx.ValueInfoProto) -> str:
    # onnx has no text of a type by itself.
    text = str(onnx.printer.to_text(onnx.GraphProto(name="graph", input=[info])))
    return text[text.index("(") + 1 : text.index(") =>")]


@dataclass(frozen=True)
class _Feeding:
    """Where inputs come from: given, or made with a seed."""

    given: tuple[Feeds, ...] | None
    maker: InputMaker
    seed: int
    samples: int

    @classmethod
    def of(cls, model: onnx.ModelProto, inputs: Any, seed: int, samples: int) -> _Feeding:
        sets = None
        if inputs is not None:
            sets = tuple(dict(one) for one in ([inputs] if isinstance(inputs, Mapping) else inputs))
        return cls(sets, InputMaker.of(model), seed, samples)

    def attempts(self) -> Iterator[tuple[str, list[tuple[int | None, Feeds]]]]:
        """Yield sets of inputs with their seeds, and in words how they were made, the best way first."""
        if self.given is not None:
            yield "as given", [(None, feeds) for feeds in self.given]
            return
        for recipe in recipes(self.maker):
            seeds = range(self.seed, self.seed + self.samples)
            yield f"generated, {recipe}", [(seed, self.maker.make(recipe, seed)) for seed in seeds]


class _UnableError(Exception):
    """An engine cannot run a model."""


@dataclass
class _Comparison:
    """Compares two models engine by engine; ``made`` says how the inputs that each used were made."""

    a: Subject
    b: Subject
    feeding: _Feeding
    tolerance: Tolerance
    locate: bool
    made: list[str] = field(default_factory=list)

    def by(self, engine: str) -> EngineReport:
        """Return what one engine finds."""
        version = version_of(engine)
        try:
            run_a = _started(ENGINES[engine], self.a)
            feeds, expected = self._run_first(run_a)
        except (_UnableError, NotImplementedError) as error:
            return EngineReport(engine, version, "unable", str(error))
        try:
            run_b = _started(ENGINES[engine], self.b)
            found = [_results(run_b, self.b, one) for _, one in feeds]
        except _UnableError as error:
            return EngineReport(engine, version, "different", f"{error}; it runs {self.a.title}")
        return self._judge(engine, version, feeds, list(zip(expected, found, strict=True)))

    def _run_first(self, run: Run) -> tuple[list[tuple[int | None, Feeds]], list[list[Any]]]:
        """Return the first inputs that the first model runs with, and its results."""
        reason = ""
        for made, feeds in self.feeding.attempts():
            try:
                results = [_results(run, self.a, one) for _, one in feeds]
            except _UnableError as error:
                reason = reason or str(error)
                continue
            self._refuse_random(run, feeds, results)
            self.made.append(made)
            return feeds, results
        raise _UnableError(reason)

    def _refuse_random(self, run: Run, feeds: list[Any], results: list[list[Any]]) -> None:
        if feeds and not _compared(results[0], _results(run, self.a, feeds[0][1]), self.tolerance).same:
            raise _UnableError(f"{self.a.title} computes something else in every run")

    def _judge(
        self, engine: str, version: str, feeds: list[Any], results: list[tuple[list[Any], list[Any]]]
    ) -> EngineReport:
        names = [info.name for info in self.a.proto.graph.output]
        whole = Difference()
        where: tuple[str, int | None, Feeds] = ("", None, {})
        for (seed, one), (old, new) in zip(feeds, results, strict=True):
            for name, first, second in zip(names, old, new, strict=True):
                difference = compare(first, second, self.tolerance)
                if not difference.same and whole.same:
                    where = (name, seed, one)
                whole = whole.joined(difference)
        output, seed, failing = where
        numbers = (len(feeds), len(names), whole.largest_absolute, whole.largest_relative)
        if whole.same:
            return EngineReport(engine, version, "same", "", *numbers)
        first = self._first(ENGINES[engine], failing) if self.locate else None
        return EngineReport(engine, version, "different", whole.reason, *numbers, output, seed, first)

    def _first(self, engine: Callable[[Subject], Run], feeds: Feeds) -> FirstDifference | None:
        return first_difference(self.a, self.b, engine, feeds, self.tolerance)


def _compared(old: list[Any], new: list[Any], tolerance: Tolerance) -> Difference:
    return compare([_plain(x) for x in old], [_plain(x) for x in new], tolerance)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, list) else np.asarray(value)


def _started(engine: Callable[[Subject], Run], subject: Subject) -> Run:
    try:
        return engine(subject)
    except ImportError as error:
        raise _UnableError(f"{error}; pip install onnx-inline[verify]") from error
    except Exception as error:  # engines have errors of their own
        raise _UnableError(f"it cannot load {subject.title}: {_line(error)}") from error


def _results(run: Run, subject: Subject, feeds: Feeds) -> list[Any]:
    try:
        return run(feeds)
    except Exception as error:  # engines have errors of their own
        raise _UnableError(f"it cannot run {subject.title}: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
