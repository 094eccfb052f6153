"""Until onnx_inline.preparation is there."""

from __future__ import annotations
import onnx, onnx.inliner


def prepare(model, *, keep=None, output_names=None):
    from onnx_inline.engine import inline_proto
    from onnx_inline.engine.options import Options

    model = inline_proto.put_together(model, inline_proto.inline(model, Options(keep=keep)))
    if output_names:
        ren = {o.name: n for o, n in zip(model.graph.output, output_names)}
        for o in model.graph.output:
            o.name = ren[o.name]
        for n in model.graph.node:
            for i, x in enumerate(n.input):
                if x in ren:
                    n.input[i] = ren[x]
            for i, x in enumerate(n.output):
                if x in ren:
                    n.output[i] = ren[x]
        for v in model.graph.value_info:
            v.name = ren.get(v.name, v.name)
    for k, n in enumerate(model.graph.node):
        if n.op_type == "LayerNormalization":
            while len(n.output) < 3:
                n.output.append(f"ln{k}_extra{len(n.output)}")
    used = (
        {n.domain for n in model.graph.node}
        | {f.domain for f in model.functions}
        | {n.domain for f in model.functions for n in f.node}
    )
    keepimp = [o for o in model.opset_import if o.domain in used or o.domain == ""]
    del model.opset_import[:]
    model.opset_import.extend(keepimp)
    model.ir_version = min(model.ir_version, 10)
    return model


def inline_functions(model, *, keep=None):
    return prepare(model, keep=keep)


def prepare_for_onnx_ad(model):
    model = prepare(model)
    for n in model.graph.node:
        if n.op_type == "LayerNormalization":
            del n.output[1:]
    return model
