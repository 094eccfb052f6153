"""What is changed in ``onnxruntime.training.onnxblock`` while artifacts are generated, and changed back.

ONNX Runtime 1.19 saves the model after every block, as ``temp.onnx`` in the working directory, and thereby
clears the weights of the model that the next block works on.  Here blocks check and infer a model without
weights instead, and no file is written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

from onnx_inline.integrations import weightless
from onnx_inline.integrations.evaluation import disable_training

#: The newest IR version that ONNX Runtime training reads.
NEWEST_IR_VERSION = 10

#: ONNX Runtime's blocks keep their model in a global variable: two calls at a time are impossible.
_LOCK = threading.RLock()


@contextlib.contextmanager
def blocks_without_weights(weights: Mapping[str, onnx.TensorProto], scratch: Path) -> Iterator[None]:
    """Let ONNX Runtime's blocks work on a model whose initializers have no data, while the context lasts.

    Other threads that use blocks meanwhile get ONNX Runtime's own behaviour; other calls of this wait.
    On the way out everything is as it was, whatever happened.

    Args:
        weights: for each initializer without data, a tensor that has it, or refers to it.
        scratch: a folder that will be deleted; a block that insists on a temporary file gets a name in it.
    """
    with _LOCK, contextlib.ExitStack() as stack:
        for holder, name, replacement in _changes(weights, scratch):
            original = getattr(holder, name)
            stack.callback(setattr, holder, name, original)
            setattr(holder, name, _only_in_thread(threading.get_ident(), replacement, original))
        yield


def _changes(
    weights: Mapping[str, onnx.TensorProto], scratch: Path
) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return what is replaced: where, which name, by what."""
    from onnxruntime.training import onnxblock
    from onnxruntime.training.onnxblock import _training_graph_utils, blocks

    return [
        (blocks.Block, "__init__", _initialiser(blocks.Block.__init__, scratch)),
        (blocks.Block, "__call__", _call),
        (blocks.Block, "infer_shapes_on_base", _infer_shapes_on_base),
        (_training_graph_utils, "_disable_training_mode", disable_training),
        (onnxblock, "save_checkpoint", _saver(onnxblock.save_checkpoint, weights)),
        (onnxblock, "empty_base", _empty_base(onnxblock.empty_base)),
    ]


def _only_in_thread(owner: int, ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        chosen = ours if threading.get_ident() == owner else original
        return chosen(*args, **kwargs)

    return choose


def _initialiser(original: Callable[..., None], scratch: Path) -> Callable[..., None]:
    """Return a ``__init__`` after which the block's ``__del__`` removes no ``temp.onnx`` of the user's."""

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.temp_onnx_file_path = str(scratch / Path(self.temp_onnx_file_path).name)

    return initialise


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Build a block and check the model that it built."""
    self.base = _base()
    output = self.build(*args, **kwargs)
    weightless.check(self.base)
    return output


def _infer_shapes_on_base(self: Any) -> onnx.ModelProto:
    return weightless.infer(_base())


def _base() -> onnx.ModelProto:
    """Return the model that blocks are working on."""
    from onnxruntime.training.onnxblock import model_accessor

    model: onnx.ModelProto = model_accessor._GLOBAL_ACCESSOR.model
    return model


def _saver(original: Callable[..., None], weights: Mapping[str, onnx.TensorProto]) -> Callable[..., None]:
    """Return a ``save_checkpoint`` that puts the weights in."""

    def save_checkpoint(parameters: Any, path_to_checkpoint: Any, nominal_checkpoint: bool = False) -> None:
        trainable, frozen = ([weights.get(one.name, one) for one in group] for group in parameters)
        original((trainable, frozen), path_to_checkpoint, nominal_checkpoint)

    return save_checkpoint


def _empty_base(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return an ``empty_base`` whose model ONNX Runtime can read: it starts at onnx's newest IR version."""

    @contextlib.contextmanager
    def empty_base(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with original(*args, **kwargs) as accessor:
            accessor.model.ir_version = min(accessor.model.ir_version, NEWEST_IR_VERSION)
            yield accessor

    return empty_base
