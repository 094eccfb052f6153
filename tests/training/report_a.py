"""The script of the report: an ORTModule whose exporter writes modules as functions.

``python -m tests.training.report_a NET all|classes [enabled]`` trains and prints what came out as JSON.  It
needs a process of its own, for the exporter leaves state behind, and importing ORTModule changes torch.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
from typing import Any

import torch

from onnx_inline.integrations import ortmodule
from tests.training.nets import NETS


def train(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Compare output and gradients with torch, then train; the options go where the report sets them."""
    from onnxruntime.training.ortmodule import ORTModule

    class ReportedModule(ORTModule):
        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__(module)
            for training in (True, False):
                self._torch_module._execution_manager(training)._export_extra_kwargs = options

    torch.manual_seed(0)
    net = NETS[name].build()
    x, twin = NETS[name].inputs(), copy.deepcopy(net)
    module = ReportedModule(net)
    output, expected = module(x), twin(x)
    target = torch.randn_like(expected)
    (output - target).pow(2).mean().backward()
    (expected - target).pow(2).mean().backward()
    pairs = zip(net.parameters(), twin.parameters(), strict=True)
    return {
        "output": (output - expected).abs().max().item(),
        "gradient": max(float((one.grad - other.grad).abs().max()) for one, other in pairs),
        "losses": steps(module, x, target),
    }


def steps(module: torch.nn.Module, x: torch.Tensor, target: torch.Tensor, count: int = 20) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = (module(x) - target).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    name, functions, *enabled = sys.argv[1:]
    value = True if functions == "all" else set(NETS[name].classes)
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        with ortmodule.enable(compatibility=True), contextlib.ExitStack() as stack:
            if not enabled:
                stack.enter_context(without_inlining())
            json.dump(train(name, {"export_modules_as_functions": value}), output)


@contextlib.contextmanager
def without_inlining() -> Any:
    """Leave everything but the inlining in place: the report's own situation, on a torch of today."""
    inlined = ortmodule._inlined
    ortmodule._inlined = lambda model, keep: model  # type: ignore[assignment]
    yield
    ortmodule._inlined = inlined


if __name__ == "__main__":
    main()
