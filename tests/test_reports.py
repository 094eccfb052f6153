"""What reports say about the functions of a model."""

from __future__ import annotations

import io
import shutil

import onnx
import pytest

from onnx_inline.errors import FileError
from onnx_inline.identifiers import OperatorId
from onnx_inline.reports.drawing import dot_text, svg_text
from onnx_inline.reports.hierarchy import MAIN, read_hierarchy
from onnx_inline.reports.summary import heading, operators_table, remarks
from onnx_inline.reports.text import byte_size, escaped, escaped_name, quantity
from onnx_inline.reports.tree import tree_lines, tree_table

HEADER = '<ir_version: 10, opset_import: ["" : 18, "l" : 1]>'
FUNCTION = '<domain: "l", opset_import: ["" : 18, "l" : 1]>'
OUTER, INNER = OperatorId("l", "outer"), OperatorId("l", "inner")

NESTED = f"""{HEADER}
main (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}, float16[3] v = {{1, 2, 3}}> {{
    a = l.outer (x, w)
    b = l.outer (a, w)
    y = l.inner (b, v)
}}
{FUNCTION} outer (p, q) => (r) {{ t = l.inner (p, q)  u = l.inner (t, q)  r = Neg (u) }}
{FUNCTION} inner (p, q) => (r) {{ t = Abs (p)  r = Add (t, q) }}
{FUNCTION} unused (p) => (r) {{ r = Abs (p) }}
"""


def hierarchy(text: str):
    return read_hierarchy(onnx.parser.parse_model(text))


def chain(length: int, calls: int) -> str:
    """Return a model of ``length`` functions, each of which calls the next ``calls`` times."""
    levels = [
        f"{FUNCTION} f{level} (p) => (r{calls}) {{ r0 = Identity (p) "
        + " ".join(f"r{call + 1} = l.f{level + 1} (r{call})" for call in range(calls))
        + "}"
        for level in range(length)
    ]
    last = f"{FUNCTION} f{length} (p) => (r) {{ r = Abs (p) }}"
    return "\n".join([f"{HEADER} main (float x) => (float y) {{ y = l.f0 (x) }}", *levels, last])


def rendered(renderable) -> str:
    from onnx_inline.reports.console import LiteralConsole

    stream = io.StringIO()
    LiteralConsole(file=stream, width=200).print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_calls_and_nodes_are_counted_in_the_file_and_in_the_flat_model() -> None:
    facts = hierarchy(NESTED).functions
    counts = {n.name: (f.calls, f.flat_calls, f.nodes, f.flat_nodes, f.depth) for n, f in facts.items()}
    assert counts == {
        "": (0, 1, 0, 12, 2),
        "outer": (2, 2, 1, 5, 1),
        "inner": (3, 5, 2, 2, 0),
        "unused": (0, 0, 1, 1, 0),
    }  # fmt: skip


def test_weights_count_once_in_each_function_that_they_reach() -> None:
    facts = hierarchy(NESTED).functions
    assert (facts[MAIN].parameters, facts[MAIN].parameter_bytes) == (5, 14)
    assert (facts[OUTER].parameters, facts[OUTER].parameter_bytes) == (2, 8)
    assert (facts[INNER].parameters, facts[INNER].parameter_bytes) == (5, 14)


def test_operators_are_those_of_the_flat_model() -> None:
    assert {str(name): count for name, count in hierarchy(NESTED).operators.items()} == {
        "Abs": 5, "Add": 5, "Neg": 2,
    }  # fmt: skip


def test_a_function_that_only_an_uncalled_one_calls_is_never_called() -> None:
    text = (
        f"{HEADER} main (float x) => (float y) {{ y = Abs (x) }}\n{FUNCTION} f (p) => (r) {{ r = l.g (p) }}\n"
    )
    found = hierarchy(text + f"{FUNCTION} g (p) => (r) {{ r = Abs (p) }}")
    assert found.never_called == (OperatorId("l", "f"), OperatorId("l", "g"))
    assert list(remarks(found)) == ["never called: l::f, l::g"]


def test_calls_and_weights_in_subgraphs_count() -> None:
    found = hierarchy(
        f"""{HEADER} main (bool c, float[2] x) => (float[2] y) {{
            y = If (c) <
                then_branch = yes () => (float[2] s) <float[2] k = {{1, 2}}> {{ s = l.inner (x, k) }},
                else_branch = no () => (float[2] t) {{ t = Neg (x) }}
            >
        }}
        {FUNCTION} inner (p, q) => (r) {{ r = Add (p, q) }}"""
    )
    assert (found.main.nodes, found.main.flat_nodes) == (2, 3)
    assert found.functions[INNER].parameter_bytes == 8


def test_a_cycle_is_shown_in_the_direction_of_the_calls() -> None:
    text = f"{HEADER} main (float x) => (float y) {{ y = l.a (x) }}\n"
    for name, callee in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        text += f"{FUNCTION} {name} (p) => (r) {{ r = l.{callee} (p) }}\n"
    found = hierarchy(text)
    ring = [name.name for name in found.cycle]
    assert ring[0] == ring[-1]
    assert "".join(ring) in "abcabca"
    assert found.main.flat_nodes is None
    assert "recursive" in heading("m.onnx", found)
    assert next(remarks(found)) == "recursive: " + " calls ".join(f"l::{name}" for name in ring)


def test_a_model_that_would_explode_is_counted_exactly_and_drawn_in_linear_space() -> None:
    found = hierarchy(chain(length=40, calls=2))
    assert found.main.flat_nodes == 2**41 - 1
    assert len(list(tree_lines(found, depth=100))) == 42
    assert len(list(tree_lines(hierarchy(chain(length=40, calls=2)), depth=3))) == 4


def test_functions_nested_ten_thousand_deep_are_read() -> None:
    model = onnx.parser.parse_model(chain(length=1, calls=1))
    template = model.functions[0]
    del model.functions[:]
    for level in range(10_000):
        function = model.functions.add()
        function.CopyFrom(template)
        function.name = f"f{level}"
        function.node[1].op_type = f"f{level + 1}"
    last = model.functions.add()
    last.CopyFrom(template)
    last.name = "f10000"
    del last.node[1]
    found = read_hierarchy(model)
    assert (found.main.depth, found.main.flat_nodes) == (10_001, 10_001)


def test_the_tree_reads_like_the_calls() -> None:
    assert rendered(tree_table(hierarchy(NESTED), unicode=False)).splitlines() == [
        "function            calls nodes flat depth weights bytes",
        "main graph                    0   12     2       5  14 B",
        "|-- l::outer x2         2     1    5     1       2   8 B",
        "|   `-- l::inner x2     3     2    2     0       5  14 B",
        "`-- l::inner            3     2    2     0       5  14 B",
    ]


def test_a_long_name_loses_its_beginning_where_the_terminal_is_narrow() -> None:
    table = tree_table(hierarchy(NESTED.replace("inner", "name_" * 10 + "end")), unicode=False, width=70)
    lines = rendered(table).splitlines()
    assert max(map(len, lines)) == 70
    assert lines[3].startswith("|   `-- ...") and "_name_end x2 " in lines[3]


def test_opsets_are_a_column_where_they_differ() -> None:
    text = NESTED.replace('<domain: "l", opset_import: ["" : 18', '<domain: "l", opset_import: ["" : 17', 1)
    lines = rendered(tree_table(hierarchy(text))).splitlines()
    assert [line.split()[-1] for line in lines] == ["opset", "18", "17", "18", "18"]


def test_what_a_target_lacks_is_marked_in_the_tree_and_leads_the_operators() -> None:
    found, missing = hierarchy(NESTED), [OperatorId("", "Neg")]
    assert "l::outer x2  lacks Neg" in rendered(tree_table(found, missing=missing))
    assert rendered(operators_table(found, missing=missing)).splitlines() == [
        "operator                    in the flat model",
        "Neg  (the target lacks it)                  2",
        "Abs                                         5",
        "Add                                         5",
    ]


def test_a_long_list_of_operators_is_cut_and_says_so() -> None:
    assert rendered(operators_table(hierarchy(NESTED), limit=1)).endswith("and 2 more, see -v")


def test_siblings_can_be_sorted_largest_first() -> None:
    lines = list(tree_lines(hierarchy(NESTED), sort="calls"))
    assert [line.facts.identifier.name for line in lines] == ["", "inner", "outer", "inner"]


def test_names_cannot_act_on_the_terminal_or_on_graphviz() -> None:
    model = onnx.parser.parse_model(NESTED)
    evil = 'x\x1b]0;t\x07[red]"\n\u202e'
    model.functions[2].name = evil
    found = read_hierarchy(model)
    shown = rendered(tree_table(found)) + next(remarks(found)) + dot_text(found)
    assert not set("\x1b\x07\u202e") & set(shown)
    assert next(remarks(found)) == 'never called: l::x\\x1b]0;t\\x07[red]"\\n\\u202e'
    assert '[label="l::x\\\\x1b]0;t\\\\x07[red]\\"\\\\n\\\\u202e\\n1 nodes, 1 flat"]' in dot_text(found)


def test_the_call_graph_has_a_box_a_function_and_an_arrow_a_caller() -> None:
    text = dot_text(hierarchy(NESTED))
    assert text.startswith("digraph calls {")
    assert 'f0 -> f1 [label="2"]' in text
    assert 'f1 -> f2 [label="2"]' in text
    assert text.count(" -> ") == 3


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_draws_every_function_even_one_with_an_evil_name() -> None:
    import xml.etree.ElementTree as xml

    proto = onnx.parser.parse_model(NESTED)
    proto.functions[2].name = 'x\x1b]0;t\x07<&"\\n'
    root = xml.fromstring(svg_text(dot_text(read_hierarchy(proto))))
    nodes = root.findall(".//*[@class='node']")
    assert len(nodes) == 4


def test_without_graphviz_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FileError, match="Graphviz"):
        svg_text("digraph {}")


def test_reading_changes_nothing_and_the_data_is_json() -> None:
    import json

    model = onnx.parser.parse_model(NESTED)
    before = model.SerializeToString(deterministic=True)
    facts = read_hierarchy(model).to_dict()
    assert model.SerializeToString(deterministic=True) == before
    assert json.loads(json.dumps(facts)) == facts
    assert facts["functions"][0]["callees"] == {"l::inner": 2}


@pytest.mark.parametrize("element_type", sorted(set(onnx.TensorProto.DataType.values()) - {0, 8}))
def test_the_bytes_of_each_element_type_are_those_onnx_writes(element_type: int) -> None:
    try:
        tensor = onnx.helper.make_tensor("w", element_type, [8], [0] * 8)
        tensor = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), "w")
    except Exception as error:
        pytest.skip(f"this onnx cannot make one: {error}")
    model = onnx.parser.parse_model(f"{HEADER} main (float x) => (float y) {{ y = Abs (x) }}")
    model.graph.initializer.append(tensor)
    assert read_hierarchy(model).main.parameter_bytes == len(tensor.raw_data)


def test_strings_are_as_large_as_what_is_stored() -> None:
    model = onnx.parser.parse_model(f"{HEADER} main (float x) => (float y) {{ y = Abs (x) }}")
    model.graph.initializer.append(onnx.helper.make_tensor("s", onnx.TensorProto.STRING, [2], [b"ab", b"c"]))
    assert read_hierarchy(model).main.parameter_bytes == 3


def test_text_helpers() -> None:
    assert escaped("a\tb\n\x9b\ud800") == "a\\tb\n\\x9b\\ud800"
    assert escaped_name("naïve 名\r") == "naïve 名\\r"
    assert [byte_size(size) for size in (0, 1023, 1024, 1 << 20, 100 << 30, 5 << 60)] == [
        "0 B", "1023 B", "1.0 KiB", "1.0 MiB", "100.0 GiB", "5,120.0 PiB",
    ]  # fmt: skip
    assert (quantity(1, "call"), quantity(0, "call"), quantity(1000, "call")) == (
        "1 call",
        "0 calls",
        "1,000 calls",
    )
