"""Percentile bootstrap intervals (Efron 1979), as pure functions of numpy arrays.

In: values, or a statistic of weighted rows, with a seed and the statistic's name. Out: `[low, high]` of 95 %,
None for a statistic of nothing. What is drawn are whole tasks (or pairs), since the rows of one are not
independent of each other. An interval depends on its own rows, seed and name, never on what else is asked.

A statistic that is a mean of absolute values, such as a calibration error, is larger on average in a resample
than in the sample, so that its interval may begin above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.ids import rng

Floats = NDArray[np.float64]

RESAMPLES = 2000
ROW_RESAMPLES = 1000
"""Resamples of a statistic that is computed anew from all rows."""
_AT_ONCE = 1 << 19


def generator(seed: int, name: str) -> np.random.Generator:
    """The draws of one statistic."""
    return np.random.default_rng(rng(seed, "bootstrap", name).getrandbits(64))


def interval(values: Sequence[float | None] | Floats, level: float = 0.95) -> list[float] | None:
    """The middle `level` of a statistic's values over resamples; those where it is undefined are left out."""
    known = np.array([value for value in values if value is not None and np.isfinite(value)])
    if not len(known):
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return [float(low), float(high)]


def resampled_means(columns: Floats, seed: int, name: str) -> Floats:
    """Means of columns over resamples of their rows, which stay together; shape (`RESAMPLES`, columns)."""
    draws = generator(seed, name)
    size = len(columns)
    found = np.empty((RESAMPLES, columns.shape[1]))
    # As many at once as a few megabytes hold.
    many = max(1, _AT_ONCE // (size * columns.shape[1]))
    for at in range(0, RESAMPLES, many):
        part = min(many, RESAMPLES - at)
        found[at : at + part] = columns[draws.integers(0, size, (part, size))].mean(axis=1)
    return found


def mean_ci(
    values: Sequence[float] | Floats, seed: int, name: str, level: float = 0.95
) -> list[float] | None:
    """Interval of a mean."""
    if not len(values):
        return None
    columns = np.asarray(values, dtype=np.float64)[:, None]
    return interval(resampled_means(columns, seed, name)[:, 0], level)


def weighted_ci(
    statistics: Callable[[Floats], Mapping[str, float | None]],
    clusters: NDArray[np.int64],
    seed: int,
    name: str,
    resamples: int = ROW_RESAMPLES,
) -> dict[str, list[float] | None]:
    """Intervals of several statistics of rows that stand in clusters, such as the answers to one task.

    Args:
        statistics: from weights of the rows (how often each was drawn) to named values.
        clusters: number of each row's cluster, from 0 without gaps; shape (rows,).
    """
    if not len(clusters):
        return {}
    draws = generator(seed, name)
    many = int(clusters.max()) + 1
    found: dict[str, list[float | None]] = {}
    for _ in range(resamples):
        counts = np.bincount(draws.integers(0, many, many), minlength=many).astype(np.float64)
        for key, value in statistics(counts[clusters]).items():
            found.setdefault(key, []).append(value)
    return {key: interval(values) for key, values in found.items()}


def stratified(
    strata: Mapping[str, Sequence[Any]],
    statistic: Callable[[dict[str, list[Any]]], float | None],
    seed: int,
    name: str,
    resamples: int = ROW_RESAMPLES,
) -> list[float] | None:
    """Interval of a statistic of groups of items, where each group keeps its size."""
    draws = generator(seed, name)
    values = []
    for _ in range(resamples):
        drawn = {
            key: [items[at] for at in draws.integers(0, len(items), len(items))]
            for key, items in strata.items()
            if len(items)
        }
        values.append(statistic(drawn))
    return interval(values)


def clusters_of(names: Iterable[str]) -> NDArray[np.int64]:
    """A number for each row, the same for rows of one name."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def weighted_auc(scores: Floats, outcomes: Floats) -> Callable[[Floats], float | None]:
    """The AUC of weighted rows as a function of their weights: chance that a row of outcome 1 scores above
    one of outcome 0, ties half. What does not depend on weights is computed once."""
    _, place = np.unique(scores, return_inverse=True)
    right = (outcomes > 0).astype(np.float64)

    def auc(weights: Floats) -> float | None:
        up = np.bincount(place, weights * right)
        down = np.bincount(place, weights * (1 - right))
        pairs = up.sum() * down.sum()
        below = np.cumsum(down) - down
        return float(up @ (below + down / 2) / pairs) if pairs else None

    return auc
