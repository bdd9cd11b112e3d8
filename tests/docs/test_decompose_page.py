"""docs/decompose.md says what is: its examples run, and its tables are those of the code."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from decompose.functions import functions
from decompose.source import LANGUAGES, filler

PAGE = Path(__file__).parents[2] / "docs" / "decompose.md"
TEXT = PAGE.read_text()


def rows(title: str) -> list[list[str]]:
    """The cells of the first table below a title."""
    part = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (table, *_) = re.findall(r"(?:^\|.*\n)+", part, re.M)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_python_examples_print_what_the_page_shows() -> None:
    found = re.findall(r"^```python\n(.*?)^```\n\n((?:    [^\n]*\n|\n(?=    ))*)", TEXT, re.S | re.M)
    assert len(found) == TEXT.count("```python")
    scope: dict[str, Any] = {}
    for code, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), scope)
        assert printed.getvalue() == "".join(line[4:] + "\n" for line in shown.splitlines()), code


@pytest.mark.parametrize("row", rows("What is a step"), ids=lambda row: f"{row[0]}: {row[1]}")
def test_steps_are_those_that_the_page_tells(row: list[str]) -> None:
    language, _, program, steps = row
    code = program.strip("`").replace("⏎", "\n")
    told = [] if steps == "none" else re.findall(r"`([^`]+)`", steps)
    assert [span.name for span in functions(code, language)] == told


def test_every_language_has_rows() -> None:
    assert {row[0] for row in rows("What is a step")} == set(LANGUAGES)


def test_fillers_are_those_of_the_code() -> None:
    assert [(row[0], row[1].strip("`")) for row in rows("Skeletons")] == [
        (language, filler(language)) for language in LANGUAGES
    ]
