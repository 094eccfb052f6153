"""Let ORTModule train modules that torch exports as functions.

ORTModule hands the model that torch exports to a gradient builder that knows no functions ("The gradient
builder has not been registered: _FlattenedModule").  While this integration is enabled, functions are inlined
in between::

    from onnx_inline.integrations import ortmodule

    ortmodule.enable()
    ...                              # ORTModule as always
    ortmodule.disable()

    with ortmodule.enable():         # or for a while
        ...
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from onnx_inline.engine import inline_proto
from onnx_inline.engine.options import Options
from onnx_inline.integrations.torch_compat import ortmodule_on_current_torch, put

_LOCK = threading.RLock()
_changes: contextlib.ExitStack | None = None


class Enabled:
    """What :func:`enable` returns: a context manager that goes back to how things were before the call."""

    def __init__(self, first: bool) -> None:
        self._first = first

    def __enter__(self) -> Enabled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._first:
            disable()


def enable(*, keep: Sequence[str] | None = None, compatibility: bool = False) -> Enabled:
    """Inline what torch exports before ORTModule builds gradients, from now on and for every ORTModule.

    A second call changes nothing.  Models read from ``ORTMODULE_CACHE_DIR`` are inlined too.  Export options
    that a script sets on an execution manager (``_export_extra_kwargs``) reach the exporter, as they did
    in earlier versions; ONNX Runtime 1.19 ignores them there.

    Args:
        keep: functions to leave as calls, as identifiers or patterns; they need a gradient registered with
            ONNX Runtime.
        compatibility: also give ORTModule what it misses in a current torch, see
            :mod:`onnx_inline.integrations.torch_compat`.

    Returns:
        A context manager that disables on leaving, if this call did the enabling.

    Raises:
        ImportError: onnxruntime-training or torch is not installed.

    Example::

        with ortmodule.enable(compatibility=True):
            model = ORTModule(net)
            model(x).sum().backward()
    """
    global _changes
    with _LOCK:
        if _changes is not None:
            return Enabled(first=False)
        with contextlib.ExitStack() as changes:
            if compatibility:
                changes.enter_context(ortmodule_on_current_torch())
            _hook(changes, keep)
            _changes = changes.pop_all()
    return Enabled(first=True)


def disable() -> None:
    """Undo :func:`enable`: everything is exactly as before.  Without it, nothing happens.

    Modules that have run keep working: they hold their graph already.
    """
    global _changes
    with _LOCK:
        if _changes is not None:
            changes, _changes = _changes, None
            changes.close()


def _hook(changes: contextlib.ExitStack, keep: Sequence[str] | None) -> None:
    transitions, executions = _managers()
    original = transitions._get_exported_model
    put(changes, transitions, "_get_exported_model", staticmethod(_inlining(original, keep)))
    if not hasattr(executions, "_export_extra_kwargs"):
        put(changes, executions, "_export_extra_kwargs", _forwarded_kwargs())


def _managers() -> tuple[Any, Any]:
    """Return the class that exports, and the class that scripts set export options on."""
    try:
        from onnxruntime.training.ortmodule._graph_execution_manager import GraphExecutionManager
        from onnxruntime.training.ortmodule._graph_transition_manager import GraphTransitionManager
    except ImportError as error:
        raise ImportError(f"{error}; with a current torch, call enable(compatibility=True)") from error
    return GraphTransitionManager, GraphExecutionManager


def _inlining(original: Callable[..., Any], keep: Sequence[str] | None) -> Callable[..., Any]:
    """Wrap the whole method: it has two returns, one of them for cached models."""

    @functools.wraps(original)
    def get_exported_model(
        flattened_module: Any, model_info_for_export: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with _torchscript_exporter(model_info_for_export):
            model, schema = original(flattened_module, model_info_for_export, *args, **kwargs)
        return _inlined(model, keep), schema

    return get_exported_model


def _inlined(model: Any, keep: Sequence[str] | None) -> Any:
    return inline_proto.put_together(model, inline_proto.inline(model, Options(keep=keep)))


@contextlib.contextmanager
def _torchscript_exporter(model_info: Any) -> Iterator[None]:
    """Ask for the exporter that ORTModule was written for; a current torch has another one as default."""
    import torch

    options = model_info.export_extra_kwargs
    if "dynamo" in inspect.signature(torch.onnx.export).parameters and "dynamo" not in options:
        model_info.export_extra_kwargs = {**options, "dynamo": False}
    try:
        yield
    finally:
        model_info.export_extra_kwargs = options


def _forwarded_kwargs() -> property:
    """Return a property that passes export options on to where ONNX Runtime 1.19 reads them."""

    def read(manager: Any) -> Any:
        return manager._graph_transition_manager._export_extra_kwargs

    def write(manager: Any, options: Any) -> None:
        manager._graph_transition_manager._export_extra_kwargs = options

    return property(read, write)
