"""Evaluate scores of responses with outcomes: pick the best of several, or read a score as a chance.

In: score files (`assay score` writes them, or any Parquet or JSON rows) with `score`, an outcome
(`outcome`, `resolved`, `passed`, `correct` or `label`), and the task of the response (`instance`,
`instance_id`, `problem_id`, `task_id` or `question_id`). Out: plain JSON-like results. A bad row is
counted by its reason; files without a row of use are an `AssayError`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import AssayError
from trainers import calibration, ranking, rowfiles
from trainers.conversations import COLUMNS, id_of, instance_of, outcome_of
from trainers.metrics import Floats
from trainers.rowfiles import BadRow, number_of

KINDS = ("logit", "probability")
"""What a score is: a logit (any number; its sigmoid is the chance), or the chance itself."""

_SCORE = ("score", "reward", "prob", "probability")


@dataclasses.dataclass(frozen=True)
class Scored:
    """Rows of score files, ordered by instance and id, so that neither order nor cut of files matters.

    `outcomes` may hold NaN where a file was read without need of them; `rates` is NaN for a row without.
    """

    ids: list[str]
    instances: list[str]
    scores: Floats
    outcomes: Floats
    rates: Floats
    rows: int
    dropped: dict[str, int]


def read(paths: Sequence[Path], kind: str = "logit", *, outcomes: bool = True) -> Scored:
    """Read score files.

    Args:
        paths: files of rows.
        kind: one of `KINDS`.
        outcomes: whether a row without an outcome is of no use.

    Raises:
        AssayError: a file cannot be read, or no row of any is of use.
    """
    dropped: Counter[str] = Counter()
    found: list[tuple[str, str, float, float, float]] = []
    first, total = "", 0
    for path in paths:
        for row in rowfiles.read(path, (*_SCORE, *COLUMNS)):
            total += 1
            try:
                if row.values is None:
                    raise BadRow(row.reason, row.detail)
                found.append(_read(row.values, row.number, kind, outcomes))
            except BadRow as bad:
                dropped[bad.reason] += 1
                first = first or f"row {row.number} of {path}: {bad.reason}, {bad.detail}"
    if not found:
        raise AssayError(
            f"none of {total:,} rows can be used; the first: {first}" if total else "there are no rows"
        )
    found.sort(key=lambda one: (one[0], one[1], one[2:4]))
    instances, ids, scores, results, rates = zip(*found, strict=True)
    return Scored(
        ids=list(ids),
        instances=list(instances),
        scores=np.array(scores),
        outcomes=np.array(results),
        rates=np.array(rates),
        rows=total,
        dropped=dict(sorted(dropped.items())),
    )


def _read(
    values: dict[str, Any], number: int, kind: str, outcomes: bool
) -> tuple[str, str, float, float, float]:
    score = number_of(values, _SCORE)
    if score is None:
        raise BadRow("no_score", "none of " + ", ".join(_SCORE))
    if kind == "probability" and not 0 <= score <= 1:
        raise BadRow("bad_probability", f"score is {score:g}")
    outcome = outcome_of(values)
    if outcome is None and outcomes:
        raise BadRow("no_outcome", "no outcome, resolved, passed, correct or label")
    rate = number_of(values, ("pass_rate",))
    name = id_of(values, number)
    # A row that tells no task is one by itself.
    task = instance_of(values)
    missing = float("nan")
    return (
        f"row {name}" if task is None else task,
        name,
        score,
        missing if outcome is None else outcome,
        missing if rate is None else rate,
    )


def tasks_of(scored: Scored) -> list[ranking.Task]:
    """The rows by instance; pass rates count where every row of a task has one."""
    found = []
    starts = [0, *(at for at in range(1, len(scored.ids)) if _new(scored, at)), len(scored.ids)]
    for begin, end in itertools.pairwise(starts):
        rates = scored.rates[begin:end]
        found.append(
            ranking.Task(
                scored.instances[begin],
                scored.scores[begin:end],
                scored.outcomes[begin:end],
                None if np.isnan(rates).any() else rates,
            )
        )
    return found


def _new(scored: Scored, at: int) -> bool:
    return scored.instances[at] != scored.instances[at - 1]


def best_of_k(scored: Scored, ks: Sequence[int], seed: int) -> dict[str, Any]:
    """`ranking.summary` of some rows, with counts.

    Raises:
        AssayError: no task has two candidates, so that there is nothing to pick from.
    """
    tasks = tasks_of(scored)
    most = max(len(task.scores) for task in tasks)
    if most < 2:
        raise AssayError(
            f"each of {len(tasks):,} tasks has one candidate; rows of one task share its instance, "
            "problem_id or task_id"
        )
    known = sorted({k for k in ks if k <= most}) or [most]
    return {
        "rows": scored.rows,
        "dropped": scored.dropped,
        "seed": seed,
        "largest_task": most,
        **ranking.summary(tasks, known, seed),
    }


def default_ks(scored: Scored) -> list[int]:
    """1, 2, 4 and so on, up to the candidates of the largest task."""
    most = max(len(task.scores) for task in tasks_of(scored))
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def calibrate(
    test: Scored,
    dev: Scored | None = None,
    before: Scored | None = None,
    kind: str = "logit",
    bins: int = calibration.BINS,
    seed: int = 0,
) -> dict[str, Any]:
    """How far scores are chances.

    Args:
        test: what is measured.
        dev: other rows to fit a temperature on; without them none is fitted.
        before: earlier scores of the rows of `test`, for drift.
        kind: one of `KINDS`.
        bins: bins of the calibration errors.
        seed: seed of the intervals.

    Returns:
        `calibration.summary` of the scores as they are; with `dev` also `temperature` and `scaled`, the same
        after it; with `before` also `drift`.

    Raises:
        AssayError: an outcome is between 0 and 1, dev shares instances with test or has one outcome only,
            or `before` has no id in common with `test`.
    """
    for name, rows in (("", test), ("dev: ", dev)):
        if rows is not None and not np.isin(rows.outcomes, (0.0, 1.0)).all():
            raise AssayError(f"{name}calibration needs outcomes of 0 and 1, and there are others")
    logits = _logits(test, kind)
    found = {
        "rows": test.rows,
        "used": len(test.ids),
        "dropped": test.dropped,
        "scores": kind,
        "bins": bins,
        "seed": seed,
        **{
            name: value
            for name, value in calibration.summary(logits, test.outcomes, test.instances, bins, seed).items()
            if name != "rows"
        },
    }
    if dev is not None:
        if shared := sorted(set(dev.instances) & set(test.instances)):
            raise AssayError(
                f"dev and test share {len(shared):,} instances, such as {shared[0]}; a temperature fitted on "
                "what it is measured on says nothing"
            )
        fitted = _logits(dev, kind)
        temperature = calibration.fit_temperature(fitted, dev.outcomes)
        if temperature is None:
            raise AssayError("dev has one outcome only, so no temperature can be fitted")
        found["dev_rows"], found["temperature"] = len(dev.ids), temperature
        found["temperature_ci95"] = calibration.temperature_ci(fitted, dev.outcomes, dev.instances, seed)
        found["scaled"] = calibration.summary(logits / temperature, test.outcomes, test.instances, bins, seed)
    if before is not None:
        found["drift"] = _drift(before, test, seed)
    return found


def _logits(rows: Scored, kind: str) -> Floats:
    return calibration.logit(rows.scores) if kind == "probability" else rows.scores


def _drift(before: Scored, now: Scored, seed: int) -> dict[str, Any]:
    old = dict(zip(zip(before.instances, before.ids, strict=True), before.scores, strict=True))
    new = dict(zip(zip(now.instances, now.ids, strict=True), now.scores, strict=True))
    both = sorted(old.keys() & new.keys())
    if not both:
        raise AssayError("the earlier scores have no id in common with these")
    missing = {"only_before": len(old.keys() - new.keys()), "only_now": len(new.keys() - old.keys())}
    return {
        **calibration.drift(
            np.array([old[name] for name in both]), np.array([new[name] for name in both]), seed=seed
        ),
        **missing,
    }
