"""docs/evaluate.md says what is: its reasons and layouts are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from trainers.conversations import REASONS
from trainers.pairs import LAYOUTS

TEXT = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text()


def rows(title: str) -> dict[str, str]:
    """The first two cells of each row of the table whose first column has this title."""
    (table,) = re.findall(rf"^\| {title} \|.*\n((?:^\|.*\n)+)", TEXT, re.M)
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table.splitlines()
    ]
    return {row[0]: row[1].removesuffix(" |").strip() for row in cells[1:]}


def test_reasons_are_those_of_the_code() -> None:
    assert rows("reason") == REASONS


def test_layouts_are_those_of_the_code() -> None:
    assert tuple(rows("layout")) == LAYOUTS
