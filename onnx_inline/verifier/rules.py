"""The rules, each a function of a model that yields what it finds."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterator, Mapping

import onnx

from onnx_inline.identifiers import OperatorId
from onnx_inline.verifier.findings import Finding, at_node, doubles, in_scope, named
from onnx_inline.verifier.scopes import Model, Scope, Value

Rule = Callable[[Model], Iterator[Finding]]


def single_definition(model: Model) -> Iterator[Finding]:
    """Every scope defines a name once."""
    for owner in model.owners():
        for scope in owner.all_scopes():
            for name, times in doubles(value.name for value in scope.defined() if value.name).items():
                message = f"{name!r} is defined {times} times"
                yield in_scope("single-definition", scope, message)


def dangling_reads(model: Model) -> Iterator[Finding]:
    """What is read is defined before, in the scope or in one around it."""
    for owner in model.owners():
        yield from _dangling(owner, set())


def _dangling(scope: Scope, visible: set[object]) -> Iterator[Finding]:
    later = {value.key for value in scope.defined()}
    own: list[object] = []

    def define(values: list[Value]) -> None:
        new = [value.key for value in values if value.key not in visible]
        visible.update(new)
        own.extend(new)

    define(scope.inputs)
    define(scope.initializers)
    for index, node in enumerate(scope.nodes):
        for value in node.inputs:
            if value.key not in visible:
                how = "before it is defined" if value.key in later else "and is defined nowhere"
                yield at_node("dangling-reads", scope, index, f"{value.name!r} is read {how}")
        for inner in node.scopes:
            yield from _dangling(inner, visible)
        define(node.outputs)
    visible.difference_update(own)


def shadowing(model: Model) -> Iterator[Finding]:
    """No scope defines a name that a scope around it defines."""
    for owner in model.owners():
        yield from _shadowing(owner, {})


def _shadowing(scope: Scope, around: dict[str, str]) -> Iterator[Finding]:
    own = {value.name for value in scope.defined() if value.name}
    for name in sorted(own & around.keys()):
        yield in_scope("shadowing", scope, f"{name!r} hides a value of {around[name]}")
    if not any(node.scopes for node in scope.nodes):
        return
    seen = {**around, **dict.fromkeys(own, scope.title)}
    for node in scope.nodes:
        for inner in node.scopes:
            yield from _shadowing(inner, seen)


def reference_attributes(model: Model) -> Iterator[Finding]:
    """Attributes refer to those of the function around them; in the graph they refer to none."""
    yield from _references(model.graph, frozenset())
    for function in model.functions:
        yield from _references(function.scope, function.attributes)


def _references(owner: Scope, declared: frozenset[str]) -> Iterator[Finding]:
    for scope in owner.all_scopes():
        for index, node in enumerate(scope.nodes):
            for attribute, reference in node.references:
                if reference not in declared:
                    message = f"attribute {attribute} refers to {reference!r}, which is no attribute here"
                    yield at_node("reference-attributes", scope, index, message)


def outputs_defined(model: Model) -> Iterator[Finding]:
    """Every scope defines its outputs itself."""
    for owner in model.owners():
        for scope in owner.all_scopes():
            own = {value.key for value in scope.defined()}
            for value in scope.outputs:
                if value.key not in own:
                    yield in_scope("outputs-defined", scope, f"output {value.name!r} is not defined in it")


def opset_imports(model: Model) -> Iterator[Finding]:
    """The graph and every function import the domains that they use; the graph also what functions use.

    Readers take the graph's versions for the whole model, or the newest they know if it has none.
    """
    for title, scope, imports in _importers(model):
        for domain in sorted(_domains(scope) - imports.keys()):
            yield Finding("opset-imports", f"domain {domain or 'ai.onnx'} is used but not imported", title)
        for domain in sorted(_domains(scope) & imports.keys() - model.imports.keys()):
            message = f"domain {domain or 'ai.onnx'} is used, but the model does not import it"
            yield Finding("opset-imports", message, title)


def unused_imports(model: Model) -> Iterator[Finding]:
    """Neither the graph nor a function imports a domain that is of no use."""
    in_functions = {domain for f in model.functions for domain in (f.id.domain, *_domains(f.scope))}
    own = {function.scope.title: {function.id.domain} for function in model.functions}
    for title, scope, imports in _importers(model):
        for domain in sorted(imports.keys() - _domains(scope) - own.get(title, in_functions)):
            yield Finding("unused-imports", f"domain {domain or 'ai.onnx'} is imported but not used", title)


def _importers(model: Model) -> Iterator[tuple[str, Scope, Mapping[str, int]]]:
    yield model.graph.title, model.graph, model.imports
    for function in model.functions:
        yield function.scope.title, function.scope, function.imports


def _domains(owner: Scope) -> set[str]:
    return {node.op.domain for node in owner.all_nodes()}


def calls_resolve(model: Model) -> Iterator[Finding]:
    """A call of a function finds it, and gives and takes no more than it has."""
    functions = {function.id: function.scope for function in model.functions}
    yield from _defined_twice(model)
    names = {(function.domain, function.name) for function in functions}
    for owner in model.owners():
        for scope in owner.all_scopes():
            for index, node in enumerate(scope.nodes):
                callee = functions.get(node.op)
                if callee is not None:
                    yield from _arity(scope, index, callee)
                elif node.op[:2] in names and not onnx.defs.has(node.op.name, node.op.domain):
                    yield at_node("calls-resolve", scope, index, f"there is no function {node.op}")


def _defined_twice(model: Model) -> Iterator[Finding]:
    for name in doubles(str(function.id) for function in model.functions):
        yield in_scope("calls-resolve", model.graph, f"function {name} is defined twice")


def _arity(scope: Scope, index: int, callee: Scope) -> Iterator[Finding]:
    node = scope.nodes[index]
    for what, given, has in (
        ("inputs", node.inputs, callee.inputs),
        ("outputs", node.outputs, callee.outputs),
    ):
        if len(given) > len(has):
            message = f"it has {len(given)} {what}, {callee.title} has {len(has)}"
            yield at_node("calls-resolve", scope, index, message)


def no_recursion(model: Model) -> Iterator[Finding]:
    """No function calls itself, by whatever way."""
    calls = {f.id: {node.op for node in f.scope.all_nodes()} for f in model.functions}
    known = {function: callees & calls.keys() for function, callees in calls.items()}
    try:
        graphlib.TopologicalSorter(known).prepare()
    except graphlib.CycleError as error:
        # graphlib gives the way from callee to caller.
        cycle: list[OperatorId] = list(reversed(error.args[1]))
        message = f"functions call each other in a circle: {' -> '.join(map(str, cycle))}"
        yield Finding("no-recursion", message, f"function {cycle[0]}")


def node_names(model: Model) -> Iterator[Finding]:
    """No two nodes of scopes that see each other have one name."""
    for owner in model.owners():
        labels = (node.name for node in owner.all_nodes() if node.name)
        for name, times in doubles(labels).items():
            yield in_scope("node-names", owner, f"{times} nodes are called {name!r}")


def value_info(model: Model) -> Iterator[Finding]:
    """Types are given for values that there are, once each."""
    for owner in model.owners():
        for scope in owner.all_scopes():
            own = {value.name for value in scope.defined()}
            for name in scope.annotated:
                if name not in own:
                    yield in_scope("value-info", scope, f"value_info for {name!r}, which is not defined")
            for name in doubles(scope.annotated):
                yield in_scope("value-info", scope, f"value_info for {name!r} is given twice")


def named_values(model: Model) -> Iterator[Finding]:
    """Every value has a name (in onnx_ir one may have none until it is written)."""
    for owner in model.owners():
        for scope in owner.all_scopes():
            for index, node in enumerate(scope.nodes):
                if any(not value.name for value in [*node.inputs, *node.outputs]):
                    message = f"a value at {named(node, index)} has no name"
                    yield at_node("named-values", scope, index, message)


def checker(model: Model) -> Iterator[Finding]:
    """onnx's own checker accepts the model, with types and shapes inferred; weights are not read."""
    if next(no_recursion(model), None) is not None:
        # Older versions of onnx do not come back from recursion.
        yield Finding("checker", "it is not asked: functions call each other in a circle", "the model")
        return
    try:
        light = model.light()
    except Exception as error:  # onnx_ir's own errors, about a model that cannot be written
        yield Finding("checker", f"it cannot be written: {error.__cause__ or error}", "the model")
        return
    try:
        onnx.checker.check_model(light, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        yield Finding("checker", " ".join(str(error).split())[:500], "the model")


#: name -> rule, in the order in which findings are listed
RULES: dict[str, Rule] = {
    "single-definition": single_definition,
    "dangling-reads": dangling_reads,
    "shadowing": shadowing,
    "reference-attributes": reference_attributes,
    "outputs-defined": outputs_defined,
    "opset-imports": opset_imports,
    "unused-imports": unused_imports,
    "calls-resolve": calls_resolve,
    "no-recursion": no_recursion,
    "node-names": node_names,
    "value-info": value_info,
    "named-values": named_values,
    "checker": checker,
}
