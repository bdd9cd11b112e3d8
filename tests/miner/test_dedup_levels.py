"""Which edits count as the same, at which level, and which one stays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from dedup_rows import BLOCK, found, lines, put, row
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FILE = lines(1)
FORK = [*FILE[:-1], "a line of the fork\n"]


def by_level(rows: list[dict[str, Any]], folder: Path, **options: Any) -> dict[str, tuple[str, str]]:
    return {name: tuple(why) for name, why in found(rows, folder, **options).items()}


def test_same_two_files_are_exact_whatever_path_and_repository(tmp_path: Path) -> None:
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(FILE), put(FILE, 10, BLOCK), 2, "x/b.py"),
    ]
    assert by_level(rows, tmp_path) == {"b": ("exact_duplicate", "a")}


def test_same_patch_to_another_version_is_a_copy_however_unlike_the_rest_of_the_file(tmp_path: Path) -> None:
    other = [*FILE[:30], *lines(2, 300)]
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(other), put(other, 10, BLOCK), 2),
    ]
    assert by_level(rows, tmp_path) == {"b": ("same_patch", "a")}


def test_small_patch_recurs_by_chance(tmp_path: Path) -> None:
    one, other = [*FILE[:14], *lines(2)], [*FILE[:14], *lines(3)]
    rows = [
        row("a", "".join(one), put(one, 10, ["x = 2\n"]), 1),
        row("b", "".join(other), put(other, 10, ["x = 2\n"]), 2),
    ]
    assert rows[0]["patch_id"] == rows[1]["patch_id"]
    assert by_level(rows, tmp_path) == {}
    assert by_level(rows, tmp_path, chars=0) == {"b": ("same_patch", "a")}


def test_small_patch_of_the_same_author_time_is_a_copy(tmp_path: Path) -> None:
    one, other = [*FILE[:14], *lines(2)], [*FILE[:14], *lines(3)]
    rows = [
        row("a", "".join(one), put(one, 10, ["x = 2\n"]), 1, commit_time=9),
        row("b", "".join(other), put(other, 10, ["x = 2\n"]), 1, commit_time=8),
    ]
    assert by_level(rows, tmp_path) == {"a": ("same_patch", "b")}


@pytest.mark.parametrize("digits", [7, 12, 40])
def test_commit_that_others_were_picked_from_stays_though_it_is_younger(digits: int, tmp_path: Path) -> None:
    one, other = [*FILE[:14], *lines(2)], [*FILE[:14], *lines(3)]
    rows = [
        row("a", "".join(one), put(one, 10, ["x = 2\n"]), 5),
        row("b", "".join(other), put(other, 10, ["x = 2\n"]), 1),
    ]
    rows[1]["cherry_picked_from"] = rows[0]["commit"][:digits]
    assert by_level(rows, tmp_path) == {"b": ("same_patch", "a")}


def test_first_of_a_chain_of_cherry_picks_stays(tmp_path: Path) -> None:
    rows = []
    for number in range(3):
        text = [*FILE[:30], *lines(number + 5, 300)]
        rows.append(row(f"e{number}", "".join(text), put(text, 10, BLOCK), 9 - number))
    rows[1]["cherry_picked_from"] = rows[0]["commit"]
    rows[2]["cherry_picked_from"] = rows[1]["commit"]
    assert by_level(rows, tmp_path) == {"e1": ("same_patch", "e0"), "e2": ("same_patch", "e0")}


@pytest.mark.parametrize("named", ["", "abc", "HEAD~1", "-1", "0x1234567", "g" * 40, "f" * 64, "1_000_000"])
def test_name_that_is_no_commit_of_the_patch_joins_nothing(named: str, tmp_path: Path) -> None:
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(FILE), put(FILE, 40, ["y = 1\n"]), 2, cherry_picked_from=named),
    ]
    assert by_level(rows, tmp_path) == {}


def test_commits_that_name_each_other_leave_one(tmp_path: Path) -> None:
    other = [*FILE[:30], *lines(2, 300)]
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(other), put(other, 10, BLOCK), 2),
    ]
    rows[0]["cherry_picked_from"], rows[1]["cherry_picked_from"] = rows[1]["commit"], rows[0]["commit"]
    assert by_level(rows, tmp_path) == {"b": ("same_patch", "a")}


def test_almost_the_same_change_to_almost_the_same_file_is_near(tmp_path: Path) -> None:
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(FORK), put(FORK, 10, [*BLOCK[:-1], "    another end\n"]), 2),
    ]
    assert by_level(rows, tmp_path) == {"b": ("near_duplicate", "a")}


def test_same_change_at_another_path_is_near(tmp_path: Path) -> None:
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(FORK), put(FORK, 10, BLOCK), 2, "vendor/a.py"),
    ]
    assert by_level(rows, tmp_path) == {"b": ("near_duplicate", "a")}


def test_another_change_of_the_same_file_is_none(tmp_path: Path) -> None:
    other = [f"    another statement {n}\n" for n in range(12)]
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(FILE), put(FILE, 10, other), 2),
    ]
    assert by_level(rows, tmp_path) == {}


def test_same_change_in_unrelated_files_is_none(tmp_path: Path) -> None:
    other = lines(2)
    rows = [
        row("a", "".join(FILE), put(FILE, 10, BLOCK), 1),
        row("b", "".join(other), put(other, 10, BLOCK), 2, "b.py"),
    ]
    assert by_level(rows, tmp_path) == {}


def test_one_line_changes_in_unrelated_files_stay_apart(tmp_path: Path) -> None:
    rows = []
    for number in range(3000):
        text = lines(number, 6)
        old, new = (put(text, 3, [f"x = {value}\n"]) for value in (1, 2))
        rows.append(row(f"e{number}", old, new, number, f"{number}.py"))
    assert found(rows, tmp_path, batch=500) == {}


def test_short_changes_of_one_file_stay_apart(tmp_path: Path) -> None:
    rows = [row(f"e{n}", "".join(FILE), put(FILE, n, [f"x = {n}\n"]), n) for n in range(60)]
    assert found(rows, tmp_path) == {}


def test_changes_that_do_not_show_are_nobodys_duplicate(tmp_path: Path) -> None:
    rows = [row(f"e{n}", "".join(FILE), put(FILE, n, [FILE[n] + "\n" * n]), n) for n in range(1, 20)]
    rows += [row(f"nothing {n}", "\n" * n, " \n" * (n + 1), n) for n in range(20)]
    rows += [row(f"same {n}", f"{n}\n" * 9, f"{n}\n" * 9, n, hunks=[]) for n in range(20)]
    assert found(rows, tmp_path) == {}


def test_hundreds_of_copies_of_one_boilerplate_change_find_their_own_twin(tmp_path: Path) -> None:
    """The change alone tells nothing here: each is compared where the file before is alike too."""
    rows = []
    for fork in range(2):
        for number in range(300):
            text = lines(number)
            text[70] = f"a line of fork {fork}\n"
            rows.append(
                row(f"{fork} {number}", "".join(text), put(text, 10, BLOCK), fork, f"{fork}/{number}.py")
            )
    assert by_level(rows, tmp_path) == {f"1 {n}": ("near_duplicate", f"0 {n}") for n in range(300)}


def test_one_giant_cluster_leaves_its_first(tmp_path: Path) -> None:
    rows = [
        row(
            f"e{n}",
            put(FILE, 70, [f"fork {n}\n"]),
            put(put(FILE, 70, [f"fork {n}\n"]).splitlines(True), 10, BLOCK),
            n,
        )
        | {"patch_id": f"p{n}"}
        for n in range(1000)
    ]
    gone = by_level(rows, tmp_path)
    assert set(gone.values()) == {("near_duplicate", "e0")}
    assert len(gone) == 999


@st.composite
def corpora(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for number in range(draw(st.integers(1, 12))):
        text = [*lines(draw(st.integers(0, 1)))]
        text[70] = f"fork {draw(st.integers(0, 2))}\n"
        block = draw(st.sampled_from([BLOCK, BLOCK[:1], [*BLOCK[:-1], "    other\n"], ["\n"]]))
        new = put(text, draw(st.sampled_from([10, 40])), block)
        rows.append(
            row(f"e{number}", "".join(text), new, draw(st.integers(0, 3)), draw(st.sampled_from("ab")))
        )
    for one in rows:
        if draw(st.booleans()):
            one["cherry_picked_from"] = draw(st.sampled_from(rows))["commit"][: draw(st.integers(5, 40))]
    return rows


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpora(), st.integers(0, 10**6), st.integers(1, 12))
def test_result_depends_on_neither_order_nor_batches(
    tmp_path: Path, rows: list[dict[str, Any]], seed: int, batch: int
) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert found(shuffled, tmp_path, batch=batch) == found(rows, tmp_path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpora())
def test_what_stays_is_never_itself_dropped(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    gone = found(rows, tmp_path)
    assert all(why.stays not in gone for why in gone.values())
    assert len(gone) < len(rows)
