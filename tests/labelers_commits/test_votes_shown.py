"""What judges see of two versions, above all of long ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelers.commits.voting.shown import shown, unified
from schemas.tokens import estimate_tokens

MOST = 300


def lines_of(number: int) -> list[str]:
    return [f"value_{n} = compute({n}, {n * n})" for n in range(number)]


def texts(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def test_short_versions_are_shown_as_they_are() -> None:
    seen = shown("a\r\nb", "a\r\nc\n", "Python", MOST)
    assert (seen.old, seen.new, seen.cut) == ("a\r\nb", "a\r\nc\n", False)
    assert "-b\n" in seen.diff
    assert "+c\n" in seen.diff


def test_of_long_versions_the_changed_regions_are_shown_with_lines_around() -> None:
    before, after = lines_of(2000), lines_of(2000)
    after[500] = "value_500 = cached(500)"
    after[1500:1500] = ["inserted = 1"]
    del after[100]
    seen = shown(texts(before), texts(after), "Python", 2 * MOST)
    assert seen.cut
    assert max(estimate_tokens(seen.old), estimate_tokens(seen.new)) <= 2 * MOST
    for line in ("value_499 = compute(499, 249001)", "value_501 = compute(501, 251001)"):
        assert line in seen.old
        assert line in seen.new
    assert "value_500 = cached(500)" in seen.new
    assert "value_500 = compute" in seen.old
    assert "inserted" in seen.new
    assert "value_100 =" in seen.old
    assert "value_100 =" not in seen.new
    marks = [
        [line for line in side.split("\n") if line.startswith("# ... (")] for side in (seen.old, seen.new)
    ]
    # The same marks at the same places, so that they tell nothing.
    assert marks[0] == marks[1]
    assert len(marks[0]) == 4
    assert seen.diff.count("\n@@") + 1 == 3


def test_what_version_control_writes_into_files_does_not_tell_which_is_newer() -> None:
    before = "/* $Id: tty.c,v 1.41 2008-09-09 22:16:37 nicm Exp $ */\ncost = '$5: a price of $6'\n$Date: x\n"
    after = before.replace("1.41 2008-09-09 22:16:37", "1.42 2008-09-23 17:54:35").replace("$5", "$7")
    seen = shown(before, after, "C", MOST)
    assert seen.new == "/* $Id$ */\ncost = '$7: a price of $6'\n$Date: x\n"
    assert "2008" not in seen.old + seen.new + seen.diff


def test_more_lines_are_shown_where_there_is_room() -> None:
    before, after = lines_of(2000), lines_of(2000)
    after[1000] = "changed"
    narrow, wide = (shown(texts(before), texts(after), "Go", most).new for most in (MOST, 3 * MOST))
    assert "// ... (" in narrow
    assert wide.count("\n") > narrow.count("\n") > 5


def test_what_is_too_much_is_left_out_of_both() -> None:
    before, after = lines_of(3000), lines_of(3000)
    for n in range(0, 3000, 40):
        after[n] = f"other_{n} = 1"
    seen = shown(texts(before), texts(after), "Python", MOST)
    assert max(estimate_tokens(seen.old), estimate_tokens(seen.new)) <= MOST
    assert seen.old.endswith("# ... (more lines, among them changed ones)")
    assert seen.new.endswith("# ... (more lines, among them changed ones)")
    shown_old = [n for n in range(0, 3000, 40) if f"value_{n} = compute({n}," in seen.old]
    assert shown_old == [n for n in range(0, 3000, 40) if f"other_{n} = 1" in seen.new]
    assert shown_old


@pytest.mark.parametrize("mark", [";", "\n"])
def test_of_a_region_that_is_too_long_the_first_difference_is_shown(mark: str) -> None:
    draw = random.Random(3)
    before = mark.join(f"v{n}={draw.random()}" for n in range(20_000))
    after = before.replace("v15000=", "changed=")
    if mark == "\n":
        # Everything differs from there on.
        after = after[: after.index("changed")] + after[after.index("changed") :].replace("v", "w")
    seen = shown(before, after, "JavaScript", MOST)
    assert max(estimate_tokens(seen.old), estimate_tokens(seen.new)) <= MOST + 50
    assert "v15000=" in seen.old
    assert "changed=" in seen.new


def test_the_same_long_text_twice_is_bounded_too() -> None:
    text = texts(lines_of(5000))
    seen = shown(text, text, "C", MOST)
    assert seen.old == seen.new
    assert estimate_tokens(seen.old) <= MOST
    assert seen.diff == ""


LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "", "c(`x`)", "ü\ud800", "x" * 60]), max_size=60)


@settings(max_examples=200, deadline=None)
@given(old=LINES, new=LINES, most=st.integers(100, 200), end=st.sampled_from(["", "\n", "\r\n"]))
def test_any_two_versions_are_bounded_and_cut_alike(
    old: list[str], new: list[str], most: int, end: str
) -> None:
    before, after = "\n".join(old * 3) + end, "\n".join(new * 3)
    seen = shown(before, after, "Python", most)
    if not seen.cut:
        assert (seen.old, seen.new) == (before, after)
        return
    assert max(estimate_tokens(seen.old), estimate_tokens(seen.new)) <= most + 60
    marked = [
        [line for line in side.split("\n") if line.startswith("# ...")] for side in (seen.old, seen.new)
    ]
    assert marked[0] == marked[1]


@settings(max_examples=200, deadline=None)
@given(old=LINES, new=LINES)
def test_a_diff_has_every_line_that_only_one_side_has(old: list[str], new: list[str]) -> None:
    clean = [[line for line in side if "\ud800" not in line] for side in (old, new)]
    diff = unified("\n".join(clean[0]), "\n".join(clean[1])).split("\n")
    for line in set(clean[0]) - set(clean[1]):
        assert f"-{line}" in diff or not line
    for line in set(clean[1]) - set(clean[0]):
        assert f"+{line}" in diff or not line
