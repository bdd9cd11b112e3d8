"""What of test is known from train: the edits that have to leave test, with the reason. Train keeps all.

In: the edits of both splits, from their shards. A test edit leaks when
* its patch is that of a train edit, however small;
* one of its two file versions is one of a train edit's (not by commit: both have versions of one file);
* it is a near-duplicate of a train edit, as `dedup` estimates that (see `miner.nearduplicates`);
* its message and changed lines have as many n-grams in common with those of train, all together, as make
  an edit contaminated (see `miner.decontaminate`); common ones do not count.

Shards are read one at a time, three times over. Memory: 512 bytes an edit, and 9 bytes an n-gram of test.
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
from miner.config import DecontaminateConfig, SplitConfig
from miner.nearduplicates import Looked, alike_changes, side_signatures, similarity
from miner.ngrams import BATCH_BYTES, Grams, Hashes, Lookup, grams, grouped
from schemas import shards
from schemas.changes import changed_lines
from schemas.records import Edit
from schemas.rundir import RunDir

_COLUMNS = ("id", "commit_time", "message", "old_contents", "new_contents", "hunks")
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
    """Why a test edit goes: `patch`, `file_version`, `near_duplicate` or `ngrams`, and what it shares."""

    kind: str
    shares: str

    def told(self) -> str:
        """In a few words."""
        return f"{self.kind}: {self.shares}"


def rows_of(paths: Sequence[Path], wanted: AbstractSet[str]) -> Iterator[list[dict[str, Any]]]:
    """The wanted edits of shards with what is compared of them, some hundred at a time."""
    ids = pa.array(sorted(wanted), pa.string())
    for path in paths:
        table = shards.read_shard(path, Edit, _COLUMNS)
        own = table.filter(pc.is_in(table["id"], value_set=ids))
        for batch in own.to_batches(max_chunksize=_ROWS):
            yield batch.to_pylist()


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


def _without(looked: Looked, gone: AbstractSet[str]) -> Looked:
    stay = [position for position, own in enumerate(looked.ids) if own not in gone]
    return Looked(
        [looked.ids[at] for at in stay],
        [looked.times[at] for at in stay],
        [looked.contents[at] for at in stay],
        [looked.changes[at] for at in stay],
        [looked.long[at] for at in stay],
        [],
        looked.matrix[stay],
    )


def near_duplicates(
    paths: Sequence[Path], split: Mapping[str, str], threshold: float, until_none: bool
) -> dict[str, str]:
    """Test edit -> train edit that it is a near-duplicate of.

    Where many edits look alike each is compared with some of them only, so what is left is looked at
    again without those that go, `until_none` is found.
    """
    looked = Looked()
    for batch in rows_of(paths, split.keys()):
        looked.add(batch)
    looked.settle()
    found: dict[str, str] = {}
    while True:
        pairs = [
            tuple(sorted((looked.ids[one], looked.ids[other]), key=split.__getitem__))
            for one, other in alike_changes(looked, threshold)
            if split[looked.ids[one]] != split[looked.ids[other]]
        ]
        wanted = {own for pair in pairs for own in pair}
        sides = {
            row["id"]: both
            for batch in (rows_of(paths, wanted) if wanted else ())
            for row, both in zip(batch, side_signatures(batch), strict=True)
        }
        new: dict[str, str] = {}
        for test, train in pairs:  # "test" sorts before "train"
            if all(similarity(a, b) >= threshold for a, b in zip(sides[test], sides[train], strict=True)):
                new.setdefault(test, train)
        found.update(new)
        if not new or not until_none:
            return found
        looked = _without(looked, new.keys())


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
    threshold: float,
    run: RunDir,
    paths: Sequence[Path],
    edits: Sequence[Known],
    split: Mapping[str, str],
) -> dict[str, Leak]:
    """Test edit's id -> why it has to go. `split` has each edit's split; `paths` the shards of `edits`.

    `threshold` is the similarity of near-duplicates. The result does not depend on the order of anything.
    """
    sides: dict[str, list[Known]] = {"train": [], "test": []}
    for edit in edits:
        if edit.id in split:
            sides[split[edit.id]].append(edit)
    train = {edit.id for edit in sides["train"]}
    if not train or not sides["test"]:
        return {}
    gone = _by_name(config, sides["train"], sides["test"])
    left = {own: side for own, side in split.items() if own not in gone}
    for own, other in near_duplicates(paths, left, threshold, until_none=True).items():
        gone[own] = Leak("near_duplicate", f"of train edit {other}")
    test = {edit.id for edit in sides["test"]} - gone.keys()
    return gone | _by_ngrams(overlap, run, paths, train, test)
