"""What became of functions, as counts: their unit tests, the candidates, outcomes and step labels.

As in `tables`, each function reads the columns that it needs, a batch at a time; leaves of the nested
ones only, since calls and failures are most of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from assay.report.plain import Doubling, median, name, share_bins, top
from assay.report.tables import NAMES, Reader, counted, grouped, named

SIGNS = ("1", "0", "null")
"""Labels and outcomes as facts name them."""

KINDS = ("all1", "some0", "none")
"""Candidates by their labelled steps: every one passes, one fails, there is none."""

_STEP = "steps.list.element."


def tests(reader: Reader, functions: int) -> dict[str, Any]:
    """Unit tests per function and the mutants that they kill; `functions` is how many there are to test."""
    per_function: Counter[tuple[str, str]] = Counter()
    chosen: Counter[tuple[str, str]] = Counter()
    kills: dict[tuple[str, str], set[int]] = {}
    mutants: dict[tuple[str, str], int] = {}
    sources: Counter[str] = Counter()
    rows = 0
    for batch in reader.batches(
        "tests", ["program_id", "function", "source", "kills", "mutants", "selected"]
    ):
        rows += len(batch)
        sources.update(named(counted(batch["source"])))
        for row in batch.to_pylist():
            key = (row["program_id"], row["function"])
            per_function[key] += 1
            chosen[key] += row["selected"]
            kills.setdefault(key, set()).update(row["kills"])
            mutants[key] = row["mutants"]
    many, few, scores = Doubling(), Doubling(), [0] * 10
    untested = max(0, functions - len(per_function))
    for bins in (many, few):
        if untested:
            bins.add(0, untested)
    for key, found in per_function.items():
        many.add(found)
        few.add(chosen[key])
    share_bins([len(kills[key]) / tried for key, tried in mutants.items() if tried > 0], scores)
    return {
        "rows": rows,
        "selected": chosen.total(),
        "sources": top(sources, NAMES),
        "functions_with_tests": len(per_function),
        "functions_without_tests": untested,
        "tests_per_function": many.facts(),
        "selected_per_function": few.facts(),
        "mutants": sum(mutants.values()),
        "mutants_killed": sum(len(found) for found in kills.values()),
        "mutation_score": scores,
    }


class _Shares:
    """Shares of 0 to 1 in ten bins, with their mean."""

    def __init__(self) -> None:
        self.bins = [0] * 10
        self.sum = 0.0

    def add(self, column: pa.ChunkedArray) -> None:
        good = [value for value in column.to_pylist() if value is not None and 0 <= value <= 1]
        share_bins(good, self.bins)
        self.sum += sum(good)

    def facts(self) -> dict[str, Any]:
        known = sum(self.bins)
        return {"bins": self.bins, "known": known, "mean": round(self.sum / known, 4) if known else None}


def suites(reader: Reader) -> dict[str, Any]:
    """Suites of functions: tests kept and selected, faults killed, coverage, calls that became no test."""
    kept, selected = Counter[int](), Counter[int]()
    reasons, dropped = Counter[str](), Counter[str]()
    score, coverage = _Shares(), _Shares()
    faults: Counter[tuple[str, bool, bool]] = Counter()
    columns = ["tests", "selected", "mutation_score", "coverage", "reason"]
    columns += [f"mutants.list.element.{one}" for one in ("operator", "killed", "timeout")]
    for batch in reader.batches(
        "suites", [*columns, "dropped.list.element.reason", "dropped.list.element.count"]
    ):
        kept.update(counted(batch["tests"]))
        selected.update(counted(batch["selected"]))
        score.add(batch["mutation_score"])
        coverage.add(batch["coverage"])
        reasons.update(named(counted(batch["reason"].drop_null())))
        mutants = pc.list_flatten(batch["mutants"])
        table = pa.table({one: pc.struct_field(mutants, one) for one in ("operator", "killed", "timeout")})
        for key, rows in grouped(table, ["operator", "killed", "timeout"]):
            faults[key] += rows
        for one in pc.list_flatten(batch["dropped"]).to_pylist():
            dropped[one["reason"]] += one["count"]
    return {
        "rows": kept.total(),
        "tests": sum(value * rows for value, rows in kept.items()),
        "selected": sum(value * rows for value, rows in selected.items()),
        "with_tests": kept.total() - kept[0],
        "tests_per_function": _doubled(kept),
        "selected_per_function": _doubled(selected),
        "selected_median": median({value: rows for value, rows in selected.items() if value > 0}),
        "mutation_score": score.facts(),
        "coverage": coverage.facts(),
        "operators": _operators(faults),
        "mutants": faults.total(),
        "killed": sum(rows for (_, killed, _), rows in faults.items() if killed),
        "timeouts": sum(rows for (_, killed, timeout), rows in faults.items() if killed and timeout),
        "dropped": top(dropped, NAMES),
        "reasons": top(reasons, NAMES),
    }


def _doubled(counts: Mapping[int, int]) -> dict[str, Any]:
    bins = Doubling()
    for value, rows in counts.items():
        bins.add(max(value, 0), rows)
    return bins.facts()


def _operators(faults: Mapping[tuple[str, bool, bool], int]) -> list[dict[str, Any]]:
    """Operators with most faults first: how many were tried, killed, and killed by nothing but time."""
    found: dict[str, Counter[str]] = {}
    for (operator, killed, timeout), rows in faults.items():
        one = found.setdefault(operator, Counter())
        one["tried"] += rows
        one["killed"] += rows * killed
        one["timeouts"] += rows * (killed and timeout)
    ranked = sorted(found.items(), key=lambda item: (-item[1]["tried"], item[0]))[:NAMES]
    return [
        {"name": name(operator), **{what: one[what] for what in ("tried", "killed", "timeouts")}}
        for operator, one in ranked
    ]


def candidates(reader: Reader) -> dict[str, Any]:
    """Candidates by what made them, and why no program was found in some."""
    made, faults = Counter[str](), Counter[str]()
    for batch in reader.batches("candidates", ["generator.model", "fault"]):
        made.update(named(counted(pc.struct_field(batch["generator"], "model"))))
        faults.update(named(counted(batch["fault"].drop_null())))
    return {"rows": made.total(), "generators": top(made, NAMES), "faults": top(faults, NAMES)}


def sign(value: int | None) -> str:
    """A label or outcome as facts name it."""
    return "null" if value is None else str(value)


def judged(cells: Iterable[tuple[str, str, int]]) -> dict[str, Any]:
    """What a judge's labels are worth against those of execution (`labelers.programs.judge`).

    Args:
        cells: (judge's label, label by execution, functions).
    """
    from labelers.programs.judge import judge_report

    value = {"1": 1, "0": 0}
    rows = (
        ("", value.get(ran), value.get(judge))
        for judge, ran, many in cells
        if judge in value
        for _ in range(many)
    )
    found = judge_report(rows)
    return {} if not found else {**found[""].row(), "functions": found[""].agreement.total}


def _kinds(steps: pa.ChunkedArray, rows: int) -> list[str]:
    """Of each candidate, which of `KINDS` its labels are."""
    found = ["none"] * rows
    table = pa.table(
        {"at": pc.list_parent_indices(steps), "z": pc.struct_field(pc.list_flatten(steps), "label")}
    )
    # The least label of a list; null where it has none.
    for row in table.group_by("at").aggregate([("z", "min")]).to_pylist():
        if row["z_min"] is not None:
            found[row["at"]] = "all1" if row["z_min"] == 1 else "some0"
    return found


def steps(reader: Reader) -> dict[str, Any]:
    """Outcomes and step labels of candidates, where they disagree, and by what made the candidate."""
    cells: Counter[tuple[str, str]] = Counter()
    whole: Counter[tuple[str, str]] = Counter()
    labels: Counter[tuple[str, str, str]] = Counter()
    conflicts: Counter[str] = Counter({"none": 0, "o1_z0": 0, "o0_allz1": 0})
    tally: dict[str, Counter[str]] = {
        one: Counter()
        for one in ("reason", "own_reason", "step_trust", "outcome_reason", "isolation", "trust")
    }
    makers: dict[str, Counter[str]] = {}
    problems: dict[str, set[str]] = {}
    columns = ["outcome", "outcome_reason", "trust", "conflict", "isolation", "split", "problem_id"]
    leaves = ("label", "reference_label", "own_label", "judge_label", "reason", "own_reason", "trust")
    read = [*columns, "generator.model", *(_STEP + leaf for leaf in leaves)]
    for batch in reader.batches("steps", read):
        conflicts.update(named(counted(batch["conflict"])))
        for column in ("outcome_reason", "isolation", "trust"):
            tally[column].update(named(counted(batch[column])))
        kinds = pa.array(_kinds(batch["steps"], len(batch)), pa.string())
        for (outcome, kind), rows in grouped(pa.table({"o": batch["outcome"], "k": kinds}), ["o", "k"]):
            whole[sign(outcome), kind] += rows
        flat = pc.list_flatten(batch["steps"])
        of = batch["outcome"].take(pc.list_parent_indices(batch["steps"]))
        table = pa.table({"o": of, **{leaf: pc.struct_field(flat, leaf) for leaf in leaves}})
        for (outcome, label), rows in grouped(table, ["o", "label"]):
            cells[sign(outcome), sign(label)] += rows
        for (reference, own, judge), rows in grouped(table, list(leaves[1:4])):
            labels[sign(reference), sign(own), sign(judge)] += rows
        for column, leaf in (("reason", "reason"), ("own_reason", "own_reason"), ("step_trust", "trust")):
            tally[column].update(named(counted(table[leaf])))
        made = pa.table({"m": pc.struct_field(batch["generator"], "model"), "o": batch["outcome"]})
        for (model, outcome), rows in grouped(made, ["m", "o"]):
            makers.setdefault(model, Counter())[sign(outcome)] += rows
        for (split, problem), _ in grouped(batch, ["split", "problem_id"]):
            problems.setdefault(split, set()).add(problem)
    ranked = sorted(makers.items(), key=lambda item: (-item[1].total(), item[0]))
    return {
        "rows": whole.total(),
        "functions": cells.total(),
        "labelled": sum(rows for (_, label), rows in cells.items() if label != "null"),
        "cells": [{"outcome": o, "label": z, "rows": cells[o, z]} for o in SIGNS for z in SIGNS],
        "candidates": [{"outcome": o, "steps": k, "rows": whole[o, k]} for o in SIGNS for k in KINDS],
        "outcomes": {o: sum(whole[o, k] for k in KINDS) for o in SIGNS},
        "conflicts": {name(key): rows for key, rows in sorted(conflicts.items())},
        **_agreement(labels),
        "step_reasons": top(tally["reason"], NAMES),
        "own_reasons": top(tally["own_reason"], NAMES),
        "step_trust": top(tally["step_trust"], NAMES),
        "outcome_reasons": top(tally["outcome_reason"], NAMES),
        "isolation": top(tally["isolation"], NAMES),
        "trust": top(tally["trust"], NAMES),
        "generators": [
            {"name": name(model), "rows": of.total(), **{f"outcome_{o}": of[o] for o in SIGNS}}
            for model, of in ranked[:NAMES]
        ],
        "splits": {name(split): {"problems": len(found)} for split, found in sorted(problems.items())},
        "problems_in_both_splits": len(problems.get("train", set()) & problems.get("test", set())),
    }


def _agreement(labels: Mapping[tuple[str, str, str], int]) -> dict[str, Any]:
    """How the labels beside the reference's functions, beside the candidate's own, and a judge's agree."""
    both: Counter[tuple[str, str]] = Counter()
    for (reference, own, _), rows in labels.items():
        both[reference, own] += rows
    asked = sum(rows for (_, _, judge), rows in labels.items() if judge != "null")
    found = {
        "reference": judged((judge, reference, rows) for (reference, _, judge), rows in labels.items()),
        "own": judged((judge, own, rows) for (_, own, judge), rows in labels.items()),
    }
    return {
        "both": [{"reference": r, "own": own, "rows": both[r, own]} for r in SIGNS for own in SIGNS],
        "judge": {"functions": asked, **found} if asked else None,
    }
