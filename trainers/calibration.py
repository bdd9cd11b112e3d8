"""How far a score can be read as a probability, as pure functions of numpy arrays.

In: logits or probabilities with outcomes of 0 and 1. Out: plain JSON-like values; a statistic of nothing,
or of one class only where it needs two, is None. Scores must be finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainers import ranking
from trainers.metrics import Floats, auc, correlation

BINS = 10
EPSILON = 1e-12
"""Probabilities are kept this far from 0 and 1 where a logarithm of them is taken."""
_SPAN = (1e-4, 1e4)
"""Temperatures that are looked at."""


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)), without overflow."""
    return np.exp(-np.logaddexp(0.0, -logits))


def logit(probabilities: Floats) -> Floats:
    """log(p / (1 - p)), with p kept `EPSILON` from 0 and 1."""
    kept = np.clip(probabilities, EPSILON, 1 - EPSILON)
    return np.log(kept) - np.log1p(-kept)


def brier(probabilities: Floats, outcomes: Floats) -> float | None:
    """Mean of (p - y)^2 (Brier 1950)."""
    return float(np.mean((probabilities - outcomes) ** 2)) if len(outcomes) else None


def nll(logits: Floats, outcomes: Floats) -> float | None:
    """Mean of -y log p - (1-y) log(1-p) with p = sigma(x), which is log(1 + e^x) - y x."""
    return float(np.mean(np.logaddexp(0.0, logits) - outcomes * logits)) if len(outcomes) else None


def reliability(
    probabilities: Floats, outcomes: Floats, bins: int = BINS, adaptive: bool = False
) -> list[dict[str, Any]]:
    """A row a bin that holds anything: `low`, `high`, `count`, mean `confidence` and mean `outcome`.

    Bins are of equal width in [0, 1], the last one closed (Guo et al. 2017, 1706.04599); or, `adaptive`,
    of as equal counts as can be, with equal probabilities kept in one bin (Nguyen & O'Connor 2015).
    """
    if not len(outcomes):
        return []
    if adaptive:
        order = np.argsort(probabilities, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        # All of one probability go where the first of them falls.
        values, inverse = np.unique(probabilities, return_inverse=True)
        first = np.full(len(values), len(order))
        np.minimum.at(first, inverse, place)
        where = first[inverse] * bins // len(order)
    else:
        where = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    rows = []
    for number in np.unique(where):
        held = where == number
        low, high = (
            (float(probabilities[held].min()), float(probabilities[held].max()))
            if adaptive
            else (float(number / bins), float((number + 1) / bins))
        )
        rows.append(
            {
                "low": low,
                "high": high,
                "count": int(held.sum()),
                "confidence": float(probabilities[held].mean()),
                "outcome": float(outcomes[held].mean()),
            }
        )
    return rows


def ece(probabilities: Floats, outcomes: Floats, bins: int = BINS, adaptive: bool = False) -> float | None:
    """Expected calibration error: sum over bins of count/n * |mean outcome - mean p| (1706.04599, eq. 3).

    p is the probability of the outcome 1, not of the more probable class.
    """
    rows = reliability(probabilities, outcomes, bins, adaptive)
    total = sum(row["count"] for row in rows)
    if not total:
        return None
    return float(sum(row["count"] * abs(row["outcome"] - row["confidence"]) for row in rows) / total)


def auc_of(scores: Floats, outcomes: Floats) -> float | None:
    """Chance that a score of outcome 1 is above one of outcome 0, ties half (Mann-Whitney)."""
    return auc(scores[outcomes > 0], scores[outcomes <= 0])


def auc_within(scores: Floats, outcomes: Floats, instances: Sequence[str]) -> tuple[float | None, int]:
    """Mean of `auc_of` over instances that have both outcomes, and how many these are.

    A score that only tells easy instances from hard ones is 0.5 here, however good its global AUC is.
    """
    names = np.asarray(instances, dtype=object)
    _, inverse = np.unique(names.astype(str), return_inverse=True) if len(names) else (None, np.zeros(0))
    order = np.argsort(inverse, kind="stable")
    ends = np.flatnonzero(np.diff(inverse[order])) + 1
    found = [auc_of(scores[part], outcomes[part]) for part in np.split(order, ends) if len(part)]
    defined = [value for value in found if value is not None]
    return (float(np.mean(defined)) if defined else None), len(defined)


def fit_temperature(logits: Floats, outcomes: Floats) -> float | None:
    """The T > 0 for which sigma(x / T) has the least NLL (temperature scaling, 1706.04599, section 4.2).

    With a = 1/T the NLL is convex and its slope, mean((sigma(a x) - y) x), rises with a: its root is
    bisected in log a. Where there is none in between, the nearer end of [1e-4, 1e4] is given: T at the
    upper end says that the scores tell nothing or the wrong way round, at the lower end that they separate
    the outcomes. None without both outcomes.
    """
    if not len(outcomes) or outcomes.min() == outcomes.max() or not np.any(logits):
        return None

    def slope(log_a: float) -> float:
        return float(np.mean((sigmoid(np.exp(log_a) * logits) - outcomes) * logits))

    low, high = -np.log(_SPAN[1]), -np.log(_SPAN[0])
    if slope(low) >= 0:
        return _SPAN[1]
    if slope(high) <= 0:
        return _SPAN[0]
    for _ in range(200):
        middle = (low + high) / 2
        if slope(middle) < 0:
            low = middle
        else:
            high = middle
    return float(np.exp(-(low + high) / 2))


def summary(logits: Floats, outcomes: Floats, instances: Sequence[str], bins: int = BINS) -> dict[str, Any]:
    """Keys: `rows`, `instances`, `positive` (share), `auc`, `auc_instance`, `auc_instances` (instances with
    both outcomes), `ece`, `ece_adaptive`, `brier`, `nll`, `accuracy` at 1/2, `reliability`."""
    probabilities = sigmoid(logits)
    within, counted = auc_within(logits, outcomes, instances)
    right = (probabilities > 0.5) == (outcomes > 0.5)
    return {
        "rows": len(outcomes),
        "instances": len(set(instances)),
        "positive": float(outcomes.mean()) if len(outcomes) else None,
        "auc": auc_of(logits, outcomes),
        "auc_instance": within,
        "auc_instances": counted,
        "ece": ece(probabilities, outcomes, bins),
        "ece_adaptive": ece(probabilities, outcomes, bins, adaptive=True),
        "brier": brier(probabilities, outcomes),
        "nll": nll(logits, outcomes),
        "accuracy": float(np.mean(right)) if len(outcomes) else None,
        "reliability": reliability(probabilities, outcomes, bins),
    }


def drift(old: Floats, new: Floats, bins: int = BINS) -> dict[str, Any]:
    """How two scores of the same rows differ.

    Keys: `rows`, `largest` and `mean` absolute difference, `shift` (mean of new - old), `pearson`,
    `spearman`; of the two distributions, whatever row is whose: `ks` (Kolmogorov-Smirnov statistic, the
    largest distance of the distribution functions) and `psi` (population stability index over deciles of
    the old scores, sum (q - p) ln(q / p) with half a row added to each bin; below 0.1 is commonly read as
    no change, above 0.25 as a large one).
    """
    if not len(old):
        names = ("largest", "mean", "shift", "pearson", "spearman", "ks", "psi")
        return {"rows": 0, **dict.fromkeys(names)}
    gap = new - old
    points = np.unique(np.concatenate([old, new]))
    below = [np.searchsorted(np.sort(side), points, side="right") / len(side) for side in (old, new)]
    edges = np.unique(np.quantile(old, np.linspace(0, 1, bins + 1)[1:-1]))
    counts = [
        np.bincount(np.searchsorted(edges, side), minlength=len(edges) + 1) + 0.5 for side in (old, new)
    ]
    p, q = (count / count.sum() for count in counts)
    return {
        "rows": len(old),
        "largest": float(np.abs(gap).max()),
        "mean": float(np.abs(gap).mean()),
        "shift": float(gap.mean()),
        "pearson": correlation(old, new),
        "spearman": ranking.spearman(old, new),
        "ks": float(np.abs(below[0] - below[1]).max()),
        "psi": float(np.sum((q - p) * np.log(q / p))),
    }
