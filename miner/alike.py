"""Texts that are nearly the same: of each cluster of them the first stays.

In: texts, best with similar ones behind each other. Out: their clusters (`miner.minhash.Clusters`), the same
for the same order of texts. Two are nearly the same when the Jaccard similarity of their shingles of two
lines (`miner.shingles`) is at least a threshold; a cluster is what is so directly or over others. The
similarity is exact wherever an estimate leaves doubt. Of pairs with a similarity of 0.75 more than 0.9999
are looked at; below a threshold of 0.5 pairs are missed. Texts without a line that shows are all the same.

Memory: 8 bytes a line, and 640 bytes a text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from miner import shingles
from miner.minhash import ASK, NO, YES, Clusters, Judge, Minima, band_keys, join_alike, minima
from miner.ngrams import grouped
from miner.shingles import Hashes, Positions

_BATCH = 4 << 20
"""Characters of texts whose lines are hashed together."""


def by_estimate(found: Minima, threshold: float) -> Judge:
    """Judge pairs of sets by their minima, where these leave no doubt.

    An estimate from n minima has a standard deviation of sqrt(t (1 - t) / n) at a similarity of t. One that
    lies 3.5 of them below the threshold is a no, 4 above a yes.
    """
    deviation = math.sqrt(threshold * (1 - threshold) / found.shape[1])
    no, yes = threshold - 3.5 * deviation, threshold + 4 * deviation

    def judge(first: Positions, second: Positions) -> npt.NDArray[np.int8]:
        estimate = (found[first] == found[second]).mean(axis=1)
        return np.where(estimate < no, NO, np.where(estimate > yes, YES, ASK)).astype(np.int8)

    return judge


def alike_texts(texts: Sequence[str], threshold: float) -> Clusters:
    """The clusters of texts that are nearly the same; the root of each is its first text."""
    sets: list[Hashes] = []
    for batch in grouped(texts, len, _BATCH):
        sets += shingles.shingles(shingles.line_hashes(batch))
    found = minima(sets)
    sorted_sets: dict[int, Hashes] = {}

    def distinct(position: int) -> Hashes:
        if position not in sorted_sets:
            sorted_sets[position] = shingles.distinct(sets[position])
        return sorted_sets[position]

    def alike(one: int, other: int) -> bool:
        return shingles.alike(distinct(one), distinct(other), threshold)

    clusters = Clusters(len(texts))
    join_alike(band_keys(found), np.arange(len(texts)), clusters, alike, by_estimate(found, threshold))
    return clusters
