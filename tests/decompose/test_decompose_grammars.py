"""Every language has a grammar; depth and error bytes of trees that were made to be awkward."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose import grammars
from decompose.grammars import (
    LANGUAGES,
    MAX_OPEN_ANGLES,
    SourceError,
    dialect,
    error_bytes,
    grammar,
    parse,
    tree_depth,
    walk,
)
from miner import config
from schemas.errors import AssayError

PROGRAMS = {
    "C": "int f(int x) { return x + 1; }\n",
    "C#": "class A { int F(int x) => x + 1; }\n",
    "C++": "template <typename T> T f(T x) { return x; }\n",
    "Go": "package a\n\nfunc F(x int) int { return x + 1 }\n",
    "Java": "class A { int f(int x) { return x + 1; } }\n",
    "JavaScript": "const f = (x) => <b>{x}</b>;\n",
    "Kotlin": "fun f(x: Int): Int = x + 1\n",
    "PHP": "<h1>x</h1>\n<?php function f(int $x): int { return $x + 1; } ?>\n",
    "Python": "def f(x: int) -> int:\n    return x + 1\n",
    "Ruby": "def f(x)\n  x + 1\nend\n",
    "Rust": "fn f<'a>(x: &'a u32) -> u32 { *x + 1 }\n",
    "Scala": "object A { def f(x: Int): Int = x + 1 }\n",
    "Swift": "func f(_ x: Int) -> Int { return x + 1 }\n",
    "TypeScript": "function f(x: number): number { return <number>(x + 1); }\n",
}
BROKEN = "<?php \x01 )}{( \x01"


def test_every_mined_language_has_a_grammar() -> None:
    assert set(config.LANGUAGES) <= set(LANGUAGES)
    assert set(PROGRAMS) == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_fits_its_grammar_and_a_broken_one_does_not(language: str) -> None:
    code = PROGRAMS[language].encode()
    assert error_bytes(parse(code, language)) == 0
    assert tree_depth(parse(code, language)) > 3
    broken = BROKEN.encode() + code
    assert 0 < error_bytes(parse(broken, language)) <= len(broken)


def test_markup_in_typescript_is_told_by_the_path() -> None:
    markup, cast = b"const f = (x: string) => <b>{x}</b>;\n", b"const f = <number>x;\n"
    assert error_bytes(parse(markup, "TypeScript", "a/B.TSX")) == 0
    assert error_bytes(parse(markup, "TypeScript", "a/b.ts")) > 0
    assert error_bytes(parse(cast, "TypeScript", "a/b.ts")) == 0
    assert error_bytes(parse(cast, "TypeScript")) == 0
    assert parse(markup, "TypeScript", "b.tsx").language == grammar("TypeScript", "b.tsx") == grammar("TSX")


def test_a_path_changes_no_other_dialect() -> None:
    assert dialect("JavaScript", "a.tsx") == "JavaScript"


def test_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(AssayError, match="Cobol: no grammar"):
        parse(b"", "Cobol")


def test_grammar_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(grammars._WHEELS, "Nim", ("tree_sitter_nim_missing", "language"))
    with pytest.raises(AssayError, match="pip install tree-sitter-nim-missing"):
        grammar("Nim")


def test_depth_and_errors_of_a_deep_tree_use_no_stack() -> None:
    tree = parse(b"(" * 50_000 + b"x" + b")" * 50_000, "JavaScript")
    assert tree_depth(tree) > 50_000
    assert error_bytes(tree) == 0


def test_well_formed_parts_of_a_broken_file_are_no_error_bytes() -> None:
    good = "".join(f"int f{n}(int x) {{ return x + {n}; }}\n" for n in range(50))
    tree = parse(f"{good}int )(;\n{good}".encode(), "C")
    assert 0 < error_bytes(tree) < 20


def test_missing_token_counts_as_one_byte() -> None:
    assert error_bytes(parse(b"int x", "C")) == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_that_would_exhaust_memory_is_refused(language: str) -> None:
    with pytest.raises(SourceError, match="never closed"):
        parse(b"<?php " + b"a<" * 500_000, language)


def test_many_closed_angles_are_no_reason_to_refuse() -> None:
    parse(b"List<A> a;\n" * MAX_OPEN_ANGLES * 2, "Java")


@given(st.sampled_from(LANGUAGES), st.text(alphabet="ab1 \n(){}[]<>=;:'\"$#@.,&*\\/é", max_size=60))
def test_depth_and_error_bytes_agree_with_the_whole_tree(language: str, code: str) -> None:
    data = code.encode()
    tree = parse(data, language)
    assert tree_depth(tree) == 1 + max(level for _, level in walk(tree.root_node))
    errors = error_bytes(tree)
    missing = sum(node.is_missing for node, _ in walk(tree.root_node))
    assert (errors == 0) == (not tree.root_node.has_error)
    assert errors <= len(data) + missing + 1
