"""Definitions of source texts in every mined language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose.definition_types import SYNTAX
from decompose.definitions import Item, definitions
from decompose.grammars import LANGUAGES, SourceError
from schemas.errors import AssayError

PROGRAMS = {
    "Python": (
        "import os\nclass A(B):\n    def __init__(self):\n        pass\n    def m(self):\n"
        "        def inner():\n            pass\nasync def top():\n    pass\n",
        "class A, constructor A.__init__, method A.m, function A.m.inner, function top",
    ),
    "JavaScript": (
        "class A { constructor() {} m() {} h = () => { x(); } }\nfunction top() {}\nconst f = () => {};\n"
        "exports.g = function () {};\nmodule.exports = { k: function () {}, n() {} };\n",
        "class A, constructor A.constructor, method A.m, method A.h, function top, function f, "
        "function exports.g, function k, method n",
    ),
    "TypeScript": (
        "export class A { private m(): void {} abstract z(): void; }\ninterface I { z(): void }\n"
        "enum E { X }\nnamespace N { export function f() {} }\ntype T = { a: number };\n"
        "export const q = (a: number) => a;\n",
        "class A, method A.m, method A.z, interface I, method I.z, enum E, namespace N, function N.f, "
        "type T, function q",
    ),
    "Java": (
        "class A { A(int a) {} int m() { return 1; } static { x(); } interface I { void z(); } enum E { X } "
        "record R(int a) {} }\n",
        "class A, constructor A.A, method A.m, initializer A.static, interface A.I, method A.I.z, enum A.E, "
        "record A.R",
    ),
    "Go": (
        "package p\ntype S struct { a int }\ntype I interface { Z() }\nfunc (s *S) M() {}\n"
        "func (s S[T]) N() {}\nfunc top() {}\n",
        "type S, type I, method S.M, method S.N, function top",
    ),
    "C": (
        "struct T { int b; };\nenum E { P };\ntypedef struct { int a; } U;\nstruct stat sb;\n"
        "static int f(int a) { return a; }\nchar *g(void) { return 0; }\n",
        "struct T, enum E, struct <anonymous>, function f, function g",
    ),
    "C++": (
        "namespace n { template <typename T> class A { public: A(); A(int a) {} ~A() {} "
        "int m() { return 1; } };\nint &A::z() { return q; } struct S { int q; }; }\n",
        "namespace n, class n::A, constructor n::A::A, method n::A::~A, method n::A::m, function n::A::z, "
        "struct n::S",
    ),
    "C#": (
        "namespace N { class A { int P { get { return f; } } A(int a) {} void M() { int L() { return 1; } } "
        "} struct S { } interface I { void z(); } enum E { X } record R(int a); }\n",
        "namespace N, class N.A, property N.A.P, constructor N.A.A, method N.A.M, function N.A.M.L, "
        "struct N.S, interface N.I, method N.I.z, enum N.E, record N.R",
    ),
    "Ruby": (
        "module M\n  class A\n    def initialize; end\n    def self.k; end\n    class << self\n"
        "      def z; end\n    end\n  end\nend\ndef top; end\n",
        "module M, class M.A, constructor M.A.initialize, method M.A.k, class M.A.self, method M.A.self.z, "
        "method top",
    ),
    "Rust": (
        "struct S { a: i32 }\nenum E { A }\ntrait T { fn z(&self); }\nimpl<T> S<T> { fn new() {} }\n"
        "mod m { fn f() {} }\n",
        "struct S, enum E, trait T, method T::z, impl S, method S::new, module m, function m::f",
    ),
    "PHP": (
        "<?php\nclass A { function __construct() {} static function m() {} }\ninterface I { function z(); }\n"
        "trait T { function k() {} }\nfunction top() {}\n",
        "class A, constructor A.__construct, method A.m, interface I, method I.z, trait T, method T.k, "
        "function top",
    ),
    "Kotlin": (
        "class A {\n    init { x() }\n    constructor(q: Int) { }\n    fun m(): Int { return 1 }\n"
        "    companion object {\n        fun c() = 1\n    }\n}\nobject O {\n    fun k() {}\n}\n"
        "fun top() {}\n",
        "class A, initializer A.init, constructor A.constructor, method A.m, object A.Companion, "
        "method A.Companion.c, object O, method O.k, function top",
    ),
    "Scala": (
        "class A {\n  def m(): Int = { 1 }\n  def this(x: Int) = { this() }\n}\nobject O { def k() = 1 }\n"
        "trait T { def z: Int }\ndef top() = 2\n",
        "class A, method A.m, constructor A.this, object O, method O.k, trait T, method T.z, function top",
    ),
    "Swift": (
        "class A {\n  init() {}\n  func m() -> Int { return 1 }\n  struct S { var z: Int }\n}\n"
        "protocol P { func z() }\nextension A { func k() {} }\nfunc top() {}\n",
        "class A, constructor A.init, method A.m, class A.S, interface P, method P.z, class A, method A.k, "
        "function top",
    ),
}


def told(found: list[Item]) -> str:
    return ", ".join(f"{item.kind} {item.name}" for item in found)


def test_every_mined_language_is_known() -> None:
    assert set(LANGUAGES) <= set(SYNTAX)
    assert set(PROGRAMS) == set(LANGUAGES)


@pytest.mark.parametrize("language", PROGRAMS)
def test_kinds_and_qualified_names(language: str) -> None:
    code, expected = PROGRAMS[language]
    assert told(definitions(code, language)) == expected


@pytest.mark.parametrize("language", PROGRAMS)
def test_definitions_lie_inside_of_their_parents(language: str) -> None:
    found = definitions(PROGRAMS[language][0], language)
    for item in found:
        if item.parent is None:
            assert item.depth == 0
        else:
            parent = found[item.parent]
            assert parent.start_byte <= item.start_byte < item.end_byte <= parent.end_byte
            assert item.depth == parent.depth + 1


@pytest.mark.parametrize(
    ("language", "code", "first"),
    [
        ("Python", "x = 1\n# what\n# it does\n@dec\n@dec(2)\ndef f():\n    pass\n", 2),
        ("Java", "class A {\n  int x;\n  /** doc\n   * more */\n  @Ann\n  void f() {\n  }\n}\n", 3),
        ("Rust", "const X: i32 = 1;\n/// doc\n#[test]\nfn f() {\n}\n", 2),
        ("C++", "int x;\n// doc\ntemplate <typename T>\nT f() {\n}\n", 2),
        ("TypeScript", "let x = 1;\n// doc\n@Dec()\nexport class f {\n}\n", 2),
        ("Go", "package p\n\n// doc\nfunc f() {\n}\n", 3),
    ],
)
def test_comments_and_decorators_directly_above_belong_to_it(language: str, code: str, first: int) -> None:
    item = definitions(code, language)[-1]
    assert item.start_line == first
    heads = ("def f", "@Ann", "fn f", "T f", "export", "func")
    assert code.split("\n")[item.head_line - 1].strip().startswith(heads)


@pytest.mark.parametrize("between", ["\n", "x = 1\n", "x = 1  # aside\n"])
def test_comment_that_is_not_directly_above_does_not_belong_to_it(between: str) -> None:
    (item,) = definitions(f"# of something else\n{between}def f():\n    pass\n", "Python")
    assert item.start_line == item.head_line == 2 + between.count("\n")


def test_signature_and_body_are_told_apart() -> None:
    code = "int x;\nstatic int\nf(int a,\n  int b)\n{\n  return a;\n}\n"
    (item,) = definitions(code, "C")
    assert item.body_byte is not None
    assert code[item.head_byte : item.body_byte] == "static int\nf(int a,\n  int b)\n"
    assert code[item.body_byte : item.body_end] == "{\n  return a;\n}"
    assert (item.head_line, item.signature_line, item.end_line) == (2, 5, 7)


def test_byte_spans_count_bytes_of_utf8() -> None:
    code = "s = 'äöü€'\ndef f():\n    pass\n"
    (item,) = definitions(code, "Python")
    assert code.encode()[item.start_byte : item.end_byte] == b"def f():\n    pass"


def test_definitions_around_a_syntax_error_are_found() -> None:
    code = "def a():\n    return 1\n\nx = = 2\n\ndef b():\n    return 2\n"
    names = [item.name for item in definitions(code, "Python")]
    assert names[0] == "a"
    assert names[-1] == "b"


def test_several_functions_of_one_declaration_stay_apart() -> None:
    code = "var a = function () {\n},\n    b = function () {\n};\n"
    assert [(item.name, item.start_line, item.end_line) for item in definitions(code, "JavaScript")] == [
        ("a", 1, 2),
        ("b", 3, 4),
    ]


def test_export_and_keyword_belong_to_the_function_that_they_hold() -> None:
    code = "export const f = () => {\n};\n"
    (item,) = definitions(code, "JavaScript")
    assert code[item.start_byte : item.end_byte] == code.strip()


@pytest.mark.parametrize(
    "code",
    ["class A:\n" + "".join(f"{' ' * n}class A{n}:\n" for n in range(1, 400)), "def f(): pass\n" * 20_000],
)
def test_deep_and_long_texts_are_taken_apart(code: str) -> None:
    assert len(definitions(code, "Python")) >= 399


def test_deep_nesting_of_functions_is_no_recursion() -> None:
    found = definitions("function f() {" * 3000, "JavaScript")
    assert all(len(item.name) < 600 for item in found)


@given(st.sampled_from(sorted(PROGRAMS)), st.text(max_size=80), st.integers(0, 400), st.integers(0, 60))
def test_any_damage_leaves_spans_that_make_sense(language: str, text: str, at: int, cut: int) -> None:
    whole = PROGRAMS[language][0]
    code = whole[:at] + text + whole[at + cut :]
    try:
        found = definitions(code, language)
    except SourceError:
        return
    lines = code.count("\n") + 1
    for number, item in enumerate(found):
        assert 0 <= item.start_byte <= item.head_byte <= item.end_byte <= len(code.encode())
        assert 1 <= item.start_line <= item.head_line <= item.end_line <= lines
        assert item.parent is None or item.parent < number


def test_unknown_language_is_told() -> None:
    with pytest.raises(AssayError, match="COBOL"):
        definitions("x", "COBOL")
