"""Weak labels: many rules of thumb weighed against each other without a key.

In: the votes of `classifying.rules`. Out: for each edit and criterion the probability that the edit improves
it. How often each rule is right is estimated from how the rules agree, and from annotated rows where there
are some, by expectation maximisation with two classes and rules that are independent given the class
(Dawid and Skene, 1979).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from labelers.commits.classifying.rules import CODES, RULES

_PRIOR = {"FC": 0.30, "RE": 0.05, "ME": 0.03, "SH": 0.04, "RM": 0.35}
"""Shares of the criteria to begin with; estimated anew where rows are annotated."""
_STEPS = 12
_STRENGTH = 40.0
"""How many votes the first guess of a rule's accuracy is worth."""


def combine(
    cast: NDArray[np.int8], known: Mapping[int, Mapping[str, bool]] | None = None
) -> tuple[NDArray[np.float64], dict[str, dict[str, float]]]:
    """Probabilities (rows x criteria) from votes (rows x rules), and for each rule how often it is right.

    `known` tells for some rows what is so: row number to criterion to whether the row improves it. These rows
    fix the shares of the criteria and count ten times in the accuracies.
    """
    known = known or {}
    result = np.zeros((len(cast), len(CODES)))
    accuracy: dict[str, dict[str, float]] = {}
    rows = np.array(sorted(known), dtype=np.int64)
    weight = np.ones(len(cast))
    weight[rows] = 10.0
    for column, code in enumerate(CODES):
        columns = [number for number, rule in enumerate(RULES) if rule.code == code]
        voted = (cast[:, columns] != 0).astype(np.float64)
        # Probability that the rule votes, given that the criterion holds and that it does not.
        rate = np.clip((weight @ voted) / weight.sum(), 1e-4, 1 - 1e-4)
        truth = np.array([known[row][code] for row in rows], dtype=np.float64)
        share = min(max(float(truth.mean()), 0.01), 0.99) if len(rows) >= 50 else _PRIOR[code]
        trust = np.array([1 - RULES[n].trust if RULES[n].against else RULES[n].trust for n in columns])
        guess = np.stack(
            [np.clip(rate * (1 - trust) / (1 - share), 1e-4, 0.98), np.clip(rate * trust / share, 1e-4, 0.98)]
        )
        given = guess.copy()
        chance = np.full(len(cast), share)
        for _ in range(_STEPS):
            odds = np.log(share / (1 - share)) + voted @ (np.log(given[1]) - np.log(given[0]))
            # What a rule does not say is no evidence: silence is how most rules meet most edits.
            chance = 1 / (1 + np.exp(-np.clip(odds, -12, 12)))
            chance[rows] = truth
            for side, mass in ((0, weight * (1 - chance)), (1, weight * chance)):
                given[side] = np.clip(
                    (mass @ voted + _STRENGTH * guess[side]) / (mass.sum() + _STRENGTH), 1e-4, 0.98
                )
        result[:, column] = chance
        for place, number in enumerate(columns):
            right = given[1, place] * share / (given[1, place] * share + given[0, place] * (1 - share))
            rule = RULES[number]
            accuracy.setdefault(code, {})[rule.name] = round(float(1 - right if rule.against else right), 3)
    return result, accuracy
