"""How well the built-in classifier names the criterion of a commit, beside two peers on the same commits.

    python benchmarks/bench_criteria.py LABELS.jsonl RUN_DIR [--classifier NAME] [--least-confidence N]

LABELS has a row a commit (repo, commit, path, criterion, also, single_intent, confidence); RUN_DIR is a run
in which these repositories were mined. Commits that the run lacks count as commits without an answer. Without
arguments there is nothing to measure, and it says so.

Peers: terms found anywhere in the lowered message, as Themis matches them (no word boundaries; the terms are
the strong ones of the built-in criteria), and a bag of words of the message trained on the labels themselves,
each repository scored by a model that did not see it. Printed for each: micro precision, recall and F1 at the
best threshold; then ours at the shipped one, our F1 as a multiple of each peer's, and milliseconds an edit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import cores

from labelers.commits import classifier, criteria
from labelers.commits.classifying.rules import CODES
from labelers.commits.training import metrics
from labelers.commits.training.data import edits_of, read_annotations
from schemas.rundir import RunDir

Row = dict[str, Any]


def substrings(rows: list[Row]) -> np.ndarray:
    """For each criterion the share of all found terms that are its own."""
    own = {one.code: one for one in criteria.load()}
    terms = {code: [term.rstrip("*").lower() for term in own[code].strong] for code in CODES}
    found = np.zeros((len(rows), len(CODES)))
    for number, row in enumerate(rows):
        message = row["message"].lower()
        hits = [sum(term in message for term in terms[code]) for code in CODES]
        for column, count in enumerate(hits):
            found[number, column] = count / (1 + sum(hits))
    return found


def bag_of_words(rows: list[Row], judged: list[metrics.Judged], groups: list[str]) -> np.ndarray:
    """Probabilities of each criterion from words of the message, each repository left out in turn."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    texts = TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True).fit_transform(
        row["message"] for row in rows
    )
    truth = np.array([one.criterion for one in judged])
    found = np.zeros((len(rows), len(CODES)))
    for group in sorted(set(groups)):
        left = np.array([one == group for one in groups])
        if left.all() or len(set(truth[~left])) < 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=10, class_weight="balanced", max_iter=500).fit(
                texts[~left], truth[~left]
            )
        chances = model.predict_proba(texts[left])
        for column, code in enumerate(CODES):
            if code in model.classes_:
                found[left, column] = chances[:, list(model.classes_).index(code)]
    return found


def tell(name: str, point: dict[str, float]) -> None:
    print(
        f"{name:42} precision {point['precision']:.3f}  recall {point['recall']:.3f}  F1 {point['f1']:.3f}  "
        f"at {point['threshold']:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("labels", type=Path, nargs="?")
    parser.add_argument("run_dir", type=Path, nargs="?")
    parser.add_argument("--classifier", default="", help="folder of a trained one, or `terms`")
    parser.add_argument("--least-confidence", type=int, default=2)
    options = parser.parse_args()
    if options.labels is None or options.run_dir is None:
        print("nothing measured: give a file of labelled commits and the run in which they were mined")
        return
    given = {
        key: one
        for key, one in read_annotations([options.labels], CODES).items()
        if one.judged.confidence >= options.least_confidence
    }
    rows, groups, judged = [], [], []
    for group, row in edits_of(RunDir.open(options.run_dir)):
        if (one := given.pop((row["commit"], row["path"]), None)) is not None:
            rows.append(row)
            groups.append(group)
            judged.append(one.judged)
    missing = len(given)
    print(f"{cores()}, {len(rows)} commits of {len(set(groups))} repositories, {missing} not in the run")
    if not rows:
        return
    own = criteria.load()
    classifier.classify(rows[0], own, options.classifier)
    began = time.perf_counter()
    scored = [classifier.classify(row, own, options.classifier) for row in rows]
    took = time.perf_counter() - began
    ours = np.array([[one.scores[code] for code in CODES] for one in scored])
    terms = [classifier.classify(row, own, "terms") for row in rows]
    scores = {
        f"assay, {classifier.version(options.classifier)}": ours,
        "assay, weighted terms": np.array([[one.scores[code] for code in CODES] for one in terms]),
        "peer: substrings of terms": substrings(rows),
        "peer: bag of words trained on these labels": bag_of_words(rows, judged, groups),
    }
    everything = [*judged, *(one.judged for one in given.values())]
    best = {}
    for name, chances in scores.items():
        full = np.vstack([chances, np.zeros((missing, len(CODES)))])
        best[name] = max(metrics.curve(full, CODES, everything), key=lambda point: point["f1"])
        tell(name, best[name])
    threshold = next(iter(scored)).thresholds["FC"]
    full = np.vstack([ours, np.zeros((missing, len(CODES)))])
    tell("assay, as shipped", metrics.at(full, CODES, everything, threshold))
    first = next(iter(best.values()))["f1"]
    for name, point in best.items():
        if name.startswith("peer"):
            print(f"F1 of {name.removeprefix('peer: ')}: ours is {first / max(point['f1'], 1e-9):.2f}x")
    print(f"{1000 * took / len(rows):.2f} ms an edit")


if __name__ == "__main__":
    main()
