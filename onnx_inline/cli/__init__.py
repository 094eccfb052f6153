"""The command line: click over the API, with no logic of its own.

``onnx-inline COMMAND IN [OUT]``, or ``python -m onnx_inline``.
Exit codes: 0 done, 1 the answer is "no", 2 bad usage, input or output, 3 a fault of onnx-inline, 130 and
143 after SIGINT and SIGTERM.  A closed pipe ends silently.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit code, one of those in this module's docstring.

    Example:
        >>> main(["inline", "no-such-file.onnx"])
        2
    """
    from onnx_inline.cli.running import run

    return run(argv)
