"""The changed regions of two versions."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from miner.diff import compare
from schemas.records import Hunk

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "a b", "é", "\r"]), max_size=12)


def as_bytes(lines: list[str], end: bool) -> bytes:
    return ("\n".join(lines) + ("\n" if end and lines else "")).encode()


def line_hunks(old: bytes, new: bytes) -> list[Hunk]:
    return compare(b"a.py", old, new)[0]


def patched(old: bytes, new: bytes, hunks: list[Hunk]) -> bytes:
    """The old version with each region replaced by its new one."""
    before, after = (re.findall(rb"[^\n]*\n|[^\n]+\Z", side) for side in (old, new))
    made, at = [], 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        fresh = hunk.new_start - 1 if hunk.new_lines else hunk.new_start
        made += before[at:start] + after[fresh : fresh + hunk.new_lines]
        at = start + hunk.old_lines
    return b"".join(made + before[at:])


@given(LINES, st.booleans(), LINES, st.booleans())
@example(["a"], True, ["a"], False)
@example([], False, ["a"], True)
def test_regions_replaced_give_the_new_version(one: list[str], end: bool, two: list[str], last: bool) -> None:
    old, new = as_bytes(one, end), as_bytes(two, last)
    assert patched(old, new, line_hunks(old, new)) == new


@given(st.integers(0, 400), st.integers(0, 400), LINES, LINES)
def test_regions_far_into_a_file_have_their_own_line_numbers(
    above: int, below: int, one: list[str], two: list[str]
) -> None:
    head = b"".join(b"head %d\n" % (number % 7) for number in range(above))
    tail = b"".join(b"tail %d\n" % (number % 5) for number in range(below))
    old, new = head + as_bytes(one, True) + tail, head + as_bytes(two, True) + tail
    assert patched(old, new, line_hunks(old, new)) == new


@pytest.mark.parametrize(
    ("old", "new", "hunk"),
    [
        (b"a\nb\nc\n", b"a\nx\nc\n", (2, 1, 2, 1)),
        (b"a\nc\n", b"a\nb\nc\n", (1, 0, 2, 1)),
        (b"a\nb\nc\n", b"a\nc\n", (2, 1, 1, 0)),
        (b"b\n", b"a\nb\n", (0, 0, 1, 1)),
        (b"a\nb\n", b"b\n", (1, 1, 0, 0)),
        (b"a\n", b"a", (1, 1, 1, 1)),
    ],
)
def test_numbers_are_those_of_a_zero_context_diff(
    old: bytes, new: bytes, hunk: tuple[int, int, int, int]
) -> None:
    (found,) = line_hunks(old, new)
    assert (found.old_start, found.old_lines, found.new_start, found.new_lines) == hunk


def test_equal_versions_have_no_region() -> None:
    assert line_hunks(b"a\n", b"a\n") == []


def test_regions_with_equal_lines_between_stay_apart() -> None:
    assert len(line_hunks(b"a\nb\nc\n", b"x\nb\ny\n")) == 2
