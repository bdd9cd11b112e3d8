"""Intervals: their coverage, what they depend on, and statistics of nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers import bootstrap, calibration, metrics

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=30)


@given(rows, st.data())
@settings(max_examples=60, deadline=None)
def test_the_auc_of_weighted_rows_is_that_of_rows_repeated(found: list, data: st.DataObject) -> None:
    scores, outcomes = np.array(found, dtype=float).T
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(found), max_size=len(found)))
    repeated = [row for row, times in zip(found, weights, strict=True) for _ in range(times)]
    again = np.array(repeated, dtype=float).reshape(-1, 2)
    wanted = calibration.auc_of(again[:, 0], again[:, 1])
    got = bootstrap.weighted_auc(scores, outcomes)(np.array(weights, dtype=float))
    assert got == (wanted if wanted is None else pytest.approx(wanted))


@given(rows)
@settings(max_examples=20, deadline=None)
def test_an_interval_holds_what_its_sample_holds(found: list) -> None:
    values = [float(score) for score, _ in found]
    low, high = bootstrap.mean_ci(values, 0, "x") or (0.0, 0.0)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12
    if len(set(values)) == 1:
        assert low == pytest.approx(high)


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        low, high = bootstrap.mean_ci(draws.normal(size=60), trial, "x") or (1.0, 1.0)
        covered += low <= 0 <= high
    # 95 % of 200, five deviations of a binomial either way.
    assert 174 <= covered <= 200


def test_rows_of_one_task_are_drawn_together() -> None:
    """Copies of a row say nothing more: an interval over tasks is as wide as without the copies."""
    draws = np.random.default_rng(1)
    values = draws.normal(size=40)

    def interval(copies: int) -> list[float]:
        clusters = np.repeat(np.arange(40), copies)
        many = np.repeat(values, copies)
        found = bootstrap.weighted_ci(
            lambda weights: {"mean": float(weights @ many / weights.sum())}, clusters, 0, "x"
        )
        assert found["mean"] is not None
        return found["mean"]

    assert interval(25) == pytest.approx(interval(1))


def test_an_interval_depends_on_its_name_and_seed_alone() -> None:
    values = [0.0, 1.5, 1.1, 0.3, 1.7, 0.2, 0.9]
    assert bootstrap.mean_ci(values, 0, "a") == bootstrap.mean_ci(np.array(values), 0, "a")
    assert len({str(bootstrap.mean_ci(values, seed, name)) for seed in (0, 1) for name in "ab"}) > 1


def test_nothing_has_no_interval() -> None:
    none = np.zeros(0)
    assert bootstrap.mean_ci([], 0, "x") is None
    assert bootstrap.interval([None, float("nan")]) is None
    assert bootstrap.weighted_ci(lambda _: {}, np.zeros(0, dtype=np.int64), 0, "x") == {}
    assert set(metrics.intervals(none, none, 0, "x").values()) == {None}
    assert metrics.macro_ci(none, none, [], 0, "x") == {"ties_half": None, "strict": None}
    assert calibration.temperature_ci(none, none, [], 0) is None


def test_a_macro_interval_keeps_groups_apart() -> None:
    """Of a group in which nothing varies nothing is added to the width."""
    chosen = np.array([1.0] * 50 + [1.0, -1.0] * 25)
    groups = ["sure"] * 50 + ["split"] * 50
    low, high = metrics.macro_ci(chosen, np.zeros(100), groups, 0, "x")["ties_half"] or (0.0, 0.0)
    assert 0.5 < low < 0.75 < high < 1.0
    # Half of the width of the one group's own.
    alone = metrics.bootstrap_ci(chosen[50:], 0, "x") or (0.0, 0.0)
    assert high - low == pytest.approx((alone[1] - alone[0]) / 2, abs=0.03)


def test_ties_are_in_one_interval_and_not_in_the_other() -> None:
    found = metrics.summary(np.zeros(30), np.zeros(30), 0, "x")
    assert (found["ci95"], found["strict_ci95"]) == ([0.5, 0.5], [0.0, 0.0])


def test_a_temperature_has_an_interval_around_it() -> None:
    draws = np.random.default_rng(0)
    logits = draws.normal(size=400)
    outcomes = (draws.random(400) < calibration.sigmoid(logits / 2)).astype(float)
    fitted = calibration.fit_temperature(logits, outcomes)
    low, high = calibration.temperature_ci(logits, outcomes, [str(n // 4) for n in range(400)], 0) or (0, 0)
    assert fitted is not None
    assert low < fitted < high
