"""The engines that compute a model's outputs."""

from __future__ import annotations

import graphlib
import importlib
import importlib.metadata
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from onnx_inline.equivalence.inputs import Feeds
from onnx_inline.errors import FunctionCycleError
from onnx_inline.files import tensors
from onnx_inline.files.protos import save_proto
from onnx_inline.identifiers import OperatorId

#: computes all outputs of the graph from feeds
Run = Callable[[Feeds], list[Any]]


@dataclass
class Subject:
    """A model to be run; one with weights in files is written to a folder first, whole.

    Attributes:
        title: what to call it in messages.
        proto: the model.
        folder: a folder for files, made when it is needed.
    """

    title: str
    proto: onnx.ModelProto
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.external = any(
            t.data_location == onnx.TensorProto.EXTERNAL for t in tensors.all_tensors(self.proto)
        )

    def close(self) -> None:
        """Remove the files."""
        self._stack.close()

    def with_outputs(self, names: Sequence[str]) -> Subject:
        """Return the same model with other outputs."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        types = {i.name: i for infos in (self.proto.graph.output, self.proto.graph.value_info) for i in infos}
        del proto.graph.output[:]
        proto.graph.output.extend(types.get(name, onnx.ValueInfoProto(name=name)) for name in names)
        return Subject(self.title, proto, self._stack)

    def content(self) -> bytes | str:
        """Return the model's bytes, or the path of it if its weights are in files."""
        if not self.external:
            return bytes(self.proto.SerializeToString())
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="onnx-inline-"))
        path = Path(folder, "model.onnx")
        save_proto(self.proto, path, external_data="model.data", external="inline")
        return str(path)

    def whole(self) -> onnx.ModelProto:
        """Return the model with all weights in it."""
        content = self.content()
        return onnx.load(content) if isinstance(content, str) else self.proto


def _onnxruntime(subject: Subject) -> Run:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    # As written: a fusion may round otherwise, and that is no difference between the models.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = runtime.InferenceSession(subject.content(), options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def _reference(subject: Subject) -> Run:
    from onnx.reference import ReferenceEvaluator

    if any(getattr(function, "overload", "") for function in subject.proto.functions):
        raise NotImplementedError("it takes one overload of a function for another")
    evaluator = ReferenceEvaluator(_callees_first(subject.whole()))
    return lambda feeds: list(evaluator.run(None, feeds))


def _callees_first(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its functions in the order in which the reference evaluator finds them."""
    if len(model.functions) < 2:
        return model
    ordered = onnx.ModelProto()
    ordered.CopyFrom(model)
    del ordered.functions[:]
    ordered.functions.extend(functions_in_order(model))
    return ordered


def functions_in_order(model: onnx.ModelProto) -> list[onnx.FunctionProto]:
    """Return the functions, callees before their callers.

    Raises:
        FunctionCycleError: functions call each other in a circle, of which some engines do not come back.
    """
    functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
    calls = {key: _calls(function.node) & functions.keys() for key, function in functions.items()}
    try:
        return [functions[key] for key in graphlib.TopologicalSorter(calls).static_order()]
    except graphlib.CycleError as error:
        # graphlib gives the way from callee to caller.
        raise FunctionCycleError([str(OperatorId(*key)) for key in reversed(error.args[1])]) from None


def _calls(nodes: Sequence[onnx.NodeProto]) -> set[tuple[str, str, str]]:
    found = set()
    for node in nodes:
        found.add((node.domain, node.op_type, getattr(node, "overload", "")))
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                found |= _calls(graph.node)
    return found


#: name -> what makes a runner of a model
ENGINES: dict[str, Callable[[Subject], Run]] = {"onnxruntime": _onnxruntime, "reference": _reference}

_DISTRIBUTIONS = {"onnxruntime": ("onnxruntime", "onnxruntime-training-cpu"), "reference": ("onnx",)}


def version_of(engine: str) -> str:
    """Return the version of an engine, empty if it cannot be found."""
    for distribution in _DISTRIBUTIONS.get(engine, ()):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
