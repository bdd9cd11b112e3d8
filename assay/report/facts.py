"""All facts of a run that the page shows, gathered once and JSON-able: `report.json` is this dict."""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable
from typing import Any

from assay.report import Reasons, evidence, pairs, samples, steps, tables, votes
from assay.report.evaluations import evaluations
from assay.report.funnel import funnel, parts_of, unfinished
from assay.report.models import models
from assay.report.plain import clip, count, name, read_text, shown
from schemas.records import PAIR_TABLES
from schemas.rundir import Part, RunDir

FORMAT = 1
_RECIPE_BYTES = 1 << 20


def _recipe(run: RunDir, notes: list[str]) -> tuple[str | None, int | None]:
    """(text of the resolved recipe, its seed)."""
    text, problem = read_text(run.root / "recipe.toml", _RECIPE_BYTES)
    if problem:
        notes.append(f"recipe.toml {problem}")
    if text is None:
        return None, None
    try:
        parsed = tomllib.loads(text)
    except (ValueError, RecursionError):
        notes.append("recipe.toml is not valid TOML; the run cannot be repeated from it as it stands")
        return shown(text), None
    return shown(text), count(parsed.get("seed"))


def _leakage(run: RunDir) -> list[dict[str, Any]]:
    """What was measured between train and test: of the splits, and of the pairs once they are built."""
    from miner.leakage import broken, read_facts

    found = []
    for what in ("splits", "pairs"):
        if facts := read_facts(run, what):
            counts = {**facts["must_be_zero"], **facts["for_information"]}
            found.append(
                {
                    "of": what,
                    "by": name(facts["by"]),
                    "train": count(facts["train"]) or 0,
                    "test": count(facts["test"]) or 0,
                    "wrong": shown(broken(facts)),
                    "counts": [
                        {
                            "what": name(key.replace("_", " ")),
                            "rows": count(value) or 0,
                            "zero": key in facts["must_be_zero"],
                        }
                        for key, value in counts.items()
                    ],
                }
            )
    return found


def _counts(parts: dict[str, list[Part]], found: dict[str, Any]) -> dict[str, int]:
    rows = {table: sum(count(part.sidecar.rows) or 0 for part in shards) for table, shards in parts.items()}
    if labelled := found.get("steps"):
        rows["step_labels"] = labelled["labelled"]
    if programs := found.get("programs"):
        rows["functions"] = programs["functions"]
    return rows


def _headline(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The evaluated model with the highest accuracy; the first by name when several have it."""
    evaluated = [model for model in found if model["evaluation"]]
    if not evaluated:
        return None
    best = max(evaluated, key=lambda model: model["evaluation"]["overall"]["accuracy"])
    overall = best["evaluation"]["overall"]
    return {
        "model": best["name"],
        "models": len(evaluated),
        "accuracy": overall["accuracy"],
        "ci95": overall["ci95"],
    }


def collect(run: RunDir, reasons: Reasons) -> dict[str, Any]:
    """See `assay.report.collect`."""
    notes: list[str] = []
    parts = parts_of(run)
    reader = tables.Reader(parts)
    stages, wrong = funnel(parts, run, reasons)
    recipe, seed = _recipe(run, notes)
    found: dict[str, Any] = {}
    sections: dict[str, Callable[[tables.Reader], Any]] = {
        "repositories": tables.repositories,
        "edits": tables.edits,
        "labels": tables.labels,
        "evidence": evidence.evidence,
        "votes": votes.votes,
        "instructions": votes.instructions,
        **{table: functools.partial(pairs.pairs, table=table) for table in PAIR_TABLES},
        "problems": tables.problems,
        "programs": tables.programs,
        "tests": lambda reader: steps.tests(reader, found.get("programs", {}).get("functions", 0)),
        "suites": steps.suites,
        "candidates": steps.candidates,
        "steps": steps.steps,
        "trajectories": tables.trajectories,
    }
    for table, section in sections.items():
        if table in parts:
            found[table] = section(reader)
    for one in found.get("votes", {}).get("decisions", {}).get("top", []):
        # A decision that makes no pair is a reason of `build`, which explains it.
        meaning = reasons.get("build", {}).get(f"judged_{one['name']}")
        one["meaning"] = None if meaning is None else clip(shown(meaning), 400)
    trained = models(run.root)
    evaluated, unread = evaluations(run.root)
    shows = {
        "pairs": [
            row
            for table, many in zip(PAIR_TABLES, (samples.PAIRS, samples.OTHERS, samples.OTHERS), strict=True)
            for row in samples.pairs(reader, table, many)
        ],
        "program": samples.program(reader),
        "conflicts": samples.conflicts(reader, found.get("steps", {}).get("conflicts", {})),
    }
    notes += wrong + unread + unfinished(run, parts) + list(dict.fromkeys(reader.notes))
    return {
        "format": FORMAT,
        "run": {
            # A folder's name may hold bytes that are not UTF-8.
            "name": name(os.fsencode(run.root.resolve().name).decode("utf-8", "replace")),
            "seed": seed,
            "seconds": round(sum(stage["seconds"] for stage in stages), 3),
        },
        "counts": _counts(parts, found),
        "accuracy": _headline(trained),
        "stages": stages,
        "leakage": _leakage(run),
        **found,
        "models": trained,
        "evaluations": evaluated,
        "samples": shows,
        "recipe": recipe,
        "notes": notes,
    }
