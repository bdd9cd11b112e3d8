"""Facts to HTML. Nothing is read here but the page's own template and style."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from assay.report import svg
from assay.report.drawn import crossed, drawn
from assay.report.plain import clip
from schemas.records import PAIR_TABLES, SPLIT_TABLES

_USUAL = (
    *("functional correctness", "fc", "runtime efficiency", "re", "memory efficiency", "me"),
    *("security hardness", "sh", "readability and maintainability", "rm"),
    *("agrees", "disagrees", "silent", "confirmed"),
)
"""Names that stand in this order before all others."""
_COLUMNS, _ROWS, _HEADING, _MOVED = 10, 24, 40, 8

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
    ("synthetic", "synthetic pairs", None),
    ("preferences", "imported pairs", None),
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


def _range(ends: list[float] | None) -> str:
    return f"{svg.figure(ends[0], 3)} – {svg.figure(ends[1], 3)}" if ends else "–"


def _folded(names: Counter[str], limit: int) -> list[str]:
    """The names to print, the usual ones in front, then by rows."""

    def rank(one: str) -> tuple[int, int, str]:
        lowered = one.lower()
        return (_USUAL.index(lowered) if lowered in _USUAL else len(_USUAL), -names[one], one)

    return sorted(names, key=rank)[:limit]


def _short(names: list[str]) -> list[str]:
    return [clip(one, _HEADING) for one in names]


def _others(many: int) -> list[str]:
    return [f"{many} {'other' if many == 1 else 'others'}"] if many else []


def matrix(cells: list[dict[str, Any]], row: str = "language", column: str = "aspect") -> dict[str, Any]:
    """Cells as a table of two of their keys, the others summed; small rows or columns are folded into one."""
    by_row: Counter[str] = Counter()
    by_column: Counter[str] = Counter()
    for cell in cells:
        by_row[cell[row]] += cell["rows"]
        by_column[cell[column]] += cell["rows"]
    first, second = _folded(by_row, _ROWS), _folded(by_column, _COLUMNS)
    rest_rows, rest_columns = len(by_row) - len(first), len(by_column) - len(second)
    counts: Counter[tuple[int, int]] = Counter()
    row_at = {one: at for at, one in enumerate(first)}
    column_at = {one: at for at, one in enumerate(second)}
    for cell in cells:
        key = row_at.get(cell[row], len(first)), column_at.get(cell[column], len(second))
        counts[key] += cell["rows"]
    rows = _short(first) + _others(rest_rows)
    columns = _short(second) + _others(rest_columns)
    most = max(counts.values(), default=0) or 1
    return {
        "columns": columns,
        "rows": [
            {
                "name": one,
                "cells": [
                    {
                        "rows": counts[at, place],
                        # A square root keeps small cells apart; 40 % keeps the number readable on it.
                        "heat": round(40 * (counts[at, place] / most) ** 0.5, 1),
                    }
                    for place in range(len(columns))
                ],
                "total": sum(counts[at, place] for place in range(len(columns))),
            }
            for at, one in enumerate(rows)
        ],
        "totals": [sum(counts[at, place] for at in range(len(rows))) for place in range(len(columns))],
        "total": sum(counts.values()),
    }


def moved(moves: list[dict[str, Any]]) -> dict[str, Any]:
    """How measures moved, as a table of measures by criteria; those that moved nowhere are left out."""
    by_measure: Counter[str] = Counter()
    by_criterion: Counter[str] = Counter()
    views: dict[str, int] = {}
    for one in moves:
        by_measure[one["measure"]] += one["lower"] + one["higher"]
        by_criterion[one["criterion"]] += one["rows"]
        views[one["criterion"]] = max(views.get(one["criterion"], 0), one["rows"])
    criteria = _folded(by_criterion, _MOVED)
    measures = [one for one in _folded(by_measure, _ROWS) if by_measure[one]]
    found = {(one["measure"], one["criterion"]): one for one in moves}
    return {
        "columns": [(clip(one, _HEADING), views[one]) for one in criteria],
        "rows": [
            {"name": clip(one, _HEADING), "cells": [found.get((one, criterion)) for criterion in criteria]}
            for one in measures
        ],
        "left_out": len(by_measure) - len(measures),
    }


def kappas(agreement: dict[str, Any]) -> list[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]:
    """Criteria with their kappa where they were put forward, and where they were asked about besides."""
    own, others = (
        {one["name"]: one for one in agreement[side]["by_criterion"]} for side in ("own", "others")
    )
    names: Counter[str] = Counter({one: own.get(one, {}).get("items", 0) for one in (*own, *others)})
    return [(one, own.get(one), others.get(one)) for one in _folded(names, len(names))]


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
        if key in PAIR_TABLES and key in facts:
            splits = sorted(facts[key]["splits"].items(), reverse=True)
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
    if any(facts["counts"].get(table) for table in SPLIT_TABLES):
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
    if model["held_out"]:
        view["held_out"] = _evaluation_view(charts, model["held_out"])
    return view


def _evaluation_view(charts: svg.Charts, one: dict[str, Any]) -> dict[str, Any]:
    """An evaluation with its charts drawn and its cells as text."""
    drawings = []
    for spec in one["charts"]:
        if spec["type"] == "whiskers":
            drawn = charts.whiskers(spec["title"], spec["rows"])
        else:
            series = [(line["name"], line["points"]) for line in spec["series"]]
            how = {"logarithmic": spec.get("logarithmic", False), "diagonal": spec.get("diagonal", False)}
            drawn = charts.lines(spec["title"], (spec["axes"][0], spec["axes"][1]), series, **how)
        drawings.append({"title": spec["title"], "note": spec["note"], "chart": drawn})
    forms: dict[str, Callable[[Any], str]] = {
        "text": str,
        "count": svg.figure,
        "number": svg.figure,
        "fixed": _fixed,
        "share": _share,
        "interval": _interval,
        "numbers": _range,
    }
    tables = [
        {
            **table,
            "rows": [
                [forms[column["form"]](cell) for column, cell in zip(table["columns"], row, strict=True)]
                for row in table["rows"]
            ],
        }
        for table in one["tables"]
    ]
    return {**one, "drawings": drawings, "tables": tables}


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
        percent=percent,
        share_bar=svg.share_bar,
        legend=svg.legend,
        patterns=svg.PATTERNS,
        matrix=matrix,
        moved=moved,
        kappas=kappas,
    )
    environment.globals["style"] = Markup((here / "page.css").read_text())  # noqa: S704 (our own file)
    return environment.get_template("page.html.j2")


def render(facts: dict[str, Any]) -> str:
    """See `assay.report.render`."""
    charts = svg.Charts()
    steps = facts.get("steps")
    tables = (
        "repositories",
        "edits",
        "labels",
        "evidence",
        "votes",
        "instructions",
        *PAIR_TABLES,
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
        whole=crossed(steps["candidates"], "outcome", "steps") if steps else {},
        cells=crossed(steps["cells"], "outcome", "label") if steps else {},
        both=crossed(steps["both"], "reference", "own") if steps else {},
        charts=drawn(charts, facts),
        models=[_model_view(charts, model) for model in facts["models"]],
        evaluations=[_evaluation_view(charts, one) for one in facts["evaluations"]],
        samples=facts["samples"],
        recipe=facts["recipe"],
    )
