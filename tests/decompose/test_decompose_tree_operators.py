"""Mutants in every language but Python: they parse, differ, and leave every other byte alone."""

from __future__ import annotations

import random
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_programs import PIECES, tree_programs

from decompose.functions import functions
from decompose.grammars import MAX_DEPTH, SourceError
from decompose.mutate import edits, mutants
from decompose.source import read
from decompose.tree_fingerprint import digest_of, tokens_of, tree_digest

LANGUAGES = sorted(PIECES)

# A function around a body: BODY stands for it.
FRAMES = {
    "JavaScript": "function f(a, b, xs) {\n BODY\n}\n",
    "TypeScript": "function f(a: number, b: number, xs: number[]): number {\n BODY\n}\n",
    "Java": "class A {\n int f(int a, int b, int[] xs) {\n BODY\n }\n}\n",
    "Go": "package main\n\nfunc f(a, b int, xs []int) int {\n BODY\n}\n",
    "C": "int f(int a, int b, int *xs) {\n BODY\n}\n",
    "C++": "int f(int a, int b, std::vector<int> xs) {\n BODY\n}\n",
    "C#": "class A {\n int f(int a, int b, int[] xs) {\n BODY\n }\n}\n",
    "Ruby": "def f(a, b, xs)\n BODY\nend\n",
    "Rust": "fn f(a: i64, b: i64, xs: Vec<i64>) -> i64 {\n BODY\n}\n",
    "PHP": "<?php\nfunction f($a, $b, $xs) {\n BODY\n}\n",
}


def made_by(language: str, operator: str, body: str) -> set[str]:
    """What an operator makes of a function's body."""
    before, after = FRAMES[language].split("BODY")
    code = before + body + after
    found = [one.code for one in mutants(code, language=language) if one.operator == operator]
    assert all(one.startswith(before) and one.endswith(after) for one in found)
    return {one[len(before) : -len(after)] for one in found}


@pytest.mark.parametrize(
    ("language", "operator", "body", "expected"),
    [
        ("JavaScript", "compare_boundary", "return a < b;", {"return a <= b;"}),
        ("JavaScript", "compare_negate", "return a === b;", {"return a !== b;"}),
        ("JavaScript", "arithmetic_swap", "return 'a' + b;", set()),
        ("JavaScript", "arithmetic_swap", "return a + b;", {"return a - b;"}),
        ("JavaScript", "constant_minus", "return a -0;", {"return a -(-1);"}),
        ("JavaScript", "constant_plus", "return 10n;", {"return 11n;"}),
        ("JavaScript", "return_neutral", "return a;", {"return null;"}),
        ("JavaScript", "string_change", "return `a`;", {"return `aX`;"}),
        ("JavaScript", "string_change", "'use strict'; return a;", set()),
        ("JavaScript", "string_change", "throw new Error('a');", set()),
        ("JavaScript", "call_swap", "return Math.max(a, 1);", {"return Math.min(a, 1);"}),
        ("JavaScript", "argument_swap", "return g(a, b);", {"return g(b, a);"}),
        ("JavaScript", "argument_swap", "return Math.max(a, b);", set()),
        ("JavaScript", "argument_swap", "return g(...a, b);", set()),
        ("JavaScript", "update_swap", "for (;a < b; a++) { b++; }", {"for (;a < b; a++) { b--; }"}),
        ("JavaScript", "loop_bound", "for (let i = 0; i < a; i++) g();",
         {"for (let i = 0; i < a - 1; i++) g();"}),
        ("JavaScript", "break_continue", "while (a) { break; }", {"while (a) { continue; }"}),
        ("JavaScript", "break_continue", "while (a) { switch (b) { case 1: break; } }", set()),
        ("JavaScript", "condition_negate", "if (a) g();", {"if (!(a)) g();"}),
        ("JavaScript", "condition_negate", "if (a < b) g(); if (!a) g();", set()),
        ("JavaScript", "branch_swap", "if (a) { g(); } else { h(); }", {"if (a) { h(); } else { g(); }"}),
        ("JavaScript", "branch_swap", "return a ? 1 : b;", {"return a ? b : 1;"}),
        ("JavaScript", "statement_remove", "let b = 1; b = 2; g(); return b;",
         {"let b = 1; g(); return b;", "let b = 1; b = 2; return b;"}),
        ("JavaScript", "statement_remove", "if (a) {\n  b = 2;\n  g()\n}\nreturn b;",
         {"if (a) {\n  g()\n}\nreturn b;", "if (a) {\n  b = 2;\n}\nreturn b;"}),
        ("JavaScript", "statement_remove", "if (a) { g() }", {"if (a) { }"}),
        ("JavaScript", "statement_remove", "if (a) throw b; return a;", {"if (a) ; return a;"}),
        ("TypeScript", "constant_plus", "const c: 1 = 2 as 3; return c;", {"const c: 1 = 3 as 3; return c;"}),
        ("Java", "arithmetic_swap", "String s = \"a\"; g(s + a); return a + b;",
         {'String s = "a"; g(s + a); return a - b;'}),
        ("Java", "return_neutral", "return a;", {"return 0;"}),
        ("Java", "return_neutral", "g(x -> { return x; }); return 1;", set()),
        ("Java", "statement_remove", "int c; c = 1; int d = 0; d = 2; return c;",
         {"int c; c = 1; int d = 0; return c;"}),
        ("Java", "constant_flip", "while (true) { return 1; }", set()),
        ("Java", "break_continue", "while (true) { break; } return 1;", set()),
        ("Java", "constant_plus", "switch (a) { case 1: return 2; } return b;",
         {"switch (a) { case 1: return 3; } return b;"}),
        ("Java", "boolean_swap", "if (a instanceof B c && c.d) g(); return b;", set()),
        ("Java", "constant_plus", "return 'a' + 0x1fL;", {"return 'b' + 0x1fL;", "return 'a' + 32L;"}),
        ("Java", "constant_plus", "return 2147483647;", set()),
        ("Go", "statement_remove", "c := 1; c = b; return c", {"c := 1; return c"}),
        ("Go", "statement_remove", "c := 1\n c = b\n return c", {"c := 1\n return c"}),
        ("Go", "constant_minus", "return xs[0] + 0 / 1", {"return xs[0] + -1 / 1"}),
        ("Go", "branch_swap", "if ok(a) { return 1 } else { return 2 }",
         {"if ok(a) { return 2 } else { return 1 }"}),
        ("C", "condition_negate", "if (a) return 1; return 2;", {"if (!(a)) return 1; return 2;"}),
        ("C", "string_change", 'scanf("%d", &a); printf("%d", a); return 1;',
         {'scanf("%d", &a); printf("%dX", a); return 1;'}),
        ("C++", "arithmetic_swap", "cout << a; return 1 << b;", {"cout << a; return 1 >> b;"}),
        ("C++", "arithmetic_swap", "return xs.end() - xs.begin();", set()),
        ("C++", "call_swap", "return std::max(a, b);", {"return std::min(a, b);"}),
        ("C#", "argument_swap", "g(a, b); g(a, xs); return 1;", {"g(b, a); g(a, xs); return 1;"}),
        ("C#", "call_swap", "return xs.Any() ? xs.Any(g) : a;", {"return xs.Any() ? xs.All(g) : a;"}),
        ("Ruby", "return_neutral", "g\n a + b", {"g\n nil"}),
        ("Ruby", "range_swap", "(a..b).each { |x| g x }", {"(a...b).each { |x| g x }"}),
        ("Ruby", "not_drop", "return not(a)", {"return (a)"}),
        ("Ruby", "arithmetic_swap", "xs << a\n g(1 << a)", {"xs << a\n g(1 >> a)"}),
        ("Ruby", "break_continue", "xs.each { |x| next if x }", {"xs.each { |x| break if x }"}),
        ("Ruby", "string_change", "raise 'a' if b", set()),
        ("Rust", "range_swap", "for i in a..b { g(i); } 1", {"for i in a..=b { g(i); } 1"}),
        ("Rust", "return_neutral", "if a > b { return a; }\n b",
         {"if a > b { return 0; }\n b", "if a > b { return a; }\n 0"}),
        ("Rust", "constant_minus", "let x = 0usize; 2", {"let x = 0usize; 1"}),
        ("Rust", "condition_negate", "if let Some(c) = g() { return c; } 1", set()),
        ("Rust", "statement_remove", "let c; c = 1; let mut d = 1; d = 2; c",
         {"let c; c = 1; let mut d = 1; c"}),
        ("PHP", "boolean_swap", "return $a and $b;", {"return $a or $b;"}),
        ("PHP", "return_neutral", "return $a;", {"return null;"}),
        ("PHP", "call_swap", "return max($a, $b);", {"return min($a, $b);"}),
        ("PHP", "constant_flip", "return TRUE;", {"return false;"}),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_operator(language: str, operator: str, body: str, expected: set[str]) -> None:
    assert made_by(language, operator, body) == expected


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("boolean f(int a)", "false"),
        ("String f(int a)", '""'),
        ("List<String> f(int a)", "null"),
        ("void f()", None),
    ],
)
def test_a_declared_type_tells_what_is_returned_instead(declared: str, value: str | None) -> None:
    code = "class A { " + declared + " { return g(a); } }"
    found = [one.code for one in mutants(code, language="Java") if one.operator == "return_neutral"]
    assert found == ([] if value is None else [code.replace("g(a)", value)])


def test_a_function_of_the_program_is_not_swapped_for_one_that_it_lacks() -> None:
    code = "<?php\nfunction max($a) { return g($a); }\nfunction f($a) { return max($a); }\n"
    assert all(one.operator != "call_swap" for one in mutants(code, language="PHP"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_outside_of_bodies_is_left_alone(language: str) -> None:
    code = FRAMES[language].replace("BODY", "")
    assert mutants(code, language=language) == []


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=20)
@given(data=st.data())
def test_every_mutant_is_another_program_with_the_same_functions(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    shape = [(span.name, span.signature, span.docstring) for span in functions(code, language)]
    original = read(code, language)
    seen = {tree_digest(original.tree.root_node, original.data)}
    for one in mutants(code, language=language):
        made = read(one.code, language)
        digest = tree_digest(made.tree.root_node, made.data)
        assert digest not in seen, one.detail
        seen.add(digest)
        assert [(d.span.name, d.span.signature, d.span.docstring) for d in made.steps] == shape


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=20)
@given(data=st.data())
def test_a_mutant_changes_one_range_inside_its_functions_body(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    raw = code.encode()
    bodies = {one.span.name: one.body for one in read(code, language).steps}
    found = mutants(code, language=language)
    assert [one.start_byte for one in found] == sorted(one.start_byte for one in found)
    for one in found:
        body, made = bodies[one.function], one.code.encode()
        assert body.start_byte <= one.start_byte <= one.end_byte <= body.end_byte
        assert made.startswith(raw[: one.start_byte])
        assert made.endswith(raw[one.end_byte :])


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=10)
@given(data=st.data())
def test_faults_are_the_same_each_time(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    assert edits(code, language=language) == edits(code, language=language)
    drawn = [edits(code, language=language, limit=3, rng=random.Random(1)) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=10)
@given(data=st.data())
def test_what_is_parsed_again_is_what_would_be_parsed_anew(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    source = read(code, language)
    for edit in edits(code, language=language):
        made = read(code.encode()[: edit.start_byte].decode() + edit.replacement
                    + code.encode()[edit.end_byte :].decode(), language)  # fmt: skip
        new = made.step(edit.function)
        old = source.step(edit.function)
        known = tokens_of(old.node, source.data)
        assert digest_of(source, old, known, edit, language) == tree_digest(new.node, made.data)


@pytest.mark.parametrize("language", LANGUAGES)
def test_comments_and_layout_make_no_other_tree(language: str) -> None:
    mark = "#" if language == "Ruby" else "//"
    body = "return 1\n" if language in ("Go", "Ruby") else "return 1;\n"
    plain = FRAMES[language].replace("BODY", body)
    told = FRAMES[language].replace("BODY", f"{mark} told\n   {body}")
    digests = []
    for code in (plain, told):
        source = read(code, language)
        digests.append(tree_digest(source.steps[0].node, source.data))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_deep_nesting_is_an_error_and_no_crash(language: str) -> None:
    name = "$a" if language == "PHP" else "a"
    for count in (MAX_DEPTH, 100_000):
        body = f"return {'(' * count}{name}{')' * count}" + ("" if language in ("Go", "Ruby") else ";")
        with pytest.raises(SourceError):
            mutants(FRAMES[language].replace("BODY", body), language=language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_long_function_has_some_of_its_faults_proposed(language: str) -> None:
    name = "$a" if language == "PHP" else "a"
    end = "" if language in ("Go", "Ruby") else ";"
    body = f" {name} = g({name}, 1){end}\n" * 5_000 + f" return {name}{end}"
    found = edits(FRAMES[language].replace("BODY", body), language=language, limit=20, rng=random.Random(0))
    assert len(found) >= 20 or len({one.operator for one in found}) > 1


def test_carriage_returns_stay_in_pairs() -> None:
    code = textwrap.dedent("""\
        function f(a) {
          if (a) {
            b = 1; // one
          } else {
            b = 2;
          }
          return b;
        }
        """).replace("\n", "\r\n")
    found = mutants(code, language="JavaScript")
    assert found
    assert all(one.code.replace("\r\n", "").count("\r") == 0 for one in found)
