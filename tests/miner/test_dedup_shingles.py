"""Hashes of lines, shingles, and the similarity of sets of them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miner.shingles import alike, change_shingles, changed, distinct, jaccard, length, line_hashes, shingles

LINES = st.sampled_from(["", " ", "a", "b", "aa", " a\t", "ab", "é", "\ud800", "x" * 300, "\u2028"])
TEXTS = st.lists(st.lists(LINES, max_size=8).map("\n".join), min_size=1, max_size=6)


def shown(text: str) -> list[str]:
    return ["".join(char for char in line if char not in " \t\r\f\v") for line in text.split("\n")]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_lines_have_equal_hashes_when_equal_but_for_white_space(texts: list[str]) -> None:
    names: dict[int, str] = {}
    for text, hashes in zip(texts, line_hashes(texts), strict=True):
        lines = shown(text)
        assert len(hashes) == len(lines)
        for line, value in zip(lines, hashes.tolist(), strict=True):
            assert (value == 0) == (line == "")
            assert names.setdefault(value, line) == line
    assert len(set(names.values())) == len(names)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_what_stands_before_a_text_changes_none_of_its_hashes(texts: list[str]) -> None:
    for text, hashes in zip(texts, line_hashes(texts), strict=True):
        assert np.array_equal(line_hashes([text])[0], hashes)


def test_versions_of_one_file_have_the_hashes_that_they_have_alone() -> None:
    draw = random.Random(1)
    lines = [f"line {draw.randrange(1000)}" for _ in range(400)]
    texts = []
    for _ in range(60):
        at = draw.randrange(len(lines))
        lines[at : at + draw.randrange(3)] = [f"new {draw.random()}"] * draw.randrange(3)
        texts.append("\n".join(lines) + draw.choice(["", "\n"]))
    for text, hashes in zip(texts, line_hashes(texts), strict=True):
        assert np.array_equal(line_hashes([text])[0], hashes)


@pytest.mark.parametrize("size", [(1 << 16) - 2, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 18])
def test_line_about_as_long_as_a_window_has_one_hash_wherever_it_stands(size: int) -> None:
    line = "y" * size
    (hashes,) = line_hashes([f"{line}\nshort\n{line}\n{line[:-1]}z"])
    assert hashes[0] == hashes[2] != hashes[3]
    assert hashes[1] == line_hashes(["short"])[0][0]


def test_hash_is_the_same_on_every_machine() -> None:
    assert line_hashes(["def f(x):"])[0].tolist() == [HASH]


HASH = 5018242947542797832


def test_length_is_that_of_what_shows() -> None:
    (hashes,) = line_hashes(["  a b\n\n" + "x" * 1000])
    assert length(hashes) == 2 + 0 + 255


@given(st.lists(st.lists(st.sampled_from("abc "), max_size=6), max_size=4))
def test_shingles_are_the_runs_of_two_lines_that_show(texts: list[list[str]]) -> None:
    found = shingles(line_hashes("\n".join(text) for text in texts))
    assert len(found) == len(texts)
    names: dict[int, tuple[str, ...]] = {}
    for text, values in zip(texts, found, strict=True):
        lines = [line for line in text if line.strip()]
        runs = list(itertools.pairwise(lines)) if len(lines) > 1 else [(line,) for line in lines]
        assert len(values) == len(runs)
        for run, value in zip(runs, values.tolist(), strict=True):
            assert names.setdefault(value, run) == run
    assert len(set(names.values())) == len(names)


def test_removing_a_line_is_not_adding_it() -> None:
    old, new = line_hashes(["a\nb\nc\n", "a\nc\n"])
    gone = changed(old, new, [{"old_start": 2, "old_lines": 1, "new_start": 1, "new_lines": 0}])
    come = changed(new, old, [{"old_start": 1, "old_lines": 0, "new_start": 2, "new_lines": 1}])
    assert [len(part) for part in gone] == [1, 0]
    assert change_shingles(*gone).tolist() != change_shingles(*come).tolist()


def test_hunks_outside_of_the_file_give_no_lines() -> None:
    (lines,) = line_hashes(["a\nb"])
    wild = [{"old_start": 9, "old_lines": 5, "new_start": 0, "new_lines": 0}]
    assert [len(part) for part in changed(lines, lines, wild)] == [0, 0]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.floats(0.01, 1))
def test_similarity_is_that_of_the_sets(one: set[int], other: set[int], threshold: float) -> None:
    a, b = (distinct(np.array([*part, *part], np.uint64)) for part in (one, other))
    true = len(one & other) / len(one | other) if one | other else 1.0
    assert jaccard(a, b) == jaccard(b, a) == true
    assert alike(a, b, threshold) == (true >= threshold)
