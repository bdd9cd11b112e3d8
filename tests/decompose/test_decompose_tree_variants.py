"""Exchanges of neighbours: only where order cannot matter, and nothing else of the program changes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_programs import PIECES, tree_programs

from decompose.functions import functions, source_of
from decompose.variants import variants
from schemas.errors import AssayError


def made(language: str, code: str) -> list[str]:
    return [one.code for one in variants(code, language)]


@pytest.mark.parametrize(
    ("language", "code", "expected"),
    [
        ("JavaScript", "function f() {}\n// g.\nfunction g() { f(); }\n",
         "// g.\nfunction g() { f(); }\nfunction f() {}\n"),
        ("Go", "package p\n\nfunc f() {}\n\nfunc (x T) g() {}\n",
         "package p\n\nfunc (x T) g() {}\n\nfunc f() {}\n"),
        ("Java", "class A {\n int f() { return 1; }\n @B int g() { return f(); }\n}\n",
         "class A {\n @B int g() { return f(); }\n int f() { return 1; }\n}\n"),
        ("C", "int f(void) { return 1; }\nint g(void) { return 2; }\n",
         "int g(void) { return 2; }\nint f(void) { return 1; }\n"),
        ("Ruby", "def f; end\ndef g; end\nf\n", "def g; end\ndef f; end\nf\n"),
        ("Rust", "fn f() {}\nfn g() {}\n", "fn g() {}\nfn f() {}\n"),
        ("PHP", "<?php\nfunction f() {}\nfunction g() {}\n", "<?php\nfunction g() {}\nfunction f() {}\n"),
    ],
)  # fmt: skip
def test_neighbours_are_exchanged(language: str, code: str, expected: str) -> None:
    assert made(language, code) == [expected]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("JavaScript", "function f() {}\nf();\nfunction g() {}\n"),
        ("JavaScript", "const f = () => 1;\nconst g = () => f();\n"),
        ("JavaScript", "function f() {}\nfunction f() {}\n"),
        ("JavaScript", "function f() { return new Error().stack; }\nfunction g() {}\n"),
        ("TypeScript", "function f(a: string): void;\nfunction f(a: any) {}\nfunction g() {}\n"),
        ("Go", "package p\n\nfunc init() {}\n\nfunc init() {}\n"),
        ("Go", "package p\n\nfunc init() {}\n\nfunc f() {}\n"),
        ("C", "int f(void) { return 1; }\nint g(void) { return f(); }\n"),
        ("C", "int f(int n) { return n ? g(n) : 1; }\nint g(int n) { return 2; }\n"),
        ("C",
         "struct s { int a; } f(void) { return h(); }\nint g(void) { return sizeof(struct s); }\n"),
        ("C", "int f(void) {\n#define N 2\n return 1; }\nint g(void) { return N; }\n"),
        ("C", "int f(void) { return __LINE__; }\nint g(void) { return 2; }\n"),
        ("C++", "T operator+(T a, T b) { return a; }\nT g(T a) { return a + a; }\n"),
        ("C++", "template <> int f<int>(int a) { return a; }\nint g() { return h(1); }\n"),
        ("Java", "class A {\n A() {}\n int f() { return 1; }\n}\n"),
        ("Ruby", "def f; end\nprivate\ndef g; end\n"),
        ("Ruby", "def self.method_added(n) = p(n)\ndef f; end\n"),
        ("PHP", "<?php\nfunction f() {}\nif (f()) {}\nfunction g() {}\n"),
    ],
)  # fmt: skip
def test_what_may_depend_on_order_is_left_alone(language: str, code: str) -> None:
    assert made(language, code) == []


def test_a_language_that_is_not_known_is_an_error() -> None:
    with pytest.raises(AssayError, match="Kotlin"):
        variants("fun f() {}", "Kotlin")


@pytest.mark.parametrize("language", sorted(PIECES))
@settings(max_examples=25)
@given(data=st.data())
def test_a_variant_holds_the_same_functions_in_another_order(language: str, data: st.DataObject) -> None:
    code = data.draw(tree_programs(language))
    old = [(one.name, source_of(code, one)) for one in functions(code, language)]
    found = variants(code, language)
    assert found == variants(code, language)
    assert len({one.code for one in found}) == len(found)
    for one in found:
        new = [(span.name, source_of(one.code, span)) for span in functions(one.code, language)]
        assert Counter(new) == Counter(old)
        assert new != old
