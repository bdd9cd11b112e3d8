"""What holds for every program of every language: spans, skeletons and splices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_programs import PIECES, tree_programs

from decompose.functions import functions, source_of
from decompose.skeleton import skeleton, splice
from decompose.source import filler, read

LANGUAGES = sorted(PIECES)
SEPARATORS = {"C++": "::", "Rust": "::"}


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=15)
@given(data=st.data())
def test_spans_lie_in_order_and_hold_their_names(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    end = 0
    names = []
    for span in functions(code, language):
        assert end <= span.start_byte < span.end_byte <= len(code.encode())
        end = span.end_byte
        text = source_of(code, span)
        last = span.name.partition("(")[0].rpartition(SEPARATORS.get(language, "."))[2]
        assert last in text
        assert span.signature in text
        assert text == text.strip()
        names.append(span.name)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=15)
@given(data=st.data())
def test_skeleton_keeps_names_signatures_and_doc_comments(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    blank = skeleton(code, language=language)
    before, after = functions(code, language), functions(blank, language)
    assert [(f.name, f.kind, f.signature, f.docstring) for f in after] == [
        (f.name, f.kind, f.signature, f.docstring) for f in before
    ]
    assert all(f.calls in ([], [f.name]) or "super" in source_of(blank, f) for f in after)
    word = filler(language).rstrip(";").split()[0]
    assert all(word.split("(")[0] in source_of(blank, f) for f in after)
    assert skeleton(blank, language=language) == blank


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=15)
@given(data=st.data())
def test_functions_spliced_back_into_the_skeleton_give_the_program(
    language: str, data: st.DataObject
) -> None:
    code = data.draw(tree_programs(language))
    made = skeleton(code, language=language)
    assert all(one.step for one in read(code, language).definitions)
    for span in functions(code, language):
        own = source_of(code, span)
        assert splice(code, span.name, own, language) == code
        made = splice(made, span.name, own, language)
    assert made == code
