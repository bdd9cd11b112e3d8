"""Which changed regions of an edit belong together."""

from __future__ import annotations

from typing import Any

import pytest
from excerpt_edits import edit

from miner.config import CutConfig
from miner.excerpts import excerpts
from miner.purposes import lists_several

OLD = """\
import os
import re

RETRIES = 3


class Cache:
    def lookup(self, key):
        found = self.table.get(key)
        if found is None:
            return None
        return found.value
"""
OLD += "\n\n" + "\n".join(f"def filler_{n}():\n    return {n}\n\n" for n in range(6))
OLD += """\

def render(page):
    lines = page.split()
    return "".join(lines)


def other(text):
    value = len(text)
    return value
"""

FIX = ("return found.value", "return found.value or key")
STYLE = ('return "".join(lines)', 'return " ".join(lines)')
MESSAGE = "Return the key from the cache, and render lines with blanks"


def pieces(
    *changes: tuple[str, str], message: str = MESSAGE, setting: Any = "told", old: str = OLD
) -> list[int]:
    """Regions of each piece."""
    new = old
    for before, after in changes:
        assert before in new
        new = new.replace(before, after)
    return [
        len(one.hunks) for one in excerpts(edit(old, new, message=message), CutConfig(split_purposes=setting))
    ]


def test_two_purposes_that_the_message_tells_of_are_two_pieces() -> None:
    assert pieces(FIX, STYLE) == [1, 1]


def test_message_of_one_purpose_keeps_an_edit_whole() -> None:
    assert pieces(FIX, STYLE, message="Fix the cache and other things") == [2]
    assert pieces(FIX, STYLE, message="Render the cache") == [2]
    assert pieces(FIX, STYLE, message="Render the cache", setting="apart") == [1, 1]


def test_splitting_can_be_switched_off() -> None:
    assert pieces(FIX, STYLE, setting="never") == [2]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("filler_3", "tail"), ("len(text)", "len(text) + tail()")], id="rename"),
        pytest.param(
            [("import re\n", "import re\nimport json\n"), ("len(text)", "json.dumps(text)")], id="import"
        ),
        pytest.param([("RETRIES = 3", "RETRIES = 4"), ("len(text)", "len(text) * RETRIES")], id="constant"),
        pytest.param(
            [("def filler_2():", "def filler_2(a=1):"), ("return value", "return filler_2()")], id="use"
        ),
        pytest.param(
            [("found = self.table", "found = self.rows"), ("return found.value", "return 1")], id="function"
        ),
        pytest.param(
            [("return 1\n", "return int(1)\n"), ("return 5\n", "return int(5)\n")], id="same change"
        ),
        pytest.param([FIX, ("def render(page):", "# Pages have lines.\ndef render(page):")], id="comment"),
        pytest.param([FIX, ("import os\n", "")], id="import alone"),
    ],
)
def test_regions_that_hang_together_stay_together(changes: list[tuple[str, str]]) -> None:
    assert len(pieces(*changes, setting="apart")) == 1


def test_piece_leaves_the_other_changes_as_they_were() -> None:
    new = OLD.replace(*FIX).replace(*STYLE)
    first, second = excerpts(edit(OLD, new, message=MESSAGE), CutConfig())
    assert (first.names, second.names) == (["Cache.lookup"], ["render"])
    assert FIX[1] in first.new_contents
    assert STYLE[1] not in first.new_contents
    assert STYLE[1] in second.new_contents
    assert FIX[1] not in second.new_contents
    assert (first.piece, first.pieces, second.piece) == (0, 2, 1)


def test_pieces_that_do_not_parse_alone_stay_together() -> None:
    old = "{\n" + "".join(f"  a{n}();\n" for n in range(30)) + "}\nb();\n"
    new = old.replace("{\n", "if (x) {{\n", 1).replace("}\nb", "}}\nb")
    row = edit(old, new, "JavaScript", message="Guard if and b")
    assert [one.pieces for one in excerpts(row, CutConfig(split_purposes="apart"))] == [1]


@pytest.mark.parametrize(
    ("message", "several"),
    [
        ("Fix the cache and the page", True),
        ("Fix a, b", True),
        ("Fix the cache\n\n* one\n* two", True),
        ("Fix the cache (and a page)", False),
        ("Fix `a, b` of the cache\n\nLong story, and so on.", False),
        ("Add a land", False),
    ],
)
def test_lists_in_a_message_are_seen(message: str, several: bool) -> None:
    assert lists_several(message) is several


def test_many_regions_are_not_compared() -> None:
    old = "".join(f"def f{n}():\n    return {n}\n\n\n\n\n\n" for n in range(300))
    assert pieces(("return ", "return +"), old=old, setting="apart") == [300]
