"""`assay train criteria` and `assay eval criteria`: the classifier that gives edits their criteria.

In: a run directory with mined edits, files of annotations. Out: a folder with the classifier or with its
figures, and one line or one JSON object on standard output. The run itself is only read.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.flags import Flags
from assay.recipe import Recipe
from schemas.errors import AssayError
from schemas.rundir import RunDir


def train(flags: Flags, run_dir: Path, annotated: Sequence[Path], out: Path | None) -> None:
    """Train a classifier on the edits of a run.

    Annotations that come with assay count where the run has their edits; of two of one edit the surer counts,
    else the given one.

    Raises:
        AssayError: the run has no edits, annotations cannot be read, or there is too little to train on.
    """
    from labelers.commits.classifying.rules import CODES
    from labelers.commits.training import data
    from labelers.commits.training.train import train_criteria

    run, recipe = _opened(flags, run_dir)
    place = out or run.root / "models" / "criteria"
    known = data.read_annotations([data.SHIPPED, *annotated], CODES)
    if flags.dry_run:
        edits = sum(part.sidecar.rows for part in run.parts("edits"))
        print(f"train criteria: {edits:,} edits and {len(known):,} annotations would go into {place}")
        return
    config = dataclasses.replace(recipe.criteria, seed=recipe.seed)
    found = train_criteria(data.edits_of(run), known, config, place, _progress(flags))
    _tell(flags, place, found, "train criteria")


def evaluate(flags: Flags, run_dir: Path, annotated: Sequence[Path], out: Path | None) -> None:
    """Measure the classifier that `label` uses on annotated edits of a run.

    Raises:
        AssayError: no annotations are given or none is about the run, or the classifier cannot be used.
    """
    from labelers.commits.classifying.rules import CODES
    from labelers.commits.training import data
    from labelers.commits.training.train import evaluate_criteria

    if not annotated:
        raise AssayError("eval criteria needs annotated edits: --annotated FILE")
    run, recipe = _opened(flags, run_dir)
    place = out or run.root / "models" / "criteria-eval"
    known = data.read_annotations(annotated, CODES)
    found = evaluate_criteria(data.edits_of(run), known, recipe.label.classifier, place, _progress(flags))
    _tell(flags, place, found, "eval criteria")


def _opened(flags: Flags, run_dir: Path) -> tuple[RunDir, Recipe]:
    run = RunDir.open(run_dir)
    saved = run.root / "recipe.toml"
    recipe = Recipe.load(flags.recipe or saved) if flags.recipe or saved.exists() else Recipe()
    if flags.seed is not None:
        recipe = dataclasses.replace(recipe, seed=flags.seed)
    if not run.parts("edits"):
        raise AssayError(f"{run.root}: no edits yet; run `assay mine` first")
    return run, recipe.override(flags.settings or [])


def _progress(flags: Flags) -> Any:
    return lambda line: None if flags.as_json else print(line, file=sys.stderr, flush=True)


def _tell(flags: Flags, place: Path, found: Mapping[str, Any], what: str) -> None:
    if flags.as_json:
        print(json.dumps({"folder": str(place), **found}, sort_keys=True))
        return
    figures = found["figures"]
    if not figures["rows"]:
        print(
            f"{what}: {found['classifier']}, of weak labels alone, and not measured, for want of annotated "
            f"edits; {place}"
        )
        return
    best, shipped = figures["best"], figures["shipped"]
    print(
        f"{what}: {found['classifier']} on {figures['rows']:,} annotated edits: F1 {best['f1']:.2f} at best; "
        f"precision {shipped['precision']:.2f} and recall {shipped['recall']:.2f} at the threshold "
        f"{found['threshold']:.2f}; {place / 'report.md'}"
    )
