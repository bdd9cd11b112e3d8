"""Views of made edits, for the tests of evidence."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from labelers.commits import criteria
from labelers.commits.config import EvidenceConfig
from labelers.commits.evidence import Measurer
from labelers.commits.pieces import View
from labelers.commits.proposals import Proposal
from schemas.records import Evidence

CRITERIA = criteria.load()
STILL = EvidenceConfig(run=False)


def proposal(old: str, new: str, language: str = "Python", path: str = "a.x", **more: Any) -> Proposal:
    """A proposal of whole files."""
    one, other = old.split("\n"), new.split("\n")
    hunks = [
        {"old_start": i + (j > i), "old_lines": j - i, "new_start": k + (m > k), "new_lines": m - k}
        for tag, i, j, k, m in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    edit = {
        "id": "e1",
        "language": language,
        "path": path,
        "old_contents": old,
        "new_contents": new,
        "hunks": hunks,
        "companions": [],
        **more,
    }
    return Proposal(View(edit, "file", [], (old, new)), {}, "FC", 1.0)


def evidence(
    old: str, new: str, language: str = "Python", config: EvidenceConfig = STILL, **more: Any
) -> Evidence:
    """What a fresh measurer says."""
    with Measurer(config, CRITERIA, 0) as measurer:
        return measurer.measure(proposal(old, new, language, **more))


def values(found: Evidence) -> dict[str, tuple[float | None, float | None]]:
    """Measures by name: (old, new)."""
    return {one.name: (one.old, one.new) for one in found.measures}


def verdicts(found: Evidence) -> dict[str, str]:
    """Verdicts by criterion."""
    return {one.criterion: one.verdict for one in found.bearings}


def by(found: Evidence, criterion: str) -> list[str]:
    """The measures that speak about a criterion."""
    return next(one.by for one in found.bearings if one.criterion == criterion)


def row(found: Evidence) -> dict[str, Any]:
    """The row of the table."""
    return dataclasses.asdict(found)
