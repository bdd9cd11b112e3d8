"""Calibration figures against scikit-learn and hand computations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from trainers import calibration

logits_and_outcomes = st.lists(
    st.tuples(st.sampled_from([-3.0, -0.5, 0.0, 0.5, 2.0]), st.booleans()), min_size=2, max_size=40
).map(lambda rows: (np.array([r[0] for r in rows]), np.array([float(r[1]) for r in rows])))


def drawn(count: int, temperature: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and outcomes that come true as the logits over the temperature say."""
    draws = np.random.default_rng(seed)
    logits = draws.normal(0, 2, count) * temperature
    return logits, (draws.random(count) < calibration.sigmoid(logits / temperature)).astype(float)


@given(logits_and_outcomes)
def test_figures_are_those_of_scikit_learn(rows: tuple) -> None:
    logits, outcomes = rows
    chances = calibration.sigmoid(logits)
    assert calibration.brier(chances, outcomes) == pytest.approx(brier_score_loss(outcomes, chances))
    assert calibration.nll(logits, outcomes) == pytest.approx(log_loss(outcomes, chances, labels=[0, 1]))
    if 0 < outcomes.sum() < len(outcomes):
        assert calibration.auc_of(logits, outcomes) == pytest.approx(roc_auc_score(outcomes, logits))
    else:
        assert calibration.auc_of(logits, outcomes) is None


@given(logits_and_outcomes, st.booleans(), st.integers(1, 12))
def test_bins_hold_every_row_once_and_bound_their_means(rows: tuple, adaptive: bool, bins: int) -> None:
    logits, outcomes = rows
    table = calibration.reliability(calibration.sigmoid(logits), outcomes, bins, adaptive)
    assert sum(row["count"] for row in table) == len(outcomes)
    assert len(table) <= bins
    assert all(row["low"] - 1e-12 <= row["confidence"] <= row["high"] + 1e-12 for row in table)
    error = calibration.ece(calibration.sigmoid(logits), outcomes, bins, adaptive)
    assert error is not None
    assert 0 <= error <= 1


@given(logits_and_outcomes, st.booleans(), st.randoms())
def test_the_order_of_rows_changes_nothing(rows: tuple, adaptive: bool, shuffler: object) -> None:
    logits, outcomes = rows
    order = list(range(len(logits)))
    shuffler.shuffle(order)  # type: ignore[attr-defined]
    there = calibration.ece(calibration.sigmoid(logits), outcomes, 5, adaptive)
    back = calibration.ece(calibration.sigmoid(logits[order]), outcomes[order], 5, adaptive)
    assert there == pytest.approx(back)


def test_expected_calibration_error_by_hand() -> None:
    chances = np.array([0.05, 0.15, 0.15, 0.95])
    outcomes = np.array([0.0, 1.0, 0.0, 1.0])
    # |0-.05|*1/4 + |.5-.15|*2/4 + |1-.95|*1/4
    assert calibration.ece(chances, outcomes) == pytest.approx(0.2)


def test_adaptive_bins_hold_equal_counts() -> None:
    chances = np.linspace(0.4, 0.6, 20)
    table = calibration.reliability(chances, np.zeros(20), bins=4, adaptive=True)
    assert [row["count"] for row in table] == [5, 5, 5, 5]
    assert len(calibration.reliability(chances, np.zeros(20), bins=4)) == 2


def test_a_probability_of_one_falls_into_the_last_bin() -> None:
    (row,) = calibration.reliability(np.array([1.0]), np.array([1.0]))
    assert (row["low"], row["high"]) == (0.9, 1.0)


@given(logits_and_outcomes.filter(lambda rows: 0 < rows[1].sum() < len(rows[1]) and np.any(rows[0])))
@settings(max_examples=50, deadline=None)
def test_no_other_temperature_has_a_smaller_loss(rows: tuple) -> None:
    logits, outcomes = rows
    best = calibration.fit_temperature(logits, outcomes)
    assert best is not None
    ours = calibration.nll(logits / best, outcomes)
    for other in (max(best * 0.9, 1e-4), min(best * 1.1, 1e4), 1.0, 1e-3, 1e3):
        assert ours <= calibration.nll(logits / other, outcomes) + 1e-9


def test_the_temperature_is_that_of_a_general_minimiser_and_of_the_data() -> None:
    logits, outcomes = drawn(20000, temperature=3.0)
    best = calibration.fit_temperature(logits, outcomes)
    other = minimize_scalar(
        lambda log_t: calibration.nll(logits / np.exp(log_t), outcomes),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert best == pytest.approx(np.exp(other.x), rel=1e-4)
    assert best == pytest.approx(3.0, rel=0.06)


def test_calibration_error_falls_after_fitting_and_the_order_of_scores_stays() -> None:
    logits, outcomes = drawn(4000, temperature=4.0, seed=1)
    dev, test = slice(0, 2000), slice(2000, None)
    scaled = logits / calibration.fit_temperature(logits[dev], outcomes[dev])
    before = calibration.ece(calibration.sigmoid(logits[test]), outcomes[test])
    after = calibration.ece(calibration.sigmoid(scaled[test]), outcomes[test])
    assert after < before / 3
    assert calibration.auc_of(scaled[test], outcomes[test]) == calibration.auc_of(
        logits[test], outcomes[test]
    )


def test_scores_that_point_the_wrong_way_get_the_flattest_temperature() -> None:
    assert calibration.fit_temperature(np.array([2.0, -2.0]), np.array([0.0, 1.0])) == 1e4
    assert calibration.fit_temperature(np.array([2.0, -2.0]), np.array([1.0, 0.0])) == 1e-4


def test_one_outcome_alone_gives_no_temperature() -> None:
    assert calibration.fit_temperature(np.array([1.0, 2.0]), np.ones(2)) is None
    assert calibration.fit_temperature(np.zeros(2), np.array([0.0, 1.0])) is None


def test_telling_easy_instances_from_hard_ones_is_worth_nothing_within_them() -> None:
    scores = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    outcomes = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    within, counted = calibration.auc_within(scores, outcomes, ["easy"] * 3 + ["hard"] * 3)
    assert (within, counted) == (0.5, 2)
    assert calibration.auc_of(scores, outcomes) == pytest.approx(6 / 9)


def test_instances_of_one_outcome_do_not_count() -> None:
    assert calibration.auc_within(np.zeros(2), np.ones(2), ["a", "b"]) == (None, 0)
    assert calibration.auc_within(np.zeros(0), np.zeros(0), []) == (None, 0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10).map(np.array))
def test_logit_undoes_sigmoid(chances: np.ndarray) -> None:
    assert calibration.sigmoid(calibration.logit(chances)) == pytest.approx(chances, abs=1e-9)


def test_huge_logits_give_finite_losses() -> None:
    logits = np.array([1e6, -1e6])
    assert calibration.nll(logits, np.array([1.0, 0.0])) == 0.0
    assert calibration.nll(logits, np.array([0.0, 1.0])) == 1e6


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
@settings(deadline=None)
def test_drift_is_the_largest_distance_of_the_distributions_and_nothing_between_equal_scores(
    rows: list,
) -> None:
    old, new = np.array(rows, dtype=float).T
    apart = max(abs(np.mean(old <= point) - np.mean(new <= point)) for point in (*old, *new))
    assert calibration.drift(old, new)["ks"] == pytest.approx(apart)
    same = calibration.drift(old, old)
    assert (same["largest"], same["ks"], same["psi"]) == (0.0, 0.0, 0.0)


def test_drift_tells_a_shift_from_noise() -> None:
    old = np.random.default_rng(2).normal(size=2000)
    noise = calibration.drift(old, old + np.random.default_rng(3).normal(0, 0.05, 2000))
    shift = calibration.drift(old, old + 1)
    assert noise["psi"] < 0.1 < 0.25 < shift["psi"]
    assert shift["shift"] == pytest.approx(1.0)
    assert shift["spearman"] == pytest.approx(1.0)


def test_no_rows_give_nulls() -> None:
    empty = np.zeros(0)
    found = calibration.summary(empty, empty, [])
    assert (found["auc"], found["ece"], found["nll"], found["reliability"]) == (None, None, None, [])
    assert calibration.drift(empty, empty)["psi"] is None


def test_scores_that_tell_all_rows_apart_get_a_temperature_that_is_not_nought() -> None:
    logits = np.array([-9.0, -8.0, -7.5, 6.0, 8.0, 9.5])
    outcomes = (logits > 0).astype(np.float64)
    targets = calibration.soft_targets(outcomes)
    assert targets.tolist() == [1 / 5] * 3 + [4 / 5] * 3
    temperature = calibration.fit_temperature(logits, targets)
    assert temperature is not None
    assert 1 < temperature < 20
