"""Learning rates: where a schedule begins, what it reaches and where it ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import AssayError
from trainers.config import SCHEDULES
from trainers.schedule import learning_rate

PEAK = 2.0
ratios = st.floats(0, 1)
schedules = st.sampled_from(SCHEDULES)


def rates_of(steps: int, warmup: float, floor: float, schedule: str, decay: float) -> list[float]:
    return [learning_rate(step, steps, PEAK, warmup, floor, schedule, decay) for step in range(steps)]


@given(st.integers(1, 300), ratios, ratios, schedules, ratios)
def test_every_run_reaches_its_peak_rises_before_it_and_falls_after_it(
    steps: int, warmup: float, floor: float, schedule: str, decay: float
) -> None:
    rates = rates_of(steps, warmup, floor, schedule, decay * (1 - warmup))
    assert max(rates) == pytest.approx(PEAK)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)


@given(st.integers(1, 300), ratios, ratios, schedules, ratios)
def test_no_step_but_the_last_one_has_a_rate_of_zero(
    steps: int, warmup: float, floor: float, schedule: str, decay: float
) -> None:
    rates = rates_of(steps, warmup, floor, schedule, decay * (1 - warmup))
    assert all(rate > 0 for rate in rates[:-1])
    assert rates[-1] >= floor * PEAK - 1e-12


@given(st.integers(2, 300), st.floats(0, 0.45), ratios, schedules, st.floats(0.01, 0.5))
def test_the_last_step_is_at_the_floor(
    steps: int, warmup: float, floor: float, schedule: str, decay: float
) -> None:
    if schedule == "wsd" and round(decay * steps) == 0:
        decay = 1 / steps
    if round(warmup * steps) < steps - 1:
        assert rates_of(steps, warmup, floor, schedule, decay)[-1] == pytest.approx(floor * PEAK)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_of_one_step_has_the_peak(schedule: str) -> None:
    for warmup in (0.0, 0.5, 1.0):
        assert learning_rate(0, 1, PEAK, warmup, 0.1, schedule, 1 - warmup) == PEAK


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_first_steps_are_equal_parts_of_the_peak(schedule: str) -> None:
    rates = rates_of(100, 0.04, 0.1, schedule, 0.2)
    assert rates[:5] == pytest.approx([PEAK * n / 5 for n in (1, 2, 3, 4, 5)])


def test_a_cosine_is_half_way_down_in_the_middle() -> None:
    assert learning_rate(50, 101, PEAK, 0.0, 0.1) == pytest.approx(PEAK * 0.55)


def test_a_wsd_schedule_stays_at_its_peak_until_it_falls_as_one_minus_a_root() -> None:
    rates = rates_of(101, 0.1, 0.2, "wsd", 0.4)
    assert rates[10:61] == [PEAK] * 51
    for done in (0.25, 0.5, 1.0):
        wanted = PEAK * (0.2 + 0.8 * (1 - math.sqrt(done)))
        assert rates[60 + round(40 * done)] == pytest.approx(wanted)
    assert rates[61] < PEAK


def test_a_wsd_schedule_without_decay_stays_at_its_peak() -> None:
    assert rates_of(20, 0.1, 0.2, "wsd", 0.0)[2:] == [PEAK] * 18


def test_rise_and_fall_of_more_than_all_steps_are_refused_at_the_first_step() -> None:
    with pytest.raises(AssayError, match=r"train\.decay_ratio: 0\.6 .* at most 1"):
        learning_rate(0, 1000, PEAK, 0.5, 0.1, "wsd", 0.6)
    assert learning_rate(0, 1000, PEAK, 0.5, 0.1, "cosine", 0.6) > 0
    assert learning_rate(999, 1000, PEAK, 0.7, 0.1, "wsd", 0.3) == pytest.approx(0.2)
