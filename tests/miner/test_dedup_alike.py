"""Texts and sets that are alike, found without comparing all with all."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miner.alike import alike_texts
from miner.minhash import FAILURES, Clusters, band_keys, join_alike, minima
from miner.shingles import distinct, jaccard, line_hashes, shingles


def versions(seed: int, count: int) -> list[str]:
    """Texts that drift away from each other."""
    draw = random.Random(seed)
    lines = [f"line {draw.random()}" for _ in range(60)]
    texts = []
    for _ in range(count):
        for _ in range(draw.choice([0, 1, 4, 12])):
            lines[draw.randrange(len(lines))] = f"line {draw.random()}"
        texts.append("\n".join(lines))
    return texts


def firsts(clusters: Clusters) -> list[int]:
    return [at for at in range(len(clusters.parent)) if clusters.root(at) == at]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.6, 0.75, 0.9, 1.0]))
def test_kept_texts_are_those_of_comparing_all_with_all(seed: int, threshold: float) -> None:
    texts = [*versions(seed, 30), *versions(seed + 1, 30)]
    random.Random(seed).shuffle(texts)
    sets = [distinct(one) for one in shingles(line_hashes(texts))]
    true = Clusters(len(texts))
    for one, other in itertools.combinations(range(len(texts)), 2):
        if jaccard(sets[one], sets[other]) >= threshold:
            true.join(one, other)
    assert firsts(alike_texts(texts, threshold)) == firsts(true)


def test_no_texts_make_no_clusters() -> None:
    assert firsts(alike_texts([], 0.75)) == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_share_of_equal_minima_estimates_the_similarity(seed: int, both: int, left: int, right: int) -> None:
    draw = random.Random(seed)
    values = np.array([draw.getrandbits(64) for _ in range(both + left + right)], np.uint64)
    one, other = values[: both + left], np.append(values[:both], values[both + left :])
    if not len(one) or not len(other):
        return
    a, b = minima([one, other])
    assert np.mean(a == b) == pytest.approx(both / (both + left + right), abs=0.22)


def test_crowded_bucket_of_unlike_sets_takes_a_bounded_number_of_comparisons() -> None:
    count, asked = 3000, []
    keys = np.zeros((4, count), np.uint32)

    def alike(one: int, other: int) -> bool:
        asked.append((one, other))
        return False

    def judge(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.ones(len(first), np.int8)

    join_alike(keys, np.arange(count), Clusters(count), alike, judge)
    assert len(asked) == len(set(asked)) <= count * FAILURES


def test_bands_are_equal_where_the_minima_are() -> None:
    values = np.arange(50, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = band_keys(minima([values, values[::-1], values + np.uint64(1)]))
    assert (keys[:, 0] == keys[:, 1]).all()
    assert (keys[:, 0] != keys[:, 2]).all()


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=40))
def test_roots_are_the_smallest_of_what_is_joined(pairs: list[tuple[int, int]]) -> None:
    clusters = Clusters(20)
    groups = [{at} for at in range(20)]
    for one, other in pairs:
        clusters.join(one, other)
        whole = groups[one] | groups[other]
        for at in whole:
            groups[at] = whole
    want = [min(group) for group in groups]
    assert clusters.roots(np.arange(20)).tolist() == want == [clusters.root(at) for at in range(20)]
