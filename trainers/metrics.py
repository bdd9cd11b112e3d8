"""How well scores order pairs, as pure functions of numpy arrays.

In: chosen and rejected scores, group names, a seed. Out: plain JSON-like values; a statistic of no
pairs is None. Scores must be finite. A confidence interval depends on its own group only, never on
which other groups there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.ids import rng

Floats = NDArray[np.float64]

RESAMPLES = 2000
CALIBRATION_BINS = 10


def credits_of(margins: Floats) -> Floats:
    """1 for a pair in the right order, 0 for one in the wrong order, 1/2 for a tie."""
    return np.where(margins > 0, 1.0, np.where(margins == 0, 0.5, 0.0))


def bootstrap_ci(margins: Floats, seed: int, name: str, level: float = 0.95) -> list[float] | None:
    """Percentile bootstrap interval of the accuracy with ties counted half (Efron 1979).

    A resample of pairs only matters through its numbers of right, tied and wrong pairs, so these are
    drawn from their multinomial distribution, which is the same as drawing pairs.
    """
    size = len(margins)
    if not size:
        return None
    shares = [np.mean(margins > 0), np.mean(margins == 0)]
    shares.append(max(0.0, 1.0 - shares[0] - shares[1]))
    draws = np.random.default_rng(rng(seed, "bootstrap", name).getrandbits(64))
    right, tied, _ = draws.multinomial(size, shares, size=RESAMPLES).T
    tail = (1 - level) / 2
    low, high = np.quantile((right + 0.5 * tied) / size, [tail, 1 - tail])
    return [float(low), float(high)]


def auc(chosen: Floats, rejected: Floats) -> float | None:
    """Probability that a chosen side of any pair outscores a rejected side of any pair, ties half:
    the Mann-Whitney U statistic over the number of combinations (Hanley & McNeil 1982)."""
    if not len(chosen) or not len(rejected):
        return None
    _, inverse, counts = np.unique(
        np.concatenate([chosen, rejected]), return_inverse=True, return_counts=True
    )
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[inverse]
    u = ranks[: len(chosen)].sum() - len(chosen) * (len(chosen) + 1) / 2
    return float(u / (len(chosen) * len(rejected)))


def win_probability(margins: Floats) -> Floats:
    """sigma(margin): what Bradley-Terry says of the chosen side's chance."""
    return np.exp(-np.logaddexp(0.0, -margins))


def brier(margins: Floats) -> float | None:
    """Mean of (1 - sigma(margin))^2 (Brier 1950); 0.25 for a model that gives all the same score."""
    return float(np.mean((1 - win_probability(margins)) ** 2)) if len(margins) else None


def calibration_error(margins: Floats, bins: int = CALIBRATION_BINS) -> float | None:
    """Expected calibration error of the predicted winner (Guo et al. 2017, 1706.04599, eq. 3).

    The confidence is sigma(|margin|), the outcome whether the order is right (ties half), in `bins`
    bins of equal width from 1/2 to 1.
    """
    if not len(margins):
        return None
    confidence = win_probability(np.abs(margins))
    outcome = credits_of(margins)
    where = np.minimum(((confidence - 0.5) * 2 * bins).astype(int), bins - 1)
    gaps = np.zeros(bins)
    np.add.at(gaps, where, outcome - confidence)
    return float(np.abs(gaps).sum() / len(margins))


def summary(chosen: Floats, rejected: Floats, seed: int, name: str) -> dict[str, Any]:
    """The statistics of one group of pairs.

    Keys: `pairs`, `accuracy` (ties count 1/2), `accuracy_strict` (ties count 0), `ties`, `ci95` of
    `accuracy`, `margin_mean`, `margin_median`, `margin_std` (of the population), `auc`, `brier`, `ece`.
    """
    margins = chosen - rejected
    some = len(margins) > 0
    return {
        "pairs": len(margins),
        "accuracy": float(credits_of(margins).mean()) if some else None,
        "accuracy_strict": float(np.mean(margins > 0)) if some else None,
        "ties": int(np.sum(margins == 0)),
        "ci95": bootstrap_ci(margins, seed, name),
        "margin_mean": float(margins.mean()) if some else None,
        "margin_median": float(np.median(margins)) if some else None,
        "margin_std": float(margins.std()) if some else None,
        "auc": auc(chosen, rejected),
        "brier": brier(margins),
        "ece": calibration_error(margins),
    }


def by_group(
    chosen: Floats, rejected: Floats, groups: Sequence[str], seed: int, kind: str
) -> dict[str, dict[str, Any]]:
    """`summary` of every group, by name in order; `kind` says what the groups are."""
    names = np.array(groups, dtype=object)
    return {
        name: summary(chosen[names == name], rejected[names == name], seed, f"{kind}:{name}")
        for name in sorted(set(groups))
    }


def macro(table: dict[str, dict[str, Any]]) -> float | None:
    """Mean of the groups' accuracies, each group counting the same."""
    values = [row["accuracy"] for row in table.values() if row["accuracy"] is not None]
    return float(np.mean(values)) if values else None


def correlation(left: Floats, right: Floats) -> float | None:
    """Pearson's r; None when there are fewer than two values or one side does not vary."""
    if len(left) < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    return float(np.corrcoef(left, right)[0, 1])


def length_bias(
    chosen: Floats, rejected: Floats, chosen_length: Floats, rejected_length: Floats, seed: int
) -> dict[str, Any]:
    """How far accuracy goes with length.

    Keys: `baselines` (accuracies of `longer_wins` and `shorter_wins`), `by_length` (the scores' accuracy
    where the chosen side is longer, shorter, or as long), `length_correlation` (Pearson's r of the score
    margin and the length difference). A score that does not beat both baselines may have learned length.
    """
    gap = chosen_length - rejected_length
    rules = {"longer_wins": gap, "shorter_wins": -gap}
    names = ("chosen_shorter", "same_length", "chosen_longer")
    groups = [names[int(sign) + 1] for sign in np.sign(gap)]
    return {
        "baselines": {
            name: _accuracy(summary(side, np.zeros_like(side), seed, name)) for name, side in rules.items()
        },
        "by_length": {
            name: _accuracy(row) for name, row in by_group(chosen, rejected, groups, seed, "length").items()
        },
        "length_correlation": correlation(chosen - rejected, gap),
    }


def _accuracy(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("pairs", "accuracy", "accuracy_strict", "ties", "ci95")}
