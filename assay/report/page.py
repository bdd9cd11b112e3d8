"""Facts to HTML. Nothing is read here but the page's own template and style."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from assay.report import svg
from assay.report.plain import clip

_CRITERIA = (
    "functional correctness",
    "runtime efficiency",
    "memory efficiency",
    "security hardness",
    "readability and maintainability",
)
_COLUMNS, _ROWS, _HEADING = 10, 24, 40
_MONTHLY = 60  # a longer history is drawn by year

_METRICS = {
    "bt": "Bradley-Terry loss",
    "lm": "language-model loss, nats a token",
    "magnitude": "squared sum of a pair's rewards",
    "accuracy": "share of the step's pairs in the right order",
    "margin": "chosen reward minus rejected",
    "lr": "learning rate",
    "grad_norm": "norm of the gradient before clipping",
    "tokens": "tokens read since the start",
}
"""What the trainer's own names mean; another log's names stand alone."""

_HEADLINES = (
    ("edits", "edits", None),
    ("pairs", "preference pairs", None),
    ("programs", "programs", "functions"),
    ("candidates", "candidates", None),
    ("step_labels", "labelled steps", None),
    ("trajectories", "trajectories", None),
)


def duration(seconds: float) -> str:
    """Seconds as people say them: 0.4 s, 12 s, 3 min 20 s, 2 h 05 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"


def percent(part: float, whole: float) -> str:
    """A share in percent with one decimal; `–` of nothing."""
    return f"{part / whole:.1%}" if whole else "–"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _fixed(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3f}"


def _interval(ci95: list[float] | None) -> str:
    return f"{ci95[0]:.1%} – {ci95[1]:.1%}" if ci95 else "–"


def _folded(names: Counter[str], limit: int, first: tuple[str, ...] = ()) -> list[str]:
    """The names to print, those of `first` in front, then by rows; the last stands for the rest."""

    def rank(one: str) -> tuple[int, int, str]:
        lowered = one.lower()
        return (first.index(lowered) if lowered in first else len(first), -names[one], one)

    return sorted(names, key=rank)[:limit]


def _short(names: list[str]) -> list[str]:
    return [clip(one, _HEADING) for one in names]


def matrix(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Cells of (language, aspect, split) as a table: both splits together, small rows folded into one."""
    by_language: Counter[str] = Counter()
    by_aspect: Counter[str] = Counter()
    for cell in cells:
        by_language[cell["language"]] += cell["rows"]
        by_aspect[cell["aspect"]] += cell["rows"]
    languages, aspects = _folded(by_language, _ROWS), _folded(by_aspect, _COLUMNS, _CRITERIA)
    rest_rows, rest_columns = len(by_language) - len(languages), len(by_aspect) - len(aspects)
    counts: Counter[tuple[int, int]] = Counter()
    row_at = {one: at for at, one in enumerate(languages)}
    column_at = {one: at for at, one in enumerate(aspects)}
    for cell in cells:
        key = row_at.get(cell["language"], len(languages)), column_at.get(cell["aspect"], len(aspects))
        counts[key] += cell["rows"]
    rows = _short(languages) + ([f"{rest_rows} others"] if rest_rows else [])
    columns = _short(aspects) + ([f"{rest_columns} others"] if rest_columns else [])
    most = max(counts.values(), default=0) or 1
    return {
        "columns": columns,
        "rows": [
            {
                "name": one,
                "cells": [
                    {
                        "rows": counts[at, column],
                        # A square root keeps small cells apart; 40 % keeps the number readable on it.
                        "heat": round(40 * (counts[at, column] / most) ** 0.5, 1),
                    }
                    for column in range(len(columns))
                ],
                "total": sum(counts[at, column] for column in range(len(columns))),
            }
            for at, one in enumerate(rows)
        ],
        "totals": [sum(counts[at, column] for at in range(len(rows))) for column in range(len(columns))],
        "total": sum(counts.values()),
    }


def _bin_label(low: int) -> str:
    high = max(0, 2 * low - 1)
    if low == high:
        return str(low)
    return f"{low}–{high}" if high < 1000 else f"{svg.compact(low)}–{svg.compact(high)}"


def _doubling(
    charts: svg.Charts, title: str, unit: str, *series: tuple[str, dict[str, Any]]
) -> Markup | None:
    """A chart of histograms with doubling bins, on one axis; None when they hold nothing."""
    filled = sorted(one["lo"].bit_length() for _, facts in series for one in facts["bins"])
    if not filled:
        return None
    # Every bin between the first and the last has its place, also where no series has rows.
    lows = [(1 << bits) >> 1 for bits in range(filled[0], filled[-1] + 1)]
    values = []
    for called, facts in series:
        rows = {one["lo"]: one["rows"] for one in facts["bins"]}
        values.append((called, [rows.get(low, 0) for low in lows]))
    return charts.bars(title, unit, [_bin_label(low) for low in lows], values)


def _timeline(charts: svg.Charts, months: list[dict[str, Any]]) -> Markup | None:
    if not months:
        return None
    rows = {tuple(map(int, one["month"].split("-"))): one["rows"] for one in months}
    (y0, m0), (y1, m1) = min(rows), max(rows)
    span = (y1 - y0) * 12 + m1 - m0 + 1
    if span > _MONTHLY:
        years: Counter[int] = Counter()
        for (year, _), many in rows.items():
            years[year] += many
        labels = [str(year) for year in range(y0, y1 + 1)]
        values = [years[int(label)] for label in labels]
        return charts.bars("Edits by year of commit", "edits a year", labels, [("", values)])
    at = [divmod(y0 * 12 + m0 - 1 + index, 12) for index in range(span)]
    values = [rows.get((year, month + 1), 0) for year, month in at]
    labels = [f"{year}-{month + 1:02d}" for year, month in at]
    return charts.bars("Edits by month of commit", "edits a month", labels, [("", values)])


def _tenths(charts: svg.Charts, title: str, unit: str, bins: list[int]) -> Markup | None:
    if not any(bins):
        return None
    return charts.bars(title, unit, [f"{at / 10:.1f}" for at in range(len(bins))], [("", bins)])


def _stage_view(stage: dict[str, Any]) -> dict[str, Any]:
    whole = stage["rows_in"]
    shares = [(stage["kept"], "s0", f"kept: {stage['kept']:,}")]
    shares += [
        (drop["rows"], f"drop{at % 2}", f"{drop['reason']}: {drop['rows']:,}")
        for at, drop in enumerate(stage["drops"])
    ]
    drops = [{**drop, "bar": svg.share_bar([(drop["rows"], "drop0", "")], whole)} for drop in stage["drops"]]
    return {**stage, "bar": svg.share_bar(shares, whole), "drops": drops}


def _headline(facts: dict[str, Any]) -> list[dict[str, Any]]:
    counts = facts["counts"]
    found: list[dict[str, Any]] = []
    for key, label, detail in _HEADLINES:
        if key not in counts:
            continue
        note = f"{counts[detail]:,} {detail}" if detail and detail in counts else ""
        if key == "pairs" and "pairs" in facts:
            splits = sorted(facts["pairs"]["splits"].items(), reverse=True)
            note = " · ".join(f"{one['rows']:,}\N{NO-BREAK SPACE}{split}" for split, one in splits)
        if key == "step_labels":
            note = f"{counts.get('steps', 0):,} candidates verified"
        found.append({"label": label, "value": f"{counts[key]:,}", "note": note, "best": False})
    if best := facts["accuracy"]:
        note = f"{best['model']}" + (f", 95 % CI {_interval(best['ci95'])}" if best["ci95"] else "")
        label = "model accuracy" if best["models"] == 1 else f"best of {best['models']} models"
        found.append({"label": label, "value": f"{best['accuracy']:.1%}", "note": note, "best": True})
    return found


def _nothing(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Why there is nothing to publish, when there is nothing: the drops that took the most rows."""
    if any(facts["counts"].get(table) for table in ("pairs", "steps", "trajectories")):
        return None
    drops = [{**drop, "stage": stage["stage"]} for stage in facts["stages"] for drop in stage["drops"]]
    drops.sort(key=lambda drop: (-drop["rows"], drop["stage"], drop["reason"]))
    empty = [stage["stage"] for stage in facts["stages"] if stage["rows_in"] and not stage["kept"]]
    return {"ran": bool(facts["stages"]), "drops": drops[:6], "empty": empty}


def _model_view(charts: svg.Charts, model: dict[str, Any]) -> dict[str, Any]:
    view: dict[str, Any] = {**model, "curves": [], "once": [], "whiskers": None, "groups": []}
    metrics = (model["training"] or {}).get("metrics", [])
    curved = any(len(metric["points"]) > 1 for metric in metrics)
    for metric in metrics:
        if curved and len(metric["points"]) == 1:
            # One dot is no curve: it is said in words beside the others.
            view["once"].append(metric)
        elif metric["points"]:
            chart = charts.curve(f"{metric['name']} over training steps", metric["points"])
            meaning = _METRICS.get(metric["name"], "")
            view["curves"].append({**metric, "chart": chart, "meaning": meaning})
    if evaluation := model["evaluation"]:
        overall = {"name": "overall", "strong": True, **evaluation["overall"]}
        baselines = [{**row, "hollow": True} for row in evaluation["baselines"]]
        view["groups"] = [
            (heading, rows)
            for heading, rows in (
                ("Overall", [overall]),
                ("By criterion", evaluation["by_aspect"]),
                ("By language", evaluation["by_language"]),
                ("Baselines", baselines),
            )
            if rows
        ]
        rows = [row for _, group in view["groups"] for row in group]
        view["whiskers"] = charts.whiskers(f"Accuracy of {model['name']} with 95 % intervals", rows)
    return view


def _crossed(cells: list[dict[str, Any]], row: str, column: str) -> dict[tuple[str, str], int]:
    """Counts of a table's cells by two of their keys."""
    return {(cell[row], cell[column]): cell["rows"] for cell in cells}


def _drawn(charts: svg.Charts, facts: dict[str, Any]) -> dict[str, Markup | None]:
    """The charts of the tables, by the name that the template knows them by."""
    found: dict[str, Markup | None] = {}
    if edits := facts.get("edits"):
        found["months"] = _timeline(charts, edits["months"])
        found["lines"] = _doubling(
            charts, "Edits by lines changed", "lines added + removed", ("", edits["lines_changed"])
        )
    if labels := facts.get("labels"):
        found["confidence"] = _tenths(
            charts, "Labels by confidence", "estimated probability", labels["confidence"]
        )
        found["intent"] = _tenths(
            charts, "Labels by single-intent probability", "estimated probability", labels["single_intent"]
        )
    if pairs := facts.get("pairs"):
        sides = pairs["characters"]
        found["characters"] = _doubling(
            charts,
            "Pairs by length",
            "characters",
            ("chosen", sides["chosen"]),
            ("rejected", sides["rejected"]),
        )
    if programs := facts.get("programs"):
        found["functions"] = _doubling(
            charts, "Programs by number of functions", "functions", ("", programs["functions_per_program"])
        )
    suites, tests = facts.get("suites"), facts.get("tests")
    if tested := suites or tests:
        found["tests"] = _doubling(
            charts,
            "Functions by number of tests",
            "tests of a function",
            ("all tests", tested["tests_per_function"]),
            ("selected", tested["selected_per_function"]),
        )
        scores = suites["mutation_score"]["bins"] if suites else tested["mutation_score"]
        found["kills"] = _tenths(charts, "Functions by mutation score", "share of mutants killed", scores)
    if suites:
        found["coverage"] = _tenths(
            charts, "Functions by coverage", "share of statements run", suites["coverage"]["bins"]
        )
    if (steps := facts.get("steps")) and steps["rows"]:
        rows = {"1": "passes", "0": "fails", "null": "no verdict"}
        whole = _crossed(steps["candidates"], "outcome", "steps")
        cells = _crossed(steps["cells"], "outcome", "label")
        found["whole"] = charts.stacks(
            "Candidates by outcome and by all of their steps",
            ["every labelled step passes", "a step fails", "no step has a label"],
            [(label, [whole[o, kind] for kind in ("all1", "some0", "none")]) for o, label in rows.items()],
        )
        found["cells"] = charts.stacks(
            "Step labels by outcome of the candidate",
            ["step passes", "step fails", "no label"],
            [(label, [cells[o, z] for z in rows]) for o, label in rows.items()],
        )
    if trajectories := facts.get("trajectories"):
        found["messages"] = _doubling(
            charts, "Trajectories by number of messages", "messages", ("", trajectories["messages"])
        )
    return found


@functools.cache
def _template() -> jinja2.Template:
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        num=svg.figure,
        duration=duration,
        interval=_interval,
        pct=_share,
        fixed=_fixed,
    )
    environment.globals.update(
        percent=percent, share_bar=svg.share_bar, legend=svg.legend, patterns=svg.PATTERNS
    )
    environment.globals["style"] = Markup((here / "page.css").read_text())  # noqa: S704 (our own file)
    return environment.get_template("page.html.j2")


def render(facts: dict[str, Any]) -> str:
    """See `assay.report.render`."""
    charts = svg.Charts()
    pairs, steps = facts.get("pairs"), facts.get("steps")
    tables = (
        "repositories",
        "edits",
        "labels",
        "pairs",
        "problems",
        "programs",
        "tests",
        "suites",
        "candidates",
        "steps",
        "trajectories",
    )
    filled = {table: facts[table] for table in tables if table in facts and facts[table]["rows"]}
    return _template().render(
        **{table: filled.get(table) for table in tables},
        empty=[table for table in tables if table in facts and table not in filled],
        run=facts["run"],
        notes=facts["notes"],
        leakage=facts.get("leakage", []),
        headline=_headline(facts),
        nothing=_nothing(facts),
        stages=[_stage_view(stage) for stage in facts["stages"]],
        matrix=matrix(pairs["cells"]) if pairs else None,
        whole=_crossed(steps["candidates"], "outcome", "steps") if steps else {},
        cells=_crossed(steps["cells"], "outcome", "label") if steps else {},
        both=_crossed(steps["both"], "reference", "own") if steps else {},
        charts=_drawn(charts, facts),
        models=[_model_view(charts, model) for model in facts["models"]],
        samples=facts["samples"],
        recipe=facts["recipe"],
    )
