"""Sets that are alike, found without comparing all with all: minima, bands, buckets, clusters.

The share of permutations under which two sets have the same minimum estimates their Jaccard similarity
(MinHash, Broder 1997). `PERMUTATIONS` minima are cut into `BANDS`; sets that agree in a whole band share a
bucket (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4). Two of similarity 0.75 do so in some
band with a probability of 1 - (1 - 0.75^4)^32 > 0.9999. Whether two that share one are alike is for the
caller to say, who knows the sets: an estimate decides where it leaves no doubt, and nowhere else.

Bounds, so that one crowded bucket cannot make the work quadratic: a set is compared with the `BEFORE`
earlier members of a bucket at most, and given up after `FAILURES` comparisons that failed. What is in one
cluster already is not compared.

In: hashes. Out: the same clusters for the same order of sets. Memory: 4 x `BANDS` bytes a set for its keys,
and some 50 while the buckets of one band are made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import rensa

from miner.shingles import Hashes, Positions

PERMUTATIONS = 128
BANDS = 32
BEFORE = 64
FAILURES = 32
_SEED = 1
_ODD = np.uint32(0x9E3779B1)
_POSITION = np.uint64(0xFFFFFFFF)
_BITS = np.uint64(32)
_AT_ONCE = 1 << 15
_REMEMBERED = 200_000
"""Failed comparisons that are remembered, so that another band does not make them again."""

Minima = npt.NDArray[np.uint32]
Judge = Callable[[Positions, Positions], npt.NDArray[np.int8]]
NO, ASK, YES = range(3)


def minima(sets: Sequence[Hashes], permutations: int = PERMUTATIONS) -> Minima:
    """Minima of sets of hashes (repeated ones do not matter): shape (sets, permutations).

    Those of an empty set are all ones.
    """
    if not sets:
        return np.empty((0, permutations), np.uint32)
    flat = np.concatenate(sets)
    offsets = np.zeros(len(sets) + 1, np.uint64)
    np.cumsum([len(one) for one in sets], out=offsets[1:])
    matrix = rensa.RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, permutations, _SEED)
    values = itertools.chain.from_iterable(matrix.to_rows())
    return np.fromiter(values, np.uint32, permutations * len(sets)).reshape(len(sets), permutations)


def mixed(values: Minima) -> Minima:
    """Spread the bits of each value (the finalizer of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


def band_keys(found: Minima) -> Minima:
    """One key a band of `PERMUTATIONS` minima: shape (BANDS, sets)."""
    width = found.shape[1] // BANDS
    keys: Minima = np.zeros((len(found), BANDS), np.uint32)
    for row in range(width):
        keys = mixed(keys * _ODD + found[:, row::width])
    return np.ascontiguousarray(keys.T)


class Clusters:
    """Union-find over positions; the smallest position of a cluster is its root. 8 bytes a position."""

    def __init__(self, size: int) -> None:
        self.parent: Positions = np.arange(size)

    def root(self, position: int) -> int:
        """The root of a position's cluster."""
        parent = self.parent
        while (above := int(parent[position])) != position:
            parent[position] = parent[above]
            position = above
        return position

    def roots(self, positions: Positions) -> Positions:
        """The roots of many."""
        found = self.parent[positions]
        while not np.array_equal(found, above := self.parent[found]):
            found = above
        return found

    def join(self, one: int, other: int) -> None:
        """Make two clusters one."""
        a, b = sorted((self.root(one), self.root(other)))
        self.parent[b] = a


def _buckets(keys: Minima, order: Positions, clusters: Clusters) -> Iterator[tuple[Positions, Positions]]:
    """For each band the positions in buckets that hold several clusters, and the bucket of each.

    Bucket by bucket, in `order` within one.
    """
    for band in keys:
        sortable = band[order].astype(np.uint64) << _BITS
        sortable |= np.arange(len(order), dtype=np.uint64)
        sortable.sort()
        bucket = (sortable >> _BITS).astype(np.int64)
        same = bucket[1:] == bucket[:-1]
        shared = np.zeros(len(order), bool)
        shared[1:] = same
        shared[:-1] |= same
        at = order[(sortable[shared] & _POSITION).astype(np.int64)]
        bucket = bucket[shared]
        if not len(at):
            continue
        roots = clusters.roots(at)
        starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
        mixed_up = np.zeros(len(at), bool)
        mixed_up[1:] = (bucket[1:] == bucket[:-1]) & (roots[1:] != roots[:-1])
        several = np.repeat(np.logical_or.reduceat(mixed_up, starts), np.diff(np.append(starts, len(at))))
        yield at[several], bucket[several]


def crowded(keys: Minima, order: Positions, clusters: Clusters) -> npt.NDArray[np.bool_]:
    """Which positions share a bucket with one of another cluster; the others have none that is alike."""
    found = np.zeros(len(clusters.parent), bool)
    for at, _ in _buckets(keys, order, clusters):
        found[at] = True
    return found


def join_alike(
    keys: Minima,
    order: Positions,
    clusters: Clusters,
    alike: Callable[[int, int], bool],
    judge: Judge,
) -> None:
    """Join the clusters of positions that share a bucket and are alike.

    Args:
        keys: shape (bands, positions).
        order: the positions to look at, in the order in which an earlier one is compared with a later one.
        clusters: what is joined already; changed.
        alike: whether two positions, earlier and later, are.
        judge: for many pairs at once `NO`, `YES`, or `ASK` for those that `alike` has to look at.
    """
    failed: set[int] = set()
    count = len(clusters.parent)
    failures: npt.NDArray[np.int8] = np.zeros(len(clusters.parent), np.int8)
    for at, bucket in _buckets(keys, order, clusters):
        for first, second in _pairs(at, bucket):
            open_ = (clusters.roots(first) != clusters.roots(second)) & (failures[second] < FAILURES)
            first, second = first[open_], second[open_]
            if not len(first):
                continue
            judged = judge(first, second)
            told = judged != NO
            ways = (first[told].tolist(), second[told].tolist(), (judged[told] == YES).tolist())
            for earlier, later, sure in zip(*ways, strict=True):
                if earlier * count + later in failed or failures[later] >= FAILURES:
                    continue
                if clusters.root(earlier) == clusters.root(later):
                    continue
                if sure or alike(earlier, later):
                    clusters.join(earlier, later)
                    continue
                if len(failed) >= _REMEMBERED:
                    failed.clear()
                failed.add(earlier * count + later)
                failures[later] += 1


def _pairs(at: Positions, bucket: Positions) -> Iterator[tuple[Positions, Positions]]:
    """Pairs of members of one bucket, neighbours first, since those of one cluster mostly are."""
    here = np.arange(1, len(at))
    pending: list[tuple[Positions, Positions]] = []
    size = 0
    for distance in range(1, BEFORE + 1):
        here = here[here >= distance]
        here = here[bucket[here] == bucket[here - distance]]
        pending.append((at[here - distance], at[here]))
        size += len(here)
        if distance == 1 or distance == BEFORE or size >= _AT_ONCE or not len(here):
            yield np.concatenate([one for one, _ in pending]), np.concatenate([two for _, two in pending])
            pending, size = [], 0
        if not len(here):
            return
