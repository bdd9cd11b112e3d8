"""Evaluate a reward model on preference pairs as published benchmarks lay them out.

In: files of CodeRewardBench, RewardBench 1 or 2, RM-Bench, or of pairs that assay made. Out, in a folder:
`scores.parquet` and `results.json` in the layout that CodeRewardBench's runs are published in, with more
keys beside. There `accuracy` counts a tie as wrong, with `strict_ci95`; `accuracy_ties_half` counts it half,
with `ci95`, and is the headline: it is what breaking ties by a coin gives on average, so that a score that
says nothing is at 1/2, and a coarse one is not below a fine one that guesses. Means over groups are of
`accuracy_ties_half`, each with a `_strict` one beside it. The two sides of a pair are cut to one window that
holds where they differ; a pair without such a window is dropped, not a tie. Bad rows are counted by reason;
a file that holds no row of use is an `AssayError`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import AssayError
from schemas.shards import replacing, write_text
from trainers import metrics, published, rowfiles
from trainers.conversations import COLUMNS, Request, request_of
from trainers.metrics import Floats
from trainers.rowfiles import BadRow
from trainers.score import Scorer
from trainers.scoring import Options, SystemOf, score_requests

HEADLINE = "accuracy_ties_half"
"""The key of the accuracy that is to be quoted."""
LAYOUTS = ("pairs", "rewardbench", "rewardbench2", "rm-bench")
"""`pairs`: CodeRewardBench, assay's own, and any other with a chosen and a rejected answer."""


@dataclasses.dataclass
class Loaded:
    """Requests of one layout, and why other rows are none."""

    layout: str
    requests: list[Request]
    systems: list[str]
    rows: int
    dropped: Counter[str]
    first: str = ""


def layout_of(request: Request) -> str:
    """The layout that a row is in."""
    if request.listed:
        return "rm-bench" if "domain" in request.names else "rewardbench2"
    sections = {name for names in published.REWARDBENCH_SECTIONS.values() for name in names}
    return "rewardbench" if request.names.get("subset") in sections else "pairs"


def load(
    paths: Sequence[Path], system_of: SystemOf, layout: str = "auto", limit: int | None = None
) -> Loaded:
    """Read pairs.

    Args:
        paths: files, all of one layout.
        system_of: chooses system prompts.
        layout: one of `LAYOUTS`, or `auto` for that of the first good row.
        limit: rows that are read in all.

    Raises:
        AssayError: a file cannot be read, holds rows of several layouts, or no good row is in any.
    """
    found = Loaded("" if layout == "auto" else layout, [], [], 0, Counter())
    for path in paths:
        for row in rowfiles.read(path, COLUMNS):
            if limit is not None and found.rows >= limit:
                break
            found.rows += 1
            try:
                if row.values is None:
                    raise BadRow(row.reason, row.detail)
                request = request_of(row.values, row.number)
                if not request.wrong:
                    raise BadRow("missing_field", "no chosen and rejected")
                system = system_of(request)
            except BadRow as bad:
                found.dropped[bad.reason] += 1
                found.first = found.first or f"row {row.number} of {path}: {bad.reason}, {bad.detail}"
                continue
            own = layout_of(request)
            found.layout = found.layout or own
            if (own in LAYOUTS[:2]) != (found.layout in LAYOUTS[:2]):
                raise AssayError(
                    f"{path}: row {row.number} is laid out as {own}, those before as {found.layout}"
                )
            found.requests.append(request)
            found.systems.append(system)
    if not found.requests:
        raise AssayError(
            f"none of {found.rows:,} rows can be used; the first: {found.first}"
            if found.rows
            else "there are no rows"
        )
    return found


def evaluate(
    scorer: Scorer,
    loaded: Loaded,
    out: Path,
    options: Options,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, Any]:
    """Score pairs, and write what that says of the model.

    Args:
        progress: called with the prompts whose responses are scored, and how many there are.

    Returns:
        The content of `results.json`.

    Raises:
        AssayError: the model can score none of them.
    """
    asked = list(zip(loaded.requests, loaded.systems, strict=True))
    scored = score_requests(scorer, asked, options, lambda done: progress(done, len(asked)))
    kept: list[tuple[Request, Floats, Floats]] = []
    cut = 0
    dropped = Counter(loaded.dropped)
    for (request, _), found in zip(asked, scored, strict=True):
        if isinstance(found, BadRow):
            dropped[found.reason] += 1
            continue
        values = np.array(found.values, dtype=np.float64)
        cut += found.cut
        kept.append((request, values[: len(request.right)], values[len(request.right) :]))
    results: dict[str, Any] = {
        "model": scorer.name,
        "layout": loaded.layout,
        "rows": loaded.rows,
        "scored": len(kept),
        "cut": cut,
        "dropped": dict(sorted(dropped.items())),
        "max_length": options.max_length or scorer.cutting.max_length,
        "seed": seed,
    }
    if loaded.layout in LAYOUTS[:2]:
        results |= _pairs(kept, seed)
        if loaded.layout == "rewardbench":
            table = {
                name: (row["accuracy_ties_half"], row["count"]) for name, row in results["by_subset"].items()
            }
            results["sections"] = published.rewardbench(table)
            strict = {name: (row["accuracy"], row["count"]) for name, row in results["by_subset"].items()}
            results["published"] = published.rewardbench(strict)
            results["sections_ci95"] = published.rewardbench_ci(_credits(kept), seed)
    elif loaded.layout == "rewardbench2":
        rows = [(one.names.get("subset", "unknown"), one.row_id, right, wrong) for one, right, wrong in kept]
        results |= published.rewardbench2(rows)
        results["ci95"] = published.rewardbench2_ci(rows, seed)
    else:
        results |= published.rm_bench(
            [one.names.get("domain", "unknown") for one, _, _ in kept],
            np.array([right for _, right, _ in kept]),
            np.array([wrong for _, _, wrong in kept]),
            seed,
        )
    out.mkdir(parents=True, exist_ok=True)
    _write_scores(out / "scores.parquet", kept, listed=loaded.layout not in LAYOUTS[:2])
    write_text(out / "results.json", json.dumps(results, indent=2, allow_nan=False) + "\n")
    return results


def _credits(kept: Sequence[tuple[Request, Floats, Floats]]) -> dict[str, Floats]:
    """What each pair counts, ties half, by subset."""
    found: dict[str, list[float]] = {}
    for request, right, wrong in kept:
        found.setdefault(request.names.get("subset", "unknown"), []).append(float(right.min() - wrong.max()))
    return {name: metrics.credits_of(np.array(margins)) for name, margins in found.items()}


def _pairs(kept: Sequence[tuple[Request, Floats, Floats]], seed: int) -> dict[str, Any]:
    good = np.array([right.min() for _, right, _ in kept])
    bad = np.array([wrong.max() for _, _, wrong in kept])
    whole = metrics.summary(good, bad, seed, "overall")
    found: dict[str, Any] = {
        "headline": HEADLINE,
        "overall": {
            "accuracy": whole["accuracy_strict"],
            "total_examples": len(kept),
            "correct_predictions": int(np.sum(good > bad)),
            "mean_score_difference": whole["margin_mean"],
            "median_score_difference": whole["margin_median"],
            # The published files hold what pandas gives: the deviation of a sample.
            "std_score_difference": float(np.std(good - bad, ddof=1)) if len(kept) > 1 else None,
            "accuracy_ties_half": whole["accuracy"],
            **{name: whole[name] for name in ("ties", "ci95", "strict_ci95", "auc", "brier", "ece")},
            **metrics.intervals(good, bad, seed, "overall"),
        },
    }
    for kind in ("aspect", "language", "subset"):
        names = [request.names.get(kind, "unknown") for request, _, _ in kept]
        if set(names) == {"unknown"}:
            found[f"by_{kind}"] = {}
            continue
        table = metrics.by_group(good, bad, names, seed, kind)
        found[f"by_{kind}"] = {name: _group(row) for name, row in table.items()}
        spread = metrics.macro_ci(good, bad, names, seed, kind)
        found[f"macro_{kind}"] = metrics.macro(table)
        found[f"macro_{kind}_ci95"] = spread["ties_half"]
        found[f"macro_{kind}_strict"] = metrics.macro(table, "accuracy_strict")
        found[f"macro_{kind}_strict_ci95"] = spread["strict"]
    if found["by_aspect"] and found["by_language"]:
        found["by_aspect_and_language"] = _crossed(kept, good, bad, seed)
    sizes = [[float(len(side[0])) for side in (one.right, one.wrong)] for one, _, _ in kept]
    longer = np.array(sizes).reshape(-1, 2)
    return {**found, **metrics.length_bias(good, bad, longer[:, 0], longer[:, 1], seed)}


def _crossed(
    kept: Sequence[tuple[Request, Floats, Floats]], good: Floats, bad: Floats, seed: int
) -> dict[str, dict[str, Any]]:
    """Accuracy by criterion, and within one by language."""
    aspects = np.array([one.names.get("aspect", "unknown") for one, _, _ in kept], dtype=object)
    languages = [one.names.get("language", "unknown") for one, _, _ in kept]
    found = {}
    for aspect in sorted(set(aspects)):
        held = aspects == aspect
        within = [name for name, own in zip(languages, held, strict=True) if own]
        table = metrics.by_group(good[held], bad[held], within, seed, f"language:{aspect}")
        found[aspect] = {name: _group(row) for name, row in table.items()}
    return found


def _group(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "accuracy": row["accuracy_strict"],
        "count": row["pairs"],
        "accuracy_ties_half": row["accuracy"],
        "ties": row["ties"],
        "ci95": row["ci95"],
        "strict_ci95": row["strict_ci95"],
    }


def _write_scores(path: Path, kept: Sequence[tuple[Request, Floats, Floats]], *, listed: bool) -> None:
    columns: dict[str, Any] = {"id": [one.row_id for one, _, _ in kept]}
    if listed:
        floats = pa.list_(pa.float64())
        columns["chosen_scores"] = pa.array([right.tolist() for _, right, _ in kept], floats)
        columns["rejected_scores"] = pa.array([wrong.tolist() for _, _, wrong in kept], floats)
        names: tuple[str, ...] = ("subset", "domain")
    else:
        good = np.array([right.min() for _, right, _ in kept], dtype=np.float64)
        bad = np.array([wrong.max() for _, _, wrong in kept], dtype=np.float64)
        columns |= {
            "chosen_score": good,
            "rejected_score": bad,
            "correct": good > bad,
            "score_diff": good - bad,
        }
        names = ("language", "aspect", "subset")
    for name in names:
        columns[name] = pa.array([one.names.get(name) for one, _, _ in kept], pa.string())
    with replacing(path) as handle:
        pq.write_table(pa.table(columns), handle, compression="zstd")
