"""What becomes of a proposal by its votes and its evidence."""

from __future__ import annotations

from typing import Any

import pytest

from labelers.commits import criteria
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.commits.decide import Decision, decide
from labelers.commits.pieces import View
from labelers.commits.proposals import Proposal, proposals
from labelers.commits.reasons import REASONS

BUILT_IN = criteria.load()
BUILD = BuildConfig()


def edit(**change: Any) -> dict[str, Any]:
    return {"id": "e", "language": "Python", "old_contents": "a\n", "new_contents": "b\n", **change}


def label(criterion: str | None = "FC", confidence: float = 0.8, **scores: float) -> dict[str, Any]:
    given = {"FC": 0.8, "RE": 0.1, "ME": 0.1, "SH": 0.1, "RM": 0.1, **scores}
    return {
        "labeler": "linear-1",
        "method": "classifier",
        "criterion": criterion,
        "confidence": confidence if criterion else 0.0,
        "single_intent": 0.9,
        "scores": [{"criterion": code, "score": score} for code, score in given.items()],
        "terms": [],
    }


def proposal() -> Proposal:
    return Proposal(View(edit(), "file", [], ("a\n", "b\n")), label(), "FC", 0.8)


def votes(decision: str = "confirmed", judge: str = "judge-1", worse: tuple[str, ...] = ()) -> dict[str, Any]:
    counts = [
        {"judge": judge, "criterion": "FC", "order": "old_first", "new": 2, "old": 0, "tie": 0, "error": 0}
    ]
    return {"decision": decision, "criterion": "FC", "share": 0.9, "counts": counts, "worse": list(worse)}


def evidence(veto: str | None = None, **verdicts: str) -> dict[str, Any]:
    bearings = [
        {"criterion": one.code, "verdict": verdicts.get(one.code, "silent"), "by": ["lint"]}
        for one in BUILT_IN
    ]
    return {"bearings": bearings, "veto": veto}


def made(outcome: Decision | tuple[str, str]) -> Decision:
    assert isinstance(outcome, Decision), outcome
    return outcome


def reason(outcome: Decision | tuple[str, str]) -> str:
    assert isinstance(outcome, tuple)
    assert outcome[0] in REASONS["build"]
    assert outcome[0] in REASONS["instruct"]
    return outcome[0]


def test_without_judges_the_labeler_decides() -> None:
    found = made(decide(proposal(), None, None, BUILD, judged=False))
    assert found == Decision("FC", 0.8, "linear-1", "classifier")


def test_judges_take_the_labelers_place() -> None:
    found = made(decide(proposal(), votes(), None, BUILD, judged=True))
    assert found == Decision("FC", 0.9, "judge-1", "model")


def test_rules_in_a_judges_place_are_no_model() -> None:
    assert made(decide(proposal(), votes(judge="rules"), None, BUILD, judged=True)).method == "rule"


def test_where_judges_were_to_speak_silence_is_no_label() -> None:
    assert reason(decide(proposal(), None, None, BUILD, judged=True)) == "not_judged"


@pytest.mark.parametrize(
    "decision",
    ["opposed", "tied", "divided", "weak", "unspecific", "several_purposes", "no_purpose", "no_answer"],
)
def test_every_decision_against_has_a_reason(decision: str) -> None:
    assert reason(decide(proposal(), votes(decision), None, BUILD, judged=True)) == f"judged_{decision}"


def test_a_veto_counts_whatever_judges_say() -> None:
    assert reason(decide(proposal(), votes(), evidence("does not parse"), BUILD, judged=True)) == "vetoed"


def test_measures_against_the_criterion_drop_it_or_are_kept_with_it() -> None:
    against = evidence(FC="disagrees")
    assert reason(decide(proposal(), votes(), against, BUILD, judged=True)) == "evidence_disagrees"
    kept = made(decide(proposal(), votes(), against, BuildConfig(evidence="keep"), judged=True))
    assert kept.trade_offs == ()


def test_another_criterion_that_gets_worse_drops_it_or_is_marked_once() -> None:
    both = (proposal(), votes(worse=("RE",)), evidence(RE="disagrees", ME="disagrees"))
    assert reason(decide(*both, BUILD, judged=True)) == "trade_off"
    assert made(decide(*both, BuildConfig(trade_offs="mark"), judged=True)).trade_offs == ("RE", "ME")


def test_measures_that_agree_change_nothing() -> None:
    agree = evidence(**{one.code: "agrees" for one in BUILT_IN})
    assert decide(proposal(), None, agree, BUILD, judged=False) == decide(
        proposal(), None, None, BUILD, judged=False
    )


def proposed(given: dict[str, Any], min_score: float | None = None) -> list[Proposal] | tuple[str, str]:
    return proposals(edit(), given, (), BUILT_IN, LabelConfig(), BUILD, min_score)


def test_judges_are_asked_about_what_the_labeler_would_not_say() -> None:
    unsure = label(None, FC=0.2, RE=0.3)
    assert proposed(unsure) == ("no_criterion", "no criterion is supported")
    (one,) = proposed(unsure, 0.15)
    assert isinstance(one, Proposal)
    assert (one.criterion, one.score) == ("RE", 0.3)


def test_nothing_is_put_before_judges_below_the_least_score() -> None:
    found = proposed(label(None, FC=0.1), 0.15)
    assert isinstance(found, tuple)
    assert found[0] == "no_criterion"


def test_whether_there_is_one_purpose_is_for_judges_to_say() -> None:
    doubtful = {**label(), "single_intent": 0.2}
    found = proposed(doubtful)
    assert isinstance(found, tuple)
    assert found[0] == "several_purposes"
    assert isinstance(proposed(doubtful, 0.15), list)
