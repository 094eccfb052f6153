"""Every exception that onnx_inline raises on purpose.

A message has three parts: what is wrong, where it is, what to do about it.  The facts are fields as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal


class OnnxInlineError(Exception):
    """The root of all exceptions raised on purpose."""


class ModelError(OnnxInlineError):
    """Something about the model makes the request impossible; the model is as it was before the call.

    A pass raises a subclass that is an :class:`onnx_ir.passes.PreconditionError` as well.
    """


class FileError(OnnxInlineError):
    """A file cannot be read as a model, or written; what was on disk before is still there.

    Attributes:
        path: the file; empty if there is none.
        tensor: the tensor concerned, empty if it is none.
        field: the field or entry concerned, in ONNX's own terms.
        errno: the operating system's number for what went wrong, None where it had no part.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        tensor: str = "",
        field: str = "",
        hint: str = "",
        errno: int | None = None,
    ) -> None:
        self.path, self.tensor, self.field, self.errno = path, tensor, field, errno
        where = f"{path}: " if path else ""
        what = f"tensor {shortened(tensor)}: " if tensor else ""
        super().__init__(where + what + message + (f"; {hint}" if hint else ""))


class NotAModelError(FileError):
    """A file is no ONNX model: another format, cut short, or damaged."""


class TensorDataError(FileError):
    """A tensor's data do not fit its type and shape, or are given twice."""


class ExternalDataError(FileError):
    """The data of a tensor lie in another file, which cannot be used: its place, its kind or its size."""


class SourceChangedError(FileError):
    """A file that a model was loaded from is no longer the file that was loaded."""


class WriteError(FileError):
    """The operating system refused to write; what was there before is still there, whole."""


class UnknownNameError(OnnxInlineError, LookupError):
    """A name given by the caller (function, pass, target, initializer) does not exist.

    Attributes:
        name: what was asked for.
        close: existing names that are spelled alike.
    """

    def __init__(self, message: str, *, name: str = "", close: Sequence[str] = ()) -> None:
        self.name, self.close = name, tuple(close)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        super().__init__(message + hint)


class InvalidModelError(ModelError):
    """The model breaks a rule of the ONNX IR specification that the request depends on.

    Attributes:
        function: the function concerned, as text, or None for the main graph.
    """

    def __init__(self, message: str, *, function: str | None = None) -> None:
        self.function = function
        super().__init__(message)


class FunctionCycleError(InvalidModelError):
    """Functions call each other in a circle, so that inlining would never end.

    Attributes:
        cycle: the functions on the way round; the first is repeated at the end.
    """

    def __init__(self, cycle: Sequence[str]) -> None:
        self.cycle = tuple(cycle)
        super().__init__(
            f"recursive functions cannot be inlined: the cycle is {_way(cycle)}; "
            "take one of its calls out, or keep these functions",
            function=cycle[0],
        )


class CallSiteError(InvalidModelError):
    """A call does not fit the function that it calls.

    Attributes:
        site: the node that calls, as text.
    """

    def __init__(self, message: str, *, function: str, site: str) -> None:
        self.site = site
        super().__init__(f"cannot inline {function} at {site}: {message}", function=function)


class OpsetConflictError(InvalidModelError):
    """A function body was written for another opset version, and cannot be converted.

    Attributes:
        operator: the operator that differs between the versions, or "" for the whole domain.
        domain: the operator's domain.
        needs: the version the body was written for.
        has: the version the graph imports.
    """

    def __init__(
        self, *, function: str, operator: str, domain: str, needs: int, has: int, reason: str = ""
    ) -> None:
        self.operator, self.domain, self.needs, self.has = operator, domain, needs, has
        what = f"operator {operator}" if operator else "its operators"
        super().__init__(
            f"cannot inline {function}: {what} of {domain or 'ai.onnx'} {needs} cannot be converted to "
            f"version {has}, which the model imports{f' ({reason})' if reason else ''}; "
            "convert the model or the function first, or keep the function",
            function=function,
        )


class ModelTooLargeError(ModelError):
    """Inlining would make more nodes than allowed.

    Attributes:
        nodes: the number of nodes that the result would have.
        limit: the number allowed.
        functions: the functions that multiply it, largest share first.
    """

    def __init__(self, *, nodes: int, limit: int, functions: Sequence[str]) -> None:
        self.nodes, self.limit, self.functions = nodes, limit, tuple(functions)
        super().__init__(
            f"inlining would give {decimal(nodes)} nodes, more than the {limit} allowed; "
            f"the functions that multiply it are {', '.join(functions)}; "
            "keep some of them, or raise max_nodes"
        )


class GradientBuilderError(ModelError):
    """A gradient builder failed on a prepared model, for reasons that the check had found.

    Attributes:
        builder_message: what the builder says.
        findings: what the check found, each with its cure.
    """

    def __init__(self, builder_message: str, *, findings: Sequence[str]) -> None:
        self.builder_message, self.findings = builder_message, tuple(findings)
        lines = ["no gradients can be built:", *findings, f"the builder says: {builder_message}"]
        super().__init__("\n".join(lines))


class UnknownFunctionError(UnknownNameError):
    """A function that was named, or a pattern for functions, matches nothing in the model."""


class UnknownPassError(UnknownNameError):
    """There is no pass of the name given."""


class PassUnavailableError(OnnxInlineError):
    """A pass is in the table, but cannot be imported.

    Attributes:
        name: the pass.
        origin: the distribution that it comes from.
    """

    def __init__(self, name: str, origin: str, reason: str) -> None:
        self.name, self.origin = name, origin
        super().__init__(
            f"the pass {name} cannot be imported: {reason}; install or repair the package {origin}"
        )


class PassTextError(OnnxInlineError):
    """A text describes no passes, or passes have no text.

    Attributes:
        text: the whole text; empty if there is none yet.
        position: the character of it that is wrong, counted from 0.
        close: names of options that are spelled alike.
    """

    def __init__(self, message: str, text: str = "", position: int = 0, *, close: Sequence[str] = ()) -> None:
        self.text, self.position, self.close = text, position, tuple(close)
        super().__init__(f"character {position}: {message}" if text else message)


class PassFailedError(ModelError):
    """A pass of a chain failed; the error that it failed with is the ``__cause__``.

    Attributes:
        failed: the pass, as text.
        index: its place in the chain, counted from 1.
        count: how many passes the chain has.
        command: the command that reproduces the failure.
        dump: the file that holds the model before the pass, empty if none was asked for.
    """

    def __init__(
        self, reason: str, *, failed: str, index: int, count: int, command: str, dump: str = ""
    ) -> None:
        self.failed, self.index, self.count = failed, index, count
        self.command, self.dump = command, dump
        super().__init__(
            f"pass {index} of {count}, {failed}, failed: {reason}; to reproduce it, run {command}"
        )


class VerificationError(ModelError):
    """A model breaks rules of its structure, or computes something else than the one it is compared with.

    Attributes:
        findings: the :class:`onnx_inline.Finding` objects; empty if the structure is right.
        report: the :class:`onnx_inline.VerifyReport`, None if nothing was computed.
    """

    def __init__(self, message: str, *, findings: Sequence[object] = (), report: object = None) -> None:
        self.findings, self.report = tuple(findings), report
        super().__init__(message)


class NoBodyError(ModelError):
    """An operator that was named cannot be replaced by what it is made of.

    Attributes:
        operator: the operator.
        reason: why not.
    """

    def __init__(self, operator: str, reason: str) -> None:
        self.operator, self.reason = operator, reason
        super().__init__(f"cannot decompose {operator}: {reason}")


class OutputNamesError(ModelError):
    """The outputs cannot get the names given.

    Attributes:
        name: the name concerned, empty if it is their number.
    """

    def __init__(self, message: str, name: str) -> None:
        self.name = name
        super().__init__(f"cannot name the outputs: {message}; give one free name an output, in order")


class VersionError(ModelError):
    """The model cannot be brought to the versions that a reader loads.

    Attributes:
        what: what stands in the way: an operator or a type.
        needs: the version that has it.
        limit: the newest version that the reader loads.
    """

    def __init__(self, what: str, needs: str, limit: str) -> None:
        self.what, self.needs, self.limit = what, needs, limit
        super().__init__(
            f"cannot lower the model to {limit}: {what} is of {needs} and cannot be said otherwise; "
            "export with an older opset, or replace it"
        )


class UnknownTargetError(UnknownNameError):
    """There is no target of the name given."""


class TargetFileError(FileError):
    """A file is no description of a target; ``field`` is the key that is wrong."""


class UnboundInitializersError(ModelError):
    """Initializers have no data, so that the model cannot be written or run.

    Attributes:
        unbound: the :class:`onnx_inline.UnboundInitializer` objects.
    """

    def __init__(self, unbound: Sequence[object]) -> None:
        self.unbound = tuple(unbound)
        super().__init__(
            f"initializers without data ({len(self.unbound)}): {listed(self.unbound)}; bind them first with "
            "onnx_inline.bind_initializers(model, weights), or with the command "
            "onnx-inline bind MODEL.onnx WEIGHTS.safetensors -o OUTPUT.onnx"
        )


class BindingError(ModelError):
    """The initializers without data and the weights given for them do not fit together.

    Attributes:
        unbound: the :class:`onnx_inline.UnboundInitializer` objects that no source has data for.
        unused: names in the sources that belong to no initializer.
        mismatched: :class:`onnx_inline.Mismatch` objects: data of another type or shape than declared.
    """

    def __init__(
        self, *, unbound: Sequence[object], unused: Sequence[str], mismatched: Sequence[object]
    ) -> None:
        self.unbound, self.unused, self.mismatched = tuple(unbound), tuple(unused), tuple(mismatched)
        found = (
            ("in no source", self.unbound),
            ("of another type or shape", self.mismatched),
            ("of no initializer", self.unused),
        )
        parts = [f"{len(names)} {what}: {listed(names)}" for what, names in found if names]
        super().__init__(
            f"the weights do not fit the model; {'; '.join(parts)}; "
            "give what is missing and leave out the rest, or pass strict=False to bind what fits"
        )


def _way(stops: Sequence[str], most: int = 12) -> str:
    """Return a way as text; of a long one, its beginning and its end."""
    if len(stops) > most:
        stops = (*stops[: most - 1], f"({len(stops) - most} more)", stops[-1])
    return " -> ".join(stops)


def decimal(number: int) -> str:
    """Return all digits of a number, also where Python's own conversion refuses (over 4,300 digits)."""
    return str(Decimal(number))


def listed(things: Sequence[object], most: int = 10) -> str:
    """Return the first things as text, and how many more there are."""
    more = f" and {len(things) - most} more" if len(things) > most else ""
    return ", ".join(map(str, things[:most])) + more


def shortened(name: str, most: int = 100) -> str:
    """Return a name in quotes, control characters escaped and the middle of a long one left out."""
    if len(name) > most:
        name = f"{name[: most // 2]}...{name[-most // 2 :]}"
    return repr(name)
