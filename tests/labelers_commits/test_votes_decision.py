"""What follows from counts of votes: invariants that hold for any."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelers.commits.config import VoteConfig
from labelers.commits.voting.asking import ORDERS
from labelers.commits.voting.counting import decision, share, verdict
from schemas.records import Review, VoteCount

NUMBERS = st.tuples(*[st.integers(0, 4)] * 4)
COUNTS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4).map(
    lambda judges: [
        VoteCount(
            judge=f"j{n}", criterion="FC", order=order, new=one[0], old=one[1], tie=one[2], error=one[3]
        )
        for n, both in enumerate(judges)
        for order, one in zip(ORDERS, both, strict=True)
    ]
)
CONFIGS = st.builds(
    VoteConfig,
    rule=st.sampled_from(["majority", "threshold"]),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.75, 1.0]),
    every_judge=st.booleans(),
)


def exchanged(counts: list[VoteCount]) -> list[VoteCount]:
    """The same votes, had the old version been the new one."""
    other = dict(zip(ORDERS, reversed(ORDERS), strict=True))
    return [dataclasses.replace(one, new=one.old, old=one.new, order=other[one.order]) for one in counts]


@given(COUNTS)
def test_exchanged_versions_mirror_the_share(counts: list[VoteCount]) -> None:
    if any(one.new + one.old + one.tie for one in counts):
        assert share(exchanged(counts)) == pytest.approx(1 - share(counts))
    else:
        assert share(counts) == share(exchanged(counts)) == 0


@given(COUNTS, CONFIGS)
def test_exchanged_versions_mirror_the_verdict(counts: list[VoteCount], config: VoteConfig) -> None:
    mirrored = {"new": "old", "old": "new"}
    said = verdict(counts, config)
    assert verdict(exchanged(counts), config) == mirrored.get(said, said)


@given(COUNTS, CONFIGS, st.randoms())
def test_no_verdict_depends_on_the_order_of_judges(
    counts: list[VoteCount], config: VoteConfig, draw: object
) -> None:
    shuffled = list(counts)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert verdict(shuffled, config) == verdict(counts, config)
    assert share(shuffled) == share(counts)


@given(COUNTS, CONFIGS)
def test_errors_alone_change_no_verdict(counts: list[VoteCount], config: VoteConfig) -> None:
    more = [dataclasses.replace(one, error=one.error + 3) for one in counts]
    assert verdict(more, config) == verdict(counts, config)


@given(COUNTS, CONFIGS)
def test_the_new_version_wins_only_with_more_votes_and_in_no_order_with_fewer(
    counts: list[VoteCount], config: VoteConfig
) -> None:
    if verdict(counts, config) == "new":
        assert sum(one.new for one in counts) > sum(one.old for one in counts)
        for order in ORDERS:
            mine = [one for one in counts if one.order == order]
            assert sum(one.new for one in mine) >= sum(one.old for one in mine)
        assert share(counts) > 0.5
        if config.rule == "threshold":
            assert share(counts) >= config.threshold - 1e-9


@given(COUNTS, CONFIGS)
def test_asking_every_judge_confirms_nothing_more(counts: list[VoteCount], config: VoteConfig) -> None:
    if verdict(counts, dataclasses.replace(config, every_judge=True)) == "new":
        assert verdict(counts, dataclasses.replace(config, every_judge=False)) == "new"


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_judges_who_go_by_position_alone_decide_nothing(a: int, lost: int, ties: int, error: int) -> None:
    """Votes for A whatever is shown, of which errors cost one order any number."""
    counts = [
        VoteCount(judge="j", criterion="FC", order="old_first", new=0, old=a, tie=ties, error=0),
        VoteCount(judge="j", criterion="FC", order="new_first", new=a + lost, old=0, tie=ties, error=error),
    ]
    for rule in ("majority", "threshold"):
        config = VoteConfig(rule=rule, threshold=0.0)  # type: ignore[arg-type]
        assert verdict(counts, config) not in ("new", "old")


def test_an_order_without_a_vote_gives_no_answer() -> None:
    counts = [
        VoteCount(judge="j", criterion="FC", order="old_first", new=0, old=0, tie=0, error=2),
        VoteCount(judge="j", criterion="FC", order="new_first", new=2, old=0, tie=0, error=0),
    ]
    assert verdict(counts, VoteConfig()) == "no_answer"
    assert share(counts) == 1.0


def test_a_threshold_is_met_by_its_own_share() -> None:
    counts = [
        VoteCount(judge="j", criterion="FC", order=order, new=7, old=3, tie=0, error=0) for order in ORDERS
    ]
    assert verdict(counts, VoteConfig(rule="threshold", threshold=0.7)) == "new"
    assert verdict(counts, VoteConfig(rule="threshold", threshold=0.71)) == "divided"


REVIEWS = st.lists(
    st.one_of(
        st.just((None, None, None)), st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 20))
    ),
    max_size=4,
)


@given(COUNTS, CONFIGS, REVIEWS)
def test_no_review_confirms_what_the_votes_do_not(
    counts: list[VoteCount], config: VoteConfig, given_: list[tuple[int | None, int | None, int | None]]
) -> None:
    reviews = [
        Review(judge="j", strength=one, specificity=two, purposes=three, summary=None)
        for one, two, three in given_
    ]
    said = decision(counts, reviews, config)
    if verdict(counts, config) != "new":
        assert said in ("opposed", "tied", "divided", "no_answer")
    elif said == "confirmed":
        strengths = [one for one, _, _ in given_ if one is not None]
        assert strengths
        assert sum(strengths) / len(strengths) >= config.min_strength
