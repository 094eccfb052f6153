"""The passes of onnx_inline, and the one table of all passes that have a name."""

from __future__ import annotations

_OWN = "onnx_inline.passes"
_IR = "onnx_ir.passes.common"

#: name -> module and class, imported when asked for
PASSES: dict[str, str] = {
    "inline-functions": f"{_OWN}.inline_functions:InlineFunctionsPass",
    "fold-modules": f"{_OWN}.fold_modules:FoldModulesPass",
    "decompose-operators": f"{_OWN}.decompose_operators:DecomposeOperatorsPass",
    "lower-versions": f"{_OWN}.lower_versions:LowerVersionsPass",
    "fold-integers": f"{_OWN}.fold_integers:FoldIntegersPass",
    "split-sequences": f"{_OWN}.split_sequences:SplitSequencesPass",
    "take-constant-ifs": f"{_OWN}.take_constant_ifs:TakeConstantIfsPass",
    "remove-noop-casts": f"{_OWN}.casts:RemoveNoopCastsPass",
    "expand-frozen": f"{_OWN}.expand_frozen:ExpandFrozenPass",
    "adapt-to-builder": f"{_OWN}.adapt_to_builder:AdaptToBuilderPass",
    "restore-output-names": f"{_OWN}.restore_output_names:RestoreOutputNamesPass",
    "unique-names": f"{_OWN}.unique_names:UniqueNamesPass",
    "merge-functions": f"{_OWN}.merge_functions:MergeFunctionsPass",
    "outline-repeats": f"{_OWN}.outline_repeats:OutlineRepeatsPass",
    "bind-initializers": f"{_OWN}.bind_initializers:BindInitializersPass",
    "verify": f"{_OWN}.verify:VerifyPass",
    # onnxscript's, which are functions there
    "constant-folding": f"{_OWN}.borrowed:ConstantFoldingPass",
    "convert-opset": f"{_OWN}.borrowed:ConvertOpsetPass",
    # onnx_ir's
    "add-default-attributes": f"{_IR}:AddDefaultAttributesPass",
    "add-initializers-to-inputs": f"{_IR}:AddInitializersToInputsPass",
    "clear-metadata": f"{_IR}:ClearMetadataAndDocStringPass",
    "common-subexpression-elimination": f"{_IR}:CommonSubexpressionEliminationPass",
    "deduplicate-hashed-initializers": f"{_IR}:DeduplicateHashedInitializersPass",
    "deduplicate-initializers": f"{_IR}:DeduplicateInitializersPass",
    "identity-elimination": f"{_IR}:IdentityEliminationPass",
    "lift-constants-to-initializers": f"{_IR}:LiftConstantsToInitializersPass",
    "lift-subgraph-initializers": f"{_IR}:LiftSubgraphInitializersToMainGraphPass",
    "output-fix": f"{_IR}:OutputFixPass",
    "remove-initializers-from-inputs": f"{_IR}:RemoveInitializersFromInputsPass",
    "remove-unused-functions": f"{_IR}:RemoveUnusedFunctionsPass",
    "remove-unused-nodes": f"{_IR}:RemoveUnusedNodesPass",
    "remove-unused-opsets": f"{_IR}:RemoveUnusedOpsetsPass",
    "shape-inference": f"{_IR}:ShapeInferencePass",
    "topological-sort": f"{_IR}:TopologicalSortPass",
}
