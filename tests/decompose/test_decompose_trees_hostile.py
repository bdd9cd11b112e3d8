"""Hostile text of every language is taken apart or refused in one line; nothing recurses."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_programs import PIECES

from decompose.functions import functions
from decompose.graft import bound_names, graft
from decompose.grammars import MAX_SOURCE_BYTES, SourceError
from decompose.skeleton import skeleton

# Language -> a function whose body is `BODY`, what is around it, and its name.
FORMS = {
    "JavaScript": ("function f() {BODY}", "", "", "f"),
    "TypeScript": ("function f() {BODY}", "", "", "f"),
    "Java": ("int f() {BODY}", "class A {", "}", "A.f"),
    "Go": ("func f() {BODY};", "package m;", "", "f"),
    "C": ("int f() {BODY}", "", "", "f"),
    "C++": ("int f() {BODY}", "", "", "f"),
    "C#": ("int f() {BODY}", "class A {", "}", "A.f"),
    "Ruby": ("def f();BODY;end;", "", "", "f"),
    "Rust": ("fn f() {BODY}", "", "", "f"),
    "PHP": ("function f() {BODY}", "<?php ", "", "f"),
}


def program(language: str, body: str, before: str = "") -> str:
    form, opening, closing, _ = FORMS[language]
    return f"{opening}{before}{form.replace('BODY', body)}{closing}"


HOSTILE = {
    "nested parentheses": lambda lang: program(lang, "x = " + "(" * 20_000 + "1" + ")" * 20_000),
    "open braces": lambda lang: program(lang, "{" * 20_000),
    "unary signs": lambda lang: program(lang, "x = " + "!" * 20_000 + "y"),
    "a long sum": lambda lang: program(lang, "x = " + "1 + " * 20_000 + "1"),
    "a long chain": lambda lang: program(lang, "x = a" + ".b" * 20_000),
    "nested functions": lambda lang: program(lang, FORMS[lang][0].replace("BODY", "") * 5000),
    "a long name": lambda lang: program(lang, "").replace(" f(", f" {'f' * 100_000}("),
    "many comments": lambda lang: program(lang, "", ("\n#" if lang == "Ruby" else "\n//") * 20_000 + "\n"),
    "a NUL": lambda lang: program(lang, "\0"),
    "a lone surrogate": lambda lang: program(lang, "'\ud800'"),
    "a lone carriage return": lambda lang: program(lang, "\rx"),
    "too many bytes": lambda lang: program(lang, " " * MAX_SOURCE_BYTES),
}


@pytest.mark.parametrize("language", FORMS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_read_or_refused_in_one_line(kind: str, language: str) -> None:
    code = HOSTILE[kind](language)
    for work in (functions, bound_names, lambda text, lang: skeleton(text, language=lang)):
        said = "read"
        try:
            work(code, language)
        except SourceError as error:
            said = str(error)
        assert 0 < len(said) < 200
        assert "\n" not in said


@pytest.mark.parametrize("language", FORMS)
def test_what_no_parser_reads_is_refused(language: str) -> None:
    for kind in (
        "nested parentheses",
        "open braces",
        "a NUL",
        "a lone surrogate",
        "too many bytes",
        "a long name",
    ):
        with pytest.raises(SourceError):
            functions(HOSTILE[kind](language), language)


@pytest.mark.parametrize("language", FORMS)
def test_a_thousand_functions_on_one_line_are_taken_apart_and_grafted(language: str) -> None:
    form, opening, closing, name = FORMS[language]
    many = " ".join(form.replace(" f(", f" f{number}(").replace("BODY", "") for number in range(1000))
    code = f"{opening}{many}{closing}"
    assert len(functions(code, language)) == 1000
    assert len(functions(skeleton(code, language=language), language)) == 1000
    first = f"{name}0"
    assert graft(code, code, first, language) == code


@pytest.mark.parametrize("language", FORMS)
@settings(max_examples=20)
@given(data=st.data())
def test_any_soup_of_a_language_is_read_or_refused(language: str, data: st.DataObject) -> None:
    told = PIECES[language]
    words = [
        word
        for text in (*told.functions, *told.classes, *told.members, *told.docs)
        for word in text.split(" ")
    ]
    soup = st.lists(st.sampled_from([*words, "\n", "{", "}", "(", ")", ";", "end"]), max_size=40)
    code = told.head + " ".join(data.draw(soup))
    with contextlib.suppress(SourceError):
        blank = skeleton(code, language=language)
        assert skeleton(blank, language=language) == blank
        for span in functions(code, language):
            assert graft(code, code, span.name, language).strip()
        bound_names(code, language)
