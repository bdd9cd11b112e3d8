"""How good a criterion classifier is: precision, recall, thresholds, reliability.

In: probabilities (rows x criteria) and the annotated rows that they are about. Out: plain dicts and floats.
An edit gets its best criterion when that probability reaches the threshold. That is right when the
criterion is the annotated one or one of `also`; any answer on a row of no criterion is wrong. Precision is
right / answered, recall is right / rows that have a criterion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NONE = "NONE"
BINS = 10


@dataclasses.dataclass(frozen=True)
class Judged:
    """What is known of an edit: its criterion or `NONE`, others that it improves too, language, purposes."""

    criterion: str
    also: tuple[str, ...]
    language: str
    single_intent: bool
    confidence: int


def _rates(right: int, answered: int, there: int) -> dict[str, float]:
    precision = right / answered if answered else 0.0
    recall = right / there if there else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "f1": round(f1, 4),
        "answered": answered,
        "rows": there,
    }


def _answers(
    chances: NDArray[np.float64], codes: Sequence[str], rows: Sequence[Judged]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    best = chances.argmax(axis=1) if len(rows) else np.zeros(0, dtype=np.int64)
    right = np.array(
        [
            row.criterion != NONE and codes[best[n]] in (row.criterion, *row.also)
            for n, row in enumerate(rows)
        ],
        dtype=bool,
    )
    return chances.max(axis=1) if len(rows) else np.zeros(0), best, right


def at(
    chances: NDArray[np.float64], codes: Sequence[str], rows: Sequence[Judged], threshold: float
) -> dict[str, float]:
    """Micro precision, recall and F1 at a threshold."""
    score, _, right = _answers(chances, codes, rows)
    given = score >= threshold
    there = sum(row.criterion != NONE for row in rows)
    return {"threshold": threshold, **_rates(int((given & right).sum()), int(given.sum()), there)}


def curve(
    chances: NDArray[np.float64], codes: Sequence[str], rows: Sequence[Judged]
) -> list[dict[str, float]]:
    """Micro figures at each threshold of hundredths, the lowest first."""
    return [at(chances, codes, rows, step / 100) for step in range(1, 100)]


def threshold_for(
    chances: NDArray[np.float64], codes: Sequence[str], rows: Sequence[Judged], precision: float
) -> float:
    """The least threshold, in hundredths, whose precision is `precision` or more; 1 when there is none.

    Thresholds that fewer than 20 rows reach are not asked: their precision is noise.
    """
    for point in curve(chances, codes, rows):
        if point["answered"] >= 20 and point["precision"] >= precision:
            return point["threshold"]
    return 1.0


def reliability(chance: NDArray[np.float64], truth: NDArray[np.bool_]) -> dict[str, Any]:
    """Bins of predicted probability with how often it came true, expected calibration error, Brier score."""
    bins = []
    error = 0.0
    place = np.minimum((chance * BINS).astype(int), BINS - 1)
    for number in range(BINS):
        inside = place == number
        if not inside.any():
            continue
        said, was = float(chance[inside].mean()), float(truth[inside].mean())
        error += abs(said - was) * float(inside.mean())
        bins.append({"predicted": round(said, 4), "observed": round(was, 4), "rows": int(inside.sum())})
    brier = float(((chance - truth) ** 2).mean()) if len(chance) else 0.0
    return {"bins": bins, "ece": round(error, 4), "brier": round(brier, 4)}


def measure(
    chances: NDArray[np.float64],
    single: NDArray[np.float64],
    codes: Sequence[str],
    rows: Sequence[Judged],
    threshold: float,
) -> dict[str, Any]:
    """Every figure of a report: micro, by criterion, by language, and reliability of each head.

    Args:
        chances: probabilities, rows x criteria.
        single: probability of one purpose, a row.
        threshold: the shipped one.
    """
    score, best, right = _answers(chances, codes, rows)
    given = score >= threshold
    points = curve(chances, codes, rows)
    by_criterion, reliable = {}, {}
    for column, code in enumerate(codes):
        answered = given & (best == column)
        there = sum(row.criterion == code for row in rows)
        # Recall of a criterion counts rows whose main criterion it is: answers by `also` are left out.
        found = sum(bool(answered[n]) and row.criterion == code for n, row in enumerate(rows))
        rates = _rates(int((answered & right).sum()), int(answered.sum()), there)
        rates["recall"] = round(found / there, 4) if there else 0.0
        total = rates["precision"] + rates["recall"]
        rates["f1"] = round(2 * rates["precision"] * rates["recall"] / total, 4) if total else 0.0
        by_criterion[code] = rates
        truth = np.array([code == row.criterion or code in row.also for row in rows], dtype=bool)
        reliable[code] = reliability(chances[:, column], truth)
    by_language = {}
    for language in sorted({row.language for row in rows}):
        mine = np.array([row.language == language for row in rows], dtype=bool)
        there = sum(row.language == language and row.criterion != NONE for row in rows)
        by_language[language] = _rates(int((given & right & mine).sum()), int((given & mine).sum()), there)
    reliable["single_intent"] = reliability(single, np.array([row.single_intent for row in rows], dtype=bool))
    return {
        "rows": len(rows),
        "criteria": {name: sum(row.criterion == name for row in rows) for name in (*codes, NONE)},
        "best": max(points, key=lambda point: point["f1"]),
        "shipped": at(chances, codes, rows, threshold),
        "by_criterion": by_criterion,
        "by_language": by_language,
        "reliability": {**reliable, "answer": reliability(score, right)},
        "curve": points,
    }
