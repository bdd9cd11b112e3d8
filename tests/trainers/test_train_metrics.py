"""Metrics against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers import metrics

# Few values, so that ties happen.
scores = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=12).map(np.array)
pairs = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.sampled_from([-1.0, 0.0, 0.5, 2.0])),
    min_size=1,
    max_size=30,
).map(lambda rows: np.array(rows).T)


@given(scores, scores)
def test_auc_is_the_share_of_won_comparisons(chosen: np.ndarray, rejected: np.ndarray) -> None:
    wins = [1.0 if c > r else 0.5 if c == r else 0.0 for c in chosen for r in rejected]
    assert metrics.auc(chosen, rejected) == pytest.approx(np.mean(wins))


@given(pairs)
def test_swapping_the_sides_mirrors_the_accuracy(rows: np.ndarray) -> None:
    there = metrics.summary(rows[0], rows[1], 0, "x")
    back = metrics.summary(rows[1], rows[0], 0, "x")
    assert there["accuracy"] + back["accuracy"] == pytest.approx(1.0)
    assert there["accuracy_strict"] + back["accuracy_strict"] + there["ties"] / rows.shape[1] == (
        pytest.approx(1.0)
    )


def test_a_model_that_ties_everything_is_at_chance_and_strictly_at_zero() -> None:
    flat = metrics.summary(np.zeros(10), np.zeros(10), 0, "x")
    assert (flat["accuracy"], flat["accuracy_strict"], flat["ties"]) == (0.5, 0.0, 10)
    assert (flat["auc"], flat["brier"], flat["ece"]) == (0.5, 0.25, 0.0)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        margins = np.where(draws.random(120) < 0.7, 1.0, -1.0)
        low, high = metrics.bootstrap_ci(margins, 0, str(trial)) or (0.0, 0.0)
        hits += low <= 0.7 <= high
    assert 0.90 <= hits / 300 <= 0.98


@given(pairs)
@settings(max_examples=30)
def test_the_interval_holds_the_estimate_and_stays_inside_its_range(rows: np.ndarray) -> None:
    result = metrics.summary(rows[0], rows[1], 3, "x")
    low, high = result["ci95"]
    assert 0 <= low <= high <= 1
    assert low - 1e-9 <= result["accuracy"] <= high + 1e-9 or rows.shape[1] < 10


def test_no_pairs_give_nulls_and_not_an_error() -> None:
    empty = metrics.summary(np.zeros(0), np.zeros(0), 0, "x")
    assert empty["pairs"] == empty["ties"] == 0
    assert all(value is None for key, value in empty.items() if key not in ("pairs", "ties"))


def test_calibration_of_a_model_that_says_what_it_knows() -> None:
    draws = np.random.default_rng(1)
    size = draws.normal(0, 1.5, 40000)
    right = draws.random(40000) < metrics.win_probability(np.abs(size))
    assert metrics.calibration_error(np.where(right, np.abs(size), -np.abs(size))) < 0.01


def test_overconfidence_shows_as_its_gap() -> None:
    margins = np.where(np.arange(100) < 60, 50.0, -50.0)
    assert metrics.calibration_error(margins) == pytest.approx(0.4)


def test_huge_margins_do_not_overflow() -> None:
    assert metrics.brier(np.array([1e6, -1e6])) == pytest.approx(0.5)


def test_a_groups_interval_does_not_depend_on_the_other_groups() -> None:
    chosen, rejected = np.random.default_rng(2).normal(size=(2, 40))
    groups = ["a"] * 20 + ["b"] * 20
    both = metrics.by_group(chosen, rejected, groups, 0, "aspect")
    alone = metrics.by_group(chosen[:20], rejected[:20], groups[:20], 0, "aspect")
    assert both["a"] == alone["a"]


def test_the_macro_average_counts_small_groups_as_much_as_large_ones() -> None:
    chosen = np.array([1.0] * 98 + [0.0, 0.0])
    table = metrics.by_group(chosen, np.full(100, 0.5), ["big"] * 98 + ["small"] * 2, 0, "g")
    assert metrics.macro(table) == 0.5
