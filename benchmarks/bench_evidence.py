"""What evidence says about real changes whose criterion is known, and what each tool costs.

    python benchmarks/bench_evidence.py RUN_DIR LABELS.jsonl ... [--run] [--limit N] [--speed N] [--show]

RUN_DIR holds mined edits; a line of a label file holds `repo`, `commit`, `path`, `criterion` and `also`, as
people gave them. Edits are taken as whole files. Printed, for each criterion: the share of the changes that
have it (by `criterion` or `also`), and of all others, for which the measures agree and disagree. A vetoing
measure that disagrees with a right label costs a good pair. `--run` runs functions in the sandbox too,
`--show` lists every change whose own criterion is disagreed with, and every veto. `--proposals N` looks at
labels that the run's labeler gave, N of them drawn from all, instead of label files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common import cores

from labelers.commits import criteria
from labelers.commits.config import BuildConfig, EvidenceConfig, LabelConfig
from labelers.commits.evidence import Measurer
from labelers.commits.evidence.tools import Linters, Reader
from labelers.commits.pieces import View
from labelers.commits.proposals import Proposal, proposals
from schemas.errors import ShardError
from schemas.ids import rng
from schemas.records import Evidence
from schemas.rundir import RunDir

Told = tuple[Proposal, set[str]]


def edits(run: RunDir) -> Iterator[dict[str, Any]]:
    """The edits of a run; of one that was mined before companions were, without any."""
    names = ["id", "commit", "path", "language", "old_contents", "new_contents", "hunks", "subject"]
    try:
        yield from run.rows("edits", columns=[*names, "companions"])
    except ShardError:
        yield from ({**edit, "companions": []} for edit in run.rows("edits", columns=names))


def annotated(run: RunDir, files: list[Path]) -> Iterator[Told]:
    """Edits that people labelled, with the criteria that they gave."""
    given = {}
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            one = json.loads(line)
            given[one["commit"], one["path"]] = {one["criterion"], *one["also"]} - {"NONE"}
    for edit in edits(run):
        if (wanted := given.get((edit["commit"], edit["path"]))) is not None:
            view = View(edit, "file", [], (edit["old_contents"], edit["new_contents"]))
            yield Proposal(view, {}, "", 0.0), wanted


def proposed(run: RunDir, count: int) -> Iterator[Told]:
    """Proposals of the run's own labels, drawn from all of them."""
    found = criteria.load()
    labels = {row["id"]: row for row in run.rows("labels") if row["criterion"] is not None}
    chosen = set(rng(0, "bench-evidence", "proposals").sample(sorted(labels), min(count, len(labels))))
    build = BuildConfig(level="file", min_confidence=0.0, min_single_intent=0.0)
    for edit in edits(run):
        if edit["id"] in chosen:
            made = proposals(edit, labels[edit["id"]], [], found, LabelConfig(), build)
            if isinstance(made, list):
                yield from ((one, {one.criterion}) for one in made)


def report(rows: list[tuple[Told, Evidence]]) -> None:
    """Print shares by criterion and measure."""
    print("criterion    rows   agrees  disagrees |  others   agrees  disagrees | lift of agrees")
    for number, code in enumerate(one.code for one in criteria.load()):
        sides = [[], []]  # type: list[list[str]]
        for (_, own), found in rows:
            sides[code not in own].append(found.bearings[number].verdict)
        shares = [[side.count(one) / max(1, len(side)) for one in ("agrees", "disagrees")] for side in sides]
        lift = shares[0][0] / shares[1][0] if shares[1][0] else float("inf")
        print(
            f"{code:9} {len(sides[0]):7} {shares[0][0]:8.1%} {shares[0][1]:10.1%} | {len(sides[1]):7} "
            f"{shares[1][0]:8.1%} {shares[1][1]:10.1%} | {lift:6.1f}"
        )
    print("\nmeasure that speaks                rows with the criterion, without it")
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (_, own), found in rows:
        for one in found.bearings:
            for name in one.by:
                counts[f"{one.criterion} {one.verdict} {name}"][one.criterion not in own] += 1
    for name, (right, other) in sorted(counts.items()):
        print(f"{name:40} {right:6} {other:6}")


def show(rows: list[tuple[Told, Evidence]]) -> None:
    """Print the changes whose own criterion is disagreed with, and the vetoes."""
    for (one, own), found in rows:
        against = [
            (b.criterion, b.by) for b in found.bearings if b.verdict == "disagrees" and b.criterion in own
        ]
        if against or found.veto:
            edit = one.view.edit
            print(edit["commit"][:12], edit["path"], sorted(own), against, found.veto, edit["subject"][:70])


def speed(told: list[Told]) -> None:
    """Print what each tool takes for one version."""
    seconds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        reader, linters = Reader(Path(name), 60), Linters(Path(name), 60)
        for one, _ in told:
            edit: Mapping[str, Any] = one.view.edit
            for task in ("syntax", "complexity", *(("security",) if edit["language"] == "Python" else ())):
                began = time.perf_counter()
                reader.ask(edit["new_contents"], edit["language"], edit["path"], [task])
                reader.answers()
                seconds[task].append(time.perf_counter() - began)
            if edit["language"] == "Python":
                began = time.perf_counter()
                linters.start([edit["new_contents"]])
                linters.answers()
                seconds["ruff and ty"].append(time.perf_counter() - began)
        reader.close()
    for task, taken in seconds.items():
        print(f"{task:12} {len(taken):5} versions, median {1000 * statistics.median(taken):6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("labels", type=Path, nargs="*")
    parser.add_argument("--run", dest="runs", action="store_true")
    parser.add_argument("--proposals", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--speed", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    run = RunDir.open(asked.run)
    told = list(proposed(run, asked.proposals) if asked.proposals else annotated(run, asked.labels))[
        : asked.limit
    ]
    rows, taken = [], defaultdict(list)
    with Measurer(EvidenceConfig(run=asked.runs), criteria.load(), 0) as measurer:
        for one in told:
            began = time.perf_counter()
            rows.append((one, measurer.measure(one[0])))
            for group in ("all", one[0].view.edit["language"]):
                taken[group].append(time.perf_counter() - began)
    report(rows)
    notes = Counter(
        note for _, found in rows for note in found.notes if not note.startswith(("new:", "gone:"))
    )
    print("\nnotes:", ", ".join(f"{name} {count}" for name, count in notes.most_common()))
    print("counts:", dict(sorted(measurer.counts.items())))
    if asked.show:
        show(rows)
    print(f"\n{cores()}")
    for group, seconds in sorted(taken.items(), key=lambda item: -len(item[1])):
        high = sorted(seconds)[int(0.9 * len(seconds))]
        median = statistics.median(seconds)
        told_of = f"median {1000 * median:5.0f} ms, 90 % below {1000 * high:5.0f} ms"
        print(f"{group:12} {len(seconds):5} views, {told_of}")
    if asked.speed:
        speed(told[:: max(1, len(told) // asked.speed)])


if __name__ == "__main__":
    main()
