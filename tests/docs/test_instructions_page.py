"""docs/instructions.md and docs/synthetic.md say what is: examples run, tables are those of the code."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from labelers.commits import criteria
from labelers.commits.inverse import STYLES
from labelers.commits.leaks import REASONS as LEAKS
from labelers.synthetic.hacks import OPERATORS
from labelers.synthetic.reasons import COUNTS, REASONS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("instructions.md", "synthetic.md")


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each table of a page, by the title of its first column; of two of one title both."""
    found: dict[str, list[list[str]]] = {}
    for table in re.findall(r"(?:^\|.*\n)+", (DOCS / page).read_text(), re.M):
        rows = [
            [cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table.splitlines()
        ]
        found.setdefault(rows[0][0], []).extend(rows[2:])
    return found


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_print_what_the_page_shows(page: str) -> None:
    text = (DOCS / page).read_text()
    found = re.findall(r"^```python\n(.*?)^```\n\n((?:    [^\n]*\n|\n(?=    ))*)", text, re.S | re.M)
    assert len(found) == text.count("```python") > 0
    for code, shown in found:
        scope: dict[str, Any] = {}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), scope)
        assert printed.getvalue().rstrip("\n") == "\n".join(line[4:] for line in shown.splitlines()), code


def test_reasons_of_refused_texts_are_those_of_the_code() -> None:
    assert [tuple(row) for row in tables("instructions.md")["code"]] == list(LEAKS.items())


def test_styles_are_those_of_the_code() -> None:
    rows = {row[0]: row[1:] for row in tables("instructions.md")["style"]}
    assert rows == {
        name: [one.asked, f"{one.least} to {one.most}", f"{one.least // 2} to {one.most + one.most // 4}"]
        for name, one in STYLES.items()
    }


def test_examples_of_criteria_are_those_that_ship() -> None:
    rows = {row[0]: row[1:] for row in tables("instructions.md")["example"]}
    assert sorted(rows) == list(criteria.examples())
    for name, (code, spelled) in rows.items():
        (found,) = criteria.load(name)
        assert (found.code, found.name) == (code, spelled)


def test_operators_reasons_and_counts_of_synthetic_pairs_are_those_of_the_code() -> None:
    found = tables("synthetic.md")
    assert [row[0] for row in found["operator"]] == list(OPERATORS)
    assert [tuple(row) for row in found["reason"]] == list(REASONS.items())
    assert [tuple(row) for row in found["count"]] == list(COUNTS.items())
