"""Agreement and biases of judges: known values, and what holds for any votes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelers.commits.agreement import agreement, cohen_kappa, correlation, fleiss_kappa, word

# Fourteen raters, ten subjects, five categories: the worked example of Wikipedia's "Fleiss' kappa".
RATED = [
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]
ITEMS = st.lists(st.tuples(*[st.integers(0, 5)] * 3), max_size=12)


def test_fleiss_kappa_of_a_worked_example() -> None:
    assert round(fleiss_kappa(RATED) or 0, 3) == 0.210


def test_cohen_kappa_of_a_worked_example() -> None:
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(2, 6)), min_size=2))
def test_full_agreement_is_one(items: list[tuple[int, int]]) -> None:
    tables = [tuple(many if n == category else 0 for n in range(3)) for category, many in items]
    words = [("new", "old", "tie")[category] for category, _ in items]
    if len({category for category, _ in items}) > 1:
        assert fleiss_kappa(tables) == pytest.approx(1)
        assert cohen_kappa(list(zip(words, words, strict=True))) == pytest.approx(1)
    else:
        # Chance alone would explain it.
        assert fleiss_kappa(tables) is None
        assert cohen_kappa(list(zip(words, words, strict=True))) is None


@given(ITEMS)
def test_kappa_is_at_most_one_and_does_not_depend_on_names_of_categories(
    items: list[tuple[int, ...]],
) -> None:
    kappa = fleiss_kappa(items)
    mirrored = fleiss_kappa([item[::-1] for item in items])
    if kappa is None:
        assert mirrored is None
        return
    assert kappa <= 1 + 1e-12
    assert mirrored == pytest.approx(kappa)


@given(ITEMS)
def test_items_of_fewer_than_two_votes_say_nothing(items: list[tuple[int, ...]]) -> None:
    assert fleiss_kappa([*items, (1, 0, 0), (0, 0, 0)]) == fleiss_kappa(items)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1))
def test_cohen_s_kappa_is_symmetric(pairs: list[tuple[str, str]]) -> None:
    kappa = cohen_kappa(pairs)
    assert cohen_kappa([(b, a) for a, b in pairs]) == (None if kappa is None else pytest.approx(kappa))


def test_opposite_raters_are_below_chance() -> None:
    assert cohen_kappa([("a", "b"), ("b", "a")] * 5) == pytest.approx(-1)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=20))
def test_a_correlation_is_none_or_within_bounds(points: list[tuple[float, float]]) -> None:
    found = correlation(points)
    assert found is None or -1 <= found <= 1
    if len({x for x, _ in points}) < 2:
        assert found is None


def test_a_correlation_of_a_line_is_one() -> None:
    assert correlation([(x, 3 * x - 1) for x in range(9)]) == pytest.approx(1)
    assert correlation([(x, -x) for x in range(9)]) == pytest.approx(-1)


def test_a_word_is_what_most_votes_say_or_a_tie() -> None:
    assert word([{"new": 2, "old": 0, "tie": 1}, {"new": 0, "old": 1, "tie": 0}]) == "new"
    assert word([{"new": 2, "old": 2, "tie": 0}]) == "tie"
    assert word([{"new": 0, "old": 0, "tie": 0}]) is None
    assert word([]) is None


def count(
    judge: str, order: str, new: int, old: int, tie: int = 0, error: int = 0, code: str = "FC"
) -> dict[str, Any]:
    found = {"judge": judge, "criterion": code, "order": order}
    return {**found, "new": new, "old": old, "tie": tie, "error": error}


def row(number: int, *counts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    found = {"id": f"v{number}", "criterion": "FC", "decision": "confirmed", "counts": list(counts)}
    return {**found, "better": [], "worse": [], "reviews": [], **changed}


def both(judge: str, new: int, old: int, tie: int = 0, code: str = "FC") -> list[dict[str, Any]]:
    return [count(judge, order, new, old, tie, code=code) for order in ("old_first", "new_first")]


def test_judges_of_one_mind_agree_and_one_who_differs_is_seen() -> None:
    rows = [
        row(
            n,
            *both("one", n % 2, 1 - n % 2),
            *both("two", n % 2, 1 - n % 2),
            *both("three", 1 - n % 2, n % 2),
        )
        for n in range(10)
    ]
    found = agreement(rows, {})
    assert found["own"]["items"] == 10
    assert found["own"]["kappa"] == pytest.approx(-1 / 3)
    assert found["own"]["by_criterion"] == {"FC": {"items": 10, "kappa": pytest.approx(-1 / 3)}}
    kappas = {tuple(one["judges"]): one["kappa"] for one in found["pairs"]}
    assert kappas == {
        ("one", "two"): pytest.approx(1),
        ("one", "three"): pytest.approx(-1),
        ("two", "three"): pytest.approx(-1),
    }
    # Of the others of `one`, one says each; those of `three` are of one mind.
    assert found["judges"]["one"]["with_majority"]["total"] == 0
    assert found["judges"]["three"]["with_majority"] == {
        "share": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.2775, abs=1e-4),
        "hits": 0,
        "total": 10,
    }


def test_a_preference_for_length_shows_where_others_see_no_difference() -> None:
    rows, lengths = [], {}
    for n in range(20):
        longer_is_new = n % 2
        lengths[f"v{n}"] = (100, 300) if longer_is_new else (300, 100)
        rows.append(
            row(
                n,
                *both("wordy", longer_is_new, 1 - longer_is_new),
                *both("fair", 0, 0, 1),
                *both("just", 0, 0, 1),
            )
        )
    found = agreement(rows, lengths)["judges"]
    assert found["wordy"]["longer_when_others_tie"]["share"] == 1.0
    assert found["wordy"]["longer_when_others_tie"]["total"] == 40
    assert found["wordy"]["length_correlation"] == pytest.approx(1)
    assert found["fair"]["longer"]["total"] == 0
    assert found["fair"]["length_correlation"] is None
    assert found["fair"]["own"]["ties"]["share"] == 1.0


def test_rows_without_lengths_say_nothing_of_length() -> None:
    found = agreement([row(1, *both("one", 1, 0))], {"v2": (1, 2)})["judges"]["one"]
    assert found["longer"]["total"] == 0
    assert found["length_correlation"] is None


def test_trade_offs_decisions_and_reviews_are_counted() -> None:
    review = {"judge": "one", "strength": 4, "specificity": 2, "purposes": 2, "summary": None}
    silent = dict.fromkeys(("strength", "specificity", "purposes", "summary")) | {"judge": "one"}
    rows = [
        row(1, *both("one", 1, 0), *both("one", 0, 1, code="RE"), worse=["RE"], reviews=[review]),
        row(2, *both("one", 1, 0), worse=["RE"], better=["RM"], decision="weak", reviews=[silent]),
        row(3, *both("one", 1, 0, code="RM"), criterion="RM"),
    ]
    found = agreement(rows, {})
    assert found["trade_offs"] == {"worse": {"RE": 2}, "better": {"RM": 1}, "confirmed_with_worse": 1}
    assert found["decisions"] == {"FC": {"confirmed": 1, "weak": 1}, "RM": {"confirmed": 1}}
    assert found["judges"]["one"]["reviews"]["strength"] == 4
    assert found["judges"]["one"]["reviews"]["without_answer"] == 1
    assert found["judges"]["one"]["others"]["old"] == 2
    assert found["proposals"] == 3


COUNT = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
ROWS = st.lists(st.lists(st.tuples(COUNT, COUNT), min_size=1, max_size=3), max_size=8).map(
    lambda rows: [
        row(
            n,
            *(
                count(f"j{k}", order, *one)
                for k, pair in enumerate(judges)
                for order, one in zip(("old_first", "new_first"), pair, strict=True)
            ),
        )
        for n, judges in enumerate(rows)
    ]
)


@given(ROWS, st.randoms())
def test_statistics_are_plain_values_whatever_the_votes_and_their_order(rows: list[Any], draw: Any) -> None:
    lengths = {f"v{n}": (n * 7 % 5, n) for n in range(6)}
    found = agreement(rows, lengths)
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    for one in found["judges"].values():
        usable = one["own"]["new"] + one["own"]["old"] + one["own"]["tie"]
        assert one["own"]["ties"]["total"] == usable
        assert one["said_a"]["total"] == one["own"]["new"] + one["own"]["old"]
    shuffled = list(rows)
    draw.shuffle(shuffled)
    again = agreement(shuffled, lengths)
    assert again["own"]["kappa"] == (
        None if found["own"]["kappa"] is None else pytest.approx(found["own"]["kappa"])
    )
    assert {name: one["said_a"] for name, one in again["judges"].items()} == {
        name: one["said_a"] for name, one in found["judges"].items()
    }


def test_no_votes_give_no_numbers() -> None:
    found = agreement([], {})
    assert (found["proposals"], found["judges"], found["pairs"]) == (0, {}, [])
    assert found["own"]["kappa"] is None
