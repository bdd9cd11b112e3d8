"""Near-duplicate edits: MinHash over the change and over both sides, bands, union-find.

Two edits are near-duplicates when their changes are alike *and* the files around them are. Alike files
alone mean nothing, since an edit of a file shares most of it with the edits before and after; alike
changes alone mean little, since a small one recurs in unrelated files. Alike is an estimated Jaccard
similarity of at least a threshold, from signatures of `PERMUTATIONS` minima.

Changes are compared first, the files of a pair only where its changes are alike. Edits with the very
same two files are grouped by hash before anything else. A change of fewer than `SHORT` shingles is
compared by equality, not by signature, so that short changes never collapse into one cluster.

In: rows of `edits`, all of them once (`Looked.add`), then those of pairs with alike changes again
(`side_signatures`). Out: for each
edit that goes, which one stays. Memory: 4 x `PERMUTATIONS` bytes an edit, three times that for those
that may be duplicates, and the bands one at a time.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import rensa

from schemas.changes import changed_lines
from schemas.ids import content_id

PERMUTATIONS = 128
BANDS = 32
"""Of 4 rows each: pairs of similarity 0.75 share a band with probability 1 - (1 - 0.75^4)^32 > 0.9999."""
SHORT = 5
_SEED = 1
_BEFORE = 64
"""Most earlier members of a crowded bucket that an edit is compared with: bounds the work on it."""
_COMPARED = 20_000
"""Pairs compared at once; each takes two signatures of memory."""

Signatures = npt.NDArray[np.uint32]


def change_of(edit: Mapping[str, Any]) -> list[str]:
    """Lines of a change with `-` or `+` before them, white space around them and empty ones left out."""
    removed, added = changed_lines(edit)
    marked = (("-", removed), ("+", added))
    return [sign + text for sign, lines in marked for line in lines if (text := line.strip())]


def shingles(lines: Sequence[str]) -> list[str]:
    """Distinct runs of two lines; a lone line stands for itself."""
    if len(lines) < 2:
        return list(lines)
    return list({f"{a}\n{b}" for a, b in itertools.pairwise(lines)})


def signatures(documents: Sequence[Sequence[str]]) -> Signatures:
    """MinHash signatures, one row a document of shingles: shape (documents, PERMUTATIONS)."""
    if not documents:
        return np.empty((0, PERMUTATIONS), np.uint32)
    matrix = rensa.RMinHash.digest_matrix_from_token_sets(
        [list(one) for one in documents], PERMUTATIONS, _SEED
    )
    return np.array(matrix.to_rows(), np.uint32)


def similarity(one: Signatures, other: Signatures) -> float:
    """Estimated Jaccard similarity of two signatures: the share of equal minima (Broder 1997)."""
    return float(np.mean(one == other))


class Clusters:
    """Union-find over positions; the smallest position of a cluster is its root."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def root(self, position: int) -> int:
        """The root of a position's cluster."""
        while self.parent[position] != position:
            self.parent[position] = self.parent[self.parent[position]]
            position = self.parent[position]
        return position

    def join(self, one: int, other: int) -> None:
        """Make two clusters one."""
        a, b = sorted((self.root(one), self.root(other)))
        self.parent[b] = a


@dataclasses.dataclass
class Looked:
    """What the first look keeps of each edit; `settle` puts the edits in the order in which they stay."""

    ids: list[str] = dataclasses.field(default_factory=list)
    times: list[int] = dataclasses.field(default_factory=list)
    contents: list[str] = dataclasses.field(default_factory=list)
    changes: list[str] = dataclasses.field(default_factory=list)
    long: list[bool] = dataclasses.field(default_factory=list)
    rows: list[Signatures] = dataclasses.field(default_factory=list)
    matrix: Signatures = dataclasses.field(default_factory=lambda: signatures([]))

    def add(self, edits: Iterable[Mapping[str, Any]]) -> None:
        """Take a batch of edits."""
        documents = []
        for edit in edits:
            lines = change_of(edit)
            found = shingles(lines)
            documents.append(found)
            self.ids.append(edit["id"])
            self.times.append(edit["commit_time"])
            self.contents.append(content_id(edit["old_contents"], edit["new_contents"]))
            self.changes.append(content_id(*lines))
            self.long.append(len(found) >= SHORT)
        self.rows.append(signatures(documents))

    def settle(self) -> None:
        """Order all by commit time, then id, so that the result does not depend on the order of shards."""
        order = sorted(range(len(self.ids)), key=lambda at: (self.times[at], self.ids[at]))
        for name in ("ids", "times", "contents", "changes", "long"):
            old = getattr(self, name)
            setattr(self, name, [old[at] for at in order])
        if self.rows:
            self.matrix = np.concatenate(self.rows)[order]
        self.rows = []


def _groups(keys: Sequence[Any]) -> list[list[int]]:
    """Positions with equal keys, groups of one left out, each in order."""
    by_key: dict[Any, list[int]] = {}
    for position, key in enumerate(keys):
        by_key.setdefault(key, []).append(position)
    return [group for group in by_key.values() if len(group) > 1]


def _candidates(matrix: Signatures) -> npt.NDArray[np.int64]:
    """Pairs of rows that share a band, as first * rows + second, first < second, sorted, each once.

    In a bucket, a row is paired with the `_BEFORE` before it at most.
    """
    rows, width = len(matrix), PERMUTATIONS // BANDS
    found = [np.empty(0, np.int64)]
    for band in range(BANDS):
        part = np.ascontiguousarray(matrix[:, band * width : (band + 1) * width])
        keys = part.view(np.dtype((np.void, part.dtype.itemsize * width))).ravel()
        order = np.argsort(keys, kind="stable")
        new = keys[order][1:] != keys[order][:-1]
        bucket = np.concatenate(([0], np.cumsum(new)))
        largest = int(np.bincount(bucket).max()) if rows else 0
        for distance in range(1, min(_BEFORE, largest - 1) + 1):
            same = bucket[distance:] == bucket[:-distance]
            found.append(order[:-distance][same] * rows + order[distance:][same])
    return np.unique(np.concatenate(found))


def alike(matrix: Signatures, threshold: float) -> list[tuple[int, int]]:
    """Pairs of rows (earlier, later) whose signatures are alike, in order."""
    found: list[tuple[int, int]] = []
    candidates = _candidates(matrix)
    for start in range(0, len(candidates), _COMPARED):
        first, second = np.divmod(candidates[start : start + _COMPARED], len(matrix))
        close = (matrix[first] == matrix[second]).mean(axis=1) >= threshold
        found += zip(first[close].tolist(), second[close].tolist(), strict=True)
    return found


def alike_changes(looked: Looked, threshold: float) -> list[tuple[int, int]]:
    """Pairs of positions (earlier, later) whose changes are equal or alike, each once, in order."""
    pairs = {
        (earlier, later)
        for group in _groups(looked.changes)
        for at, later in enumerate(group)
        for earlier in group[max(0, at - _BEFORE) : at]
    }
    long = np.flatnonzero(np.array(looked.long, bool))
    for first, second in alike(looked.matrix[long], threshold):
        pairs.add((int(long[first]), int(long[second])))
    return sorted(pairs)


def _shingles_of_file(text: str) -> list[str]:
    return shingles([stripped for line in text.split("\n") if (stripped := line.strip())])


def side_signatures(edits: Sequence[Mapping[str, Any]]) -> list[tuple[Signatures, Signatures]]:
    """Signatures of the old and of the new file of each edit."""
    old = signatures([_shingles_of_file(edit["old_contents"]) for edit in edits])
    new = signatures([_shingles_of_file(edit["new_contents"]) for edit in edits])
    return list(zip(old, new, strict=True))


@dataclasses.dataclass(frozen=True)
class Duplicate:
    """Why an edit goes: the one that stays, and whether both files are the very same."""

    stays: str
    exact: bool


def duplicates(
    looked: Looked,
    pairs: Iterable[tuple[int, int]],
    sides: Mapping[str, tuple[Signatures, Signatures]],
    threshold: float,
) -> dict[str, Duplicate]:
    """Edits that go, by id. `sides` holds the side signatures of every edit of a pair, by id."""
    clusters = Clusters(len(looked.ids))
    exact: set[int] = set()
    for group in _groups(looked.contents):
        exact.update(group[1:])
        for later in group[1:]:
            clusters.join(group[0], later)
    for one, other in pairs:
        if clusters.root(one) != clusters.root(other):
            a, b = sides[looked.ids[one]], sides[looked.ids[other]]
            if all(similarity(x, y) >= threshold for x, y in zip(a, b, strict=True)):
                clusters.join(one, other)
    found = {}
    for position, own in enumerate(looked.ids):
        if (root := clusters.root(position)) != position:
            found[own] = Duplicate(looked.ids[root], position in exact)
    return found
