"""The label of an edit by a classifier: every criterion's score, and the best where it is high enough.

In: a row of `edits`, or a piece in its columns. Out: a `Label`. Wrong: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labelers.commits import classifier
from labelers.commits.config import LabelConfig
from labelers.commits.criteria import Criterion
from schemas.records import CriterionScore, Label


def label(edit: Mapping[str, Any], criteria: Sequence[Criterion], config: LabelConfig) -> Label:
    """The label of an edit by the classifier that the settings name.

    Raises:
        AssayError: they name a folder that holds none.
    """
    scored = classifier.classify(edit, criteria, config.classifier)
    best = max(criteria, key=lambda criterion: scored.scores[criterion.code]).code
    supported = scored.scores[best] >= (config.min_score or scored.thresholds[best])
    return Label(
        id=edit["id"],
        labeler=scored.labeler,
        method=scored.method,
        criterion=best if supported else None,
        confidence=scored.scores[best] if supported else 0.0,
        single_intent=scored.single_intent,
        scores=[CriterionScore(criterion=code, score=score) for code, score in scored.scores.items()],
        terms=scored.terms[best] if supported else [],
    )
