"""What is trained on, as token sequences, and the passes in which sequences are computed.

In: `Item`s, which an objective makes of rows. Out: `Batch`es, each the input of one forward pass: items in
one packed row (`trainers.packing`) or padded on the right, with what is to be read from the result. `Output`
is that result. All are pure functions of their arguments; nothing goes wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.packing import Ids, Layout, Places, common_prefix, layout, micro_batches

Floats32 = NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """What the sampler draws: a pair, a completion, or all candidates of a task.

    Attributes:
        idx: id of the row that it was made from.
        group: items of one group are held out together: a commit, a problem, an instance.
        share: items with this in common begin with the same tokens (a problem's prompt); those of one step
            go into the same pass where they can, so that these are computed once. Empty: none do.
        sequences: token ids, computed together; their common beginnings are computed once.
        at: for each sequence, the tokens whose hidden states predict, in rising order; empty for none.
        targets: for each sequence, the token ids predicted there.
        facts: what the objective's loss needs to know of it, such as labels.
        reference: log-probabilities of `targets` under the model before training, where they are needed.
        unique_tokens: tokens of the sequences, common beginnings counted once.
    """

    idx: str
    group: str
    share: str
    sequences: tuple[Ids, ...]
    at: tuple[Places, ...]
    targets: tuple[Places, ...]
    facts: Any = None
    reference: tuple[Floats32, ...] | None = None
    unique_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.unique_tokens:
            object.__setattr__(self, "unique_tokens", unique_tokens(self.sequences))

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(map(len, self.sequences))

    @property
    def length(self) -> int:
        """Tokens of the longest sequence."""
        return max(map(len, self.sequences))

    @property
    def predicted(self) -> int:
        """How many targets there are."""
        return sum(map(len, self.targets))


def unique_tokens(sequences: Sequence[Ids]) -> int:
    """Tokens of sequences, common beginnings counted once."""
    if len(sequences) == 1:
        return len(sequences[0])
    if len(sequences) == 2:
        return len(sequences[0]) + len(sequences[1]) - common_prefix(*sequences)
    return sum(layout([sequences]).lengths)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """The input of one forward pass. Sequences are counted through, item by item.

    Attributes:
        items: the items, in order.
        row: the packed row; None when padded.
        input_ids: shape (sequences, tokens); None when packed.
        attention_mask: 1 on tokens, 0 on padding; same shape; None when packed.
        positions: flat places (in the row, or in `input_ids`) whose hidden states predict; shape (targets,).
        targets: the token ids predicted there; shape (targets,).
    """

    items: tuple[Item, ...]
    row: Layout | None
    input_ids: Tensor | None
    attention_mask: Tensor | None
    positions: Tensor
    targets: Tensor

    @property
    def computed(self) -> int:
        """Positions that are computed, padding among them."""
        if self.row is not None:
            return len(self.row.ids)
        return 0 if self.input_ids is None else self.input_ids.numel()

    @property
    def target_counts(self) -> list[int]:
        """How many targets each sequence has."""
        return [len(targets) for item in self.items for targets in item.targets]


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """What a forward pass gives, in the order of the batch.

    Attributes:
        scores: float32 score of each sequence, read from its last token, shape (sequences,); None for a model
            without a score head.
        logprobs: float32 log-probability of each target, shape (targets,).
    """

    scores: Tensor | None
    logprobs: Tensor

    def by_sequence(self, batch: Batch) -> tuple[Tensor, ...]:
        """`logprobs` cut into those of each sequence."""
        return torch.split(self.logprobs, batch.target_counts)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What inference found of one item: a score a sequence (empty without a score head) and for each
    sequence the log-probabilities of its targets."""

    scores: Floats32
    logprobs: tuple[Floats32, ...]


def pad(sequences: Sequence[Ids], pad_id: int) -> tuple[Tensor, Tensor]:
    """(input_ids, attention_mask) of sequences padded on the right, shape (sequences, longest)."""
    width = max(map(len, sequences))
    ids = np.full((len(sequences), width), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def collate(items: Sequence[Item], how: str, pad_id: int) -> Batch:
    """Items as one pass.

    Args:
        items: those of one `share` stand next to each other.
        how: `prefix` (common beginnings of an item, and of neighbours of one `share`, are computed once),
            `packed` or `padded`.
        pad_id: token to pad with.
    """
    sequences = [sequence for item in items for sequence in item.sequences]
    wanted = [at for item in items for at in item.at]
    targets = np.concatenate([*(t for item in items for t in item.targets), np.empty(0, np.int64)])
    row = ids = mask = None
    if how == "padded":
        ids, mask = pad(sequences, pad_id)
        places = [at + number * ids.shape[1] for number, at in enumerate(wanted)]
    else:
        row = layout(
            [[s for item in part for s in item.sequences] for part in sharing(items)], how == "prefix"
        )
        places = [place[at] for place, at in zip(row.places, wanted, strict=True)]
    flat = np.concatenate([*places, np.empty(0, np.int64)])
    return Batch(
        tuple(items),
        row,
        ids,
        mask,
        torch.from_numpy(flat.astype(np.int64)),
        torch.from_numpy(targets.astype(np.int64)),
    )


def sharing(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Neighbours that begin alike, together."""
    keyed = [(item.share or str(number), item) for number, item in enumerate(items)]
    for _, part in itertools.groupby(keyed, key=lambda pair: pair[0]):
        yield [item for _, item in part]


def bundles(items: Sequence[Item], how: str, budget: int) -> list[tuple[list[Item], int]]:
    """Items that should share a pass, each with its cost in positions; the smallest parts of a step.

    With `prefix`, items of one `share` are a bundle as long as its unique tokens stay within `budget`;
    otherwise every item is one.
    """
    if how != "prefix":
        return [([item], item.tokens) for item in items]
    together: dict[str, list[Item]] = {}
    for number, item in enumerate(items):
        together.setdefault(item.share or f"\0{number}", []).append(item)
    made: list[tuple[list[Item], int]] = []
    for group in together.values():
        part: list[Item] = []
        cost = 0
        for item in group:
            grown = unique_tokens([s for one in (*part, item) for s in one.sequences]) if part else 0
            if part and grown <= budget:
                part.append(item)
                cost = grown
                continue
            if part:
                made.append((part, cost))
            part, cost = [item], item.unique_tokens
        made.append((part, cost))
    return made


def passes(parts: Sequence[tuple[list[Item], int]], how: str, budget: int, pad_id: int) -> list[Batch]:
    """Bundles (see `bundles`) in few passes of at most `budget` computed positions, unless one alone exceeds
    it."""
    if how == "padded":
        # Items of like length share a pass, which saves padding and changes no sum.
        ordered = sorted((item for part, _ in parts for item in part), key=lambda item: item.length)
        return [collate(part, how, pad_id) for part in _rectangles(ordered, budget)]
    return [
        collate([item for index in chosen for item in parts[index][0]], how, pad_id)
        for chosen in micro_batches([cost for _, cost in parts], budget)
    ]


def _rectangles(ordered: Sequence[Item], budget: int) -> Iterator[list[Item]]:
    part: list[Item] = []
    for item in ordered:
        rows = sum(len(one.sequences) for one in (*part, item))
        if part and rows * item.length > budget:
            yield part
            part = []
        part.append(item)
    if part:
        yield part
