"""The text form of chains of passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnx_inline
from onnx_inline import format_passes, parse_passes
from onnx_inline.passes.table import known_passes, options_of


def test_a_text_names_passes_with_options_typed_as_the_pass_has_them() -> None:
    inline, fold, names = parse_passes(
        "inline-functions{keep=m::Attn, max-nodes=500, provenance}, fold-modules{depth=1},\n unique-names"
    )
    assert inline == onnx_inline.InlineFunctionsPass(keep="m::Attn", max_nodes=500, provenance=True)
    assert fold == onnx_inline.FoldModulesPass(depth=1)
    assert names == onnx_inline.UniqueNamesPass()


def test_the_text_of_the_issue_is_its_own_canonical_form() -> None:
    text = "inline-functions{keep=m::Attn},fold-modules{depth=1},unique-names,verify"
    assert format_passes(parse_passes(text)) == text


def test_a_blank_text_names_no_passes() -> None:
    assert parse_passes(" \n") == ()
    assert format_passes(()) == ""


def test_quotes_let_a_value_hold_what_marks_the_text() -> None:
    (inline,) = parse_passes(r'inline-functions{keep=["a,b}", "say \"x\""]}')
    assert inline.keep == ("a,b}", 'say "x"')
    assert format_passes([inline]) == r'inline-functions{keep=["a,b}","say \"x\""]}'


def test_a_list_in_a_list_is_an_exact_identifier() -> None:
    (inline,) = parse_passes("inline-functions{only=[[m,Attn],other*]}")
    assert inline.only == (("m", "Attn"), "other*")


def test_none_in_quotes_is_text() -> None:
    quoted, plain = parse_passes('fold-modules{classes="none"},fold-modules{classes=none}')
    assert (quoted.classes, plain.classes) == ("none", None)


def test_passes_of_onnx_ir_have_names_and_options_too() -> None:
    text = "common-subexpression-elimination{size-limit=3},topological-sort"
    first, _ = passes = parse_passes(text)
    assert first.size_limit == 3
    assert format_passes(passes) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fold-modules{dept=1}", "character 13: fold-modules has no option 'dept'; did you mean depth?"),
        (
            "fold-modules{depth=x}",
            "character 19: option depth of fold-modules takes a whole number or none",
        ),
        ("fold-modules{depth=1", "character 20: ',' between options is expected, not the end"),
        ("fold-modules depth", "character 13: ',' between passes is expected, not 'depth'"),
        ("verify,", "character 7: the name of a pass is expected, not the end"),
        ("{", "character 0: the name of a pass is expected, not '{'"),
        ("fold-modules{depth=1,depth=2}", "character 21: option depth of fold-modules is given twice"),
        ("fold-modules{depth=-1}", "character 0: fold-modules: depth must not be negative, but is -1"),
        ('fold-modules{classes="a}', "character 21: a quotation mark has no end"),
        (r'fold-modules{classes="\q"}', r'character 21: "\q" has an escape that JSON does not know'),
        ("convert-opset", "character 0: convert-opset needs version; write convert-opset{version=...}"),
        ("inline-functions{names=x}", "character 23: option names of inline-functions takes path or flat"),
        ("inline-functions{keep=" + "[" * 30, "character 42: lists are nested more than 20 deep"),
    ],
)
def test_a_wrong_text_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(onnx_inline.PassTextError) as caught:
        parse_passes(text)
    assert str(caught.value) == message
    assert f"character {caught.value.position}:" in message


def test_an_unknown_pass_is_refused_with_close_names() -> None:
    with pytest.raises(onnx_inline.UnknownPassError) as caught:
        parse_passes("verify,inline-function")
    assert str(caught.value).startswith(
        "character 7: there is no pass 'inline-function'; did you mean inline"
    )
    assert caught.value.close[0] == "inline-functions"


def test_a_predicate_has_no_text() -> None:
    with pytest.raises(onnx_inline.PassTextError, match="option only of inline-functions cannot be written"):
        format_passes([onnx_inline.InlineFunctionsPass(only=lambda function: True)])


def test_a_pass_that_is_in_no_table_has_no_text() -> None:
    import onnx_ir as ir

    class Mine(ir.passes.InPlacePass):
        def call(self, model: ir.Model) -> ir.passes.PassResult:
            return ir.passes.PassResult(model, False)

    with pytest.raises(onnx_inline.UnknownPassError, match="Mine is not among the passes"):
        format_passes([Mine()])


@pytest.mark.parametrize("name", sorted(known_passes()))
def test_every_pass_in_the_table_can_be_imported_and_says_what_it_does(name: str) -> None:
    entry = known_passes()[name]
    facts = entry.to_dict()
    assert facts["summary"].endswith(".")
    assert [option["name"] for option in facts["options"]] == [o.name for o in options_of(entry.load())]
    assert getattr(entry.load(), "name", name) == name


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
globs = st.one_of(texts, st.tuples(texts, texts), st.tuples(texts, texts, texts))
patterns = st.one_of(st.none(), texts, st.lists(globs, max_size=3).map(tuple))
passes = st.one_of(
    st.builds(
        onnx_inline.InlineFunctionsPass,
        only=patterns,
        keep=patterns,
        max_nodes=st.integers(0, 10**30),
        names=st.sampled_from(["path", "flat"]),
        provenance=st.booleans(),
    ),
    st.builds(
        onnx_inline.FoldModulesPass,
        depth=st.none() | st.integers(0, 5),
        classes=st.none() | texts | st.lists(texts, max_size=3).map(tuple),
        max_nodes=st.none() | st.integers(0, 10**6),
    ),
    st.builds(onnx_inline.UniqueNamesPass, style=st.sampled_from(["keep", "path", "short"])),
    st.builds(onnx_inline.VerifyPass, rules=st.none() | st.lists(texts, max_size=2).map(tuple)),
    st.builds(onnx_inline.ConvertOpsetPass, version=st.integers(), fallback=st.booleans()),
)


@given(st.lists(passes, max_size=4).map(tuple))
def test_passes_survive_the_way_through_text(chain: tuple[object, ...]) -> None:
    text = format_passes(chain)
    assert parse_passes(text) == chain
    assert format_passes(parse_passes(text)) == text


@given(st.text(alphabet='abdehlopst-={}[],:" \\\n1', max_size=40))
def test_any_text_is_parsed_or_refused_by_an_error_of_ours(text: str) -> None:
    try:
        parse_passes(f"fold-modules{{{text}")
        parse_passes(text)
    except onnx_inline.OnnxInlineError:
        pass
