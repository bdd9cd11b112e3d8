"""Which lines stay when others are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose.elision import Kept, keep
from decompose.grammars import parse

PYTHON = """\
import os

class A:
    x = 1

    def m(self):
        return 1

    def n(self):
        if self.x:
            f()
            return 2
        elif os:
            return 3
        return 4

def f():
    pass
"""

C = """\
#include <a.h>

#ifdef X
int one(void) {
    return 1;
}

int two(void) {
    return 2;
}
#endif

static int table[] = {
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
};
"""


def shown(code: str, language: str, *wanted: str) -> list[str]:
    kept = kept_of(code, language, *wanted)
    return [line.strip() for row, line in enumerate(code.split("\n")[:-1]) if kept.rows[row]]


def kept_of(code: str, language: str, *wanted: str) -> Kept:
    lines = code.split("\n")[:-1]
    rows = bytearray(any(part in line for part in wanted) for line in lines)
    return keep(parse(code.encode(), language), language, rows)


def test_header_of_the_class_around_a_wanted_line_stays() -> None:
    assert shown(PYTHON, "Python", "return 1") == ["class A:", "def m(self):", "return 1"]


def test_every_branch_keeps_its_header() -> None:
    lines = shown(PYTHON, "Python", "return 3")
    assert lines == ["class A:", "def n(self):", "if self.x:", "elif os:", "return 3"]


def test_body_of_which_nothing_stays_is_told_where_the_language_wants_a_statement() -> None:
    kept = kept_of(PYTHON, "Python", "return 3")
    assert kept.emptied == {PYTHON.split("\n").index("            f()")}
    assert kept_of(C, "C", "int one").emptied == frozenset()


def test_closing_lines_and_directives_around_a_wanted_line_stay() -> None:
    assert shown(C, "C", "return 2") == ["#ifdef X", "int two(void) {", "return 2;", "}", "#endif"]


def test_long_table_is_shortened_and_a_short_one_is_not() -> None:
    assert shown(C, "C", "    7,") == ["static int table[] = {", "7,", "};"]
    short = "int t[] = {\n    1,\n    7,\n    9,\n};\n"
    assert len(shown(short, "C", "    7,")) == 5


def test_table_stays_whole_when_lists_may_not_be_cut() -> None:
    rows = bytearray("    7," in line for line in C.split("\n")[:-1])
    kept = keep(parse(C.encode(), "C"), "C", rows, lists=False)
    assert sum(kept.rows) == 14


def test_comment_that_begins_behind_a_kept_statement_is_not_cut_in_two() -> None:
    code = "int f(void) {\n    a(); /* one\n    two */\n    b();\n}\n"
    assert "two */" in shown(code, "C", "a();")


def test_lines_inside_of_a_string_stay_together() -> None:
    code = 'x = f("""\n\nq\n""", {\n  1: 2,\n})\n'
    assert len(shown(code, "Python", "1: 2")) == 6


def test_nothing_wanted_keeps_nothing_of_a_file_of_several_lines() -> None:
    assert shown(PYTHON, "Python") == []


@pytest.mark.parametrize(("code", "language"), [(PYTHON, "Python"), (C, "C")])
@given(data=st.data())
def test_wanted_lines_stay_and_what_is_kept_parses(code: str, language: str, data: st.DataObject) -> None:
    lines = code.split("\n")[:-1]
    told = [row for row, line in enumerate(lines) if line.strip()]
    wanted = bytearray(len(lines))
    for row in data.draw(st.sets(st.sampled_from(told), min_size=1)):
        wanted[row] = 1
    kept = keep(parse(code.encode(), language), language, wanted)
    assert all(kept.rows[row] for row in range(len(lines)) if wanted[row])
    out = []
    for row, line in enumerate(lines):
        if kept.rows[row]:
            out.append(line)
        elif row in kept.emptied:
            out.append(line[: len(line) - len(line.lstrip())] + "...")
    assert not parse("\n".join([*out, ""]).encode(), language).root_node.has_error
