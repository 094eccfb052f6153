"""Expand normalizations of which a part is not trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.identifiers import normalized_domain
from onnx_inline.inference import all_nodes, operator_id
from onnx_inline.passes.base import refusing
from onnx_inline.passes.expansion import Expander, Wish
from onnx_inline.schemas import has_body
from onnx_inline.targets import Target, load_target


@dataclass(frozen=True)
class ExpandFrozenPass(ir.passes.InPlacePass):
    """Expand operators whose gradient defines that of every input, where an input is not trained.

    ONNX Runtime's gradient of LayerNormalization defines the gradients of scale and bias even if they are not
    trained.  Before, it merges constants that are equal, and then two such nodes define the gradient of one
    bias of zeros twice.  (So it is whenever torch exports LayerNorms without bias.)  One such node stays.

    Attributes:
        trainable: the initializers and inputs that are trained; None for all of them.
        target: the target: a name, a path or a target.
    """

    name: ClassVar[str] = "expand-frozen"

    trainable: tuple[str, ...] | None = None
    target: str | Target = "ort-training"

    @refusing
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Expand in place."""
        rules = load_target(self.target).gradients
        once = frozenset() if rules is None else rules.leaf_used_once
        imports = {normalized_domain(domain): version for domain, version in model.opset_imports.items()}
        nodes = frozenset(
            node
            for node in all_nodes(model.graph)
            if node.op_type in once
            and any(map(self._is_frozen, node.inputs))
            and has_body(operator_id(node), imports.get(node.domain, 0))
        )
        changed = len(nodes) > 1 and Expander(Wish(only=nodes)).run(model)
        return ir.passes.PassResult(model, changed)

    def _is_frozen(self, value: ir.Value | None) -> bool:
        if value is None:
            return False
        if (node := value.producer()) is not None:
            return node.op_type == "Constant"
        return self.trainable is not None and value.name not in self.trainable
