"""The leakage report: what two splits have in common, counted from what is written, without asking how
the splits were made.

In: the shards of `edits` (and `repositories`), each edit's split, and its group. Out: facts for JSON:
* `must_be_zero`: counts of which one above zero is a defect. How many groups, patches and commits stand in
  both splits; by repo also repositories and sets of linked ones, by repo and file also files. How many
  test edits have a file version of a train edit (not by commit), are duplicates of one, or have as
  many n-grams of their change in train as count as overlap. How many edits are on the wrong side of dates.
* `for_information`: what may be above zero: the same of what `by` does not keep apart, test edits with any
  n-gram in train that is not common, and the most that one has.

What is compared of an edit is its change (message, lines removed and added), its patch, and its two file
versions as wholes. Code that a change leaves as it was is compared in whole files only. Duplicates are
found as by `dedup`, n-grams made by `miner.ngrams`; linking and counting is this module's own.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from miner.common import common, files_of, needed
from miner.config import DecontaminateConfig, DedupConfig, SplitConfig, seconds_of
from miner.leaks import change_grams, duplicates_of_train, rows_of
from miner.ngrams import Hashes, Positions
from schemas import shards
from schemas.ids import digest_json
from schemas.records import RepositoryFacts
from schemas.rundir import RunDir

_COLUMNS = (
    *("id", "repo", "path", "commit", "commit_time", "patch_id", "old_id", "new_id"),
    *("lines_added", "lines_removed"),
)
_OF_PAIRS = ("evidence", "split")

FOLDER = "leakage"
"""Where a run keeps what was measured: `splits.json` and `pairs.json`."""


class LeakError(RuntimeError):
    """The splits share what they must not: a defect of ours, never of the input."""


def broken(facts: Mapping[str, Any], estimated: bool = True) -> str:
    """What of `must_be_zero` is not, in words; empty when all is. `estimated` counts duplicates in."""
    return ", ".join(
        f"{count} {name}"
        for name, count in facts["must_be_zero"].items()
        if count and (estimated or name != "duplicates")
    )


def line_of(facts: Mapping[str, Any], what: str) -> str:
    """The facts in one line for a person; the report and the JSON have every count."""
    nothing = f"none of {len(facts['must_be_zero'])} things that must not be"
    return f"{what}: {facts['train']:,} train, {facts['test']:,} test; shared: {broken(facts) or nothing}"


def _both(pairs: Iterable[tuple[Any, str]]) -> int:
    """How many keys come with both splits."""
    seen: dict[Any, set[str]] = defaultdict(set)
    for key, split in pairs:
        seen[key].add(split)
    return sum(len(splits) > 1 for splits in seen.values())


def _linked(config: SplitConfig, run: RunDir, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Repository -> number of its set of linked ones, by walking from each to its neighbours."""
    shares: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        shares[f"repo {row['repo']}"].add(row["repo"])
        if row["lines_added"] + row["lines_removed"] >= config.min_patch_lines:
            shares[f"patch {row['patch_id']}"].add(row["repo"])
    known = {row["repo"] for row in rows}
    for part in run.parts("repositories"):
        for row in shards.iter_rows(part.path, RepositoryFacts, ("repo", "roots")):
            if row["repo"] in known:
                for root in row["roots"]:
                    shares[f"root {root}"].add(row["repo"])
    of_repo: dict[str, list[str]] = defaultdict(list)
    for key, repos in shares.items():
        for repo in repos:
            of_repo[repo].append(key)
    found: dict[str, int] = {}
    for number, start in enumerate(sorted(known)):
        todo = deque([start])
        while todo:
            repo = todo.popleft()
            if repo in found:
                continue
            found[repo] = number
            for key in of_repo[repo]:
                todo.extend(shares.pop(key, ()))
    return found


def _wrong_times(config: SplitConfig, rows: list[dict[str, Any]], split: Mapping[str, str]) -> int:
    names = ("train_until", "test_from", "test_until")
    until, start, end = (seconds_of(name, getattr(config, name)) for name in names)
    if until is None and start is None:
        return 0
    until, start = (start if until is None else until), (until if start is None else start)
    wrong = 0
    for row in rows:
        time, side = row["commit_time"], split[row["id"]]
        if side == "train":
            wrong += until is not None and time >= until
        else:
            wrong += (start is not None and time < start) or (end is not None and time >= end)
    return wrong


def _ngrams(overlap: DecontaminateConfig, run: RunDir, split: Mapping[str, str]) -> tuple[int, int, int]:
    """(test edits that overlap with train, those with any n-gram in train, the most that one has)."""
    paths = [part.path for part in run.parts("edits")]
    sides = {side: {own for own, one in split.items() if one == side} for side in ("train", "test")}
    if not all(sides.values()):
        return 0, 0, 0
    owners: list[Positions] = []
    pieces: list[Hashes] = []
    edits = 0
    for batch in rows_of(paths, sides["test"]):
        for ids, found in change_grams(overlap.n, batch):
            # The distinct n-grams of each edit, edit by edit.
            edit_of = found.owner // 3
            order = np.lexsort((found.hashes, edit_of))
            edit_of, hashes = edit_of[order], found.hashes[order]
            new = np.ones(len(hashes), bool)
            new[1:] = (hashes[1:] != hashes[:-1]) | (edit_of[1:] != edit_of[:-1])
            owners.append(edit_of[new] + edits)
            pieces.append(hashes[new])
            edits += len(ids)
    edit_of, hashes = np.concatenate(owners), np.concatenate(pieces)
    every = np.unique(hashes)
    counted = every[~common(overlap, every, files_of(run, overlap.sampled_files))]
    known = np.zeros(len(counted) + 1, bool)
    for batch in rows_of(paths, sides["train"]):
        for _, found in change_grams(overlap.n, batch):
            known[_places(counted, found.hashes)] = True
    known[-1] = False
    at = _places(counted, hashes)
    sizes = np.bincount(edit_of[at < len(counted)], minlength=edits)
    shared = np.bincount(edit_of[known[at]], minlength=edits)
    return int((shared >= needed(overlap, sizes)).sum()), int((shared > 0).sum()), int(shared.max(initial=0))


def _places(counted: Hashes, hashes: Hashes) -> Positions:
    """Where each of `hashes` stands in sorted `counted`; the length of it for one that does not."""
    at = np.searchsorted(counted, hashes)
    inside = at < len(counted)
    inside[inside] = counted[at[inside]] == hashes[inside]
    return np.where(inside, at, len(counted))


def measure(
    config: SplitConfig,
    overlap: DecontaminateConfig,
    dedup: DedupConfig,
    run: RunDir,
    split: Mapping[str, str],
    group: Mapping[str, str],
) -> dict[str, Any]:
    """What `train` and `test` of `split` (edit's id -> split) have in common. See the module's text.

    Raises:
        ShardError: a shard cannot be read.
    """
    everything = list(run.rows("edits", columns=_COLUMNS))
    linked = _linked(config, run, everything)
    rows = [row for row in everything if row["id"] in split]
    side = {row["id"]: split[row["id"]] for row in rows}

    def both(*names: str) -> int:
        return _both((tuple(row[name] for name in names), side[row["id"]]) for row in rows)

    train_versions = {
        row[name] for row in rows if side[row["id"]] == "train" for name in ("old_id", "new_id")
    }
    versions = sum(
        side[row["id"]] == "test" and (row["old_id"] in train_versions or row["new_id"] in train_versions)
        for row in rows
    )
    paths = [part.path for part in run.parts("edits")]
    overlapping, any_shared, most = _ngrams(overlap, run, side)
    zero = {
        "groups": _both((group[row["id"]], side[row["id"]]) for row in rows),
        "patches": both("patch_id"),
        "commits": both("commit"),
        "duplicates": len(duplicates_of_train(run, paths, side, dedup, until_none=False)),
        "ngram_overlaps": overlapping,
        "wrong_times": _wrong_times(config, rows, side),
    }
    more = {"test_edits_with_any_ngram_in_train": any_shared, "most_ngrams_in_train": most}
    by_repo = {
        "linked_repositories": _both((linked[row["repo"]], side[row["id"]]) for row in rows),
        "repositories": both("repo"),
    }
    by_file = {"files": _both(((linked[row["repo"]], row["path"]), side[row["id"]]) for row in rows)}
    (zero if config.by == "repo" else more).update(by_repo)
    (zero if config.by in ("repo", "file") else more).update(by_file)
    (zero if config.by in ("repo", "file") else more)["test_edits_with_file_version_in_train"] = versions
    counts = {name: sum(one == name for one in side.values()) for name in ("train", "test")}
    return {"by": config.by, "n": overlap.n, **counts, "must_be_zero": zero, "for_information": more}


def write_facts(run: RunDir, what: str, facts: Mapping[str, Any]) -> None:
    """Keep what was measured of `splits` or `pairs` in the run directory."""
    path = run.root / FOLDER / f"{what}.json"
    path.parent.mkdir(exist_ok=True)
    shards.write_text(path, json.dumps(facts, indent=1, sort_keys=True) + "\n")


def read_facts(run: RunDir, what: str) -> dict[str, Any]:
    """What was measured of `splits` or `pairs`; empty when nothing was, or the file is damaged."""
    try:
        found = json.loads((run.root / FOLDER / f"{what}.json").read_text())
        line_of(found, what)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return dict(found)


def splits_facts(run: RunDir) -> dict[str, Any]:
    """What the `split` stage measured, with a line for a person under `line`."""
    facts = read_facts(run, "splits")
    return {"line": line_of(facts, "leakage of the splits") if facts else "leakage: not measured", **facts}


def pairs_facts(
    config: SplitConfig, overlap: DecontaminateConfig, dedup: DedupConfig, run: RunDir
) -> dict[str, Any]:
    """The same of the pairs as they are written, measured again when they changed.

    Raises:
        LeakError: what must be zero is not. Duplicates are told only: which are found depends on what is
            beside them.
    """
    tables = ("edits", "repositories", "splits", "pairs")
    shas = {table: [part.sidecar.sha256 for part in run.parts(table)] for table in tables}
    settings = [dataclasses.asdict(config), dataclasses.asdict(overlap), dataclasses.asdict(dedup)]
    key = digest_json([settings, shas])
    facts = read_facts(run, "pairs")
    if facts.get("key") != key:
        group = {row["id"]: row["group"] for row in run.rows("splits", columns=("id", "group"))}
        split = {row["evidence"]["edit_id"]: row["split"] for row in run.rows("pairs", columns=_OF_PAIRS)}
        facts = {"key": key, **measure(config, overlap, dedup, run, split, group)}
        write_facts(run, "pairs", facts)
    if wrong := broken(facts, estimated=False):
        raise LeakError(f"build: of the test pairs, train knows {wrong}")
    return {"line": line_of(facts, "leakage of the pairs' edits"), **facts}
