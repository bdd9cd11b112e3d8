"""The figures of published benchmarks by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers import metrics, published


def test_a_section_weighs_subsets_by_prompts_and_mathematics_as_all_code() -> None:
    table = {
        "math-prm": (1.0, 447),
        **{f"hep-{name}": (0.5, 164) for name in ("cpp", "go", "java", "js", "python", "rust")},
        "alpacaeval-easy": (1.0, 100),
        "mt-bench-easy": (0.0, 28),
    }
    found = published.rewardbench(table)
    assert found["Reasoning"] == pytest.approx(0.75)
    assert found["Chat"] == pytest.approx(100 / 128)
    assert found["Safety"] is None
    assert found["score"] is None
    whole = published.rewardbench(
        {name: (0.5, 10) for names in published.REWARDBENCH_SECTIONS.values() for name in names}
    )
    assert whole["score"] == pytest.approx(0.5)


def test_best_of_four_shares_the_credit_of_a_tie_at_the_top() -> None:
    wrong = np.array([0.0, 1.0, -1.0])
    assert published.best_of_n(np.array([2.0]), wrong) == 1.0
    assert published.best_of_n(np.array([1.0]), wrong) == 0.5
    assert published.best_of_n(np.array([0.0]), wrong) == 0.0


def test_the_ties_score_by_hand() -> None:
    rows = [
        ("ref:1", np.array([3.0]), np.array([0.0])),  # gap 3
        ("tied:1", np.array([4.0, 3.0]), np.array([1.0])),  # gap 2, spread 1
        ("ref:2", np.array([1.0]), np.array([0.5])),  # gap .5
        ("tied:2", np.array([5.0, 3.0]), np.array([0.0])),  # gap 3, spread 2
        ("tied:3", np.array([1.0, 0.0]), np.array([2.0])),  # wrong, and without its ref
    ]
    found = published.ties(rows)
    assert (found["ref_accuracy"], found["tied_accuracy"]) == (1.0, pytest.approx(2 / 3))
    assert (found["preferred"], found["preferred_hard"]) == (1.0, 0.5)
    margin = (math.tanh(2 / 1 - 1) + math.tanh(0.5 / 2 - 1)) / 2
    assert found["margin"] == pytest.approx(margin)
    assert found["score"] == pytest.approx(0.3 * 2 / 3 + 0.3 + 0.2 * 1.5 + 0.01 * margin)


def test_a_ties_prompt_without_spread_has_a_margin_still() -> None:
    def margin(right: float) -> float:
        rows = [("ref:1", np.array([right]), np.zeros(1)), ("tied:1", np.array([right] * 2), np.zeros(1))]
        return published.ties(rows)["margin"]

    assert (margin(1.0), margin(0.0), margin(-1.0)) == (1.0, 0.0, -1.0)


def test_the_score_of_rewardbench_2_is_the_mean_over_subsets() -> None:
    rows = [
        ("Math", "1", np.array([1.0]), np.zeros(3)),
        ("Math", "2", np.array([0.0]), np.ones(3)),
        ("Focus", "3", np.array([1.0]), np.zeros(3)),
    ]
    found = published.rewardbench2(rows)
    assert found["by_subset"]["Math"] == {"prompts": 2, "score": 0.5}
    assert found["score"] == 0.75


def test_the_style_matrix_by_hand() -> None:
    chosen = np.array([[1.0, 2.0, 3.0]])
    rejected = np.array([[0.0, 2.0, 4.0]])
    matrix = published.style_matrix(chosen, rejected)
    assert matrix == [[1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.0]]
    levels = published.style_levels(matrix)
    assert levels == {
        "easy": 1.0,
        "normal": 0.5,
        "hard": 0.0,
        "mean": pytest.approx(0.5),
    }
    # The benchmark's own code counts the tie in the middle as right.
    assert published.rm_bench(["code"], chosen, rejected)["published"]["normal"] == pytest.approx(2 / 3)


def test_domains_of_rm_bench_count_the_same_and_safety_is_one() -> None:
    chosen, rejected = np.ones((4, 3)), np.zeros((4, 3))
    rejected[3] = 2.0
    found = published.rm_bench(["safety-refuse", "safety-response", "chat", "code"], chosen, rejected)
    assert {name: row["prompts"] for name, row in found["by_domain"].items()} == {
        "safety": 2,
        "chat": 1,
        "code": 1,
    }
    assert found["mean"] == pytest.approx(2 / 3)


@given(
    st.lists(
        st.tuples(*[st.sampled_from([-1.0, 0.0, 1.0])] * 4),
        min_size=1,
        max_size=30,
    )
)
def test_length_tells_whose_side_it_is_on(rows: list) -> None:
    chosen, rejected, left, right = np.array(rows).T
    found = metrics.length_bias(chosen, rejected, left, right, 0)
    longer, shorter = (found["baselines"][name]["accuracy"] for name in ("longer_wins", "shorter_wins"))
    assert longer + shorter == pytest.approx(1.0)
    assert sum(row["pairs"] for row in found["by_length"].values()) == len(rows)


def test_a_score_that_is_the_length_is_found_out() -> None:
    left, right = np.array([3.0, 1.0, 5.0, 2.0]), np.array([1.0, 2.0, 2.0, 2.0])
    found = metrics.length_bias(left, right, left, right, 0)
    assert found["length_correlation"] == pytest.approx(1.0)
    assert found["baselines"]["longer_wins"]["accuracy"] == pytest.approx(2.5 / 4)
    assert found["by_length"]["chosen_shorter"]["accuracy"] == 0.0


def test_no_pairs_have_no_length() -> None:
    empty = np.zeros(0)
    assert metrics.length_bias(empty, empty, empty, empty, 0)["length_correlation"] is None
