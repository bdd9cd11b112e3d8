"""Best-of-k figures against enumeration, Monte Carlo and scipy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from trainers import bootstrap, ranking

# Few values, so that ties happen.
candidates = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=7
).map(lambda rows: (np.array([r[0] for r in rows]), np.array([r[1] for r in rows])))


def orders(scores: np.ndarray, resolved: np.ndarray) -> list[np.ndarray]:
    """The outcomes from best to worst in every order that breaks ties."""
    found = []
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            found.append(resolved[list(order)])
    return found


@given(candidates)
@settings(max_examples=40, deadline=None)
def test_rm_at_k_is_the_mean_over_all_draws_and_all_orders_of_ties(rows: tuple) -> None:
    scores, resolved = rows
    for k in range(1, len(scores) + 1):
        won = []
        for draw in itertools.combinations(range(len(scores)), k):
            held = np.array(draw)
            best = scores[held] == scores[held].max()
            won.append(resolved[held][best].mean())
        assert ranking.rm_at_k(scores, resolved, k) == pytest.approx(np.mean(won))


def test_rm_at_k_agrees_with_drawing() -> None:
    draws = np.random.default_rng(0)
    scores = np.round(draws.normal(size=20), 0)
    resolved = (draws.random(20) < 0.4).astype(float)
    won = []
    for _ in range(20000):
        held = draws.permutation(20)[:5]
        won.append(resolved[held[np.argmax(scores[held])]])
    assert ranking.rm_at_k(scores, resolved, 5) == pytest.approx(np.mean(won), abs=0.015)


@given(candidates)
def test_the_chances_of_all_candidates_sum_to_one(rows: tuple) -> None:
    for k in range(1, len(rows[0]) + 1):
        assert ranking.chances(rows[0], k).sum() == pytest.approx(1.0)


@given(candidates)
@settings(max_examples=40, deadline=None)
def test_hits_at_k_is_the_mean_over_all_orders_of_ties(rows: tuple) -> None:
    scores, resolved = rows
    for k in range(1, len(scores) + 1):
        expected = np.mean([order[:k].any() for order in orders(scores, resolved)])
        assert ranking.hits_at_k(scores, resolved, k) == pytest.approx(expected)


@given(candidates)
def test_no_picker_beats_the_oracle_nor_the_other_way_round_the_worst(rows: tuple) -> None:
    scores, resolved = rows
    for k in range(1, len(scores) + 1):
        oracle = ranking.pass_at_k(len(scores), int(resolved.sum()), k)
        assert ranking.rm_at_k(scores, resolved, k) <= oracle + 1e-12
        assert ranking.rm_at_k(resolved, resolved, k) == pytest.approx(oracle)


def test_equal_scores_pick_at_random() -> None:
    resolved = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    assert ranking.rm_at_k(np.zeros(5), resolved, 3) == pytest.approx(0.4)
    assert ranking.hits_at_k(np.zeros(5), resolved, 2) == pytest.approx(ranking.pass_at_k(5, 2, 2))


def test_pass_at_k_by_hand() -> None:
    # Of 4 with 1 right, 2 drawn: 3 of the 6 draws hold it.
    assert ranking.pass_at_k(4, 1, 2) == 0.5
    assert (ranking.pass_at_k(4, 0, 2), ranking.pass_at_k(4, 3, 2)) == (0.0, 1.0)


@given(st.integers(1, 60), st.data())
def test_pass_at_k_is_the_ratio_of_binomials(n: int, data: st.DataObject) -> None:
    right, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    exact = 1 - Fraction(math.comb(n - right, k), math.comb(n, k))
    assert ranking.pass_at_k(n, right, k) == pytest.approx(float(exact), abs=1e-12)


def test_pass_at_k_holds_where_binomials_overflow() -> None:
    # One right of n: the chance that it is among the k drawn is k / n.
    assert ranking.pass_at_k(200_000, 1, 50_000) == pytest.approx(0.25, rel=1e-12)
    assert ranking.pass_at_k(10_000, 9_000, 1) == pytest.approx(0.9, rel=1e-9)


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_more_than_there_are_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k = {k} of 3"):
        ranking.pass_at_k(3, 0, k)


@pytest.mark.parametrize("k", [0, 4])
def test_more_picks_than_candidates_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k = {k} of 3"):
        ranking.chances(np.zeros(3), k)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=20).filter(
        lambda rows: len({r[0] for r in rows}) > 1 and len({r[1] for r in rows}) > 1
    )
)
def test_spearman_is_scipys(rows: list) -> None:
    left, right = np.array(rows, dtype=float).T
    assert ranking.spearman(left, right) == pytest.approx(spearmanr(left, right).statistic)


def test_spearman_of_a_constant_is_undefined() -> None:
    assert ranking.spearman(np.zeros(4), np.arange(4.0)) is None


def test_a_summary_by_hand() -> None:
    good = ranking.Task("a", np.array([2.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    bad = ranking.Task("b", np.array([2.0, 1.0]), np.array([0.0, 1.0]))
    none = ranking.Task("c", np.array([0.0, 0.0]), np.array([0.0, 0.0]))
    found = ranking.summary([good, bad, none], [1, 2, 3], seed=0)
    assert (found["tasks"], found["candidates"], found["with_right"], found["mixed"]) == (3, 7, 2, 2)
    two = found["best_of"]["2"]
    # a: best of two is right in 2 of 3 draws; b: never; c: never.
    assert two["rm"] == pytest.approx((2 / 3) / 3)
    assert two["random"] == pytest.approx((1 / 3 + 1 / 2) / 3)
    assert two["oracle"] == pytest.approx((2 / 3 + 1) / 3)
    assert two["gain"] == pytest.approx((two["rm"] - two["random"]) / (two["oracle"] - two["random"]))
    assert found["best_of"]["3"]["tasks"] == 1
    one = found["hits"]["1"]
    assert (one["tasks"], one["hits"], one["random"]) == (2, 0.5, pytest.approx((1 / 3 + 1 / 2) / 2))
    # c has no spread, so no rank correlation.
    assert found["spearman"]["tasks"] == 2
    assert found["variance"]["median"] == 0.25


def test_where_every_pick_is_the_same_there_is_no_gain_to_speak_of() -> None:
    found = ranking.summary([ranking.Task("a", np.arange(3.0), np.ones(3))], [2], seed=0)
    assert found["best_of"]["2"]["gain"] is None


def test_no_tasks_give_nulls() -> None:
    found = ranking.summary([], [4], seed=0)
    assert found["best_of"]["4"]["rm"] is None
    assert found["hits"]["4"]["hits"] is None
    assert found["spearman"]["mean"] is None


def test_the_interval_is_the_same_every_time_and_holds_the_mean() -> None:
    values = list(np.random.default_rng(1).random(30))
    low, high = bootstrap.mean_ci(values, 0, "x") or (0.0, 0.0)
    assert [low, high] == bootstrap.mean_ci(values, 0, "x")
    assert low < np.mean(values) < high
    assert bootstrap.mean_ci(values, 1, "x") != [low, high]
