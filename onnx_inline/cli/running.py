"""One run of the command line: exit codes, error lines, signals, closed pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from onnx_inline.cli.settings import Settings
from onnx_inline.errors import OnnxInlineError, UnknownFunctionError, UnknownPassError
from onnx_inline.reports.text import escaped

NO, BAD_REQUEST, OUR_FAULT, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143


class Terminated(BaseException):
    """SIGTERM arrived.  No ``Exception``, so that only clean-up code sees it on the way out."""


class AnswerIsNoError(Exception):
    """The answer is "no", and what there is to say about it is printed already."""


def run(argv: Sequence[str] | None) -> int:
    """Run the command in ``argv`` (the process's arguments by default) and return the exit code."""
    from onnx_inline.cli.group import cli

    chosen = Settings()
    with _forgiving_streams(), _sigterm_raises():
        try:
            arguments = sys.argv[1:] if argv is None else list(argv)
            outcome = cli.main(
                args=arguments or ["--help"], prog_name="onnx-inline", standalone_mode=False, obj=chosen
            )
            sys.stdout.flush()
        except BaseException as error:
            return _end(error, chosen)
    return outcome if isinstance(outcome, int) else 0


def _end(error: BaseException, chosen: Settings) -> int:
    """Print what there is to say about ``error`` and return the exit code."""
    if isinstance(error, BrokenPipeError | SystemExit):
        # With standalone_mode off, click (and rich) leave by SystemExit only when the pipe is closed.
        return _closed_pipe()
    if chosen.traceback:
        traceback.print_exception(error, file=sys.stderr)
    for line in error_lines(error):
        print(line, file=sys.stderr)
    return exit_code(error)


def exit_code(error: BaseException) -> int:
    """Return the exit code that stands for ``error``."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, AnswerIsNoError):
        return NO
    if isinstance(error, OnnxInlineError | click.ClickException | OSError | MemoryError) or _missing(error):
        return BAD_REQUEST
    return OUR_FAULT


def error_lines(error: BaseException) -> list[str]:
    """Return the ``error:`` line for ``error``, and a ``hint:`` line where there is something to try."""
    if isinstance(error, click.Abort | KeyboardInterrupt | Terminated | AnswerIsNoError):
        return []
    message, hint = _message_and_hint(error)
    lines = [f"error: {escaped(message)}"]
    return [*lines, f"hint: {escaped(hint)}"] if hint else lines


def _message_and_hint(error: BaseException) -> tuple[str, str]:
    if isinstance(error, OnnxInlineError):
        message, hint = _parted(str(error))
        if library := _missing(error.__cause__):
            return message, f"pip install {library}"
        return message, hint or _WHERE_NAMES_ARE.get(type(error), "")
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "onnx-inline"
        return error.format_message(), f"see {path} --help"
    if isinstance(error, click.ClickException):
        return error.format_message(), ""
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}", ""
    if library := _missing(error):
        return f"this needs {library}, which is not installed", f"pip install {library}"
    if isinstance(error, MemoryError):
        return "out of memory", "close other programs, or raise the memory limit"
    return (
        f"a fault of onnx-inline itself: {type(error).__name__}: {error}",
        "run again with --traceback and report that with what `onnx-inline doctor` prints",
    )


#: What lists the names there are, for errors that know of none that is spelled alike.
_WHERE_NAMES_ARE: dict[type[BaseException], str] = {
    UnknownFunctionError: "onnx-inline inspect lists the functions of a model",
    UnknownPassError: "onnx-inline passes lists them",
}

#: What may be missing from an installation that is whole.
_OPTIONAL = ("onnxruntime", "onnxscript", "torch")


def _missing(error: BaseException | None) -> str:
    """Return the optional library that is not installed, if that is what the error says."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return name if name in _OPTIONAL else ""


def _parted(message: str) -> tuple[str, str]:
    """Part a message of ours, which ends with "; what to do", into what is wrong and the hint."""
    wrong, semicolon, hint = message.rpartition("; ")
    return (wrong, hint) if semicolon else (message, "")


def _closed_pipe() -> int:
    """End silently; what is still buffered goes nowhere, or Python complains about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    return 0


@contextlib.contextmanager
def _forgiving_streams() -> Iterator[None]:
    """Let a name that the terminal's encoding lacks be printed as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace", newline="\n")
    yield


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that a save under way cleans up; only the main thread may do so."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
