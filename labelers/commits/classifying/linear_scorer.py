"""The linear model as a scorer of edits, with its reasons in words that a person understands.

In: a row of `edits`. Out: probabilities, and for each criterion what spoke for it: words of the message as
they stand there, names of facts such as `only comments changed`, changed words such as `+ free`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelers.commits import criteria, terms
from labelers.commits.classifying import message, model
from labelers.commits.classifying.features import features_of
from labelers.commits.classifying.model import SINGLE, LinearModel
from labelers.commits.classifying.rules import RULES

MOST_REASONS = 6
THREE_ACTIONS = 0.5
LISTED = 0.3
"""Most that the probability of one purpose is when a subject lists three actions: too few edits do for a
model to learn it."""
_QUIET = (
    *(
        "in the code itself",
        "language ",
        "lines ",
        "tokens added",
        "tokens removed",
        "hunks",
        "length of ",
        "a short subject",
    ),
    *(
        "a scope before",
        "no comments changed",
        "comment words ",
        "mostly ",
        "one line changed",
        "a large change",
    ),
    *("names an issue", "items in the body", "actions in the body", "purposes listed", "an action in a list"),
    *("FC rule: strong terms", "RE rule: strong terms", "ME rule: strong terms", "SH rule: strong terms"),
    "RM rule: strong terms",
)
"""Features that say how large or how ordinary an edit is: they count, but no person would name them."""

_FOR = frozenset((rule.code, rule.name) for rule in RULES if not rule.against)


@dataclasses.dataclass(frozen=True)
class LinearScorer:
    """A `Scorer` around a linear model."""

    model: LinearModel

    @property
    def version(self) -> str:
        """Kind and digest."""
        return self.model.version

    @property
    def names(self) -> Mapping[str, str]:
        """Names of the criteria that it has heads for, by code."""
        return self.model.names

    @property
    def threshold(self) -> float:
        """Probability from which on its best criterion is meant."""
        return self.model.threshold

    def score(
        self, edit: Mapping[str, Any], codes: Sequence[str]
    ) -> tuple[dict[str, float], dict[str, list[str]]]:
        """Probabilities of every head, and what spoke for each of `codes`."""
        found = features_of(edit)
        subject, body = message.split(edit)
        said = {"subject": message.spelled(subject), "body": message.spelled(body)}
        reasons = {}
        for code in codes:
            spoke: list[str] = []
            for name in self.model.reasons(found, code, 3 * MOST_REASONS):
                spoke += _worded(name, code, said, subject, body)
            reasons[code] = list(dict.fromkeys(spoke))[:MOST_REASONS]
        chances = self.model.scores(found)
        if found.get("several actions in the subject", 0) > THREE_ACTIONS:
            chances[SINGLE] = min(chances[SINGLE], LISTED)
        return chances, reasons


def _worded(
    name: str, head: str, said: Mapping[str, Mapping[str, str]], subject: str, body: str
) -> list[str]:
    """What a feature stands for in this edit; nothing where it says nothing to a person."""
    if name.startswith(_QUIET):
        return []
    kind, mark, rest = name.partition(": ")
    if " terms, " in name:
        code = name[:2]
        own = next((one for one in criteria.load() if one.code == code), None)
        if own is None or code != head or "against" in name:
            return []
        chosen = own.strong if "strong" in name else own.weak
        return terms.hits(chosen, body if "in the body" in name else subject)
    if kind.endswith(" rule"):
        return [rest] if (kind[:2], rest) in _FOR and kind[:2] == head else []
    if kind in ("subject", "first"):
        return [" ".join(said["subject"].get(word, word) for word in rest.split(" "))]
    if kind == "body":
        return [said["body"].get(rest, rest)]
    if name[:2] in ("+ ", "- ") and not name[2:].replace("_", "").isalnum():
        return []
    if mark and kind in ("scope", "named"):
        return [said["subject"].get(rest, rest)]
    return [name]


@functools.lru_cache(maxsize=1)
def built_in() -> LinearScorer:
    """The classifier that ships with assay."""
    return LinearScorer(model.built_in())


def load(folder: Path) -> LinearScorer:
    """The classifier of a folder that `train criteria --backend linear` made.

    Raises:
        AssayError: there is none, or it cannot be used.
    """
    return LinearScorer(model.load(folder))
