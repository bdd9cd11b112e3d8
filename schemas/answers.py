"""What a pair rests on that comes from no commit: whole answers to a prompt, made or published.

In: who gave the label and how. Out: a `PairEvidence` in which everything about edits, measures and votes is
empty. Wrong: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.records import Measure, PairEvidence


def evidence_of_answers(
    *,
    labeler: str,
    method: str,
    confidence: float,
    instruction_by: str,
    system_kind: str,
    measures: Iterable[Measure] = (),
    made_by: str | None = None,
    detail: str | None = None,
) -> PairEvidence:
    """The evidence of a pair of answers; arguments are the columns of that name."""
    return PairEvidence(
        edit_id=None,
        labeler=labeler,
        method=method,
        confidence=confidence,
        single_intent=None,
        scores=[],
        terms=[],
        subject=None,
        merged_by=None,
        instruction_by=instruction_by,
        instruction_kind="given",
        instruction_style=None,
        system_kind=system_kind,
        level="answer",
        names=[],
        measures=list(measures),
        bearings=[],
        share=None,
        strength=None,
        specificity=None,
        votes=[],
        trade_offs=[],
        made_by=made_by,
        detail=detail,
    )
