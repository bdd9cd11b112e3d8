"""How good the best of several candidates is when a reward model picks it, as pure functions.

In: per task the candidates' scores and, for each, whether it is right (1, 0, or anything between). Out:
plain numbers; a statistic of nothing is None. Scores must be finite. Candidates with equal scores are in
no order: every function gives the expectation over all of their orders, so that results do not depend on
the order of rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainers.bootstrap import interval, mean_ci, resampled_means
from trainers.metrics import Floats, correlation


@dataclasses.dataclass(frozen=True)
class Task:
    """The candidates of one task.

    Attributes:
        name: the task's id.
        scores: one a candidate.
        resolved: 1.0 for a candidate that is right, 0.0 for one that is not.
        rates: share of tests that each passes; None where only outcomes are known.
    """

    name: str
    scores: Floats
    resolved: Floats
    rates: Floats | None = None


def pass_at_k(n: int, right: int, k: int) -> float:
    """Chance that k of n candidates, drawn without return, hold a right one: 1 - C(n-c, k) / C(n, k).

    The unbiased estimator of pass@k (Chen et al. 2021, 2107.03374, eq. 1), as the product over
    i = n-c+1 ... n of 1 - k/i, whose factors stay between 0 and 1 where binomials overflow. With a perfect
    picker this is what best-of-k reaches, so it is the oracle.

    Raises:
        ValueError: k is not between 1 and n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} of {n} candidates")
    if n - right < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - right + 1, n + 1))


def chances(scores: Floats, k: int) -> Floats:
    """Each candidate's chance of being picked as the best of k that are drawn from all n without return.

    With candidates in falling order, the ranks [i, j) of one score hold the best exactly when the draw
    takes none of the i above and not only from the n - j below:
    p = (C(n-i, k) - C(n-j, k)) / C(n, k), shared by the j - i candidates of the block.
    """
    n = len(scores)
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} of {n} candidates")
    order = np.argsort(-scores, kind="stable")
    found = np.zeros(n)
    whole = math.comb(n, k)
    begin = 0
    while begin < n:
        end = begin
        while end < n and scores[order[end]] == scores[order[begin]]:
            end += 1
        block = (math.comb(n - begin, k) - math.comb(n - end, k)) / whole
        found[order[begin:end]] = block / (end - begin)
        begin = end
    return found


def rm_at_k(scores: Floats, resolved: Floats, k: int) -> float:
    """Expected outcome of the best-scored of k candidates, over all draws (RM@k; SWE-RM, 2512.21919)."""
    return float(chances(scores, k) @ resolved)


def hits_at_k(scores: Floats, resolved: Floats, k: int) -> float:
    """Chance that a right candidate is among the k best-scored (Hits@k; Themis, 2605.00754, section 5).

    Where the k-th place falls into a block of m equal scores of which r places are left and c are right,
    the chance that none of these gets one is C(m-c, r) / C(m, r). k beyond the candidates means all.
    """
    k = min(k, len(scores))
    least = np.sort(scores)[::-1][k - 1]
    above, block = scores > least, scores == least
    if np.any(resolved[above] > 0):
        return 1.0
    size, right = int(block.sum()), int(np.sum(resolved[block] > 0))
    return pass_at_k(size, right, k - int(above.sum()))


def ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of their places."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Floats = (ends - (counts - 1) / 2)[inverse]
    return shared


def spearman(left: Floats, right: Floats) -> float | None:
    """Spearman's rho: Pearson's r of the ranks; None when a side does not vary."""
    return correlation(ranks(left), ranks(right))


def summary(tasks: Sequence[Task], ks: Sequence[int], seed: int) -> dict[str, Any]:
    """What best-of-k gives over tasks, each task counting the same.

    Keys: `tasks`, `candidates`, `one_score` (tasks whose scores are all equal), `with_right` (tasks with a
    right candidate), `mixed` (with right and wrong ones); `best_of`: for each k `tasks` that have so many
    candidates, `rm`, `random` (the mean outcome), `oracle` (pass@k) and `gain`, the share of the way from
    random to oracle; `hits`: for each k over tasks with a right candidate `hits` and `random`; `spearman` of
    scores with the share of tests passed, else with the outcome: `mean`, `median`, `tasks` where it is
    defined; `variance` of the scores within a task: `mean`, `median`, `std`. Intervals over tasks are `ci95`
    of the first figure of a row, and `random_ci95`, `oracle_ci95` and `gain_ci95`.
    """
    right = [task for task in tasks if np.any(task.resolved > 0)]
    rho = [
        found
        for task in tasks
        if (found := spearman(task.scores, task.resolved if task.rates is None else task.rates)) is not None
    ]
    spread = [float(task.scores.var()) for task in tasks]
    return {
        "tasks": len(tasks),
        "candidates": sum(len(task.scores) for task in tasks),
        "one_score": sum(bool(np.ptp(task.scores) == 0) for task in tasks),
        "with_right": len(right),
        "mixed": sum(bool(np.any(task.resolved == 0)) for task in right),
        "best_of": {str(k): _best_of(tasks, k, seed) for k in ks},
        "hits": {str(k): _hits(right, k, seed) for k in ks},
        "spearman": {
            "tasks": len(rho),
            "mean": _stat(np.mean, rho),
            "median": _stat(np.median, rho),
            "ci95": mean_ci(rho, seed, "spearman"),
        },
        "variance": {
            "mean": _stat(np.mean, spread),
            "median": _stat(np.median, spread),
            "std": _stat(np.std, spread),
            "ci95": mean_ci(spread, seed, "variance"),
        },
    }


def _stat(what: Callable[[Sequence[float]], Any], values: Sequence[float]) -> float | None:
    return float(what(values)) if values else None


_NAMES = ("rm", "random", "oracle")


def _best_of(tasks: Sequence[Task], k: int, seed: int) -> dict[str, Any]:
    fit = [task for task in tasks if len(task.scores) >= k]
    if not fit:
        nothing = dict.fromkeys((*_NAMES, "gain", "ci95", "random_ci95", "oracle_ci95", "gain_ci95"))
        return {"tasks": 0, **nothing}
    each = np.array(
        [
            (
                rm_at_k(task.scores, task.resolved, k),
                float(task.resolved.mean()),
                pass_at_k(len(task.scores), int(np.sum(task.resolved > 0)), k),
            )
            for task in fit
        ]
    )
    # The three are of the same tasks, so that they are drawn together.
    drawn = resampled_means(each, seed, f"best of {k}")
    means = each.mean(axis=0)
    return {
        "tasks": len(fit),
        **{name: float(value) for name, value in zip(_NAMES, means, strict=True)},
        "gain": _gain(*means),
        "ci95": interval(drawn[:, 0]),
        "random_ci95": interval(drawn[:, 1]),
        "oracle_ci95": interval(drawn[:, 2]),
        "gain_ci95": interval([_gain(*row) for row in drawn]),
    }


def _gain(rm: float, base: float, best: float) -> float | None:
    return float((rm - base) / (best - base)) if best - base > 1e-12 else None


def _hits(tasks: Sequence[Task], k: int, seed: int) -> dict[str, Any]:
    hits = [hits_at_k(task.scores, task.resolved, k) for task in tasks]
    chance = [
        pass_at_k(len(task.scores), int(np.sum(task.resolved > 0)), min(k, len(task.scores)))
        for task in tasks
    ]
    return {
        "tasks": len(tasks),
        "hits": _stat(np.mean, hits),
        "ci95": mean_ci(hits, seed, f"hits at {k}"),
        "random": _stat(np.mean, chance),
        "random_ci95": mean_ci(chance, seed, f"random hits at {k}"),
    }
