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

from trainers import bootstrap
from trainers.bootstrap import RESAMPLES

Floats = NDArray[np.float64]

CALIBRATION_BINS = 10


def credits_of(margins: Floats) -> Floats:
    """1 for a pair in the right order, 0 for one in the wrong order, 1/2 for a tie."""
    return np.where(margins > 0, 1.0, np.where(margins == 0, 0.5, 0.0))


def _drawn(margins: Floats, seed: int, name: str) -> tuple[Floats, Floats]:
    """(accuracy with ties half, accuracy with ties wrong) over resamples of pairs.

    A resample of pairs only matters through its numbers of right, tied and wrong pairs, so these are
    drawn from their multinomial distribution, which is the same as drawing pairs.
    """
    size = len(margins)
    shares = [np.mean(margins > 0), np.mean(margins == 0)]
    shares.append(max(0.0, 1.0 - shares[0] - shares[1]))
    right, tied, _ = bootstrap.generator(seed, name).multinomial(size, shares, size=RESAMPLES).T
    return (right + 0.5 * tied) / size, right / size


def bootstrap_ci(margins: Floats, seed: int, name: str, level: float = 0.95) -> list[float] | None:
    """Percentile bootstrap interval of the accuracy with ties counted half (Efron 1979)."""
    return bootstrap.interval(_drawn(margins, seed, name)[0], level) if len(margins) else None


def strict_ci(margins: Floats, seed: int, name: str, level: float = 0.95) -> list[float] | None:
    """The same with ties counted as wrong."""
    return bootstrap.interval(_drawn(margins, seed, name)[1], level) if len(margins) else None


def macro_ci(
    chosen: Floats, rejected: Floats, groups: Sequence[str], seed: int, kind: str
) -> dict[str, list[float] | None]:
    """Intervals of the mean of the groups' accuracies, each group keeping its size: `ties_half`, `strict`."""
    names = np.array(groups, dtype=object)
    margins = chosen - rejected
    drawn = [_drawn(margins[names == name], seed, f"macro {kind}:{name}") for name in sorted(set(groups))]
    if not drawn:
        return {"ties_half": None, "strict": None}
    return {
        key: bootstrap.interval(np.mean([one[at] for one in drawn], axis=0))
        for at, key in enumerate(("ties_half", "strict"))
    }


def intervals(chosen: Floats, rejected: Floats, seed: int, name: str) -> dict[str, list[float] | None]:
    """Intervals over pairs of what `summary` gives without one: `auc_ci95`, `brier_ci95`, `ece_ci95`."""
    size = len(chosen)
    if not size:
        return dict.fromkeys(("auc_ci95", "brier_ci95", "ece_ci95"))
    margins = chosen - rejected
    area = bootstrap.weighted_auc(
        np.concatenate([chosen, rejected]), np.concatenate([np.ones(size), np.zeros(size)])
    )
    squared = (1 - win_probability(margins)) ** 2
    where, gaps = _calibration_gaps(margins, CALIBRATION_BINS)

    def statistics(weights: Floats) -> dict[str, float | None]:
        return {
            "auc_ci95": area(np.concatenate([weights, weights])),
            "brier_ci95": float(weights @ squared / size),
            "ece_ci95": float(np.abs(np.bincount(where, weights * gaps)).sum() / size),
        }

    return bootstrap.weighted_ci(statistics, np.arange(size), seed, f"scores of {name}")


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
    where, gaps = _calibration_gaps(margins, bins)
    return float(np.abs(np.bincount(where, gaps)).sum() / len(margins))


def _calibration_gaps(margins: Floats, bins: int) -> tuple[NDArray[np.int64], Floats]:
    """Each pair's bin, and by how much its outcome exceeds its confidence."""
    confidence = win_probability(np.abs(margins))
    where = np.minimum(((confidence - 0.5) * 2 * bins).astype(np.int64), bins - 1)
    return where, credits_of(margins) - confidence


def summary(chosen: Floats, rejected: Floats, seed: int, name: str) -> dict[str, Any]:
    """The statistics of one group of pairs.

    Keys: `pairs`, `accuracy` (ties count 1/2), `accuracy_strict` (ties count 0), `ties`, `ci95` of
    `accuracy`, `strict_ci95` of `accuracy_strict`, `margin_mean`, `margin_median`, `margin_std` (of the
    population), `auc`, `brier`, `ece`.
    """
    margins = chosen - rejected
    some = len(margins) > 0
    return {
        "pairs": len(margins),
        "accuracy": float(credits_of(margins).mean()) if some else None,
        "accuracy_strict": float(np.mean(margins > 0)) if some else None,
        "ties": int(np.sum(margins == 0)),
        "ci95": bootstrap_ci(margins, seed, name),
        "strict_ci95": strict_ci(margins, seed, name),
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


def macro(table: dict[str, dict[str, Any]], key: str = "accuracy") -> float | None:
    """Mean of the groups' accuracies (`accuracy` or `accuracy_strict`), each group counting the same."""
    values = [row[key] for row in table.values() if row[key] is not None]
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
