"""How far a score can be read as a probability, as pure functions of numpy arrays.

In: logits or probabilities with outcomes of 0 and 1. Out: plain JSON-like values; a statistic of nothing,
or of one class only where it needs two, is None. Scores must be finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers import bootstrap, ranking
from trainers.metrics import Floats, auc, correlation

BINS = 10
EPSILON = 1e-12
"""Probabilities are kept this far from 0 and 1 where a logarithm of them is taken."""
_SPAN = (1e-4, 1e4)
"""Temperatures that are looked at."""
_FITS = 200
"""Temperatures that are fitted for an interval; each takes some dozens of sums over all rows."""


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


def bins_of(probabilities: Floats, bins: int = BINS, adaptive: bool = False) -> NDArray[np.int64]:
    """The bin of each probability.

    Bins are of equal width in [0, 1], the last one closed (Guo et al. 2017, 1706.04599); or, `adaptive`,
    of as equal counts as can be, with equal probabilities kept in one bin (Nguyen & O'Connor 2015).
    """
    if not adaptive:
        return np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    size = len(probabilities)
    order = np.argsort(probabilities, kind="stable")
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    # All of one probability go where the first of them falls.
    values, inverse = np.unique(probabilities, return_inverse=True)
    first = np.full(len(values), size)
    np.minimum.at(first, inverse, place)
    found: NDArray[np.int64] = first[inverse] * bins // max(size, 1)
    return found


def reliability(
    probabilities: Floats, outcomes: Floats, bins: int = BINS, adaptive: bool = False
) -> list[dict[str, Any]]:
    """A row a bin of `bins_of` that holds anything: `low`, `high`, `count`, mean `confidence` and mean
    `outcome`."""
    where = bins_of(probabilities, bins, adaptive)
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
    if not len(outcomes):
        return None
    return _weighted_ece(
        np.ones(len(outcomes)), bins_of(probabilities, bins, adaptive), outcomes - probabilities
    )


def _weighted_ece(weights: Floats, where: NDArray[np.int64], gaps: Floats) -> float:
    """The error of weighted rows: of a bin, count times gap of means is the sum of gaps."""
    return float(np.abs(np.bincount(where, weights * gaps)).sum() / weights.sum())


def auc_of(scores: Floats, outcomes: Floats) -> float | None:
    """Chance that a score of outcome 1 is above one of outcome 0, ties half (Mann-Whitney)."""
    return auc(scores[outcomes > 0], scores[outcomes <= 0])


def auc_within(scores: Floats, outcomes: Floats, instances: Sequence[str]) -> tuple[float | None, int]:
    """Mean of `auc_of` over instances that have both outcomes, and how many these are.

    A score that only tells easy instances from hard ones is 0.5 here, however good its global AUC is.
    """
    defined = _instance_aucs(scores, outcomes, instances)
    return (float(np.mean(defined)) if defined else None), len(defined)


def _instance_aucs(scores: Floats, outcomes: Floats, instances: Sequence[str]) -> list[float]:
    numbers = bootstrap.clusters_of(instances)
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    found = [auc_of(scores[part], outcomes[part]) for part in np.split(order, ends) if len(part)]
    return [value for value in found if value is not None]


def fit_temperature(logits: Floats, outcomes: Floats, weights: Floats | None = None) -> float | None:
    """The T > 0 for which sigma(x / T) has the least NLL (temperature scaling, 1706.04599, section 4.2).

    With a = 1/T the NLL is convex and its slope, mean((sigma(a x) - y) x), rises with a: its root is
    bisected in log a. Where there is none in between, the nearer end of [1e-4, 1e4] is given: T at the
    upper end says that the scores tell nothing or the wrong way round, at the lower end that they separate
    the outcomes. None without both outcomes.

    Args:
        weights: how often each row counts; None for once.
    """
    if weights is not None:
        held = weights > 0
        logits, outcomes, weights = logits[held], outcomes[held], weights[held]
    if not len(outcomes) or outcomes.min() == outcomes.max() or not np.any(logits):
        return None

    def slope(log_a: float) -> float:
        each = (sigmoid(np.exp(log_a) * logits) - outcomes) * logits
        return float(np.average(each, weights=weights))

    low, high = -np.log(_SPAN[1]), -np.log(_SPAN[0])
    if slope(low) >= 0:
        return _SPAN[1]
    if slope(high) <= 0:
        return _SPAN[0]
    # From a span of 18 to less than a double can tell.
    for _ in range(60):
        middle = (low + high) / 2
        if slope(middle) < 0:
            low = middle
        else:
            high = middle
    return float(np.exp(-(low + high) / 2))


def soft_targets(outcomes: Floats) -> Floats:
    """Outcomes as targets that are never certain (Platt 1999): (n+ + 1) / (n+ + 2) for 1 and 1 / (n- + 2) for
    0. Scores that tell all of a few rows apart would otherwise fit a temperature of 0."""
    right = outcomes > 0.5
    above, below = int(right.sum()), int((~right).sum())
    return np.where(right, (above + 1) / (above + 2), 1 / (below + 2))


def temperature_ci(
    logits: Floats, outcomes: Floats, instances: Sequence[str], seed: int
) -> list[float] | None:
    """Interval of `fit_temperature` over instances."""
    return bootstrap.weighted_ci(
        lambda weights: {"temperature": fit_temperature(logits, outcomes, weights)},
        bootstrap.clusters_of(instances),
        seed,
        "temperature",
        _FITS,
    ).get("temperature")


def summary(
    logits: Floats, outcomes: Floats, instances: Sequence[str], bins: int = BINS, seed: int = 0
) -> dict[str, Any]:
    """Keys: `rows`, `instances`, `positive` (share), `auc`, `auc_instance`, `auc_instances` (instances with
    both outcomes), `ece`, `ece_adaptive`, `brier`, `nll`, `accuracy` at 1/2, `reliability`; `ci95`: the
    interval of each statistic over instances, with the bins as they are."""
    probabilities = sigmoid(logits)
    aucs = _instance_aucs(logits, outcomes, instances)
    rows = reliability(probabilities, outcomes, bins)
    found = {
        "rows": len(outcomes),
        "instances": len(set(instances)),
        "positive": float(outcomes.mean()) if len(outcomes) else None,
        "auc": auc_of(logits, outcomes),
        "auc_instance": float(np.mean(aucs)) if aucs else None,
        "auc_instances": len(aucs),
        "ece": ece(probabilities, outcomes, bins),
        "ece_adaptive": ece(probabilities, outcomes, bins, adaptive=True),
        "brier": brier(probabilities, outcomes),
        "nll": nll(logits, outcomes),
        "accuracy": float(np.mean(_right(probabilities, outcomes))) if len(outcomes) else None,
    }
    spread = _intervals(logits, outcomes, instances, bins, seed)
    for number, row in zip(np.unique(bins_of(probabilities, bins)), rows, strict=True):
        row["ci95"] = spread.pop(f"bin {number}", None)
    spread["auc_instance"] = bootstrap.mean_ci(aucs, seed, "auc of instances")
    return {**found, "ci95": spread, "reliability": rows}


def _right(probabilities: Floats, outcomes: Floats) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = (probabilities > 0.5) == (outcomes > 0.5)
    return right


def _intervals(
    logits: Floats, outcomes: Floats, instances: Sequence[str], bins: int, seed: int
) -> dict[str, list[float] | None]:
    """Intervals over instances of `summary`'s statistics, and of the mean outcome in each bin."""
    probabilities = sigmoid(logits)
    gaps = outcomes - probabilities
    where, adaptive = bins_of(probabilities, bins), bins_of(probabilities, bins, adaptive=True)
    area = bootstrap.weighted_auc(logits, outcomes)
    rows = {
        "positive": outcomes,
        "brier": gaps**2,
        "nll": np.logaddexp(0.0, logits) - outcomes * logits,
        "accuracy": _right(probabilities, outcomes).astype(np.float64),
    }

    def statistics(weights: Floats) -> dict[str, float | None]:
        total = weights.sum()
        found: dict[str, float | None] = {"auc": area(weights)}
        found |= {name: float(weights @ values / total) for name, values in rows.items()}
        found["ece"] = _weighted_ece(weights, where, gaps)
        found["ece_adaptive"] = _weighted_ece(weights, adaptive, gaps)
        held, came = np.bincount(where, weights), np.bincount(where, weights * outcomes)
        found |= {f"bin {at}": float(came[at] / held[at]) for at in np.flatnonzero(held)}
        return found

    return bootstrap.weighted_ci(statistics, bootstrap.clusters_of(instances), seed, "calibration")


def drift(old: Floats, new: Floats, bins: int = BINS, seed: int = 0) -> dict[str, Any]:
    """How two scores of the same rows differ.

    Keys: `rows`, `largest` and `mean` absolute difference, `shift` (mean of new - old), `pearson`,
    `spearman`, `ci95` of `mean` and `shift` over rows; of the two distributions, whatever row is whose: `ks`
    (Kolmogorov-Smirnov statistic, the largest distance of the distribution functions) and `psi` (population
    stability index over deciles of the old scores, sum (q - p) ln(q / p) with half a row added to each bin;
    below 0.1 is commonly read as no change, above 0.25 as a large one).
    """
    if not len(old):
        names = ("largest", "mean", "shift", "pearson", "spearman", "ks", "psi")
        return {"rows": 0, **dict.fromkeys(names), "ci95": {}}
    gap = new - old
    drawn = bootstrap.resampled_means(np.stack([np.abs(gap), gap], axis=1), seed, "drift")
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
        "ci95": {name: bootstrap.interval(drawn[:, at]) for at, name in enumerate(("mean", "shift"))},
    }
