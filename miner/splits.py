"""The `split` stage: every edit goes into train or test, so that nothing of test is known from train.

In: all parts of `edits` with what `decontaminate` kept, and `repositories` where there is such a table.
Out: a `SplitAssignment` an edit, or a drop. It is one unit of work, since any two edits of a run may have
to stay together.

What stays together (`groups`): with `by = "repo"` repositories that share a root commit or a patch of at
least `min_patch_lines` changed lines, directly or over others; with `"file"` a path in all of such
repositories; with `"commit"` commits that share such a patch. All mined edits count for that, those
dropped since too. A group's split is drawn from the seed and the group alone.

With dates, train is what was committed before `train_until`, test what was committed from `test_from` on
and before `test_until`. An edit at a time between is dropped, and one at the other split's time than its
group's. By commit, the time of a group's first edit decides its split, and nothing is drawn.

What of test is known from train all the same is then taken out of test (`miner.leaks`), and `miner.leakage`
measures again, in another way, that nothing of it is left. Memory: about one kilobyte an edit.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from miner.config import DecontaminateConfig, DedupConfig, SplitConfig, seconds_of
from miner.leakage import LeakError, broken, measure, write_facts
from miner.leaks import Leak, leaks
from miner.minhash import Clusters
from schemas import shards
from schemas.errors import ShardError
from schemas.ids import content_id, digest_json, split_of
from schemas.records import Edit, RepositoryFacts, SplitAssignment
from schemas.rundir import RunDir
from schemas.stage import WHOLE, Drop, Keep, Outcome, Unit
from schemas.verdicts import kept_of


class Seen(NamedTuple):
    """What the split needs to know of an edit."""

    id: str
    repo: str
    path: str
    commit: str
    time: int
    patch: str
    old: str
    new: str
    lines: int


_COLUMNS = ("id", "repo", "path", "commit", "commit_time", "patch_id", "old_id", "new_id")
_LINES = ("lines_added", "lines_removed")


def plan_split(run: RunDir, limit: int | None = None) -> list[Unit]:
    """The stage's one unit: every part of `edits` with its verdicts.

    Raises:
        RunDirError: `mine` or `decontaminate` has not finished.
    """
    parts = run.units_per_part("edits", ("verdicts/decontaminate",))
    kept, inputs = 0, {}
    for part in parts:
        counted = shards.read_sidecar(run.root / part.payload["verdicts/decontaminate"]).accounting
        if counted is None:
            raise ShardError(
                f"{run.root}: verdicts of decontaminate lack their accounting; run decontaminate --clean"
            )
        kept += counted.kept
        inputs.update({f"{part.name}/{name}": digest for name, digest in part.inputs.items()})
    rows = kept if limit is None else min(limit, kept)
    inputs["repositories"] = digest_json([part.sidecar.sha256 for part in run.parts("repositories")])
    found = [[part.payload["edits"], part.payload["verdicts/decontaminate"]] for part in parts]
    return [Unit(WHOLE, rows, {"parts": found, "limit": rows}, inputs)]


def read_edits(run_dir: Path, shard: str) -> Iterator[Seen]:
    """What the split needs of the edits of a shard."""
    table = shards.read_shard(run_dir / shard, Edit, [*_COLUMNS, *_LINES])
    columns = [table[name].to_pylist() for name in (*_COLUMNS, *_LINES)]
    for own, repo, path, commit, time, patch, old, new, added, removed in zip(*columns, strict=True):
        yield Seen(own, repo, path, commit, time, patch, old, new, added + removed)


def roots_of(run: RunDir) -> dict[str, list[str]]:
    """Repository -> its root commits, where the run knows them."""
    found: dict[str, list[str]] = {}
    for part in run.parts("repositories"):
        for row in shards.iter_rows(part.path, RepositoryFacts, ("repo", "roots")):
            found.setdefault(row["repo"], []).extend(row["roots"])
    return found


class _Joined:
    """Union-find over names."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(set(names))
        self.at = {name: position for position, name in enumerate(self.names)}
        self.clusters = Clusters(len(self.names))

    def join(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Put the names of all pairs (what they share, name) that share the same thing together."""
        first: dict[str, int] = {}
        for shared, name in pairs:
            self.clusters.join(first.setdefault(shared, self.at[name]), self.at[name])

    def members(self) -> dict[str, list[str]]:
        """Name -> all names that it stays with, itself too, in order."""
        by_root: dict[int, list[str]] = {}
        for position, name in enumerate(self.names):
            by_root.setdefault(self.clusters.root(position), []).append(name)
        return {name: names for names in by_root.values() for name in names}

    def hashed(self, kind: str) -> dict[str, str]:
        """Name -> hash of all names that it stays with."""
        found: dict[str, str] = {}
        for name, names in self.members().items():
            if name == names[0]:
                found.update(dict.fromkeys(names, content_id(kind, *names)))
        return found


def groups(
    config: SplitConfig, edits: Sequence[Seen], roots: Mapping[str, Sequence[str]] | None = None
) -> dict[str, str]:
    """Edit's id -> its group. It does not depend on the order of `edits`."""
    linking = [edit for edit in edits if edit.lines >= config.min_patch_lines]
    repos = _Joined(edit.repo for edit in edits)
    repos.join((f"patch {edit.patch}", edit.repo) for edit in linking)
    repos.join(
        (f"root {root}", repo)
        for repo, own in sorted((roots or {}).items())
        if repo in repos.at
        for root in own
    )
    of_repo = repos.hashed("repo")
    if config.by == "repo":
        return {edit.id: of_repo[edit.repo] for edit in edits}
    if config.by == "file":
        return {edit.id: content_id("file", of_repo[edit.repo], edit.path) for edit in edits}
    commits = _Joined(edit.commit for edit in edits)
    commits.join((edit.patch, edit.commit) for edit in linking)
    of_commit = commits.hashed("commit")
    return {edit.id: of_commit[edit.commit] for edit in edits}


class Borders(NamedTuple):
    """Times in seconds since 1970: train before the first, test from the second on and before the third."""

    train_until: int
    test_from: int
    test_until: int | None

    def split_at(self, time: int) -> str | None:
        """The split of a time; None between or after them."""
        if time < self.train_until:
            return "train"
        if time >= self.test_from and (self.test_until is None or time < self.test_until):
            return "test"
        return None


def borders(config: SplitConfig) -> Borders | None:
    """The times of the splits; None when only groups tell them apart."""
    names = ("train_until", "test_from", "test_until")
    train_until, test_from, test_until = (seconds_of(name, getattr(config, name)) for name in names)
    test_from = train_until if test_from is None else test_from
    train_until = test_from if train_until is None else train_until
    if train_until is None or test_from is None:
        return None
    return Borders(train_until, test_from, test_until)


@dataclasses.dataclass
class Assigned:
    """What was decided: edit's id -> split, and of those that go, id -> (reason, detail)."""

    split: dict[str, str] = dataclasses.field(default_factory=dict)
    dropped: dict[str, tuple[str, str | None]] = dataclasses.field(default_factory=dict)


def assign(config: SplitConfig, seed: int, edits: Sequence[Seen], group: Mapping[str, str]) -> Assigned:
    """Give each edit a split by its group, and by its time when there are dates."""
    times = borders(config)
    sides: dict[str, str | None] = {}
    if times is not None and config.by == "commit":
        first: dict[str, int] = {}
        for edit in edits:
            first[group[edit.id]] = min(edit.time, first.get(group[edit.id], edit.time))
        sides = {own: times.split_at(time) for own, time in first.items()}
    found = Assigned()
    for edit in edits:
        own = group[edit.id]
        if own not in sides:
            sides[own] = split_of(seed, own, config.test_share)
        side = sides[own]
        at = side if times is None else times.split_at(edit.time)
        if at is None:
            found.dropped[edit.id] = ("between_splits", None)
        elif side is None or at != side:
            found.dropped[edit.id] = ("other_split_time", f"of {at}, its group of {side or 'neither'}")
        else:
            found.split[edit.id] = side
    return found


def split_unit(
    config: SplitConfig,
    overlap: DecontaminateConfig,
    dedup: DedupConfig,
    run_dir: Path,
    unit: Unit,
    seed: int,
) -> Iterator[Outcome]:
    """One outcome for each edit that `decontaminate` kept, and `leakage/splits.json`.

    Raises:
        LeakError: something of test is in train after all; a defect of ours.
    """
    run = RunDir(run_dir)
    all_edits: list[Seen] = []
    considered: list[Seen] = []
    for edits, verdicts in unit.payload["parts"]:
        kept = kept_of(run_dir / verdicts, "edits", run_dir / edits)
        for edit in read_edits(run_dir, edits):
            all_edits.append(edit)
            if len(considered) < unit.rows and edit.id in kept:
                considered.append(edit)
    group = groups(config, all_edits, roots_of(run))
    assigned = assign(config, seed, considered, group)
    paths = [run_dir / edits for edits, _ in unit.payload["parts"]]
    gone = leaks(config, overlap, dedup, run, paths, considered, assigned.split)
    for own, leak in gone.items():
        del assigned.split[own]
        assigned.dropped[own] = ("leaks", leak.told())
    facts = measure(config, overlap, dedup, run, assigned.split, group)
    facts["taken_out_of_test"] = dict(sorted(Counter(leak.kind for leak in gone.values()).items()))
    write_facts(run, "splits", facts)
    if wrong := broken(facts):
        raise LeakError(f"split: of test, train knows {wrong}")
    for edit in considered:
        if (why := assigned.dropped.get(edit.id)) is not None:
            yield Drop(edit.id, *why)
        else:
            record = SplitAssignment(id=edit.id, split=assigned.split[edit.id], group=group[edit.id])
            yield Keep((record,))


__all__ = ["Assigned", "Borders", "Leak", "Seen", "assign", "borders", "groups", "plan_split", "split_unit"]
