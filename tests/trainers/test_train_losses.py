"""The loss terms and the schedule against their formulas written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainers.losses import bradley_terry, magnitude, objective, token_nll
from trainers.schedule import learning_rate

rewards = st.floats(-20, 20, width=32)


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
    torch.testing.assert_close(
        magnitude(chosen, rejected, "abs"), magnitude(chosen, rejected, "centered"), rtol=1e-5, atol=1e-6
    )


def test_token_nll_of_uniform_logits_is_the_log_of_the_vocabulary_per_token() -> None:
    assert token_nll(torch.zeros(5, 7), torch.arange(5)).item() == pytest.approx(5 * math.log(7), rel=1e-6)


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
