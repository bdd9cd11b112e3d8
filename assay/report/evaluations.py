"""Evaluations of files in a run: pairs, attacks, best of k, calibration, pass@k.

`evaluations/<kind>/results.json` holds what `assay eval <kind>` found. Out: for each kind its charts and
tables as plain facts: a table has columns (name, form) and rows of values, a chart rows with intervals or
lines. A file is somebody's: what is no number, or no share where a share is meant, is left out; a file that
cannot be used leaves a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.report.plain import count, name, number, parse_json, read_text

_RESULTS_BYTES = 16 << 20
_GROUPS = 40
_POLICIES = 3
"""Most lines of a chart."""

Facts = dict[str, Any]


def evaluations(root: Path) -> tuple[list[Facts], list[str]]:
    """(evaluations that are there, in a fixed order; what is wrong with others)."""
    found, notes = [], []
    for kind, (title, make) in _KINDS.items():
        text, problem = read_text(root / "evaluations" / kind / "results.json", _RESULTS_BYTES)
        data: Any = None
        if text is not None:
            data, problem = parse_json(text)
            if problem is None and not isinstance(data, dict):
                problem = "is not a JSON object"
        if problem is not None:
            notes.append(f"evaluations/{kind}/results.json {problem}; evaluate again")
        elif data is not None:
            found.append({"kind": kind, "title": title, **_about(data), **make(data)})
    return found, notes


def _about(data: Mapping[str, Any]) -> Facts:
    """What every result tells: the model, the rows that were read and those that were not used."""
    dropped = data.get("dropped")
    drops = sorted(dropped.items()) if isinstance(dropped, dict) else []
    model = data.get("model")
    return {
        "model": name(model) if isinstance(model, str) else None,
        "rows": count(data.get("rows")),
        "dropped": [
            {"reason": name(reason), "rows": rows}
            for reason, value in drops[:_GROUPS]
            if (rows := count(value))
        ],
    }


def held_out(data: Mapping[str, Any]) -> Facts | None:
    """Charts and tables of what a model of another objective than pairs' is measured by (`eval rm`); None for
    a file that does not name its objective."""
    objective = data.get("objective")
    if not isinstance(objective, str):
        return None
    told = [
        [name(key.replace("_", " "), 40), value]
        for key, raw in list(data.items())[:_GROUPS]
        if key not in ("rows", "kept") and (value := number(raw)) is not None
    ]
    rows = count(data.get("kept"))
    caption = f"Held-out rows, objective {name(objective, 40)}" + (f": {rows:,}" if rows is not None else "")
    tables = [_table(caption, [("Measure", "text"), ("Value", "number")], told)] if told else []
    drawn: list[Facts] = []
    if "reliability" in data:
        drawn += _calibration(data)["charts"]
    if "best_of" in data:
        picked = _best_of_k(data)
        drawn += picked["charts"]
        tables += picked["tables"]
    return {"charts": drawn, "tables": tables}


def _share(value: Any) -> float | None:
    found = number(value)
    return float(found) if found is not None and 0 <= found <= 1 else None


def _interval(value: Any, within: bool = True) -> list[float] | None:
    ends = value if isinstance(value, list) and len(value) == 2 else []
    known = [_share(end) if within else number(end) for end in ends]
    return [float(end) for end in known if end is not None] if len(known) == 2 and None not in known else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, row in list(_mapping(value).items())[:_GROUPS]:
        if isinstance(row, dict):
            yield name(key), row


def _table(caption: str, columns: list[tuple[str, str]], rows: list[list[Any]]) -> Facts:
    return {
        "caption": caption,
        "columns": [{"name": head, "form": form} for head, form in columns],
        "rows": rows,
    }


_ACCURACY = [
    ("On", "text"),
    ("Accuracy", "share"),
    ("95 % interval", "interval"),
    ("Ties as wrong", "share"),
    ("Ties", "count"),
    ("Pairs", "count"),
]


def _accuracies(data: Mapping[str, Any], kinds: Mapping[str, str], title: str) -> Facts:
    """The chart and the table of accuracies by group; without an overall accuracy there is neither."""
    overall = _mapping(data.get("overall"))
    overall = {**overall, "count": overall.get("total_examples")}
    groups = [("all pairs", overall)]
    for key in kinds:
        groups += list(_rows(data.get(key)))
    drawn, told = [], []
    for at, (group, row) in enumerate(groups[: _GROUPS + 1]):
        accuracy, interval = _share(row.get("accuracy_ties_half")), _interval(row.get("ci95"))
        if accuracy is None:
            continue
        drawn.append({"name": group, "accuracy": accuracy, "ci95": interval, "strong": at == 0})
        strict = _share(row.get("accuracy"))
        told.append([group, accuracy, interval, strict, count(row.get("ties")), count(row.get("count"))])
    if not drawn:
        return {"charts": [], "tables": []}
    return {
        "charts": [{"type": "whiskers", "title": title, "note": "ties count half", "rows": drawn}],
        "tables": [_table(title, _ACCURACY, told)],
    }


def _pairs(data: Mapping[str, Any]) -> Facts:
    layout = data.get("layout")
    if layout == "rewardbench2":
        rows = [("mean over subsets", {"score": data.get("score")}), *_rows(data.get("by_subset"))]
        spread = {**_mapping(data.get("ci95")), "mean over subsets": _mapping(data.get("ci95")).get("score")}
        told = [
            [one, _share(row.get("score")), _interval(spread.get(one)), count(row.get("prompts"))]
            for one, row in rows
        ]
        heads = [("Subset", "text"), ("Score", "share"), ("95 % interval", "interval"), ("Prompts", "count")]
        return {"charts": [], "tables": [_table("RewardBench 2", heads, told)]}
    if layout == "rm-bench":
        rows = [("all domains", dict(data)), *_rows(data.get("by_domain"))]
        levels = ("easy", "normal", "hard", "mean")
        told = [[one, *(_share(row.get(level)) for level in levels)] for one, row in rows]
        heads = [("Domain", "text"), *((level.capitalize(), "share") for level in levels)]
        return {"charts": [], "tables": [_table("RM-Bench", heads, told)]}
    kinds = {"by_aspect": "criterion", "by_language": "language", "by_subset": "subset"}
    found = _accuracies(data, kinds, "Accuracy")
    overall = _mapping(data.get("overall"))
    told = []
    for label, key in (("AUC", "auc"), ("Brier score", "brier"), ("ECE of the winner", "ece")):
        if (value := number(overall.get(key))) is not None:
            told.append([label, value, _interval(overall.get(f"{key}_ci95"), within=False)])
    for key, word in (("macro_aspect", "criteria"), ("macro_language", "languages")):
        if (value := _share(data.get(key))) is not None:
            told.append([f"mean accuracy over {word}", value, _interval(data.get(f"{key}_ci95"))])
    if told:
        heads = [("Measure", "text"), ("Value", "number"), ("95 % interval", "numbers")]
        found["tables"].append(_table("All pairs", heads, told))
    return found


def _robustness(data: Mapping[str, Any]) -> Facts:
    return _accuracies(data, {"by_subset": "what made the wrong side"}, "Accuracy by what misleads")


def _line(label: str, points: list[tuple[float, float | None]]) -> Facts:
    return {"name": label, "points": [[x, y] for x, y in points if y is not None]}


def _drawn_numbers(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows by a number of draws, in rising order."""
    found = [(int(key), row) for key, row in _rows(value) if key.isdecimal() and 0 < int(key) < 1 << 20]
    yield from sorted(found, key=lambda one: one[0])


def _best_of_k(data: Mapping[str, Any]) -> Facts:
    rows = list(_drawn_numbers(data.get("best_of")))
    hits = dict(_drawn_numbers(data.get("hits")))
    series = [
        _line(label, [(float(k), _share(row.get(key))) for k, row in rows])
        for label, key in (("model", "rm"), ("oracle", "oracle"), ("random", "random"))
    ]
    told = [
        [
            k,
            _share(row.get("rm")),
            _interval(row.get("ci95")),
            _share(row.get("random")),
            _share(row.get("oracle")),
            number(row.get("gain")),
            _share(hits.get(k, {}).get("hits")),
            count(row.get("tasks")),
        ]
        for k, row in rows
    ]
    heads = [("k", "count"), ("RM@k", "share"), ("95 % interval", "interval"), ("Random", "share")]
    heads += [("Oracle", "share"), ("Gain", "fixed"), ("Hits@k", "share"), ("Tasks", "count")]
    chart = {
        "type": "lines",
        "title": "Share of tasks whose pick is right",
        "note": "over the number of candidates k",
        "axes": ["candidates k", "share right"],
        "series": series,
        "logarithmic": True,
    }
    return {"charts": [chart] if rows else [], "tables": [_table("Best of k", heads, told)] if told else []}


_CALIBRATION = {
    "auc": "AUC",
    "auc_instance": "AUC within instances",
    "ece": "ECE, bins of equal width",
    "ece_adaptive": "ECE, bins of equal count",
    "brier": "Brier score",
    "nll": "NLL",
}


def _calibration(data: Mapping[str, Any]) -> Facts:
    parts = [("as scored", data)]
    if isinstance(data.get("scaled"), dict):
        parts.append(("scaled", data["scaled"]))
    series, told = [], []
    for label, part in parts:
        bins = part.get("reliability")
        rows = [row for row in bins if isinstance(row, dict)] if isinstance(bins, list) else []
        points = [(_share(row.get("confidence")), _share(row.get("outcome"))) for row in rows[:_GROUPS]]
        series.append(_line(label, [(x, y) for x, y in points if x is not None]))
    for key, label in _CALIBRATION.items():
        row: list[Any] = [label]
        for _, part in parts:
            within = _mapping(part.get("ci95")).get(key)
            row += [number(part.get(key)), _interval(within, within=False)]
        if any(value is not None for value in row[1:]):
            told.append(row)
    heads = [("Measure", "text")]
    for label, _ in parts:
        heads += [(label, "number"), ("95 % interval", "numbers")]
    temperature = number(data.get("temperature"))
    caption = (
        "Calibration" if temperature is None else f"Calibration, scaled by temperature {temperature:.3g}"
    )
    tables = [_table(caption, heads, told)] if told else []
    if drift := _mapping(data.get("drift")):
        words = {"largest": "largest change", "mean": "mean change", "shift": "mean shift"}
        words |= {"spearman": "Spearman's rho", "ks": "Kolmogorov-Smirnov distance", "psi": "stability index"}
        moved = [
            [label, value] for key, label in words.items() if (value := number(drift.get(key))) is not None
        ]
        tables.append(_table("Beside earlier scores", [("Measure", "text"), ("Value", "number")], moved))
    chart = {
        "type": "lines",
        "title": "Reliability",
        "note": "share that is right over the probability that the score says; dashed is calibrated",
        "axes": ["probability", "share right"],
        "series": series,
        "diagonal": True,
    }
    return {"charts": [chart] if any(one["points"] for one in series) else [], "tables": tables}


def _pass_at_k(data: Mapping[str, Any]) -> Facts:
    series: list[Facts] = []
    told: list[list[Any]] = []
    for policy, own in _rows(data.get("policies")):
        rows = list(_drawn_numbers(own.get("pass_at_k")))
        if len(series) < _POLICIES:
            series.append(_line(policy, [(float(k), _share(row.get("value"))) for k, row in rows]))
        for k, row in rows:
            value = _share(row.get("value")), _interval(row.get("ci95"))
            told.append([policy, k, *value, count(row.get("problems")), count(row.get("short"))])
    heads = [("Policy", "text"), ("k", "count"), ("pass@k", "share"), ("95 % interval", "interval")]
    heads += [("Problems", "count"), ("With fewer samples", "count")]
    chart = {
        "type": "lines",
        "title": "Share of problems solved",
        "note": "by one of k samples",
        "axes": ["samples k", "share solved"],
        "series": series,
        "logarithmic": True,
    }
    return {"charts": [chart] if told else [], "tables": [_table("pass@k", heads, told)] if told else []}


_KINDS: dict[str, tuple[str, Callable[[Mapping[str, Any]], Facts]]] = {
    "pairs": ("Pairs", _pairs),
    "robustness": ("Pairs that mislead", _robustness),
    "best-of-k": ("Best of k", _best_of_k),
    "calibration": ("Calibration", _calibration),
    "pass-at-k": ("pass@k", _pass_at_k),
}
