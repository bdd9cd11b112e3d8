"""`dpo`: a policy learns from preference pairs by comparing itself with what it was before training.

In: the `pairs` table. Out: items of two sequences, chosen and rejected, cut as `trainers.data` says. The
targets of the chosen side are the tokens of its completion and end of turn; those of the rejected side begin
where the two first differ, since what is before has the same log-ratio on both. The end of turn is no target
of a side whose completion is cut at its end: a policy is not to learn to stop half-way. Losses and their
sources are in `trainers.losses`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from trainers import data, losses, metrics
from trainers.config import TrainConfig
from trainers.data import Cutting, Pair, TokenPair
from trainers.items import Batch, Found, Item, Output
from trainers.objectives import ratios
from trainers.objectives.base import Account, WithoutCompanions
from trainers.packing import common_prefix


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Of a pair: how many first targets of the chosen side are those of the rejected side too."""

    shared: int


def item_of(pair: TokenPair, max_length: int, end_of_turn: int) -> Item:
    """A pair as an item.

    Args:
        pair: both sides.
        max_length: tokens that they were cut to.
        end_of_turn: tokens of the template after a completion.
    """
    sides = (pair.chosen, pair.rejected)
    start = max(1, pair.prompt_length)
    ends = [len(side) - (end_of_turn if pair.windowed and len(side) == max_length else 0) for side in sides]
    difference = max(start, min(common_prefix(*sides), *ends))
    wanted = [np.arange(begin, end) for begin, end in zip((start, difference), ends, strict=True)]
    return Item(
        idx=pair.pair.idx,
        group=pair.pair.commit or pair.pair.idx,
        share="",
        sequences=sides,
        at=tuple(at - 1 for at in wanted),
        targets=tuple(side[at].astype(np.int64) for side, at in zip(sides, wanted, strict=True)),
        facts=Facts(difference - start),
    )


class Dpo(WithoutCompanions):
    """See the module."""

    name = "dpo"
    table = "pairs"
    unit = "pairs"
    head = "vocabulary"
    needs_vocabulary = True
    referenced = True

    def __init__(self, config: TrainConfig) -> None:
        self._config = config

    def read(self, shards: Sequence[Path]) -> list[Pair]:
        """All pairs, ordered by id."""
        return data.read_pairs(shards)

    def group(self, row: Pair) -> str:
        """The commit."""
        return row.commit or row.idx

    def texts(self, rows: Sequence[Pair]) -> Iterator[str]:
        """All texts of both sides."""
        return (text for p in rows for text in (p.system, p.input, p.chosen, p.rejected))

    def encode(
        self, rows: Sequence[Pair], tokenizer: PreTrainedTokenizerFast, part: str
    ) -> tuple[list[Item], Account]:
        """See `trainers.data`."""
        cutting = Cutting.of(self._config)
        pairs, account = data.encode_pairs(rows, tokenizer, cutting)
        (plain,) = data.encode_sides(tokenizer, [("", "a", "a")]) if pairs else (None,)
        tail = len(plain.ids) - plain.end if plain else 0
        return [item_of(pair, cutting.max_length, tail) for pair in pairs], account

    def counts(self, rows: Sequence[Pair]) -> dict[str, dict[str, int]]:
        """Pairs by criterion, language and licence."""
        columns = {"aspects": "aspect", "languages": "language", "licenses": "license"}
        return {name: dict(data.count_by(rows, column)) for name, column in columns.items()}

    def totals(self, items: Iterable[Item]) -> dict[str, float]:
        """Pairs."""
        return {"pairs": sum(1 for _ in items)}

    def loss(
        self, output: Output, batch: Batch, totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """L = sum of `losses.dpo` / pairs."""
        config = self._config
        tokens, places = ratios.of_batch(output.logprobs, batch)
        shared = np.array([item.facts.shared for item in batch.items], dtype=np.int64)
        both = np.stack([places[0::2, 0], places[0::2, 0] + shared], axis=1)
        spans = torch.from_numpy(np.concatenate([places[0::2], places[1::2], both]))
        chosen, rejected, before = losses.span_sums(tokens, spans.to(tokens.device)).chunk(3)
        rejected = rejected + before
        values = losses.dpo(chosen, rejected, beta=config.beta, flipped=config.label_smoothing)
        loss = values.sum() / totals["pairs"]
        rewards = config.beta * torch.stack([chosen, rejected]).detach().double().cpu().numpy()
        return loss, {
            "dpo": float(values.detach().sum()),
            "right": float(metrics.credits_of(rewards[0] - rewards[1]).sum()),
            "reward_chosen": float(rewards[0].sum()),
            "reward_rejected": float(rewards[1].sum()),
        }

    def statistics(
        self, sums: Mapping[str, float], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> dict[str, float]:
        """Means over the pairs of a step; rewards are the implicit ones, beta times the log-ratio."""
        pairs = totals["pairs"]
        return {
            "dpo": sums["dpo"] / pairs,
            "accuracy": sums["right"] / pairs,
            "margin": (sums["reward_chosen"] - sums["reward_rejected"]) / pairs,
            "reward_chosen": sums["reward_chosen"] / pairs,
            "reward_rejected": sums["reward_rejected"] / pairs,
        }

    def evaluate(self, items: Sequence[Item], found: Sequence[Found], seed: int) -> dict[str, Any]:
        """`metrics.summary` of the implicit rewards, their means, and `loss`, the mean DPO loss."""
        config = self._config
        rewards = np.zeros((len(items), 2))
        for number, (item, one) in enumerate(zip(items, found, strict=True)):
            chosen, rejected = ratios.of_found(item, one)
            rewards[number] = chosen.sum(), chosen[: item.facts.shared].sum() + rejected.sum()
        rewards *= config.beta
        chosen, rejected = rewards.T
        # The rewards have beta in them.
        values = losses.dpo(
            torch.from_numpy(chosen), torch.from_numpy(rejected), beta=1.0, flipped=config.label_smoothing
        )
        some = len(items) > 0
        return {
            "loss": float(values.mean()) if some else None,
            **metrics.summary(chosen, rejected, seed, "dev"),
            "reward_chosen": float(chosen.mean()) if some else None,
            "reward_rejected": float(rejected.mean()) if some else None,
        }
