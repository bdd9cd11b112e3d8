"""Proposals to vote on, and judges that see what a request says: scripts of the loopback server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from loopback_llm import Action, last, says

from labelers.commits import criteria as criteria_module
from labelers.commits.pieces import View
from labelers.commits.proposals import Proposal
from schemas.ids import content_id

BUILT_IN = criteria_module.load()
CODES = [criterion.code for criterion in BUILT_IN]
SECRET = "Zanzibar the reason that the author gives"


def proposal(
    old: str, new: str, criterion: str = "FC", score: float = 0.7, single: float = 0.9, **changed: Any
) -> Proposal:
    """A proposal of whole files."""
    edit = {
        "id": content_id(old, new),
        "repo": "owner/project",
        "commit": "deadbeef" * 5,
        "path": "src/hidden_path.py",
        "language": "Python",
        "old_contents": old,
        "new_contents": new,
        "subject": SECRET,
        "message": f"{SECRET}\n",
        **changed,
    }
    scores = [{"criterion": code, "score": score if code == criterion else 0.1} for code in CODES]
    label = {"scores": scores, "single_intent": single, "criterion": criterion, "confidence": score}
    return Proposal(View(edit, "file", [], (old, new)), label, criterion, score)


def many(number: int) -> list[Proposal]:
    """Proposals whose new version is the one that a good judge takes: it says `good`."""
    return [
        proposal(f"def f{n}(x):\n    return bad(x, {n})\n", f"def f{n}(x):\n    return good(x, {n})\n")
        for n in range(number)
    ]


def kind_of(asked: dict[str, Any]) -> str:
    """`vote`, `others`, `review`, by what the prompt asks for; or `repair`."""
    if len(asked["messages"]) > 1:
        return "repair"
    text = last(asked)
    for kind, mark in (
        ("vote", "under one criterion, and"),
        ("others", "each of several"),
        ("review", "Review"),
    ):
        if mark in text.partition("\n")[0]:
            return kind
    raise AssertionError(text)


def sides(asked: dict[str, Any]) -> tuple[str, str]:
    """The versions A and B of a vote or of others."""
    text = asked["messages"][0]["content"]
    found = []
    for name in ("Version A:\n", "Version B:\n"):
        text = text[text.index(name) + len(name) :]
        marks = re.match("`+", text)
        assert marks is not None
        body = text[text.index("\n") + 1 :]
        end = body.index(marks[0])
        found.append(body[:end])
        text = body[end:]
    return found[0], found[1]


def choice(asked: dict[str, Any], better: Callable[[str, str], str], under: str | None = None) -> Action:
    """The vote of a judge who compares two texts: `better(a, b)` is A, B or TIE."""
    return says(json.dumps({"reason": "by its nature", "choice": better(*sides(asked))}))


def good(a: str, b: str) -> str:
    """The version that says `good`."""
    if ("good" in a) == ("good" in b):
        return "TIE"
    return "A" if "good" in a else "B"


def first(a: str, b: str) -> str:
    """A, whatever it sees."""
    return "A"


def longer(a: str, b: str) -> str:
    """The longer version."""
    return "TIE" if len(a) == len(b) else "A" if len(a) > len(b) else "B"


def swapped(better: Callable[[str, str], str]) -> Callable[[str, str], str]:
    """A judge of the opposite mind."""
    return lambda a, b: {"A": "B", "B": "A", "TIE": "TIE"}[better(a, b)]


REVIEW = {"summary": "Calls good.", "purposes": 1, "strength": 4, "specificity": 5}


def judge(
    better: Callable[[str, str], str] = good,
    review: dict[str, Any] | None = None,
    others: Callable[[str, str], dict[str, str]] | None = None,
    codes: Sequence[str] = CODES,
    own: str = "FC",
) -> Callable[[dict[str, Any]], Action]:
    """A script that answers all that is asked."""

    def script(asked: dict[str, Any]) -> Action:
        kind = kind_of(asked)
        if kind == "vote":
            return choice(asked, better)
        if kind == "others":
            found = dict.fromkeys((code for code in codes if code != own), "TIE")
            return says(json.dumps({**found, **(others(*sides(asked)) if others else {})}))
        return says(json.dumps(review or REVIEW))

    return script
