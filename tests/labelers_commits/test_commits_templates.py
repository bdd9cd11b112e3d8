"""Instructions without a model: only what both versions share, whichever of them is the newer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelers.commits.instructions import STYLES, defined_names, instruction
from labelers.commits.leaks import Sides
from labelers.commits.shared import MOST_PARTS, shared_parts

GAP = "# ..."


def row(old: str, new: str, language: str = "Python", path: str = "src/a.py") -> dict[str, Any]:
    return {
        "id": "0" * 32,
        "repo": "owner/project",
        "path": path,
        "language": language,
        "old_contents": old,
        "new_contents": new,
    }


OLD = '''class Stack:
    """A stack."""

    def push(self, item: int) -> None:
        """Put one item on top."""
        self.items = self.items + [item]


def fill(stack):
    stack.push(1)
'''
NEW = OLD.replace("self.items = self.items + [item]", "self.items.append(item)")


@pytest.mark.parametrize("style", [style for style in STYLES if style != "search"])
@pytest.mark.parametrize("gap", ["", GAP])
def test_template_shows_signature_docstring_and_caller_of_what_differs(style: str, gap: str) -> None:
    text = instruction(row(OLD, NEW), 0, gap, style=style)
    assert "`def push(self, item: int) -> None`" in text
    assert '("Put one item on top")' in text
    assert "A caller in the same file: `fill`." in text
    assert "append" not in text


def test_docstrings_are_left_out_where_nobody_wants_them() -> None:
    assert "Put one item" not in instruction(row(OLD, NEW), 0, style="ticket", docs=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("item: int", "item: float"),
        ("Put one item", "Put exactly one item"),
        ("stack.push(1)", "stack.put(1)"),
    ],
)
def test_what_differs_between_versions_is_not_shown(before: str, after: str) -> None:
    text = instruction(row(OLD, NEW.replace(before, after)), 0, style="ticket")
    back = instruction(row(NEW.replace(before, after), OLD), 0, style="ticket")
    assert text == back
    assert after not in text
    assert before not in text
    if before.startswith("stack"):
        assert "caller" not in text


CLASS = "class A {\n%s\n}\n"
DOCUMENTED = {
    "Go": (
        "// Adds one.\nfunc (s *Stack) Add(a int) int { return a + x }\n",
        "func (s *Stack) Add(a int) int",
    ),
    "Java": (
        CLASS % "  /** Adds one.\n   * @param a it\n   */\n  int add(int a) { return x; }",
        "int add(int a)",
    ),
    "C": ("/* Adds one. */\nstatic int add(int a)\n{\n  return a + x;\n}\n", "static int add(int a)"),
    "C++": ("// Adds one.\nint add(const int& a) { return a + x; }\n", "int add(const int& a)"),
    "C#": (CLASS % "  /// Adds one.\n  public int Add(int a) { return x; }", "public int Add(int a)"),
    "Rust": ("/// Adds one.\n#[inline]\npub fn add(a: i32) -> i32 { a + x }\n", "pub fn add(a: i32) -> i32"),
    "TypeScript": ("/** Adds one. */\nexport function add(a: T): T { return x; }\n", "function add(a: T): T"),
    "JavaScript": ("// Adds one.\nfunction add(a) { return a + x; }\n", "function add(a)"),
    "Ruby": ("# Adds one.\ndef add(a)\n  a + x\nend\n", "def add(a)"),
    "PHP": ("<?php\n/** Adds one. */\nfunction add($a) { return $a + x; }\n", "function add($a)"),
}


@pytest.mark.parametrize("language", DOCUMENTED)
def test_signatures_and_doc_comments_of_other_languages(language: str) -> None:
    old, signature = DOCUMENTED[language]
    (part,) = shared_parts(old, re.sub(r"\bx\b", "y", old), language)
    assert part.signature == signature
    assert part.doc == "Adds one."


def test_request_for_an_excerpt_names_what_differs_and_not_what_stands_around_it() -> None:
    text = instruction(row(OLD, NEW), 0, GAP, style="ticket")
    assert text.startswith("Please provide `Stack.push` of `src/a.py` of the project project")
    assert "`Stack`" in instruction(row(OLD, NEW), 0, style="ticket")


def test_words_behind_class_in_a_comment_are_no_names() -> None:
    code = '"""\nclass as the first argument\ntype of it\n"""\nclass Real:\n    pass\n'
    assert defined_names(code, "Python") == ["Real"]


def test_only_the_innermost_definition_that_differs_is_shown() -> None:
    assert [part.name for part in shared_parts(OLD, NEW, "Python")] == ["Stack.push"]


def test_many_definitions_that_differ_are_a_few() -> None:
    old = "\n".join(f"def f{n}():\n    return {n}\n" for n in range(50))
    assert len(shared_parts(old, old.replace("return", "yield"), "Python")) == MOST_PARTS


def test_overloads_are_not_mixed_up() -> None:
    old = "class A {\n  int f(int a) { return a; }\n  int f(long b) { return 2; }\n}\n"
    assert [part.name for part in shared_parts(old, old.replace("return a", "return 1"), "Java")] == ["A"]


@pytest.mark.parametrize("code", ["\0", "\ud800", "x" * 200_000, "(" * 5_000, "def f(:\n"])
def test_texts_that_cannot_be_read_share_nothing(code: str) -> None:
    assert shared_parts(code, code + "\ny = 1\n", "Python") == []
    assert shared_parts(code, code + " ", "Klingon") == []


# Names that no template has, so that any of them in an instruction comes from a version.
_NAME = st.sampled_from([f"zq{letter}x" for letter in "abcdefgh"])


@st.composite
def _function(draw: st.DrawFn) -> str:
    name, argument, body, callee = draw(_NAME), draw(_NAME), draw(_NAME), draw(_NAME)
    doc = draw(st.one_of(st.just(""), _NAME.map(lambda one: f'    """{one} it."""\n')))
    indent = "    " if draw(st.booleans()) else ""
    text = f"def {name}({argument}):\n{doc}    return {callee}({body})\n"
    if indent:
        text = f"class {draw(_NAME)}:\n" + "".join(f"    {line}\n" for line in text.splitlines())
    return text


_FILE = st.builds(
    lambda doc, module, functions: (
        (f'"""{doc}"""\n' if doc else "") + f"import {module}\n\n" + "\n".join(functions)
    ),
    st.one_of(st.just(""), _NAME),
    _NAME,
    st.lists(_function(), max_size=4),
)


@given(_FILE, _FILE, st.sampled_from(STYLES), st.sampled_from(["", GAP]))
def test_template_holds_nothing_that_one_version_alone_has(old: str, new: str, style: str, gap: str) -> None:
    text = instruction(row(old, new), 0, gap, style=style)
    assert text == instruction(row(new, old), 0, gap, style=style)
    names = [set(re.findall(r"zq\wx", one)) for one in (old, new)]
    assert set(re.findall(r"zq\wx", text)) <= names[0] & names[1]
    sides = Sides(old, new, places=("src/a.py", "project", "Python"))
    one_sided = {"one_sided_name", "one_sided_literal", "one_sided_code", "pulls"}
    assert not one_sided & {leak.code for leak in sides.leaks(text)}


@given(
    st.text(max_size=300), st.text(max_size=300), st.sampled_from(["Python", "Go", "C++", "Swift", "Cobol"])
)
def test_template_of_any_texts_is_the_same_in_both_directions(old: str, new: str, language: str) -> None:
    for style in STYLES:
        assert instruction(row(old, new, language), 0, style=style) == instruction(
            row(new, old, language), 0, style=style
        )
