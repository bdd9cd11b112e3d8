"""What of test is known from train: the edits that have to leave test, with the reason. Train keeps all.

In: the edits of both splits, from their shards. A test edit leaks when
* its patch is that of a train edit, however small;
* one of its two file versions is one of a train edit's (not by commit: both have versions of one file);
* it is a duplicate of a train edit, or over others, as `dedup` finds them (see `miner.duplicates`);
* its message and changed lines have as many n-grams in common with those of train, all together, as make
  an edit contaminated (see `miner.decontaminate`); common ones do not count.

Shards are read one at a time, several times over. Memory: that of `dedup`, or 9 bytes an n-gram of test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from miner.common import common, files_of, needed
from miner.config import DecontaminateConfig, DedupConfig, SplitConfig
from miner.duplicates import COLUMNS, SIDES, Duplicates, Looked, Sides
from miner.ngrams import BATCH_BYTES, Grams, Hashes, Lookup, grams, grouped
from schemas import shards
from schemas.changes import changed_lines
from schemas.records import Edit
from schemas.rundir import RunDir

_COLUMNS = ("id", "message", "old_contents", "new_contents", "hunks")
_ROWS = 500
_SHOWN = 120
"""Characters of shared words that a detail shows."""


class Known(Protocol):
    """What is compared of an edit by its name alone."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def patch(self) -> str:
        """Its patch id."""

    @property
    def old(self) -> str:
        """Object id of the file before."""

    @property
    def new(self) -> str:
        """Object id of the file after."""


@dataclasses.dataclass(frozen=True)
class Leak:
    """Why a test edit goes: `patch`, `file_version`, `duplicate` or `ngrams`, and what it shares."""

    kind: str
    shares: str

    def told(self) -> str:
        """In a few words."""
        return f"{self.kind}: {self.shares}"


def rows_of(
    paths: Sequence[Path], wanted: AbstractSet[str], columns: Sequence[str] = _COLUMNS
) -> Iterator[list[dict[str, Any]]]:
    """The wanted edits of shards, each once, with what is compared of them, some hundred at a time."""
    left = set(wanted)
    for path in paths:
        table = shards.read_shard(path, Edit, columns)
        own = table.filter(pc.is_in(table["id"], value_set=pa.array(sorted(left), pa.string())))
        for batch in own.to_batches(max_chunksize=_ROWS):
            rows = []
            for row in batch.to_pylist():
                if row["id"] in left:
                    left.remove(row["id"])
                    rows.append(row)
            if rows:
                yield rows


def change_texts(edit: Mapping[str, Any]) -> tuple[str, str, str]:
    """What of an edit is compared by n-grams: its message, the lines removed and the lines added."""
    removed, added = changed_lines(edit)
    return edit["message"], "\n".join(removed), "\n".join(added)


def change_grams(n: int, edits: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Sequence[str], Grams]]:
    """(ids, n-grams of their changes) of edits in batches; three texts an edit, in order."""
    texts = ((edit["id"], change_texts(edit)) for edit in edits)
    for batch in grouped(texts, lambda one: sum(map(len, one[1])), BATCH_BYTES):
        yield [own for own, _ in batch], grams([text for _, three in batch for text in three], n)


def _by_name(config: SplitConfig, train: Sequence[Known], test: Sequence[Known]) -> dict[str, Leak]:
    patches = {edit.patch: edit.id for edit in sorted(train, key=lambda edit: edit.id, reverse=True)}
    versions: dict[str, str] = {}
    if config.by != "commit":
        versions = {name: edit.id for edit in train for name in (edit.old, edit.new)}
    found = {}
    for edit in test:
        if (other := patches.get(edit.patch)) is not None:
            found[edit.id] = Leak("patch", f"also of train edit {other}")
        elif (other := versions.get(edit.old) or versions.get(edit.new)) is not None:
            found[edit.id] = Leak("file_version", f"also of train edit {other}")
    return found


def _duplicates(
    run: RunDir, paths: Sequence[Path], split: Mapping[str, str], dedup: DedupConfig
) -> dict[str, str]:
    looked = Looked(len(split))
    for batch in rows_of(paths, split.keys(), COLUMNS):
        looked.add(batch)
    found = Duplicates(looked, dedup.min_patch_chars)
    names = list(looked.names())
    wanted = found.wanted()
    if len(wanted):
        again = {names[position] for position in wanted.tolist()}
        with Sides(run.root, wanted) as sides:
            for batch in rows_of(paths, again, ("id", *SIDES)):
                sides.add(batch)
            found.join_alike(sides, wanted, dedup.threshold)
    found.settle()
    # What is the same has one that stays, by which it is known.
    cluster = [why.stays if (why := found.why(at)) else own for at, own in enumerate(names)]
    train: dict[str, str] = {}
    for own, known in zip(names, cluster, strict=True):
        if split[own] == "train":
            train[known] = min(own, train.get(known, own))
    pairs = zip(names, cluster, strict=True)
    return {own: train[known] for own, known in pairs if split[own] == "test" and known in train}


def duplicates_of_train(
    run: RunDir, paths: Sequence[Path], split: Mapping[str, str], dedup: DedupConfig, until_none: bool
) -> dict[str, str]:
    """Test edit -> train edit that it is a duplicate of, at any level of `miner.duplicates`.

    Where many edits look alike each is compared with some of them only, so with `until_none` what is left is
    looked at again without those that go.
    """
    found: dict[str, str] = {}
    while True:
        new = _duplicates(run, paths, {own: side for own, side in split.items() if own not in found}, dedup)
        found.update(new)
        if not new or not until_none:
            return found


def _by_ngrams(
    overlap: DecontaminateConfig,
    run: RunDir,
    paths: Sequence[Path],
    train: AbstractSet[str],
    test: AbstractSet[str],
) -> dict[str, Leak]:
    if not train or not test:
        return {}
    pieces: list[Hashes] = [np.empty(0, np.uint64)]
    for batch in rows_of(paths, test):
        pieces += [np.unique(found.hashes) for _, found in change_grams(overlap.n, batch)]
    hashes = np.unique(np.concatenate(pieces))
    hashes = hashes[~common(overlap, hashes, files_of(run, overlap.sampled_files))]
    lookup, seen = Lookup(hashes), np.zeros(len(hashes), bool)
    for batch in rows_of(paths, train):
        for _, found in change_grams(overlap.n, batch):
            seen[lookup.find(found.hashes)[1]] = True
    gone = {}
    for batch in rows_of(paths, test):
        for ids, found in change_grams(overlap.n, batch):
            hits, at = lookup.find(found.hashes)
            edit_of = found.owner[hits] // 3
            distinct = np.unique(edit_of * max(1, len(hashes)) + at)
            of_edit, which = np.divmod(distinct, max(1, len(hashes)))
            sizes = np.bincount(of_edit, minlength=len(ids))
            shared = np.bincount(of_edit[seen[which]], minlength=len(ids))
            for edit in np.flatnonzero(shared >= needed(overlap, sizes)).tolist():
                first = int(hits[np.argmax((edit_of == edit) & seen[at])])
                told = f"{shared[edit]} of {sizes[edit]} in train, such as {found.words(first)[:_SHOWN]!r}"
                gone[ids[edit]] = Leak("ngrams", told)
    return gone


def leaks(
    config: SplitConfig,
    overlap: DecontaminateConfig,
    dedup: DedupConfig,
    run: RunDir,
    paths: Sequence[Path],
    edits: Sequence[Known],
    split: Mapping[str, str],
) -> dict[str, Leak]:
    """Test edit's id -> why it has to go. `split` has each edit's split; `paths` the shards of `edits`.

    The result does not depend on the order of anything.
    """
    sides: dict[str, list[Known]] = {"train": [], "test": []}
    for edit in edits:
        if edit.id in split:
            sides[split[edit.id]].append(edit)
    train = {edit.id for edit in sides["train"]}
    if not train or not sides["test"]:
        return {}
    gone = _by_name(config, sides["train"], sides["test"])
    test = {edit.id for edit in sides["test"]} - gone.keys()
    gone |= _by_ngrams(overlap, run, paths, train, test)
    # Last, since which duplicates are found depends on what is beside them: nothing is taken away after it.
    left = {own: side for own, side in split.items() if own not in gone}
    for own, other in duplicates_of_train(run, paths, left, dedup, until_none=True).items():
        gone[own] = Leak("duplicate", f"of train edit {other}")
    return gone
