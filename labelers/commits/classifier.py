"""The classifier that gives edits their criteria: trained heads where there are some, else weighted terms.

In: a row of `edits` (or a piece in its columns) and the criteria of a run. Out: `Scored`, with who scored it.
A criterion that the model has a head for is scored by that head, with a calibrated probability; one that a
user added is scored by its terms (`terms`). Wrong: a folder that holds no classifier is an `AssayError`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from labelers.commits import terms
from labelers.commits.classifying import linear_scorer
from labelers.commits.classifying.model import SINGLE
from labelers.commits.criteria import Criterion
from labelers.commits.terms import VERSION as TERMS_VERSION

TERMS = "terms"
"""Name of the classifier that has no heads."""
TERMS_THRESHOLD = 0.5
ENCODER_FILE = "criteria_encoder.json"


@dataclasses.dataclass(frozen=True)
class Scored:
    """What a classifier says of an edit.

    Attributes:
        scores: probability of each criterion, in the criteria's order.
        terms: what spoke for each criterion: words of the message, names of facts.
        single_intent: probability of a single purpose.
        labeler: kind and digest of the classifier.
        method: `classifier`, or `rule` where no head was asked.
        thresholds: for each criterion the probability from which on it is meant when it is the best.
    """

    scores: dict[str, float]
    terms: dict[str, list[str]]
    single_intent: float
    labeler: str = TERMS_VERSION
    method: str = "rule"
    thresholds: dict[str, float] = dataclasses.field(default_factory=dict)


class Scorer(Protocol):
    """A trained classifier: the linear model, or an encoder."""

    @property
    def version(self) -> str:
        """Kind and digest."""

    @property
    def names(self) -> Mapping[str, str]:
        """Names of the criteria that it has heads for, by code."""

    @property
    def threshold(self) -> float:
        """Probability from which on its best criterion is meant."""

    def score(
        self, edit: Mapping[str, Any], codes: Sequence[str]
    ) -> tuple[dict[str, float], dict[str, list[str]]]:
        """Probabilities of every head and of `SINGLE`, and what spoke for each of `codes`."""


@functools.lru_cache(maxsize=4)
def scorer(classifier: str = "") -> Scorer | None:
    """The trained classifier of a folder; the built-in one for an empty name, None for `terms`.

    Raises:
        AssayError: the folder holds none that can be used.
    """
    if classifier == TERMS:
        return None
    if not classifier:
        return linear_scorer.built_in()
    folder = Path(classifier)
    if (folder / ENCODER_FILE).is_file():
        from labelers.commits.training import encoder

        return encoder.load(folder)
    return linear_scorer.load(folder)


def version(classifier: str = "") -> str:
    """Kind and digest of a classifier, as labels name it.

    Raises:
        AssayError: the folder holds none that can be used.
    """
    found = scorer(classifier)
    return TERMS_VERSION if found is None else found.version


def classify(edit: Mapping[str, Any], criteria: Sequence[Criterion], classifier: str = "") -> Scored:
    """Score an edit (a row of `edits`) under each criterion.

    Raises:
        AssayError: `classifier` names a folder that holds none that can be used.
    """
    trained = scorer(classifier)
    known = {} if trained is None else trained.names
    headed = [one.code for one in criteria if known.get(one.code) == one.name]
    thresholds = {one.code: TERMS_THRESHOLD for one in criteria}
    if trained is None or not headed:
        found = terms.classify(edit, criteria)
        return Scored(found.scores, found.terms, found.single_intent, thresholds=thresholds)
    thresholds.update(dict.fromkeys(headed, trained.threshold))
    chances, spoke = trained.score(edit, headed)
    others = [one for one in criteria if one.code not in headed]
    by_terms = terms.classify(edit, others) if others else None
    scores, reasons = {}, {}
    for one in criteria:
        if by_terms is not None and one.code in by_terms.scores:
            scores[one.code], reasons[one.code] = by_terms.scores[one.code], by_terms.terms[one.code]
        else:
            scores[one.code], reasons[one.code] = chances[one.code], spoke[one.code]
    return Scored(scores, reasons, chances[SINGLE], trained.version, "classifier", thresholds)
