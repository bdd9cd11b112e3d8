"""What follows from judges' answers: counts of votes, reviews, and the decision.

In: the replies of each judge to its questions. Out: a row of `votes`. Wrong: nothing; an answer that cannot
be used counts as an error of its sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from labelers.commits.config import VoteConfig
from labelers.commits.criteria import Criterion
from labelers.commits.proposals import Proposal
from labelers.commits.voting.asking import ORDERS, Question, others_of, questions, templates
from labelers.llm.calls import Reply
from schemas.records import Review, VoteCount, Votes

_MAX_SUMMARY = 500

Verdict = Literal["new", "old", "tied", "divided", "no_answer"]


def votes_of(
    proposal: Proposal,
    criteria: Sequence[Criterion],
    config: VoteConfig,
    answers: Sequence[tuple[str, Sequence[Reply]]],
) -> Votes:
    """The row of a proposal.

    Args:
        answers: each judge's name with its replies, in the order of `questions`.
    """
    counts: list[VoteCount] = []
    reviews: list[Review] = []
    asked = questions(criteria, config)
    for judge, replies in answers:
        given = list(zip(asked, replies, strict=True))
        counts += _counts(judge, proposal, criteria, given)
        reviews += [_review(judge, reply) for question, reply in given if question.what == "review"]
    own = [one for one in counts if one.criterion == proposal.criterion]
    other = [one.code for one in others_of(proposal, criteria)]
    preferred = {code: _preferred([one for one in counts if one.criterion == code]) for code in other}
    every = [reply for _, replies in answers for reply in replies]
    return Votes(
        id=proposal.id,
        edit_id=proposal.view.edit["id"],
        piece=proposal.view.piece,
        criterion=proposal.criterion,
        decision=decision(own, reviews, config),
        share=share(own),
        strength=_mean([one.strength for one in reviews]),
        specificity=_mean([one.specificity for one in reviews]),
        counts=counts,
        reviews=reviews,
        better=[code for code in other if preferred[code] == "new"],
        worse=[code for code in other if preferred[code] == "old"],
        prompts=templates(criteria, config),
        calls=sum(reply.error is None for reply in every),
    )


def _counts(
    judge: str,
    proposal: Proposal,
    criteria: Sequence[Criterion],
    given: Sequence[tuple[Question, Reply]],
) -> list[VoteCount]:
    """One entry an order for the proposal's own criterion, then for each other one that was asked about."""
    found: list[VoteCount] = []
    for code in (proposal.criterion, *(one.code for one in others_of(proposal, criteria))):
        what = "vote" if code == proposal.criterion else "others"
        key = "choice" if what == "vote" else code
        for order in ORDERS:
            said = [
                None if reply.error is not None else reply.parsed[key]
                for question, reply in given
                if (question.what, question.order) == (what, order)
            ]
            if said:
                new, old = ("B", "A") if order == "old_first" else ("A", "B")
                found.append(
                    VoteCount(
                        judge=judge,
                        criterion=code,
                        order=order,
                        new=said.count(new),
                        old=said.count(old),
                        tie=said.count("TIE"),
                        error=said.count(None),
                    )
                )
    return found


def _review(judge: str, reply: Reply) -> Review:
    if reply.error is not None:
        return Review(judge=judge, strength=None, specificity=None, purposes=None, summary=None)
    parsed = reply.parsed
    # What a model wrote may hold anything, half characters too, which no table takes.
    text = "".join(c if c.isprintable() else " " for c in parsed["summary"][: 4 * _MAX_SUMMARY])
    return Review(
        judge=judge,
        strength=int(parsed["strength"]),
        specificity=int(parsed["specificity"]),
        purposes=int(parsed["purposes"]),
        summary=" ".join(text.split())[:_MAX_SUMMARY],
    )


def _mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _preferred(counts: Sequence[VoteCount]) -> str | None:
    """`new` or `old` where more than half of the judges who answered in both orders prefer that version in
    both; else None."""
    said = []
    for judge in dict.fromkeys(one.judge for one in counts):
        mine = [one for one in counts if one.judge == judge]
        if len(mine) == len(ORDERS) and all(one.new + one.old + one.tie for one in mine):
            sides = {"new" if one.new else "old" if one.old else "tie" for one in mine}
            said.append(sides.pop() if len(sides) == 1 else "tie")
    return next((side for side in ("new", "old") if 2 * said.count(side) > len(said)), None)


@dataclasses.dataclass(frozen=True)
class _Total:
    new: int
    old: int
    tie: int

    @property
    def usable(self) -> int:
        return self.new + self.old + self.tie

    def swapped(self) -> _Total:
        return _Total(self.old, self.new, self.tie)


def _total(counts: Sequence[VoteCount]) -> _Total:
    return _Total(
        sum(one.new for one in counts), sum(one.old for one in counts), sum(one.tie for one in counts)
    )


def share(counts: Sequence[VoteCount]) -> float:
    """Share of the votes that are for the new version, a tie being half a vote; 0 without votes."""
    total = _total(counts)
    return (total.new + total.tie / 2) / total.usable if total.usable else 0.0


def verdict(counts: Sequence[VoteCount], config: VoteConfig) -> Verdict:
    """What votes under one criterion say.

    `new`: under `majority` more votes are for the new version than for the old one and ties together; under
    `threshold` its share, ties counted half, is at least `threshold`, and more votes are for it than for the
    old one, however low the threshold. In neither order are more votes for the old version: judges who say
    "A" whatever they see decide nothing, also where errors left more votes in one order. With `every_judge`
    all of this holds for the votes of each judge as well.
    `old`: the same with the versions exchanged.
    `no_answer`: in one of the orders there is no usable vote; with `every_judge`, none of some judge.
    Else `tied` when at least half of the votes are ties, or `divided`.
    """
    groups = [list(counts)]
    if config.every_judge:
        groups += [
            [one for one in counts if one.judge == judge]
            for judge in dict.fromkeys(one.judge for one in counts)
        ]
    totals = [[_total([one for one in group if one.order == order]) for order in ORDERS] for group in groups]
    if not all(total.usable for orders in totals for total in orders):
        return "no_answer"
    if all(_is_for(orders, config) for orders in totals):
        return "new"
    if all(_is_for([total.swapped() for total in orders], config) for orders in totals):
        return "old"
    total = _total(counts)
    return "tied" if 2 * total.tie >= total.usable else "divided"


def _is_for(orders: Sequence[_Total], config: VoteConfig) -> bool:
    """Whether votes in both orders are for the new version."""
    new, old = sum(one.new for one in orders), sum(one.old for one in orders)
    tie = sum(one.tie for one in orders)
    if new <= old or any(one.old > one.new for one in orders):
        return False
    if config.rule == "majority":
        return new > old + tie
    # Shares are quotients of whole numbers: a threshold such as 0.7 must not fail by its last bit.
    return new + tie / 2 >= config.threshold * (new + old + tie) - 1e-9


def decision(counts: Sequence[VoteCount], reviews: Sequence[Review], config: VoteConfig) -> str:
    """The decision about a change, from the votes under its own criterion and the reviews.

    The first that holds of:

    * the votes' `verdict`, where it is not for the new version: `no_answer`, `opposed`, `tied`, `divided`;
    * with `review`, no judge gave a usable one: `no_answer`;
    * more than half of the reviews see no purpose: `no_purpose`;
    * more than half see several, and `several` is `drop`: `several_purposes`;
    * the mean strength is below `min_strength`: `weak`;
    * the mean specificity is below `min_specificity`: `unspecific`;
    * `confirmed`.
    """
    said = verdict(counts, config)
    if said != "new":
        return "opposed" if said == "old" else said
    if not config.review:
        return "confirmed"
    strength = _mean([one.strength for one in reviews])
    specificity = _mean([one.specificity for one in reviews])
    if strength is None or specificity is None:
        return "no_answer"
    purposes = [one.purposes for one in reviews if one.purposes is not None]
    if 2 * purposes.count(0) > len(purposes):
        return "no_purpose"
    if config.several == "drop" and 2 * sum(number > 1 for number in purposes) > len(purposes):
        return "several_purposes"
    if strength < config.min_strength:
        return "weak"
    return "confirmed" if specificity >= config.min_specificity else "unspecific"
