"""The charts of the tables: facts to drawings, by the names that the templates know them by."""

from __future__ import annotations

from collections import Counter
from typing import Any

from markupsafe import Markup

from assay.report import svg

_MONTHLY = 60  # a longer history is drawn by year


def crossed(cells: list[dict[str, Any]], row: str, column: str) -> dict[tuple[str, str], int]:
    """Counts of a table's cells by two of their keys."""
    return {(cell[row], cell[column]): cell["rows"] for cell in cells}


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


def _judged(charts: svg.Charts, votes: dict[str, Any], found: dict[str, Markup | None]) -> None:
    """Charts of votes: shares, ratings, and how often each judge says A."""
    sides = votes["share"]
    labels = [f"{at / 10:.1f}" for at in range(10)]
    if any(sides["confirmed"]) or any(sides["others"]):
        found["share"] = charts.bars(
            "Views by share of votes for the new version",
            "share of votes",
            labels,
            [("confirmed", sides["confirmed"]), ("not confirmed", sides["others"])],
        )
    for one in ("strength", "specificity"):
        if any(votes[one]["bins"]):
            halves = [f"{1 + at / 2:g}" for at in range(len(votes[one]["bins"]))]
            found[one] = charts.bars(
                f"Views by {one}", "mean of the reviews", halves, [("", votes[one]["bins"])]
            )
    judges = (votes["agreement"] or {}).get("judges", [])
    for key, title in (
        ("said_a", "Votes for the version shown as A"),
        ("longer", "Votes for the longer version"),
    ):
        rows = [
            {"name": one["name"], "accuracy": one[key]["share"], "ci95": [one[key]["low"], one[key]["high"]]}
            for one in judges
            if one[key]["total"]
        ]
        found[key] = charts.whiskers(f"{title}, with 95 % intervals", rows) if rows else None


def drawn(charts: svg.Charts, facts: dict[str, Any]) -> dict[str, Markup | None]:
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
    if votes := facts.get("votes"):
        _judged(charts, votes, found)
    for table, title in (
        ("pairs", "Pairs"),
        ("synthetic", "Synthetic pairs"),
        ("preferences", "Imported pairs"),
    ):
        if table in facts:
            sides = facts[table]["characters"]
            found[table] = _doubling(
                charts,
                f"{title} by length",
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
        whole = crossed(steps["candidates"], "outcome", "steps")
        cells = crossed(steps["cells"], "outcome", "label")
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
