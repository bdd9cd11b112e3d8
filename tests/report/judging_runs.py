"""Rows of what judges, measures and writers leave, and of pairs that no commit made, for reports' tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report_runs import pair

from schemas.records import (
    Bearing,
    Evidence,
    Excerpt,
    ImportedPair,
    Instruction,
    Measure,
    PreferencePair,
    Review,
    SyntheticPair,
    VoteCount,
    Votes,
)
from schemas.stage import Output

EVIDENCE, VOTES, INSTRUCTIONS = Output("evidence"), Output("votes"), Output("instructions")
SYNTHETIC, PREFERENCES = Output("synthetic", "train"), Output("preferences", "train")


def synthetic(number: int = 0, **changed: Any) -> PreferencePair:
    """A pair with a planted fault: no repository stands behind it."""
    made = {"edit_id": None, "single_intent": None, "subject": None, "made_by": "operator:off_by_one 1"}
    made |= {"method": "execution", "detail": "line 3: < to <=", **changed.pop("evidence", {})}
    whence = {"repo": None, "commit": None, "path": None, "license": None, "source": "planted"}
    return pair(number, record=SyntheticPair, evidence=made, **{**whence, **changed})


def imported(number: int = 0, **changed: Any) -> PreferencePair:
    """A pair of a published set."""
    made = {"edit_id": None, "single_intent": None, "subject": None, "method": "published"}
    made |= {"detail": "row 7", "level": "answer", **changed.pop("evidence", {})}
    whence = {"repo": None, "commit": None, "path": None, "license": None, "source": "set/a"}
    return pair(number, record=ImportedPair, evidence=made, **{**whence, **changed})


def measure(name: str = "complexity", old: float | None = 4.0, new: float | None = 3.0) -> Measure:
    return Measure(name=name, old=old, new=new, tool="lizard 1")


def bearing(criterion: str = "FC", verdict: str = "agrees", by: Sequence[str] = ("complexity",)) -> Bearing:
    return Bearing(criterion=criterion, verdict=verdict, by=list(by))


def evidence(number: int = 0, **changed: Any) -> Evidence:
    """What was measured of a view of edit `e<number>`."""
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "edit_id": f"e{number}",
        "piece": None,
        "measures": [measure()],
        "bearings": [bearing(), bearing("RE", "silent", ())],
        "veto": None,
        "notes": [],
    }
    return Evidence(**{**values, **changed})


def ballots(
    judge: str = "j",
    criterion: str = "FC",
    former: Sequence[int] = (2, 0, 0, 0),
    latter: Sequence[int] = (2, 0, 0, 0),
) -> list[VoteCount]:
    """Votes (new, old, tie, error) of a judge with the old version shown first, and with the new one."""
    return [
        VoteCount(judge=judge, criterion=criterion, order=order, new=a, old=b, tie=c, error=d)
        for order, (a, b, c, d) in (("old_first", former), ("new_first", latter))
    ]


def review(
    judge: str = "j", strength: int | None = 4, specificity: int | None = 5, purposes: int | None = 1
) -> Review:
    return Review(
        judge=judge, strength=strength, specificity=specificity, purposes=purposes, summary="It mends x."
    )


def votes(number: int = 0, **changed: Any) -> Votes:
    """What judges said of a view of edit `e<number>`."""
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "edit_id": f"e{number}",
        "piece": None,
        "criterion": "FC",
        "decision": "confirmed",
        "share": 1.0,
        "strength": 4.0,
        "specificity": 5.0,
        "counts": [*ballots(), *ballots("k")],
        "reviews": [review(), review("k")],
        "better": [],
        "worse": [],
        "prompts": ["vote 1", "review 1"],
        "calls": 10,
    }
    return Votes(**{**values, **changed})


def instruction(number: int = 0, **changed: Any) -> Instruction:
    values: dict[str, Any] = {
        "id": f"{number:032x}",
        "edit_id": f"e{number}",
        "piece": None,
        "text": "Make x two.",
        "kind": "inverse",
        "style": "terse",
        "by": "m",
        "prompt_version": "inverse 1",
        "spoken": "en",
        "attempts": 1,
        "refused": [],
    }
    return Instruction(**{**values, **changed})


def excerpt(number: int = 0, piece: int = 0, old: str = "x = 1\n", new: str = "x = 2\n") -> Excerpt:
    """A piece of edit `e<number>`."""
    return Excerpt(
        id=f"x{number}-{piece}",
        edit_id=f"e{number}",
        piece=piece,
        pieces=2,
        names=["f"],
        old_contents=old,
        new_contents=new,
        hunks=[],
        tokens=3,
        file_tokens=3,
        parses=True,
    )
