"""The loss terms and the schedule against their formulas written out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainers.losses import (
    bradley_terry,
    brier,
    classification,
    dpo,
    kto,
    log_odds,
    magnitude,
    objective,
    ranking,
    reference_point,
    regression,
    span_sums,
    step_kto,
    yes_no,
)
from trainers.schedule import learning_rate

rewards = st.floats(-20, 20, width=32)
ratios = st.floats(-60, 60, width=32)
weights = st.floats(0, 3)
HUGE = 1e4


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def log_sigma(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


@given(rewards, rewards, st.floats(0, 3), st.floats(0, 0.5))
def test_bradley_terry_is_the_likelihood_of_the_label(
    chosen: float, rejected: float, margin: float, flipped: float
) -> None:
    got = bradley_terry(torch.tensor([chosen]), torch.tensor([rejected]), margin, flipped).item()
    z = chosen - rejected - margin
    wanted = (1 - flipped) * math.log1p(math.exp(-z)) + flipped * math.log1p(math.exp(z))
    assert got == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_bradley_terry_is_finite_and_has_a_gradient_far_on_the_wrong_side() -> None:
    chosen = torch.tensor([-1e4], requires_grad=True)
    loss = bradley_terry(chosen, torch.tensor([1e4]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(2e4)
    assert chosen.grad is not None
    assert chosen.grad.item() == pytest.approx(-1.0)


def test_rewards_in_half_precision_are_compared_in_float32() -> None:
    chosen, rejected = torch.tensor([8.0, 8.0]).bfloat16(), torch.tensor([8.03, 8.0]).bfloat16()
    assert bradley_terry(chosen, rejected).dtype == torch.float32
    assert magnitude(chosen, rejected, "centered").dtype == torch.float32


def test_centered_magnitude_leaves_an_antisymmetric_pair_alone_and_abs_does_not() -> None:
    chosen, rejected = torch.tensor([3.0]), torch.tensor([-3.0])
    assert magnitude(chosen, rejected, "centered").item() == 0
    assert magnitude(chosen, rejected, "abs").item() == 36


@given(rewards, rewards)
def test_both_magnitudes_agree_when_the_signs_do(left: float, right: float) -> None:
    chosen, rejected = torch.tensor([abs(left)]), torch.tensor([abs(right)])
    centered = magnitude(chosen, rejected, "centered").item()
    assert magnitude(chosen, rejected, "abs").item() == pytest.approx(centered, rel=1e-5, abs=1e-6)


def test_the_objective_weighs_each_term_by_its_own_count() -> None:
    one = torch.tensor(1.0)
    got = objective(8 * one, 30 * one, 16 * one, pairs=4, lm_tokens=10, lm_weight=0.5, mu=0.25)
    assert got.item() == pytest.approx(8 / 4 + 0.5 * 30 / 10 + 0.25 * 16 / 4)


def test_a_language_model_term_of_weight_zero_cannot_spoil_the_loss() -> None:
    nan = torch.tensor(float("nan"))
    got = objective(torch.tensor(2.0), nan, torch.tensor(0.0), pairs=2, lm_tokens=0, lm_weight=0, mu=0)
    assert got.item() == 1.0


@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1))
def test_the_rate_stays_between_zero_and_its_peak_and_falls_after_the_warmup(
    steps: int, warmup_ratio: float, floor: float
) -> None:
    rates = [learning_rate(step, steps, 2.0, warmup_ratio, floor) for step in range(steps)]
    warmup = round(warmup_ratio * steps)
    assert all(0 < rate <= 2.0 + 1e-12 for rate in rates[:-1])
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)


def test_the_last_step_reaches_the_floor() -> None:
    assert learning_rate(99, 100, 2.0, 0.05, 0.1) == pytest.approx(0.2)


@given(st.lists(st.tuples(rewards, rewards, st.floats(0, 3), st.floats(0, 1)), min_size=1, max_size=6))
def test_every_pair_may_have_a_margin_and_a_doubt_of_its_own(
    pairs: list[tuple[float, float, float, float]],
) -> None:
    chosen, rejected, margin, flipped = map(torch.tensor, zip(*pairs, strict=True))
    got = bradley_terry(chosen, rejected, margin, flipped)
    wanted = [
        -(1 - q) * log_sigma(c - r - m) - q * log_sigma(r + m - c)
        for c, r, m, q in zip(
            *(x.double().tolist() for x in (chosen, rejected, margin, flipped)), strict=True
        )
    ]
    assert got.tolist() == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@given(
    st.lists(st.tuples(ratios, st.booleans()), min_size=1, max_size=8),
    st.floats(0, 20),
    st.floats(0.01, 1),
    weights,
    weights,
)
def test_kto_is_the_weight_less_the_value(
    rows: list[tuple[float, bool]], z0: float, beta: float, right: float, wrong: float
) -> None:
    r, good = zip(*rows, strict=True)
    got = kto(
        torch.tensor(r),
        torch.tensor(good),
        z0,
        beta=beta,
        desirable_weight=right,
        undesirable_weight=wrong,
    )
    wanted = [
        right - right * sigma(beta * (x - z0)) if y else wrong - wrong * sigma(beta * (z0 - x))
        for x, y in rows
    ]
    assert got.tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_kto_pushes_right_ones_up_and_wrong_ones_down_and_hardest_at_the_reference_point() -> None:
    r = torch.tensor([0.0, 2.0, 4.0, 0.0, 2.0, 4.0], requires_grad=True)
    good = torch.tensor([True] * 3 + [False] * 3)
    kto(r, good, 2.0, beta=1.0).sum().backward()
    assert r.grad is not None
    assert bool((r.grad[:3] < 0).all())
    assert bool((r.grad[3:] > 0).all())
    assert r.grad.abs().argmax().item() in (1, 4)


@given(ratios, st.integers(1, 9))
def test_the_reference_point_is_a_mean_that_is_never_negative(total: float, count: int) -> None:
    assert reference_point(total, count) == max(0.0, total / count)
    assert reference_point(total, 0) == 0


@st.composite
def programs(draw: st.DrawFn) -> list[list[tuple[float, int]]]:
    function = st.tuples(ratios, st.sampled_from([-1, 0, 1]))
    return draw(st.lists(st.lists(function, max_size=4), min_size=1, max_size=5))


@given(programs(), st.floats(0, 10), weights, weights)
def test_the_step_term_is_a_mean_over_a_programs_labelled_functions(
    made: list[list[tuple[float, int]]], z0: float, right: float, wrong: float
) -> None:
    flat = [function for program in made for function in program]
    got = step_kto(
        torch.tensor([r for r, _ in flat]),
        torch.tensor([z for _, z in flat], dtype=torch.int64),
        torch.tensor([len(program) for program in made]),
        z0,
        beta=0.5,
        desirable_weight=right,
        undesirable_weight=wrong,
    )
    wanted = []
    for program in made:
        terms = [
            right - right * sigma(0.5 * (r - z0)) if z else wrong - wrong * sigma(0.5 * (z0 - r))
            for r, z in program
            if z >= 0
        ]
        wanted.append(sum(terms) / len(terms) if terms else 0.0)
    assert got.tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_functions_without_a_label_add_nothing_and_get_no_gradient() -> None:
    r = torch.tensor([1.0, float("inf"), -3.0], requires_grad=True)
    got = step_kto(r, torch.tensor([-1, -1, -1]), torch.tensor([2, 1, 0]), 0.5, beta=0.1)
    assert got.tolist() == [0.0, 0.0, 0.0]
    got.sum().backward()
    assert r.grad is not None
    assert r.grad.tolist() == [0.0, 0.0, 0.0]


def test_a_wrong_function_in_a_right_program_is_pushed_down() -> None:
    r = torch.tensor([1.0, 1.0], requires_grad=True)
    step_kto(r, torch.tensor([1, 0]), torch.tensor([2]), 0.0, beta=1.0).sum().backward()
    assert r.grad is not None
    assert r.grad[0] < 0 < r.grad[1]


@given(st.lists(rewards, max_size=12), st.data())
def test_span_sums_are_sums_of_slices(values: list[float], data: st.DataObject) -> None:
    edge = st.integers(0, len(values))
    spans = [sorted(pair) for pair in data.draw(st.lists(st.tuples(edge, edge), max_size=6))]
    got = span_sums(torch.tensor(values), torch.tensor(spans, dtype=torch.int64).reshape(-1, 2))
    assert got.tolist() == pytest.approx([sum(values[a:b]) for a, b in spans], rel=1e-5, abs=1e-4)


def test_an_infinite_value_outside_of_all_spans_does_not_reach_their_sums() -> None:
    values = torch.tensor([1.0, float("-inf"), 2.0], requires_grad=True)
    got = span_sums(values, torch.tensor([[0, 1], [2, 3], [1, 1]]))
    got.sum().backward()
    assert got.tolist() == [1.0, 2.0, 0.0]
    assert values.grad is not None
    assert values.grad.tolist() == [1.0, 0.0, 1.0]


@given(ratios, ratios, st.floats(0.01, 1), st.floats(0, 0.5))
def test_dpo_is_the_likelihood_of_the_label_under_the_implicit_rewards(
    chosen: float, rejected: float, beta: float, flipped: float
) -> None:
    got = dpo(torch.tensor([chosen]), torch.tensor([rejected]), beta=beta, flipped=flipped).item()
    z = beta * (chosen - rejected)
    wanted = -(1 - flipped) * log_sigma(z) - flipped * log_sigma(-z)
    assert got == pytest.approx(wanted, rel=1e-4, abs=1e-5)


# Log-probabilities of two words that leave room for others.
words = st.tuples(st.floats(-30, -0.75, width=32), st.floats(-30, -0.75, width=32))


@given(words, st.booleans(), st.floats(0.1, 8))
def test_yes_no_is_cross_entropy_with_the_words_difference_cooled(
    word: tuple[float, float], resolved: bool, temperature: float
) -> None:
    yes, no = torch.tensor([word[0]]), torch.tensor([word[1]])
    got = yes_no(yes, no, torch.tensor([resolved]), temperature).item()
    either = math.log(math.exp(word[0]) + math.exp(word[1]))
    scaled = [math.exp(value / temperature) for value in word]
    wanted = -either - math.log(scaled[0 if resolved else 1] / sum(scaled))
    assert got == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert torch.sigmoid(log_odds(yes, no, temperature)).item() == pytest.approx(
        scaled[0] / sum(scaled), abs=1e-5
    )


@given(words, st.booleans())
def test_yes_no_at_temperature_one_is_the_loss_of_the_one_token(
    word: tuple[float, float], resolved: bool
) -> None:
    yes, no = torch.tensor([word[0]]), torch.tensor([word[1]])
    got = yes_no(yes, no, torch.tensor([resolved])).item()
    assert got == pytest.approx(-word[0] if resolved else -word[1])
    # As the limit of the general formula.
    assert got == pytest.approx(yes_no(yes, no, torch.tensor([resolved]), 1 + 1e-9).item(), abs=1e-4)


@given(st.lists(st.tuples(rewards, st.booleans()), max_size=7))
def test_ranking_is_a_mean_over_all_pairs_of_a_resolved_and_an_unresolved_candidate(
    candidates: list[tuple[float, bool]],
) -> None:
    scores = torch.tensor([score for score, _ in candidates])
    got = ranking(scores, torch.tensor([good for _, good in candidates], dtype=torch.bool)).item()
    terms = [-log_sigma(a - b) for a, good in candidates if good for b, bad in candidates if not bad]
    assert got == pytest.approx(sum(terms) / len(terms) if terms else 0.0, rel=1e-4, abs=1e-5)


def test_a_task_of_one_outcome_ranks_nothing_and_gets_no_gradient() -> None:
    scores = torch.tensor([1.0, -2.0], requires_grad=True)
    loss = ranking(scores, torch.tensor([True, True]))
    loss.backward()
    assert loss.item() == 0
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.0, 0.0]


@given(rewards, st.floats(0, 1))
def test_classification_and_brier_read_the_score_as_a_logit(score: float, label: float) -> None:
    x, y = torch.tensor([score]), torch.tensor([label])
    wanted = -label * log_sigma(score) - (1 - label) * log_sigma(-score)
    assert classification(x, y).item() == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert brier(x, y).item() == pytest.approx((sigma(score) - label) ** 2, rel=1e-4, abs=1e-6)
    assert regression(x, y, "bce").item() == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@given(rewards, rewards)
def test_regression_is_the_square_or_hubers(score: float, target: float) -> None:
    x, y = torch.tensor([score]), torch.tensor([target])
    gap = abs(score - target)
    assert regression(x, y, "mse").item() == pytest.approx(gap**2, rel=1e-5, abs=1e-6)
    wanted = gap**2 / 2 if gap <= 1 else gap - 0.5
    assert regression(x, y, "huber").item() == pytest.approx(wanted, rel=1e-5, abs=1e-6)


_ON = torch.tensor([True])
_OFF = torch.tensor([False])
EXTREMES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "kto right": lambda x: kto(x, _ON, 0.0, beta=1.0),
    "kto wrong": lambda x: kto(x, _OFF, 0.0, beta=1.0),
    "kto far reference": lambda x: kto(x, _ON, HUGE, beta=1.0),
    "step": lambda x: step_kto(x, torch.tensor([0]), torch.tensor([1]), 0.0, beta=1.0),
    "dpo": lambda x: dpo(x, -x, beta=1.0, flipped=0.1),
    "yes": lambda x: yes_no(-x.abs(), torch.zeros(1), _ON, 0.1),
    "no": lambda x: yes_no(torch.zeros(1), -x.abs(), _OFF, 0.1),
    "both words impossible": lambda x: yes_no(-x.abs(), -x.abs(), _ON, 2.0),
    "log-odds": lambda x: log_odds(x, -x, 0.1),
    "ranking": lambda x: ranking(torch.cat([x, -x]), torch.tensor([True, False])),
    "classification": lambda x: classification(x, _ON),
    "brier": lambda x: brier(x, _OFF),
    "mse": lambda x: regression(x, torch.zeros(1), "mse"),
    "huber": lambda x: regression(x, torch.zeros(1), "huber"),
    "bce": lambda x: regression(x, torch.full((1,), 0.5), "bce"),
    "doubted": lambda x: bradley_terry(x, -x, torch.ones(1), torch.full((1,), 0.3)),
}


@pytest.mark.parametrize("value", [HUGE, -HUGE, 0.0])
@pytest.mark.parametrize("name", list(EXTREMES))
def test_extreme_values_give_finite_losses_and_gradients(name: str, value: float) -> None:
    x = torch.tensor([value], requires_grad=True)
    loss = EXTREMES[name](x)
    loss.sum().backward()
    assert x.grad is not None
    assert bool(torch.isfinite(loss).all())
    assert bool(torch.isfinite(x.grad).all())
