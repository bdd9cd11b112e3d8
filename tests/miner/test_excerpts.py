"""Excerpts of edits: what is shown, and that both sides differ in the edit's own lines alone."""

from __future__ import annotations

import difflib
import itertools
from typing import Any

import pytest
from excerpt_edits import edit
from hypothesis import given
from hypothesis import strategies as st

from decompose.grammars import SourceError, parse
from miner.config import CutConfig
from miner.excerpts import excerpts
from miner.versions import split_lines
from schemas.declare import validate
from schemas.errors import AssayError
from schemas.records import Excerpt

PYTHON = '''\
"""Module."""
import json
import os
from a import (
    one,
    two,
)

LIMIT = 3
OTHER = 4


def helper(x):
    """Help."""
    y = x + 1
    return y


class Store:
    """Keeps things."""

    size = 5

    def __init__(self):
        self.things = []
        self.more = {}
        self.rest = None

    def add(self, thing):
        if len(self.things) < LIMIT:
            self.things.append(helper(thing))

    def dump(self):
        first = os.getcwd()
        second = two
        return first, second


def unrelated():
    a = 1
    b = 2
    return a + b
'''


def one(old: str, new: str, language: str = "Python", **settings: Any) -> Excerpt:
    (made,) = excerpts(edit(old, new, language), CutConfig(**settings))
    return made


def test_changed_method_is_shown_with_what_it_uses_and_nothing_else() -> None:
    made = one(PYTHON, PYTHON.replace("< LIMIT", "<= LIMIT"))
    assert made.old_contents == (
        "# ...\n\nLIMIT = 3\nOTHER = 4\n\n\n"
        "def helper(x):\n    ...\n\n"
        "class Store:\n    # ...\n\n"
        "    def add(self, thing):\n        if len(self.things) < LIMIT:\n"
        "            self.things.append(helper(thing))\n\n    # ...\n"
    )
    assert made.names == ["Store.add"]
    assert made.parses


def test_imports_that_the_changed_lines_name_are_shown() -> None:
    text = one(PYTHON, PYTHON.replace("return first, second", "return second, first")).new_contents
    assert "import os\nfrom a import (\n    one,\n    two,\n)\n" in text
    assert "import json" not in text


def test_change_outside_of_functions_is_shown_with_lines_around_it() -> None:
    made = one(PYTHON, PYTHON.replace("OTHER = 4", "OTHER = 40"))
    assert made.names == []
    assert "LIMIT = 3\nOTHER = 40\n" in made.new_contents
    assert "class" not in made.new_contents


def test_changed_field_is_shown_under_the_header_of_its_class() -> None:
    made = one(PYTHON, PYTHON.replace("size = 5", "size = 6"))
    assert made.names == ["Store"]
    assert "class Store:" in made.old_contents


def test_new_function_stands_where_it_was_put() -> None:
    new = PYTHON.replace("def unrelated", "def fresh():\n    return 1\n\n\ndef unrelated")
    made = one(PYTHON, new)
    assert made.names == ["fresh"]
    assert "def fresh():\n    return 1\n" in made.new_contents
    assert "fresh" not in made.old_contents
    assert made.parses


def test_new_method_is_shown_in_its_class_on_both_sides() -> None:
    new = PYTHON.replace("    def dump(self)", "    def clear(self):\n        pass\n\n    def dump(self)")
    made = one(PYTHON, new)
    assert "class Store:" in made.old_contents
    assert "class Store:" in made.new_contents
    assert "Store.clear" in made.names
    assert made.parses


def long_function(lines: int, at: int, value: str) -> str:
    body = "".join(f"    x{n} = value_{n} + {value if n == at else 0}\n" for n in range(lines))
    return f"def f():\n{body}    return x1\n\ndef g():\n    return 1\n"


def test_long_function_is_whole_when_it_fits_and_a_window_when_not() -> None:
    old, new = long_function(300, 150, "0"), long_function(300, 150, "7")
    assert one(old, new).new_contents.count("value_") == 300
    made = one(old, new, max_tokens=600)
    assert made.tokens <= 600
    assert made.parses
    assert 10 <= made.new_contents.count("value_") <= 60
    assert "    # ...\n" in made.new_contents


def test_excerpt_that_cannot_be_short_says_how_long_it_is() -> None:
    line = "x = [" + "1, " * 2000 + "]\n"
    made = one(line, line.replace("[1", "[2"), max_tokens=64)
    assert made.tokens > 64
    assert made.parses


def test_comments_of_the_language_mark_gaps() -> None:
    code = "".join(f"int f{n}(void) {{\n    int x = {n};\n    return x;\n}}\n\n" for n in range(9))
    made = one(code, code.replace("int x = 4;", "int x = 5;"), "C")
    assert made.new_contents == "// ...\n\nint f4(void) {\n    int x = 5;\n    return x;\n}\n\n// ...\n\n"


def test_typescript_with_markup_is_parsed_as_such() -> None:
    code = "export function F() {\n  const a = 1;\n  return <div>{a}</div>;\n}\n\nfunction g() {\n  a();\n}\n"
    made = one(code, code.replace("a = 1", "a = 2"), "TypeScript")
    assert made.parses
    assert made.names == ["F"]


def test_line_ends_of_the_file_are_those_of_the_gaps() -> None:
    old = PYTHON.replace("\n", "\r\n")
    made = one(old, old.replace("< LIMIT", "<= LIMIT"))
    assert "\n" not in made.new_contents.replace("\r\n", "")


def test_last_line_without_a_line_feed_stays_without_one() -> None:
    old = PYTHON.rstrip("\n")
    made = one(old, old.replace("a + b", "a - b"))
    assert made.new_contents.endswith("return a - b")
    assert made.old_contents.endswith("return a + b")


def test_file_with_a_syntax_error_is_cut_too() -> None:
    old = PYTHON + "\nx = = 3\n"
    made = one(old, old.replace("< LIMIT", "<= LIMIT"))
    assert made.parses
    assert "x = = 3" not in made.new_contents


def test_same_edit_gives_the_same_excerpt() -> None:
    row = edit(PYTHON, PYTHON.replace("< LIMIT", "<= LIMIT"))
    assert excerpts(row, CutConfig()) == excerpts(row, CutConfig())


def test_excerpt_fits_its_record() -> None:
    validate(Excerpt, one(PYTHON, PYTHON.replace("< LIMIT", "<= LIMIT")))


def test_text_that_is_none_is_told() -> None:
    with pytest.raises(SourceError, match="NUL"):
        excerpts(edit("x = 1\n\0", "x = 2\n\0"), CutConfig())


def test_length_that_shows_nothing_is_refused() -> None:
    with pytest.raises(AssayError, match=r"cut\.max_tokens"):
        CutConfig(max_tokens=1)


TEXTS = st.sampled_from(
    (
        *(
            "x = 1",
            "def f(a):",
            "    return a",
            "class A:",
            "    y = f(2)",
            "    def m(self):",
            "        pass",
            "",
        ),
        *("import os", "        return os", "# note", "if x:", "    z = [", "    ]", "}"),
    )
)


@given(st.lists(TEXTS, min_size=1, max_size=40), st.data())
def test_sides_of_any_edit_differ_in_its_own_lines_alone(texts: list[str], data: st.DataObject) -> None:
    # Each line is the only one of its kind, so that nothing can be taken for something else.
    count = itertools.count()
    old = [f"{text}  # {next(count)}\n" if text else " " * next(count) + "\n" for text in texts]
    new = list(old)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(new)))
        end = min(len(new), at + data.draw(st.integers(0, 3)))
        new[at:end] = [f"{text}  # {next(count)}\n" for text in data.draw(st.lists(TEXTS, max_size=3))]
    row = edit("".join(old), "".join(new))
    if not row["hunks"] or not new:
        return
    for setting in ("never", "apart"):
        seen: list[list[str]] = [[], []]
        for piece in excerpts(row, CutConfig(max_tokens=64, split_purposes=setting)):
            sides = split_lines(piece.old_contents), split_lines(piece.new_contents)
            assert [x for x in sides[0] if x in sides[1]] == [x for x in sides[1] if x in sides[0]]
            removed = [line for line in sides[0] if line not in sides[1]]
            added = [line for line in sides[1] if line not in sides[0]]
            assert len(removed) == sum(hunk.old_lines for hunk in piece.hunks)
            assert len(added) == sum(hunk.new_lines for hunk in piece.hunks)
            seen[0] += removed
            seen[1] += added
        assert sorted(seen[0]) == sorted(set(old) - set(new))
        assert sorted(seen[1]) == sorted(set(new) - set(old))


@given(
    at=st.lists(st.integers(0, PYTHON.count("\n") - 1), min_size=1, max_size=4),
    most=st.sampled_from([64, 200, 4096]),
)
def test_both_sides_parse_where_both_files_do(at: list[int], most: int) -> None:
    lines = split_lines(PYTHON)
    for row in at:
        indent = lines[row][: len(lines[row]) - len(lines[row].lstrip(" "))]
        lines[row] = f"{indent}changed_{row} = 1\n" + lines[row]
    new = "".join(lines)
    if parse(new.encode(), "Python").root_node.has_error:
        return
    made = one(PYTHON, new, max_tokens=most)
    assert made.parses
    assert not any(
        parse(text.encode(), "Python").root_node.has_error for text in (made.old_contents, made.new_contents)
    )


def test_removed_and_added_lines_are_those_of_the_edit() -> None:
    row = edit(PYTHON, PYTHON.replace("< LIMIT", "<= LIMIT").replace("OTHER = 4", "OTHER = 40"))
    (made,) = excerpts(row, CutConfig())
    told = [
        line
        for line in difflib.ndiff(split_lines(made.old_contents), split_lines(made.new_contents))
        if line[0] in "+-"
    ]
    assert told == [
        "- OTHER = 4\n",
        "+ OTHER = 40\n",
        "-         if len(self.things) < LIMIT:\n",
        "+         if len(self.things) <= LIMIT:\n",
    ]
