"""Which edits count as near-duplicates, and which must not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miner.diff import line_hunks
from miner.nearduplicates import (
    SHORT,
    Looked,
    alike_changes,
    duplicates,
    shingles,
    side_signatures,
    signatures,
    similarity,
)
from schemas.declare import as_row

THRESHOLD = 0.75


def edit(name: str, old: str, new: str, time: int = 0) -> dict[str, Any]:
    hunks = [as_row(hunk) for hunk in line_hunks(old.encode(), new.encode())]
    return {"id": name, "commit_time": time, "old_contents": old, "new_contents": new, "hunks": hunks}


def gone(edits: list[dict[str, Any]], threshold: float = THRESHOLD) -> dict[str, str]:
    looked = Looked()
    for start in range(0, len(edits), 3):
        looked.add(edits[start : start + 3])
    looked.settle()
    pairs = alike_changes(looked, threshold)
    by_id = {one["id"]: one for one in edits}
    wanted = sorted({looked.ids[position] for pair in pairs for position in pair})
    sides = dict(zip(wanted, side_signatures([by_id[name] for name in wanted]), strict=True))
    return {name: why.stays for name, why in duplicates(looked, pairs, sides, threshold).items()}


def file(seed: int, lines: int = 80) -> list[str]:
    draw = random.Random(seed)
    return [f"line {draw.randrange(10**6)} of something\n" for _ in range(lines)]


def changed(lines: list[str], at: int, new: list[str]) -> str:
    return "".join([*lines[:at], *new, *lines[at + len(new) :]])


BLOCK = [f"    new statement {n}\n" for n in range(12)]


def test_the_same_patch_on_a_slightly_different_file_is_a_near_duplicate() -> None:
    one, fork = file(1), file(1)
    fork[70] = "a line that only the fork has\n"
    edits = [
        edit("first", "".join(one), changed(one, 10, BLOCK), time=1),
        edit("picked", "".join(fork), changed(fork, 10, BLOCK), time=2),
    ]
    assert gone(edits) == {"picked": "first"}


def test_the_earliest_stays_whatever_the_order_of_rows() -> None:
    one = file(1)
    late = edit("a", "".join(one), changed(one, 10, BLOCK), time=9)
    early = edit("b", "".join(one), changed(one, 10, BLOCK), time=2)
    assert gone([late, early]) == gone([early, late]) == {"a": "b"}


def test_two_edits_of_one_file_are_not_duplicates() -> None:
    one = file(1)
    other = [f"    another statement {n}\n" for n in range(12)]
    edits = [
        edit("first", "".join(one), changed(one, 10, BLOCK), time=1),
        edit("second", "".join(one), changed(one, 10, other), time=2),
    ]
    assert gone(edits) == {}


def test_the_same_change_in_unrelated_files_is_not_a_duplicate() -> None:
    one, other = file(1), file(2)
    edits = [
        edit("first", "".join(one), changed(one, 10, BLOCK), time=1),
        edit("second", "".join(other), changed(other, 10, BLOCK), time=2),
    ]
    assert gone(edits) == {}


def test_short_changes_never_collapse_into_one_cluster() -> None:
    one = file(1)
    edits = [edit(f"e{n}", "".join(one), changed(one, n, [f"x = {n}\n"]), time=n) for n in range(40)]
    assert gone(edits) == {}


def test_empty_documents_are_nobodys_duplicate() -> None:
    edits = [edit(f"e{n}", "\n" * (n + 1), " \n" * (n + 2), time=n) for n in range(6)]
    looked = Looked()
    looked.add(edits)
    looked.settle()
    assert not any(looked.long)


def test_the_very_same_edit_in_two_repositories_is_exact() -> None:
    looked = Looked()
    edits = [edit("a", "x\n", "y\n", 1), edit("b", "x\n", "y\n", 2)]
    looked.add(edits)
    looked.settle()
    found = duplicates(looked, [], {}, THRESHOLD)
    assert (found["b"].stays, found["b"].exact) == ("a", True)


def test_duplicate_of_a_later_member_of_a_crowded_bucket_is_found() -> None:
    """A pair is compared even when both changes are alike to that of an unrelated earlier file."""
    first, second, fork = file(1), file(2), file(2)
    fork[70] = "a line that only the fork has\n"
    edits = [
        edit("unrelated", "".join(first), changed(first, 10, BLOCK), time=1),
        edit("second", "".join(second), changed(second, 10, BLOCK), time=2),
        edit("fork", "".join(fork), changed(fork, 10, BLOCK), time=3),
    ]
    assert gone(edits) == {"fork": "second"}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_estimated_similarity_is_near_the_true_one(seed: int, both: int, left: int, right: int) -> None:
    draw = random.Random(seed)
    names = [f"{draw.random()}" for _ in range(both + left + right)]
    one, other = names[: both + left], names[:both] + names[both + left :]
    if not one or not other:
        return
    true = both / (both + left + right)
    a, b = signatures([one, other])
    assert similarity(a, b) == pytest.approx(true, abs=0.22)


@given(st.lists(st.text(max_size=5), max_size=8))
def test_shingles_do_not_depend_on_repetition(lines: list[str]) -> None:
    assert len(shingles(lines)) == len(set(shingles(lines)))
    assert len(shingles(lines)) <= max(1, len(lines))


def test_signature_is_the_same_in_every_process() -> None:
    text = [f"token {n}" for n in range(SHORT * 4)]
    (row,) = signatures([text])
    assert [int(value) for value in row[:3]] == SIGNATURE


SIGNATURE = [3234000450, 2487160472, 3234319940]
