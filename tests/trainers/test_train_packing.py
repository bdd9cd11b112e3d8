"""Packed rows, passes under a budget, division among ranks, and the order of a run that can be resumed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainers.packing import (
    ROOT,
    Ids,
    Layout,
    Sampler,
    balance,
    common_prefix,
    epoch_order,
    layout,
    micro_batches,
)

# Few different tokens, so that prefixes are often shared, and one sequence often begins another.
sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=6)
groups_of = st.lists(sequences, min_size=1, max_size=3)
costs_of = st.lists(st.integers(1, 50), max_size=30)


def arrays(groups: list[list[list[int]]]) -> list[list[Ids]]:
    return [[np.array(one, dtype=np.int32) for one in group] for group in groups]


def path(row: Layout, segment: int) -> list[int]:
    """The segment and its ancestors, the last one first."""
    found = [segment]
    while row.parents[found[-1]] != ROOT:
        found.append(row.parents[found[-1]])
    return found


@given(groups_of, st.booleans())
def test_every_sequence_is_found_in_the_row_with_its_positions(
    groups: list[list[list[int]]], share: bool
) -> None:
    row = layout(arrays(groups), share)
    flat = [one for group in groups for one in group]
    assert [row.ids[place].tolist() for place in row.places] == flat
    assert all(row.positions[place].tolist() == list(range(len(place))) for place in row.places)
    assert sum(row.lengths) == len(row.ids) == len(row.positions)
    assert row.longest == max(map(len, flat))


@given(groups_of, st.booleans())
def test_a_sequences_tokens_are_those_of_its_last_segment_and_its_ancestors(
    groups: list[list[list[int]]], share: bool
) -> None:
    row = layout(arrays(groups), share)
    ends = np.cumsum(row.lengths)
    for place in row.places:
        last = int(np.searchsorted(ends, place[-1], side="right"))
        whole = [
            token
            for segment in reversed(path(row, last))
            for token in range(ends[segment] - row.lengths[segment], ends[segment])
        ]
        # A sequence ends where a segment does, else a token would see what comes after it.
        assert whole == place.tolist()


@given(groups_of)
def test_shared_rows_hold_every_prefix_of_a_group_once_and_none_of_two_groups(
    groups: list[list[list[int]]],
) -> None:
    distinct = [len({tuple(one[: end + 1]) for one in group for end in range(len(one))}) for group in groups]
    assert len(layout(arrays(groups)).ids) == sum(distinct)


def test_without_sharing_every_sequence_is_a_segment_of_its_own() -> None:
    row = layout(arrays([[[1, 2, 3], [1, 2]], [[1, 2]]]), share=False)
    assert row.lengths == (3, 2, 2)
    assert row.parents == (ROOT, ROOT, ROOT)


def test_a_deep_tree_does_not_recurse() -> None:
    group = [np.zeros(size, dtype=np.int32) for size in range(1, 1200)]
    row = layout([group])
    assert len(row.ids) == 1199
    assert len(row.lengths) == 1199


@given(costs_of, st.integers(1, 60))
def test_passes_hold_every_item_once_and_keep_to_the_budget(costs: list[int], budget: int) -> None:
    passes = micro_batches(costs, budget)
    assert sorted(item for part in passes for item in part) == list(range(len(costs)))
    for part in passes:
        assert len(part) == 1 or sum(costs[item] for item in part) <= budget


@given(costs_of, st.integers(50, 80))
def test_no_two_passes_would_fit_into_one(costs: list[int], budget: int) -> None:
    sums = sorted(sum(costs[item] for item in part) for part in micro_batches(costs, budget))
    assert len(sums) < 2 or sums[0] + sums[1] > budget


@given(st.integers(0, 60), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_visits_every_pair_once(count: int, epoch: int, seed: int) -> None:
    assert sorted(epoch_order(count, epoch, seed)) == list(range(count))


def test_epochs_and_seeds_differ_in_order() -> None:
    assert len({tuple(epoch_order(30, epoch, seed)) for epoch in range(3) for seed in range(3)}) == 9


@given(st.integers(1, 20), st.integers(1, 25), st.integers(0, 2))
def test_a_sampler_visits_epochs_in_order_each_item_once(count: int, size: int, seed: int) -> None:
    sampler = Sampler(count, size, seed)
    for epoch in range(3):
        seen: list[int] = []
        while len(seen) < count:
            of, places, indices = next(sampler)
            assert of == epoch
            assert (places.start, places.stop) == (len(seen), len(seen) + len(indices))
            assert len(indices) == min(size, count - len(seen))
            seen += indices
        assert seen == epoch_order(count, epoch, seed)


@given(st.lists(st.integers(0, 1), max_size=9), st.lists(st.integers(0, 1), max_size=9))
def test_a_common_prefix_is_common_and_the_longest(left: list[int], right: list[int]) -> None:
    size = common_prefix(np.array(left, dtype=np.int32), np.array(right, dtype=np.int32))
    assert left[:size] == right[:size]
    assert size in (len(left), len(right)) or left[size] != right[size]


@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=40), st.integers(1, 5))
def test_items_of_a_group_stand_together_up_to_a_number(groups: list[str], together: int) -> None:
    order = epoch_order(len(groups), 3, 1, groups, together)
    assert sorted(order) == list(range(len(groups)))
    # A group of n items is drawn in blocks, so it has at most as many runs as full blocks and a rest.
    names = [groups[item] for item in order]
    for name in set(names) - {""}:
        runs = sum(one == name and (at == 0 or names[at - 1] != name) for at, one in enumerate(names))
        assert runs <= -(-names.count(name) // together)


def test_which_items_of_a_group_stand_together_changes_with_the_epoch() -> None:
    groups = ["a"] * 8 + ["b"] * 8
    blocks = {frozenset(epoch_order(16, epoch, 0, groups, 4)[:4]) for epoch in range(6)}
    assert len(blocks) > 2


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 6))
def test_shares_hold_every_item_once_and_differ_by_no_more_than_the_dearest(
    costs: list[int], parts: int
) -> None:
    shares = balance(costs, parts)
    assert sorted(index for share in shares for index in share) == list(range(len(costs)))
    loads = [sum(costs[index] for index in share) for share in shares]
    assert len(loads) == parts
    assert max(loads) - min(loads) <= max(costs, default=0)


def test_a_sampler_goes_on_where_it_was() -> None:
    first, second = Sampler(17, 4, 2), Sampler(17, 4, 2)
    for _ in range(7):
        next(first)
    second.go_to(first.epoch, first.at)
    assert [next(first) for _ in range(9)] == [next(second) for _ in range(9)]
