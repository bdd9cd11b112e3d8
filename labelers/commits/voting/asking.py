"""What judges are asked about a proposal: votes in both orders, the other criteria, and a review.

In: a `Proposal`. Out: `Request`s, those of `questions` in its order: the same for every proposal and judge.
Wrong: nothing.

The two versions are called A and B, and each question but the review is asked with either one as A. What is
asked for a vote tells nothing of the change but its two sides: no message, no path, no time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from labelers.commits.config import VoteConfig
from labelers.commits.criteria import Criterion
from labelers.commits.proposals import Proposal
from labelers.commits.voting.shown import Shown, shown
from labelers.llm.calls import Message, Request
from labelers.llm.fencing import fence
from labelers.prompts import render, version
from schemas.ids import rng

ORDERS = ("old_first", "new_first")
"""Which version is shown as A."""
CHOICES = ("A", "B", "TIE")
MOST_PURPOSES = 20

_SEEDS = 1 << 31
_MAX_MESSAGE = 4000
# A score from which rules take the new version for the better one.
_SURE = 0.5

VOTE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "choice": {"type": "string", "enum": list(CHOICES)}},
    "required": ["reason", "choice"],
    "additionalProperties": False,
}
_RATING = {"type": "integer", "enum": [1, 2, 3, 4, 5]}
REVIEW_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "purposes": {"type": "integer", "minimum": 0, "maximum": MOST_PURPOSES},
        "strength": _RATING,
        "specificity": _RATING,
    },
    "required": ["summary", "purposes", "strength", "specificity"],
    "additionalProperties": False,
}
# Usual lengths of answers in tokens: of a vote, of one criterion among others, of a review.
_VOTE_TOKENS, _OTHER_TOKENS, _REVIEW_TOKENS = 60, 8, 100


class Question(NamedTuple):
    """One thing that a judge is asked.

    Attributes:
        what: a vote under the proposal's own criterion, one under each other criterion, or a review.
        order: one of `ORDERS`; None for a review.
        sample: number of the vote.
    """

    what: Literal["vote", "others", "review"]
    order: str | None = None
    sample: int = 0


def others_of(proposal: Proposal, criteria: Sequence[Criterion]) -> list[Criterion]:
    """The criteria that are not the proposal's own."""
    return [criterion for criterion in criteria if criterion.code != proposal.criterion]


def questions(criteria: Sequence[Criterion], config: VoteConfig) -> list[Question]:
    """What one judge is asked about one proposal."""
    asked = [Question("vote", order, sample) for order in ORDERS for sample in range(config.samples)]
    if config.others and len(criteria) > 1:
        asked += [Question("others", order) for order in ORDERS]
    return [*asked, Question("review")] if config.review else asked


def templates(criteria: Sequence[Criterion], config: VoteConfig) -> list[str]:
    """The templates that are asked by, with their versions."""
    return [version(name) for name in dict.fromkeys(one.what for one in questions(criteria, config))]


def others_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    """The schema of an answer that has a choice for each criterion, by its code."""
    codes = [criterion.code for criterion in criteria]
    return {
        "type": "object",
        "properties": {code: {"type": "string", "enum": list(CHOICES)} for code in codes},
        "required": codes,
        "additionalProperties": False,
    }


def requests_about(
    proposal: Proposal, criteria: Sequence[Criterion], config: VoteConfig, seed: int
) -> Iterator[Request]:
    """The requests of `questions` about a proposal, in their order."""
    edit = proposal.view.edit
    seen = shown(edit["old_contents"], edit["new_contents"], edit["language"], config.max_tokens_shown)
    own = next(criterion for criterion in criteria if criterion.code == proposal.criterion)
    others = others_of(proposal, criteria)
    asked = questions(criteria, config)
    for what, order in dict.fromkeys((one.what, one.order) for one in asked):
        # Samples have the text in common.
        if what == "vote" and order is not None:
            text = render("vote", criterion=own, **_sides(proposal, seen, order))
            schema, rule, tokens = VOTE_SCHEMA, _vote_rule(proposal, order), _VOTE_TOKENS
        elif what == "others" and order is not None:
            text = render("others", criteria=others, **_sides(proposal, seen, order))
            schema, rule = others_schema(others), _others_rule(proposal, others, order)
            tokens = 4 + _OTHER_TOKENS * len(others)
        else:
            text = _review(proposal, own, seen)
            schema, rule, tokens = REVIEW_SCHEMA, _review_rule(proposal), _REVIEW_TOKENS
        messages = (Message("user", text),)
        for question in asked:
            if (question.what, question.order) == (what, order):
                draw = f"{proposal.id} {own.code} {what} {order} {question.sample}"
                yield Request(
                    messages,
                    temperature=config.temperature if what == "vote" else 0.0,
                    seed=rng(seed, "vote", draw).randrange(_SEEDS),
                    sample=question.sample,
                    schema=schema,
                    rule=rule,
                    kind=version(what),
                    expected_tokens=tokens,
                )


def _sides(proposal: Proposal, seen: Shown, order: str) -> dict[str, Any]:
    """What a template needs to show the versions as A and B."""
    language = proposal.view.edit["language"]
    first, second = (seen.old, seen.new) if order == "old_first" else (seen.new, seen.old)
    return {
        "level": proposal.view.level,
        "language": language,
        "cut": seen.cut,
        "a": fence(first, language),
        "b": fence(second, language),
    }


def _review(proposal: Proposal, own: Criterion, seen: Shown) -> str:
    view = proposal.view
    # A piece has those parts of the message that tell of it.
    message = (view.edit if view.own is None else view.own)["message"]
    language = view.edit["language"]
    return render(
        "review",
        criterion=own,
        level=view.level,
        language=language,
        cut=seen.cut,
        message=fence(message[:_MAX_MESSAGE].strip() or "(nothing)"),
        old=fence(seen.old, language),
        new=fence(seen.new, language),
        diff=fence(seen.diff, "diff"),
    )


def _scores(proposal: Proposal) -> dict[str, float]:
    return {one["criterion"]: float(one["score"]) for one in proposal.label["scores"]}


def _ruled(score: float, order: str) -> str:
    if score < _SURE:
        return "TIE"
    return "B" if order == "old_first" else "A"


def _vote_rule(proposal: Proposal, order: str) -> str:
    choice = _ruled(_scores(proposal).get(proposal.criterion, 0.0), order)
    return json.dumps({"reason": "by the classifier's score", "choice": choice})


def _others_rule(proposal: Proposal, others: Sequence[Criterion], order: str) -> str:
    scores = _scores(proposal)
    return json.dumps({one.code: _ruled(scores.get(one.code, 0.0), order) for one in others})


def _review_rule(proposal: Proposal) -> str:
    single = float(proposal.label["single_intent"])
    score = _scores(proposal).get(proposal.criterion, 0.0)
    return json.dumps(
        {
            "summary": proposal.view.edit["subject"],
            "purposes": 1 if single >= _SURE else 2,
            "strength": _of_five(score),
            "specificity": _of_five(single),
        }
    )


def _of_five(share: float) -> int:
    """A share as a rating of 1 to 5, halves up."""
    return int(1.5 + 4 * min(max(share, 0.0), 1.0))
