"""`train criteria` and `eval criteria`: edits and annotations become a classifier and a report of it.

In: edits of a run with their repositories (`data.edits_of`), annotations by commit and path
(`data.read_annotations`), settings. Out: a folder that `label.classifier` can name, with the model,
`report.json`, `report.md` and `report.svg`. The same edits and annotations give the same bytes. Wrong: too
little to train on, or nothing annotated to measure with, is an `AssayError`.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labelers.commits import classifier, criteria
from labelers.commits.classifying import model as linear_model
from labelers.commits.classifying.features import features_of
from labelers.commits.classifying.rules import CODES
from labelers.commits.training import linear, metrics, report
from labelers.commits.training.config import CriteriaConfig
from labelers.commits.training.data import Annotation, Key
from labelers.commits.training.metrics import Judged
from schemas.errors import AssayError
from schemas.ids import fraction

Edits = Iterable[tuple[str, Mapping[str, Any]]]
Progress = Callable[[str], None]
_SAID = 10_000
"""Edits between two lines of progress."""


def _known(edit: Mapping[str, Any], annotated: Mapping[Key, Annotation]) -> Judged | None:
    found = annotated.get((edit["commit"], edit["path"]))
    return None if found is None else dataclasses.replace(found.judged, language=edit["language"])


def sample(
    edits: Edits,
    annotated: Mapping[Key, Annotation],
    config: CriteriaConfig,
    make: Callable[[Mapping[str, Any]], Any],
    progress: Progress,
) -> list[tuple[str, Any, Judged | None]]:
    """(repository, what `make` makes of it, annotation) of annotated edits and of a fixed draw of others.

    Of each repository the `per_repository` edits with the least draw are taken, whatever their order. The
    result is sorted, so the order in which edits come does not matter.
    """
    drawn: dict[str, list[tuple[float, str, Any]]] = collections.defaultdict(list)
    known: dict[str, tuple[str, Any, Judged]] = {}
    for number, (group, edit) in enumerate(edits, 1):
        if number % _SAID == 0:
            progress(f"{number:,} edits read")
        judged = _known(edit, annotated)
        if judged is not None:
            known[edit["id"]] = (group, make(edit), judged)
            continue
        heap = drawn[group]
        draw = -fraction(config.seed, "criteria", edit["id"])
        if len(heap) < config.per_repository:
            heapq.heappush(heap, (draw, edit["id"], make(edit)))
        elif draw > heap[0][0]:
            heapq.heapreplace(heap, (draw, edit["id"], make(edit)))
    loose = [
        (group, made, None)
        for group in sorted(drawn)
        for _, _, made in sorted(drawn[group], key=lambda one: (-one[0], one[1]))
    ]
    return [*loose, *(known[name] for name in sorted(known))]


def train_criteria(
    edits: Edits, annotated: Mapping[Key, Annotation], config: CriteriaConfig, out: Path, progress: Progress
) -> dict[str, Any]:
    """Train a classifier into the folder `out`; returns its report.

    The report's figures are out of fold: each annotated edit is scored by a classifier that saw no edit of
    its repository.

    Raises:
        AssayError: too little to train on, or `out` cannot be written.
    """
    if config.backend == "encoder":
        from labelers.commits.training import encoder

        drawn = sample(edits, annotated, config, encoder.prepared, progress)
        return encoder.train(drawn, config, out, progress)
    found = sample(edits, annotated, config, features_of, progress)
    made = linear.train([linear.Example(*one) for one in found], config, progress)
    judged = [one for _, _, one in found if one is not None]
    if not judged:
        progress("no edit of the run is annotated, so nothing was measured: weak labels alone")
    about = {
        "classifier": made.model.version,
        "trained": dict(made.model.about),
        "threshold": made.model.threshold,
        "scores": "out of fold" if len(judged) >= linear.FEW else "of the training itself",
        "rules": made.rules,
        "figures": metrics.measure(made.chances, made.single, CODES, judged, made.model.threshold),
    }
    _written(out, lambda: linear_model.save(made.model, out))
    _written(out, lambda: report.write(about, out))
    return about


def _written(out: Path, write: Callable[[], object]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as error:
        raise AssayError(f"{out}: cannot be written ({error.strerror}); give another --out") from None


def evaluate_criteria(
    edits: Edits, annotated: Mapping[Key, Annotation], name: str, out: Path, progress: Progress
) -> dict[str, Any]:
    """Measure a classifier (as `label.classifier` names it) on annotated edits; returns its report.

    Annotated edits that the run does not have count as edits that got no criterion.

    Raises:
        AssayError: no edit of the run is annotated, or `out` cannot be written.
    """
    trained = classifier.scorer(name)
    chances, single, judged, seen = [], [], [], set()
    built_in = [one for one in criteria.load() if one.code in CODES]
    for number, (_, edit) in enumerate(edits, 1):
        if number % _SAID == 0:
            progress(f"{number:,} edits read")
        known = _known(edit, annotated)
        if known is None or (edit["commit"], edit["path"]) in seen:
            continue
        seen.add((edit["commit"], edit["path"]))
        scored = classifier.classify(edit, built_in, name)
        chances.append([scored.scores[code] for code in CODES])
        single.append(scored.single_intent)
        judged.append(known)
    if not judged:
        raise AssayError(
            "no edit of the run is annotated; commits and paths of --annotated must be of its repositories"
        )
    progress(f"{len(judged):,} of {len(annotated):,} annotated edits are in the run")
    for key, one in annotated.items():
        if key not in seen:
            chances.append([0.0] * len(CODES))
            single.append(1.0)
            judged.append(one.judged)
    threshold = classifier.TERMS_THRESHOLD if trained is None else trained.threshold
    about = {
        "classifier": classifier.version(name),
        "threshold": threshold,
        "scores": "of edits that it was not trained on, as far as whoever ran this knows",
        "missing": len(annotated) - len(seen),
        "figures": metrics.measure(np.array(chances), np.array(single), CODES, judged, threshold),
    }
    _written(out, lambda: report.write(about, out))
    return about
