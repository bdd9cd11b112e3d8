"""Training curves and evaluations of the models in a run.

`models/<name>/train.jsonl` holds one JSON object a line (`step` and numbers),
`models/<name>/eval/results.json` one evaluation. A crash may have cut either short: what can be read is
used, and what cannot be used is said in the model's notes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.report.evaluations import held_out
from assay.report.plain import count, name, number, parse_json, read_text

MODELS = 12
POINTS = 400
"""A curve longer than this is averaged over equal runs of steps until it fits."""

_LINE_BYTES = 1 << 20
_RESULTS_BYTES = 8 << 20
_METRICS = 24
_GROUPS = 40
_FIRST = ("loss", "bt", "lm", "magnitude", "accuracy", "margin", "lr")
_BOOKKEEPING = {"step", "steps", "epoch", "seconds", "pairs", "ties"}
"""Numbers of a line that are no measurement, so they have no curve."""


class _Curve:
    """Points of one metric, thinned by averaging neighbours whenever they become too many."""

    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []
        self.run: list[tuple[float, float]] = []
        self.width = 1
        self.last: float | None = None
        self.unusable = 0

    def add(self, step: float, value: float) -> None:
        self.last = value
        self.run.append((step, value))
        if len(self.run) >= self.width:
            self._close()
        if len(self.points) >= 2 * POINTS:
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [(b[0], a[1] / 2 + b[1] / 2) for a, b in pairs]
            self.width *= 2

    def _close(self) -> None:
        self.points.append((self.run[-1][0], sum(value / len(self.run) for _, value in self.run)))
        self.run = []

    def finish(self) -> list[list[float]]:
        if self.run:
            self._close()
        return [[step, float(f"{value:.6g}")] for step, value in self.points]


def curves(path: Path, notes: list[str]) -> dict[str, Any] | None:
    """The curves of a training log, or None when there is no log: `metrics`, each with `name` and `points`
    (step, value). What is wrong with it is added to the notes."""
    found: dict[str, _Curve] = {}
    lines = bad = 0
    last_step: int | float | None = None
    try:
        with path.open("rb") as handle:
            while line := handle.readline(_LINE_BYTES):
                if not line.strip():
                    continue
                lines += 1
                row, problem = parse_json(line.decode("utf-8", "replace"))
                if problem or not isinstance(row, dict) or (step := number(row.get("step"))) is None:
                    bad += 1
                    continue
                last_step = step
                # Development pairs are other pairs: their accuracy has a curve of its own.
                of = "dev " if row.get("event") == "dev" else ""
                for key, value in row.items():
                    if key in _BOOKKEEPING or isinstance(value, bool) or not isinstance(value, (int, float)):
                        continue
                    key = of + key
                    if key not in found and len(found) >= _METRICS:
                        continue
                    curve = found.setdefault(key, _Curve())
                    if (known := number(value)) is None:
                        curve.unusable += 1
                    else:
                        curve.add(float(step), float(known))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        notes.append(f"train.jsonl cannot be read ({error.strerror})")
    if bad:
        notes.append(
            f"train.jsonl: {bad} of {lines} lines are not a JSON object with a step; they are left out"
        )
    names = sorted(found, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))
    metrics = []
    for key in names:
        curve = found[key]
        points = curve.finish()
        if curve.unusable:
            notes.append(f"train.jsonl: {name(key)} is NaN or infinite in {curve.unusable} lines")
        metrics.append(
            {"name": name(key, 40), "last": curve.last, "averaged_over": curve.width, "points": points}
        )
    return {"lines": lines - bad, "last_step": last_step, "metrics": metrics}


def _result(value: Any) -> dict[str, Any] | None:
    """One measured group: accuracy with its interval and whatever other numbers stand beside it."""
    if (bare := number(value)) is not None:
        value = {"accuracy": bare}
    if not isinstance(value, dict):
        return None
    accuracy = number(value.get("accuracy"))
    if accuracy is None or not 0 <= accuracy <= 1:
        return None
    interval = value.get("ci95")
    ends = [number(end) for end in interval] if isinstance(interval, list) else []
    good = len(ends) == 2 and all(end is not None and 0 <= end <= 1 for end in ends)
    known = ("accuracy", "accuracy_strict", "ties", "pairs", "ci95", "margin_mean")
    others = [(name(key, 40), number(found)) for key, found in value.items() if key not in known]
    return {
        "accuracy": accuracy,
        "accuracy_strict": number(value.get("accuracy_strict")),
        "ties": count(value.get("ties")),
        "pairs": count(value.get("pairs")),
        "ci95": ends if good else None,
        "margin_mean": number(value.get("margin_mean")),
        "others": dict(sorted((key, found) for key, found in others if found is not None)[:_METRICS]),
    }


def _results(path: Path, notes: list[str]) -> dict[str, Any] | None:
    """The content of an evaluation's file, or None when there is none that can be read."""
    text, problem = read_text(path, _RESULTS_BYTES)
    data: Any = None
    if text is not None:
        data, problem = parse_json(text)
        if problem is None and not isinstance(data, dict):
            problem = "is not a JSON object"
    if problem is not None:
        notes.append(f"eval/results.json {problem}; evaluate the model again")
        return None
    return data if isinstance(data, dict) else None


def _evaluation(data: dict[str, Any], notes: list[str]) -> dict[str, Any] | None:
    """An evaluation's numbers, or None when they cannot be used."""
    overall = _result(data.get("overall"))
    if overall is None:
        notes.append("eval/results.json has no overall accuracy between 0 and 1; evaluate the model again")
        return None
    pairs = count(data.get("pairs"))
    found: dict[str, Any] = {"pairs": overall["pairs"] if pairs is None else pairs, "overall": overall}
    for group in ("by_aspect", "by_language", "baselines"):
        rows = data.get(group, {})
        if not isinstance(rows, dict):
            notes.append(f"eval/results.json: {group} is not an object; it is left out")
            rows = {}
        results = [(name(key), _result(value)) for key, value in sorted(rows.items())[:_GROUPS]]
        if lost := sum(result is None for _, result in results):
            notes.append(f"eval/results.json: {group} has {lost} entries without a usable accuracy")
        if len(rows) > _GROUPS:
            notes.append(f"eval/results.json: {group} has {len(rows)} entries; the first {_GROUPS} are shown")
        found[group] = [{"name": key, **result} for key, result in results if result is not None]
    return found


def models(root: Path) -> list[dict[str, Any]]:
    """Curves and evaluations of every folder in `models/`, by name."""
    try:
        folders = sorted(path for path in (root / "models").iterdir() if path.is_dir())
    except OSError:
        return []
    found = []
    for folder in folders[:MODELS]:
        notes: list[str] = []
        training = curves(folder / "train.jsonl", notes)
        results = _results(folder / "eval" / "results.json", notes)
        other = None if results is None else held_out(results)
        evaluation = None if results is None or other is not None else _evaluation(results, notes)
        if len(folders) > MODELS and folder == folders[0]:
            notes.append(f"{len(folders)} models are in this run; the first {MODELS} are shown")
        found.append(
            {
                "name": name(folder.name),
                "training": training,
                "evaluation": evaluation,
                "held_out": other,
                "notes": notes,
            }
        )
    return found
