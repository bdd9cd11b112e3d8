"""System prompts: the same bytes wherever they are made, and the shares in which kinds are drawn."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelers.commits import criteria
from labelers.commits.config import BuildConfig
from labelers.commits.criteria import Criterion
from labelers.commits.system_prompts import render_system, system_prompt
from schemas.errors import AssayError

BUILT_IN = criteria.load()
ALL = criteria.load("built-in,examples")
CODES = [one.code for one in ALL]
SEVERAL = BuildConfig(system_none=0.0, system_all=0.0, system_several=1.0)


def named(text: str) -> list[str]:
    """Codes of the criteria in a prompt, in order."""
    places = {text.find(f" {one.name}: {one.question} "): one.code for one in ALL}
    return [places[at] for at in sorted(places) if at >= 0]


@given(st.lists(st.sampled_from(CODES), unique=True))
def test_prompt_names_these_criteria_in_this_order(codes: list[str]) -> None:
    assert named(render_system(codes, ALL)) == codes


@given(st.lists(st.sampled_from(CODES), min_size=1, unique=True), st.randoms())
def test_prompt_of_given_codes_does_not_depend_on_the_list_that_they_are_from(codes: list[str], draw) -> None:  # type: ignore[no-untyped-def]
    some = [one for one in ALL if one.code in codes]
    draw.shuffle(some)
    assert render_system(codes, some) == render_system(codes, ALL)


@pytest.mark.parametrize("config", [BuildConfig(), SEVERAL, BuildConfig(system_none=0.0, system_all=1.0)])
def test_prompts_of_training_are_those_that_an_evaluation_makes(config: BuildConfig) -> None:
    for number in range(60):
        _, text = system_prompt(config, ALL, ALL[number % len(ALL)], 7, str(number))
        assert render_system(named(text), ALL).encode() == text.encode()


def test_no_line_of_a_prompt_ends_with_blanks() -> None:
    odd = Criterion("X", " Odd\tname ", "What \n for?  ", ("one  \n", "\ttwo "))
    for text in (render_system(CODES, ALL), render_system(["X"], [odd]), render_system(["FC"], ALL)):
        assert all(line == line.rstrip() for line in text.split("\n"))
        assert text == text.strip()
        assert "\r" not in text


def test_no_codes_are_no_system_prompt() -> None:
    assert render_system([], ALL) == ""


@pytest.mark.parametrize(
    ("codes", "says"), [(["XX"], "'XX' is not known"), (["FC", "RE", "FC"], "'FC' is named twice")]
)
def test_codes_that_cannot_be_meant_are_refused(codes: list[str], says: str) -> None:
    with pytest.raises(AssayError, match=says):
        render_system(codes, ALL)


def test_prompt_of_several_has_the_pairs_own_among_two_to_five() -> None:
    sizes: Counter[int] = Counter()
    others: Counter[str] = Counter()
    own = next(one for one in ALL if one.code == "EH")
    for number in range(400):
        kind, text = system_prompt(SEVERAL, ALL, own, 0, str(number))
        assert kind == "several"
        assert "EH" in named(text)
        sizes[len(named(text))] += 1
        others.update(named(text))
    assert set(sizes) == {2, 3, 4, 5}
    assert set(others) == set(CODES)


def test_place_of_the_pairs_own_criterion_is_drawn() -> None:
    own = BUILT_IN[2]
    places = {named(system_prompt(SEVERAL, BUILT_IN, own, 0, str(n))[1]).index(own.code) for n in range(200)}
    assert places == {0, 1, 2, 3, 4}


def test_several_of_one_criterion_are_one() -> None:
    assert system_prompt(SEVERAL, BUILT_IN[:1], BUILT_IN[0], 0, "x")[0] == "single"


def test_share_of_several_is_taken_from_the_single_ones() -> None:
    config = BuildConfig(system_several=0.3)
    kinds = Counter(system_prompt(config, BUILT_IN, BUILT_IN[0], 0, str(n))[0] for n in range(4000))
    for kind, share in (("none", 0.15), ("all", 0.20), ("several", 0.30), ("single", 0.35)):
        assert abs(kinds[kind] / 4000 - share) < 0.03


def test_settings_of_several_leave_the_other_pairs_prompts_as_they_were() -> None:
    for number in range(200):
        without = system_prompt(BuildConfig(), BUILT_IN, BUILT_IN[1], 3, str(number))
        with_ = system_prompt(BuildConfig(system_several=0.3), BUILT_IN, BUILT_IN[1], 3, str(number))
        assert with_ == without or (without[0], with_[0]) == ("single", "several")
