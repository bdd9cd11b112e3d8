"""Sequences become one row of tokens without padding, in which a common beginning stands once.

In: groups of token sequences (both sides of a pair, all candidates of a task). Out: a `Layout`: the row,
the position of every token in its own sequence, and the row cut into segments, each of which continues
a parent segment or begins anew. A token sees its ancestors' segments whole and its own up to itself,
which is what it sees where its sequence stands alone; so hidden states are the same, and a prefix that
several sequences share is computed once.

Beside it what decides which sequences share a pass: `micro_batches` under a budget of unique tokens, and
`Sampler`, the order of a run. All are pure functions of their arguments, of numpy only; nothing goes wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.ids import rng

Ids = NDArray[np.int32]
Places = NDArray[np.int64]

ROOT = -1
"""The parent of a segment that begins a sequence."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """A packed row.

    Attributes:
        ids: the row's tokens.
        positions: position of each token in the sequences that it belongs to.
        lengths: tokens of each segment; the segments follow each other and fill the row.
        parents: index of the segment that each one continues, always an earlier one, or `ROOT`.
        places: for each sequence, in the order of groups and within them, where its tokens stand in the row.
    """

    ids: Places
    positions: Places
    lengths: tuple[int, ...]
    parents: tuple[int, ...]
    places: tuple[Places, ...]

    @property
    def last(self) -> Places:
        """Where each sequence's last token stands."""
        return np.array([place[-1] for place in self.places], dtype=np.int64)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(map(len, self.places))


def common_prefix(left: Ids, right: Ids) -> int:
    """Number of leading tokens that two sequences share."""
    size = min(len(left), len(right))
    different = np.nonzero(left[:size] != right[:size])[0]
    return int(different[0]) if len(different) else size


def layout(groups: Sequence[Sequence[Ids]], share: bool = True) -> Layout:
    """Pack sequences, none of them empty.

    Args:
        groups: sequences; those of one group share their common beginnings, those of two never do.
        share: whether any do; else every sequence is one segment.
    """
    build = _Builder()
    for group in groups:
        if share:
            build.tree(group)
        else:
            for sequence in group:
                build.tree([sequence])
    return build.done()


class _Builder:
    def __init__(self) -> None:
        self._parts: list[Ids] = []
        self._positions: list[Places] = []
        self._parents: list[int] = []
        self._size = 0
        self._places: list[Places] = []

    def tree(self, group: Sequence[Ids]) -> None:
        """Add a group as the prefix tree of its sequences, parents before children."""
        paths: list[list[Places]] = [[] for _ in group]
        # Sequences that agree on their first `depth` tokens, which end with segment `parent`.
        waiting = [(list(range(len(group))), 0, ROOT)]
        while waiting:
            members, depth, parent = waiting.pop()
            first = group[members[0]]
            end = depth + min(common_prefix(first[depth:], group[other][depth:]) for other in members)
            if end > depth:
                at = self._add(first[depth:end], depth, parent)
                parent = len(self._parts) - 1
                for member in members:
                    paths[member].append(at)
            branches: dict[int, list[int]] = {}
            for member in members:
                if len(group[member]) > end:
                    branches.setdefault(int(group[member][end]), []).append(member)
            waiting += [(branch, end, parent) for branch in reversed(branches.values())]
        self._places += [np.concatenate(path) for path in paths]

    def _add(self, tokens: Ids, depth: int, parent: int) -> Places:
        at = np.arange(self._size, self._size + len(tokens))
        self._parts.append(tokens)
        self._positions.append(np.arange(depth, depth + len(tokens)))
        self._parents.append(parent)
        self._size += len(tokens)
        return at

    def done(self) -> Layout:
        """The row."""
        return Layout(
            np.concatenate(self._parts).astype(np.int64),
            np.concatenate(self._positions),
            tuple(map(len, self._parts)),
            tuple(self._parents),
            tuple(self._places),
        )


def micro_batches(costs: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of items in as few passes as best-fit-decreasing bin packing finds (Johnson 1974), each
    within `budget` unless one item alone exceeds it.

    Equal costs and budgets give equal passes: ties go to the item and to the pass that come first.
    """
    passes: list[list[int]] = []
    left: list[int] = []
    for item in sorted(range(len(costs)), key=lambda index: (-costs[index], index)):
        fitting = [(room, index) for index, room in enumerate(left) if room >= costs[item]]
        if fitting:
            _, chosen = min(fitting)
            passes[chosen].append(item)
            left[chosen] -= costs[item]
        else:
            passes.append([item])
            left.append(budget - costs[item])
    return passes


def balance(costs: Sequence[int], parts: int) -> list[list[int]]:
    """Indices of items in `parts` shares of about equal cost: the dearest first, each to the share that has
    the least so far (Graham 1969, LPT). Equal costs give equal shares; within a share, indices rise."""
    shares: list[list[int]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for item in sorted(range(len(costs)), key=lambda index: (-costs[index], index)):
        least = loads.index(min(loads))
        shares[least].append(item)
        loads[least] += costs[item]
    return [sorted(share) for share in shares]


def epoch_order(
    count: int, epoch: int, seed: int, groups: Sequence[str] | None = None, together: int = 1
) -> list[int]:
    """The order in which an epoch visits `count` items: a permutation that depends on nothing else.

    Args:
        count: items.
        epoch: number of the epoch.
        seed: seed of the run.
        groups: of each item, what those that may stand next to each other have in common; empty for none.
        together: most items of a group that do; which ones is drawn anew each epoch.
    """
    order = list(range(count))
    draws = rng(seed, "epoch", str(epoch))
    draws.shuffle(order)
    if groups is None or together < 2 or not any(groups):
        return order
    blocks: list[list[int]] = []
    open_blocks: dict[str, list[int]] = {}
    for item in order:
        block = open_blocks.get(groups[item]) if groups[item] else None
        if block is None or len(block) == together:
            block = open_blocks[groups[item]] = []
            blocks.append(block)
        block.append(item)
    draws.shuffle(blocks)
    return [item for block in blocks for item in block]


class Sampler:
    """Indices of the items of every optimizer step, epoch after epoch without end.

    Attributes:
        epoch: the epoch of the next step.
        at: how many items of that epoch are behind it.
        order: the order of that epoch.
    """

    def __init__(
        self, count: int, size: int, seed: int, groups: Sequence[str] | None = None, together: int = 1
    ) -> None:
        """
        Args:
            count: items, at least 1.
            size: items of a step; an epoch's last step may have fewer.
            seed: seed of the epochs' orders.
            groups: see `epoch_order`.
            together: see `epoch_order`.
        """
        self._count, self._size, self._seed = count, size, seed
        self.groups, self._together = groups, together
        self.epoch = self.at = 0
        self.order: list[int] = []
        self.go_to(0, 0)

    def __iter__(self) -> Sampler:
        return self

    def __next__(self) -> tuple[int, slice, list[int]]:
        """(epoch, places in the epoch's order, indices) of the next step."""
        epoch, order, places = self.epoch, self.order, slice(self.at, min(self._count, self.at + self._size))
        self.at = places.stop
        if self.at >= self._count:
            self.go_to(epoch + 1, 0)
        return epoch, places, order[places]

    def go_to(self, epoch: int, at: int) -> None:
        """Go on with the item `at` of an epoch."""
        self.epoch, self.at = epoch, at
        self.order = epoch_order(self._count, epoch, self._seed, self.groups, self._together)
