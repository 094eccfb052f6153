"""Find the pass of a chain, and the node in it, that makes a model go wrong."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnx_inline.chaining import as_ir
from onnx_inline.equivalence import verify
from onnx_inline.errors import OnnxInlineError
from onnx_inline.files.lazy import load, save
from onnx_inline.freezing import all_nodes, owners, run_frozen, touched
from onnx_inline.manager import Passes, as_passes
from onnx_inline.passes.text import described
from onnx_inline.verifier import check_structure

#: says whether a model is good
Predicate = Callable[[ir.Model], bool]

_GOOD = "the model is good after the last pass"


@dataclass(frozen=True)
class BisectReport:
    """Which pass, and which node in it, makes a model go wrong.

    Attributes:
        reproduced: whether the model is good before the passes and bad after them.
        reason: in words: why nothing could be found, or how the model goes wrong.
        index: the place of the pass in the chain, counted from 1; 0 if none was found.
        count: how many passes there are.
        pass_: the pass, as text.
        site: the node that the pass should have left alone, and where it is; empty if it is not one node.
        alone: whether the model also goes wrong if the pass touches nothing but that node.
        candidates: how many nodes the pass touches.
        runs: how often the predicate was asked.
        nodes: nodes of the smallest failing model reached, functions included.
        before: the file with the model before the pass, empty if none was written.
        failing: the file with the smallest failing model, empty if none was written.
        command: the command that makes a failing model of the one before the pass.
        model: the smallest failing model; None if there is none, as when the pass raises.  Smallest means
            that the pass touches the fewest nodes in it.
    """

    reproduced: bool
    reason: str
    index: int = 0
    count: int = 0
    pass_: str = ""
    site: str = ""
    alone: bool = False
    candidates: int = 0
    runs: int = 0
    nodes: int = 0
    before: str = ""
    failing: str = ""
    command: str = ""
    model: ir.Model | None = field(default=None, compare=False, repr=False)

    @property
    def good(self) -> bool:
        """Whether the model is good before the passes and after them."""
        return self.reason == _GOOD

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain strings and numbers, without the model."""
        return {name: value for name, value in vars(self).items() if name != "model"}

    def __str__(self) -> str:
        if not self.reproduced:
            return f"nothing found: {self.reason}"
        lines = [f"pass {self.index} of {self.count}, {self.pass_}, {self.reason}"]
        if self.site:
            only = "; it alone is enough" if self.alone else ""
            lines.append(f"at {self.site}, one of {self.candidates} nodes that it touches{only}")
        smallest = f"; the smallest failing model has {self.nodes} nodes" if self.model else ""
        lines.append(f"found with {self.runs} runs{smallest}")
        lines += [f"written: {path}" for path in (self.before, self.failing) if path]
        return "\n  ".join([*lines, f"to reproduce it, run {self.command}"] if self.command else lines)


def bisect(
    model: onnx.ModelProto | ir.Model | str | os.PathLike[str],
    passes: Passes,
    predicate: Predicate | str,
    *,
    output: str | os.PathLike[str] | None = None,
) -> BisectReport:
    """Find the pass, and the node within it, that first makes a model go wrong.

    A pass that raises makes the model go wrong as well.  Passes are searched by halving, then the nodes
    that the pass found touches: those left out are, for the time of the pass, of a domain that it does not
    know.  ``n`` passes that touch ``m`` nodes take about ``log2(n) + log2(m) + 3`` runs of the predicate.

    Args:
        model: the model, or a path; it stays as it is.
        passes: passes, or their text form (see :func:`onnx_inline.parse_passes`).
        predicate: says whether a model is good: a function, ``outputs`` (it computes what the original
            does), ``checker`` (its structure is as right as the original's), or a command, which is given
            the path of a model file at its end or for ``{}``, and exits with 0 if the model is good.
        output: where to write the smallest failing model; the model before the pass goes beside it, with
            ``.before`` in its name.

    Returns:
        What was found.

    Example:
        >>> import onnx.parser, onnx_inline
        >>> model = onnx.parser.parse_model('''
        ...     <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        ...     main (float[2] x) => (float[2] y) { a = local.f (x) y = local.g (a) }
        ...     <domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = Abs (a) }
        ...     <domain: "local", opset_import: ["" : 18]> g (a) => (b) { b = Neg (a) }
        ... ''')
        >>> def has_no_abs(model):
        ...     return all(node.op_type != "Abs" for node in model.graph)
        >>> report = onnx_inline.bisect(model, "topological-sort,inline-functions", has_no_abs)
        >>> report.index, report.site
        (2, "node that computes ['a'] of local::f in the graph")
    """
    original = _as_ir(model)
    chain = as_passes(passes)
    search = _Search(original, chain, _as_predicate(predicate, original))
    if (reason := search.not_reproduced()) is not None:
        return BisectReport(False, reason, count=len(chain), runs=search.runs)
    return _written(search.report(), search.before, output)


def _as_ir(model: Any) -> ir.Model:
    if isinstance(model, str | os.PathLike):
        return load(model)
    return as_ir(model, "the model") if isinstance(model, onnx.ModelProto) else model.clone()


@dataclass
class _Search:
    """Looks for the first pass, then for the first node, after which a model is bad."""

    original: ir.Model
    chain: tuple[ir.passes.PassBase, ...]
    good: Predicate
    runs: int = 0

    def __post_init__(self) -> None:
        self.before = self.original
        self._smallest: tuple[float, ir.Model] | None = None

    def not_reproduced(self) -> str | None:
        """Say why there is nothing to look for."""
        if not self._is_good(self.original):
            return "the model is bad before the first pass"
        self._bad, self._failure = self._after(0, len(self.chain))
        if self._failure == "":
            return _GOOD
        return None

    def report(self) -> BisectReport:
        """Find the pass and the node."""
        index = self._first_pass()
        pass_ = self.chain[index]
        report = self._first_node(pass_) if self._bad is not None else {}
        model = self._smallest[1] if self._smallest else None
        return BisectReport(
            True,
            self._failure,
            index + 1,
            len(self.chain),
            described(pass_),
            runs=self.runs,
            nodes=len(all_nodes(model)) if model else 0,
            model=model,
            **report,
        )

    def _is_good(self, model: ir.Model, touches: float = math.inf) -> bool:
        self.runs += 1
        good = self.good(model)
        if not good and (self._smallest is None or touches <= self._smallest[0]):
            self._smallest = touches, model.clone()
        return good

    def _after(self, start: int, stop: int) -> tuple[ir.Model | None, str]:
        """Return the model after some more passes, and what is wrong with it."""
        model = self.before.clone()
        for pass_ in self.chain[start:stop]:
            try:
                model = pass_(model).model
            except Exception as error:  # whatever a pass raises is what is looked for
                return None, f"raises {type(error).__name__}: {error}"
        return model, "" if self._is_good(model) else "makes the model bad"

    def _first_pass(self) -> int:
        """Return the index of the first pass after which the model is bad; ``before`` is it before that."""
        first, last = 0, len(self.chain) - 1
        while first < last:
            middle = (first + last) // 2
            model, failure = self._after(first, middle + 1)
            if failure or model is None:
                last, self._bad, self._failure = middle, model, failure
            else:
                first, self.before = middle + 1, model
        return first

    def _first_node(self, pass_: ir.passes.PassBase) -> dict[str, Any]:
        try:
            candidates = touched(pass_, self.before)
            found = self._smallest_count(pass_, candidates)
        except Exception:  # a pass that cannot do without some nodes is found as a whole
            return {}
        if found == 0:  # it goes wrong whatever nodes it may touch
            return {"candidates": len(candidates)}
        culprit = candidates[found - 1]
        others = [index for index in candidates if index != culprit]
        alone = found == 1 or not self._is_good(run_frozen(pass_, self.before, others), 1)
        return {"site": _site(self.before, culprit), "candidates": len(candidates), "alone": alone}

    def _smallest_count(self, pass_: ir.passes.PassBase, candidates: Sequence[int]) -> int:
        """Return how many of the nodes, in order, a pass must be let at to make the model bad."""
        fewest, enough = 0, len(candidates)
        while fewest < enough:
            middle = (fewest + enough) // 2
            if self._is_good(run_frozen(pass_, self.before, candidates[middle:]), middle):
                fewest = middle + 1
            else:
                enough = middle
        return enough


def _site(model: ir.Model, index: int) -> str:
    node = all_nodes(model)[index]
    owner = next(owner for owner in owners(model) if any(inner is node for inner in owner.all_nodes()))
    where = f"function {owner.domain}::{owner.name}" if isinstance(owner, ir.Function) else "the graph"
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    name = repr(node.name) if node.name else f"that computes {[value.name for value in node.outputs]}"
    return f"node {name} of {operator} in {where}"


def _written(report: BisectReport, before: ir.Model, output: str | os.PathLike[str] | None) -> BisectReport:
    if output is None:
        return report
    path = Path(output)
    start = path.with_name(f"{path.stem}.before{path.suffix}")
    save(before, start)
    facts = {**vars(report), "before": str(start), "command": _command(report, start)}
    if report.model is not None:
        save(report.model, path)
        facts["failing"] = str(path)
    return BisectReport(**facts)


def _command(report: BisectReport, start: Path) -> str:
    return f"onnx-inline run {shlex.quote(str(start))} --passes {shlex.quote(report.pass_)}"


# ------------------------------------------------------------------------------ predicates


def _as_predicate(predicate: Predicate | str, original: ir.Model) -> Predicate:
    if not isinstance(predicate, str):
        return predicate
    if predicate == "outputs":
        return by_outputs(original)
    return by_checker(original) if predicate == "checker" else by_command(predicate)


def by_outputs(original: ir.Model, **options: Any) -> Predicate:
    """Return a predicate: does a model compute what the original does?

    Args:
        original: the model to compare with.
        options: as for :func:`onnx_inline.verify`.
    """
    return lambda model: verify(original, model, **{"locate": False, **options}).same


def by_checker(original: ir.Model) -> Predicate:
    """Return a predicate: does a model break no rule of its structure that the original keeps?"""
    baseline = check_structure(original)
    return lambda model: bool(check_structure(model, original=baseline))


def by_command(command: str, *, timeout: float | None = None) -> Predicate:
    """Return a predicate: does a command exit with 0?

    Args:
        command: the command, split as a shell does; ``{}`` stands for the path of the model, which
            otherwise comes at the end.
        timeout: seconds after which the model is taken for bad.
    """
    words = shlex.split(command)
    words = words if any("{}" in word for word in words) else [*words, "{}"]

    def run(model: ir.Model) -> bool:
        with tempfile.TemporaryDirectory(prefix="onnx-inline-") as folder:
            path = Path(folder, "model.onnx")
            save(model, path)
            filled = [word.replace("{}", str(path)) for word in words]
            try:
                return _exit_code(filled, timeout) == 0
            except subprocess.TimeoutExpired:
                return False

    return run


def _exit_code(words: list[str], timeout: float | None) -> int:
    try:
        # Standard output belongs to whoever asked for the bisection.
        return subprocess.run(words, timeout=timeout, stdout=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        reason = f"cannot run {words[0]!r}: {error.strerror}; check the command"
        raise OnnxInlineError(reason) from error
