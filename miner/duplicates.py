"""Which edits are the same as another one, at three levels: two files, patch, nearly.

* The same two files: equal object ids of both versions.
* The same patch (equal `patch_id`: path, change and three lines around it), as in cherry-picks, rebased
  commits and forks. A small patch recurs by chance, so one of fewer than `min_patch_chars` changed characters
  counts only where the author time is the same too, which git keeps when it copies a commit, or where the
  message of one names the other's commit.
* Nearly the same: the changes are alike *and* the old files *and* the new files. Alike files alone mean
  nothing, since an edit of a file shares most of it with the edits before and after; alike changes alone mean
  little, since a small one recurs in unrelated files. Alike is a Jaccard similarity of at least a threshold,
  of shingles of two lines (`miner.shingles`). A change of fewer than `SHORT` shingles must be the very same,
  and one without a line that shows is nobody's duplicate.

What is the same, directly or over others, is a cluster. One stays: the one that others were picked from, else
the one written first (author time, commit time, id).

In: rows of `edits` in any order, all of them once (`Looked.add`), then those that may be nearly the same
again (`Sides.add`). Out: of each edit whether it goes and why (`Duplicates.why`). Nearly the same is found by
a key for each of 32 bands, made of four minima of the change and one of the old file, so two edits meet only
where both are alike; of two that have a similarity of 0.75 in both, 0.9998 meet. What meets is compared
exactly.

Memory: at the peak about 330 MB a million edits, of which 128 are keys, and 750 MB where all of them are
near-duplicates. Lines of edits that meet lie in a temporary file. Time: near-linear, see `miner.minhash`.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from miner import minhash, shingles
from miner.minhash import ASK, BANDS, NO, Clusters
from miner.shingles import Hashes, Positions

COLUMNS = (
    *("id", "commit", "author_time", "commit_time", "old_id", "new_id", "patch_id", "cherry_picked_from"),
    *("old_contents", "new_contents", "hunks"),
)
"""What is looked at of an edit."""
SIDES = ("old_contents", "new_contents", "hunks")
"""What is looked at again."""
SHORT = 5
_EMPTY, _SHORT, _LONG = range(3)
_OBJECT_ID = re.compile(r"[0-9a-fA-F]{7,64}")
_HEX = 16
"""Digits of a commit's object id that are kept."""
_PICKED = 8
"""Commits that one message can mean by an abbreviated object id."""

Row = Mapping[str, Any]


def _key(*parts: str) -> int:
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _prefix(commit: str) -> tuple[int, int] | None:
    """(first, last) of what is kept of the object ids that one, perhaps abbreviated, means, if it is one."""
    if not _OBJECT_ID.fullmatch(commit):
        return None
    digits = commit[:_HEX]
    number, left = int(digits, 16), 4 * (_HEX - len(digits))
    return number << left, ((number + 1) << left) - 1


class _Change(NamedTuple):
    """An edit's lines as they are compared."""

    shingles: Hashes
    chars: int
    old: Hashes
    new: Hashes


def _changes(rows: Sequence[Row]) -> list[_Change]:
    lines = shingles.line_hashes(text for row in rows for text in (row["old_contents"], row["new_contents"]))
    files = shingles.shingles(lines)
    found = []
    for number, row in enumerate(rows):
        removed, added = shingles.changed(lines[2 * number], lines[2 * number + 1], row["hunks"])
        chars = shingles.length(removed) + shingles.length(added)
        change = shingles.change_shingles(removed, added)
        found.append(_Change(change, chars, files[2 * number], files[2 * number + 1]))
    return found


class Looked:
    """What the first look keeps of each edit, in the order in which they came."""

    def __init__(self, rows: int) -> None:
        self.rows = 0
        self.ids: list[pa.Array] = []
        self.author_time: Positions = np.empty(rows, np.int64)
        self.commit_time: Positions = np.empty(rows, np.int64)
        self.commit: Hashes = np.empty(rows, np.uint64)
        self.contents: Hashes = np.empty(rows, np.uint64)
        self.patch: Hashes = np.empty(rows, np.uint64)
        self.chars: npt.NDArray[np.int32] = np.empty(rows, np.int32)
        self.kind: npt.NDArray[np.int8] = np.empty(rows, np.int8)
        self.keys: minhash.Minima = np.empty((BANDS, rows), np.uint32)
        self.picked: dict[int, str] = {}

    def add(self, rows: Sequence[Row]) -> None:
        """Take a batch of edits: rows with `COLUMNS`."""
        here = slice(self.rows, self.rows + len(rows))
        self.ids.append(pa.array([row["id"] for row in rows], pa.large_string()))
        self.author_time[here] = [row["author_time"] for row in rows]
        self.commit_time[here] = [row["commit_time"] for row in rows]
        self.commit[here] = [(_prefix(row["commit"]) or (0, 0))[0] for row in rows]
        self.contents[here] = [_key(row["old_id"], row["new_id"]) for row in rows]
        self.patch[here] = [_key(row["patch_id"]) for row in rows]
        for number, row in enumerate(rows):
            if row["cherry_picked_from"] is not None:
                self.picked[self.rows + number] = row["cherry_picked_from"]
        changes = _changes(rows)
        self.chars[here] = [change.chars for change in changes]
        sizes = np.array([len(change.shingles) for change in changes], np.int64)
        self.kind[here] = np.where(sizes >= SHORT, _LONG, np.where(sizes > 0, _SHORT, _EMPTY))
        bands = minhash.band_keys(minhash.minima([change.shingles for change in changes]))
        for number in np.flatnonzero(sizes < SHORT).tolist():
            bands[:, number] = _key(changes[number].shingles.tobytes().hex()) & 0xFFFFFFFF
        files = minhash.minima([change.old for change in changes], BANDS).T
        self.keys[:, here] = minhash.mixed(minhash.mixed(bands) + files)
        self.rows += len(rows)

    def names(self) -> Iterator[str]:
        """The ids, in order."""
        for part in self.ids:
            yield from part.to_pylist()


class Sides:
    """Lines of edits that may be nearly the same, in a temporary file. Use as a context manager."""

    def __init__(self, folder: Path, wanted: Positions) -> None:
        self._slots = wanted
        self._at: Positions = np.zeros((len(wanted), 4), np.int64)
        self._filled, self._end = 0, 0
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".dedup-")  # noqa: SIM115 (closed on exit)

    def __enter__(self) -> Sides:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: Sequence[Row]) -> None:
        """Take a batch of the wanted edits, in their order: rows with `SIDES`."""
        for change in _changes(rows):
            short = len(change.shingles) < SHORT
            parts = [
                change.shingles if short else shingles.distinct(change.shingles),
                *map(shingles.distinct, (change.old, change.new)),
            ]
            self._at[self._filled] = [self._end, *map(len, parts)]
            self._filled += 1
            for part in parts:
                self._file.write(part.tobytes())
                self._end += part.nbytes
        self._file.flush()

    def _slot(self, position: int) -> list[int]:
        slot: list[int] = self._at[self._slots.searchsorted(position)].tolist()
        return slot

    def _read(self, begin: int, count: int) -> Hashes:
        found: Hashes = np.frombuffer(os.pread(self._file.fileno(), 8 * count, begin), np.uint64)
        return found

    def alike(self, one: int, other: int, threshold: float) -> bool:
        """Whether two edits are nearly the same."""
        begins, sizes = [0, 0], [[0], [0]]
        for number, position in enumerate((one, other)):
            begins[number], *sizes[number] = self._slot(position)
        for part, (first, second) in enumerate(zip(*sizes, strict=True)):
            # Sizes alone often tell.
            if min(first, second) < threshold * max(first, second):
                return False
            a, b = self._read(begins[0], first), self._read(begins[1], second)
            if part == 0 and min(first, second) < SHORT:
                if not np.array_equal(a, b):
                    return False
            elif not shingles.alike(a, b, threshold):
                return False
            begins = [begins[0] + a.nbytes, begins[1] + b.nbytes]
        return True


class Duplicate(NamedTuple):
    """Why an edit goes: the level at which it is a duplicate, and the id of the one that stays."""

    reason: str
    stays: str


class Duplicates:
    """The clusters of all edits that were looked at; made with the first two levels found."""

    def __init__(self, looked: Looked, min_patch_chars: int) -> None:
        self._looked = looked
        count = looked.rows
        self._ids = pa.chunked_array(looked.ids, pa.large_string())
        times = {"author": looked.author_time[:count], "commit": looked.commit_time[:count]}
        table = pa.table({**times, "id": self._ids})
        keys = [(name, "ascending") for name in table.column_names]
        self._order: Positions = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
        self._standing: Positions = np.empty(count, np.int64)
        self._standing[self._order] = np.arange(count)
        self._clusters = Clusters(count)
        self._join_equal(looked.contents[:count])
        roots = self._roots()
        self._join_patches(min_patch_chars)
        # Who others were picked from is known now, and may change which one of the same files stays.
        self._levels = [("exact_duplicate", self._best(roots)), ("same_patch", self._best(self._roots()))]
        self._near = self._order[((looked.kind[:count] != _EMPTY) & self._first(0))[self._order]]

    def _roots(self) -> Positions:
        return self._clusters.roots(np.arange(self._looked.rows))

    def _best(self, roots: Positions) -> Positions:
        """Of each edit the standing of the one of its cluster that stays."""
        best = np.full(len(roots), np.iinfo(np.int64).max)
        np.minimum.at(best, roots, self._standing)
        found: Positions = best[roots]
        return found

    def _first(self, level: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._levels[level][1] == self._standing
        return found

    def _join_equal(self, keys: Hashes) -> None:
        order = np.argsort(keys, kind="stable")
        same = keys[order[1:]] == keys[order[:-1]]
        for one, other in zip(order[:-1][same].tolist(), order[1:][same].tolist(), strict=True):
            self._clusters.join(one, other)

    def _join_patches(self, min_chars: int) -> None:
        count = self._looked.rows
        patch = self._looked.patch[:count]
        times = self._looked.author_time[:count].astype(np.uint64)
        small = shingles.mixed(patch ^ shingles.mixed(times + np.uint64(1)))
        self._join_equal(np.where(self._looked.chars[:count] < min_chars, small, patch))
        if self._looked.picked:
            self._join_picked()

    def _join_picked(self) -> None:
        """Join each edit with the one of the same patch that its message names, and let that one stay."""
        count = self._looked.rows
        patch, commit = self._looked.patch[:count], self._looked.commit[:count]
        order = np.lexsort((commit, patch))
        patches, commits = patch[order], commit[order]
        named, naming = np.zeros(count, bool), np.zeros(count, bool)
        for position, text in self._looked.picked.items():
            if (meant := _prefix(text)) is None:
                continue
            low, high = (int(patches.searchsorted(patch[position], side)) for side in ("left", "right"))
            begin = low + int(commits[low:high].searchsorted(np.uint64(meant[0])))
            end = low + int(commits[low:high].searchsorted(np.uint64(meant[1]), "right"))
            for other in order[begin : min(end, begin + _PICKED)].tolist():
                if other != position:
                    self._clusters.join(position, other)
                    named[other] = naming[position] = True
        # Named and naming none comes first, then named, then the others.
        self._standing += count * np.where(named, naming.astype(np.int64), 2)

    def wanted(self) -> Positions:
        """Edits that may be nearly the same as another, in their order: those to look at again."""
        return np.flatnonzero(minhash.crowded(self._looked.keys, self._near, self._clusters))

    def join_alike(self, sides: Sides, wanted: Positions, threshold: float) -> None:
        """Find the third level."""
        mask = np.zeros(self._looked.rows, bool)
        mask[wanted] = True
        keys, kind = self._looked.keys, self._looked.kind
        least = np.array([_least(threshold ** (5 if one == _LONG else 1)) for one in (_EMPTY, _SHORT, _LONG)])

        def judge(first: Positions, second: Positions) -> npt.NDArray[np.int8]:
            agree = (keys[:, first] == keys[:, second]).sum(axis=0)
            return np.where(agree >= least[kind[second]], ASK, NO).astype(np.int8)

        def alike(one: int, other: int) -> bool:
            return sides.alike(one, other, threshold)

        minhash.join_alike(keys, self._near[mask[self._near]], self._clusters, alike, judge)

    def settle(self) -> None:
        """Decide which one of each cluster stays, after the last level."""
        self._levels.append(("near_duplicate", self._best(self._roots())))

    def why(self, position: int) -> Duplicate | None:
        """Why an edit goes; None if it stays."""
        own = int(self._standing[position])
        for reason, best in self._levels:
            if best[position] != own:
                # Classes of standing lie `rows` apart.
                stays = self._order[int(self._levels[-1][1][position]) % self._looked.rows]
                return Duplicate(reason, self._ids[int(stays)].as_py())
        return None


def _least(probability: float) -> int:
    """Bands that two agree in at least, but for one in millions, when each does with a probability."""
    expected = BANDS * probability
    return max(1, math.floor(expected - 5 * math.sqrt(expected * (1 - probability))))
