"""Bring a model down to the opset and IR versions that a reader loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnx_inline.errors import VersionError
from onnx_inline.identifiers import normalized_domain
from onnx_inline.inference import all_nodes, operator_id
from onnx_inline.passes.base import refusing
from onnx_inline.passes.conversion import carries_over
from onnx_inline.passes.expansion import Expander, Left, Wish
from onnx_inline.shadow import shadow_of
from onnx_inline.targets import Target, load_target

#: The IR version that an element type came with, for those that are not in all of them.
_SINCE = {
    ir.DataType.UINT4: 10,
    ir.DataType.INT4: 10,
    ir.DataType.FLOAT4E2M1: 11,
    **{found: 12 for name in ("FLOAT8E8M0",) if (found := getattr(ir.DataType, name, None)) is not None},
    **{found: 13 for name in ("UINT2", "INT2") if (found := getattr(ir.DataType, name, None)) is not None},
}


@dataclass(frozen=True)
class LowerVersionsPass(ir.passes.InPlacePass):
    """Lower opset imports and IR version to the newest that a target loads.

    An operator that the lower version does not have, or defines otherwise, is replaced by its body; if that
    cannot be, nothing is changed and the operator is named.

    Attributes:
        target: the target: a name, a path or a target.

    Before::

        <ir_version: 12, opset_import: ["" : 24]>
        main (float[2,3] x, float[3] s) => (float[2,3] y) { y = Relu (x) }

    After::

        <ir_version: 10, opset_import: ["" : 21]>
        main (float[2,3] x, float[3] s) => (float[2,3] y) { y = Relu (x) }

    Raises:
        VersionError: an operator or a type is newer than the target loads.
    """

    name: ClassVar[str] = "lower-versions"

    target: str | Target = "ort-training"

    @refusing
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Lower in place."""
        target = load_target(self.target)
        limits: dict[str, int] = {}
        for imports in _all_imports(model):
            limits.update(_limits(imports, target))
        newest = target.max_ir_version or model.ir_version
        if lower_ir := model.ir_version > newest:
            _refuse_types(model, newest)
        if limits:
            # What a body is made of shows only when it is there, so it is tried without the weights first.
            _lower_opsets(ir.serde.deserialize_model(shadow_of(model)), limits)
            _lower_opsets(model, limits)
        if lower_ir:
            model.ir_version = newest
        return ir.passes.PassResult(model, bool(limits) or lower_ir)


def _lower_opsets(model: ir.Model, limits: Mapping[str, int]) -> None:
    Expander(Wish(only=frozenset())).run(model, limits, refuse=lambda left: _refuse_left(left, limits))
    _refuse(model, limits)
    for imports in _all_imports(model):
        for domain, version in imports.items():
            imports[domain] = min(version, limits.get(normalized_domain(domain), version))


def _refuse_left(left: Left, limits: Mapping[str, int]) -> None:
    for op, reason in left:
        raise VersionError(f"{op} ({reason})", "a newer opset", f"opset {limits.get(op.domain, 0)}")


def _all_imports(model: ir.Model) -> list[dict[str, int]]:
    return [model.opset_imports, *(function.opset_imports for function in model.functions.values())]


def _limits(imports: Mapping[str, int], target: Target) -> Iterator[tuple[str, int]]:
    """Yield the domains that are imported in a newer version than a target loads, with the newest it does."""
    for domain, version in imports.items():
        newest = target.max_opset.get(normalized_domain(domain))
        if newest is not None and version > newest:
            yield normalized_domain(domain), newest


def _refuse(model: ir.Model, limits: Mapping[str, int]) -> None:
    """Refuse operators that do not mean the same in the lower version."""
    owners: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for owner in owners:
        imports = model.opset_imports if isinstance(owner, ir.Graph) else owner.opset_imports
        versions = {normalized_domain(domain): version for domain, version in imports.items()}
        for node in all_nodes(owner):
            op = operator_id(node)
            needs, has = versions.get(op.domain, 0), limits.get(op.domain)
            lost = has is not None and needs > has and node.op_identifier() not in model.functions
            if lost and not carries_over(op, node.attributes, needs, has or 0):
                raise VersionError(str(op), f"opset {needs}", f"opset {has}")


def _refuse_types(model: ir.Model, newest: int) -> None:
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        tensor = value.const_value
        kind = tensor.dtype if tensor is not None else value.dtype
        if kind is not None and (since := _SINCE.get(kind, 0)) > newest:
            raise VersionError(f"type {kind.name}", f"IR version {since}", f"IR version {newest}")
