"""Which charts stand beside which results, and under which names.

In: a folder and the results of an evaluation, or a model's folder with its log. Out: PNG files there, see
`assay.charts`. Results without a figure have no chart of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay import charts

CURVES = "training.png"
_KINDS = {"aspect": "criterion", "language": "language", "subset": "subset"}


def pairs(out: Path, found: Mapping[str, Any]) -> None:
    """Charts of `eval pairs`: `by_*.png`, `by_aspect_and_language.png` and `score_differences.png`."""
    if "overall" in found:
        _grouped(out, found)
        _differences(out, "score_diff")
    elif found["layout"] == "rewardbench2":
        rows = [(name, {**row, "ci95": found["ci95"].get(name)}) for name, row in found["by_subset"].items()]
        whole = ("mean over subsets", {"score": found["score"], "ci95": found["ci95"].get("score")})
        charts.accuracies(out / "by_subset.png", "RewardBench 2 by subset", [whole, *rows], "score")
    else:
        levels = ("easy", "normal", "hard", "mean")
        domains = [("all domains", found), *found["by_domain"].items()]
        rows = [
            (f"{name}: {level}", {"accuracy": part[level], "ci95": part["ci95"][level]})
            for name, part in domains
            for level in levels
        ]
        charts.accuracies(out / "by_domain.png", "RM-Bench by domain", rows, "accuracy")


def robustness(out: Path, found: Mapping[str, Any]) -> None:
    """Charts of `eval robustness`: `by_attack.png`, and those of `pairs` but by subset."""
    groups = found["by_subset"].items()
    rows = [(name, row) for name, row in groups if name.startswith("hacks")]
    plain = [(name, {**row, "hollow": True}) for name, row in groups if not name.startswith("hacks")]
    charts.accuracies(out / "by_attack.png", "Accuracy under attack (filled) and without", [*rows, *plain])
    _grouped(out, {**found, "by_subset": {}})
    _differences(out, "score_diff")


def model(out: Path, found: Mapping[str, Any]) -> None:
    """Charts of `eval rm`: of a reward model of pairs, whose accuracies count ties half under the name
    `accuracy`, those of `pairs`; of a verifier its reliability and best of k."""
    if found.get("reliability"):
        charts.reliability(out / "reliability.png", found)
    if found.get("best_of"):
        charts.best_of(out / "best_of.png", found)
    if "overall" not in found or not found["pairs"]:
        return
    whole = ("all pairs", found["overall"])
    baselines = [(name, {**row, "hollow": True}) for name, row in found["baselines"].items()]
    for kind, word in _KINDS.items():
        if found.get(f"by_{kind}"):
            rows = [whole, *found[f"by_{kind}"].items(), *baselines]
            charts.accuracies(out / f"by_{kind}.png", f"Accuracy by {word}", rows, "accuracy")
    _differences(out, None)


def training(folder: Path) -> Path | None:
    """`training.png` of a model's `train.jsonl`; None where that is not there."""
    from assay.report.models import curves

    found = curves(folder / "train.jsonl", [])
    return None if found is None else charts.training(folder / CURVES, found["metrics"])


def _grouped(out: Path, found: Mapping[str, Any]) -> None:
    whole = ("all pairs", {**found["overall"], "count": found["overall"]["total_examples"]})
    for kind, word in _KINDS.items():
        if found[f"by_{kind}"]:
            rows = [whole, *found[f"by_{kind}"].items()]
            charts.accuracies(out / f"by_{kind}.png", f"Accuracy by {word}", rows)
    if crossed := found.get("by_aspect_and_language"):
        title = "Accuracy by criterion and language"
        charts.table(out / "by_aspect_and_language.png", title, crossed, "language")


def _differences(out: Path, column: str | None) -> None:
    import pyarrow.parquet as pq

    if column is None:
        scores = pq.read_table(out / "scores.parquet", columns=["chosen_score", "rejected_score"])
        sides = (scores[name].to_numpy() for name in ("chosen_score", "rejected_score"))
        right, wrong = sides
        values = (right - wrong).tolist()
    else:
        values = pq.read_table(out / "scores.parquet", columns=[column])[column].to_pylist()
    charts.differences(out / "score_differences.png", values)
