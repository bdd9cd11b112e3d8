"""`bt`: a scalar reward from preference pairs (Bradley-Terry), held to language and to a magnitude.

In: the `pairs` table. Out: items of two sequences, chosen and rejected; where `lm_weight` is above 0 the
completion tokens of the chosen side are targets. Losses and their sources are in `trainers.losses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast

from trainers import data, losses, metrics
from trainers.config import TrainConfig
from trainers.data import Cutting, Pair, TokenPair
from trainers.items import Batch, Found, Item, Output
from trainers.objectives.base import Account, WithoutCompanions

NOTHING = np.empty(0, dtype=np.int64)


def item_of(pair: TokenPair, targets: int) -> Item:
    """A pair as an item: chosen, then rejected.

    Args:
        pair: both sides.
        targets: how many sides, from the first one, have their completion tokens as targets.
    """
    sides = (pair.chosen, pair.rejected)
    wanted = [
        np.arange(max(1, pair.prompt_length), len(side)) if number < targets else NOTHING
        for number, side in enumerate(sides)
    ]
    return Item(
        idx=pair.pair.idx,
        group=pair.pair.commit or pair.pair.idx,
        share="",
        sequences=sides,
        at=tuple(at - 1 for at in wanted),
        targets=tuple(side[at].astype(np.int64) for side, at in zip(sides, wanted, strict=True)),
        facts=pair,
    )


def _share(strength: float | None) -> float:
    return 1.0 if strength is None else strength / 5


class BradleyTerry(WithoutCompanions):
    """See the module."""

    name = "bt"
    table = "pairs"
    unit = "pairs"
    head = "score"
    referenced = False

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self.needs_vocabulary = config.lm_weight > 0
        self._of_evidence = config.soft_labels or config.margin_by == "strength"

    def read(self, shards: Sequence[Path]) -> list[Pair]:
        """All pairs, ordered by id."""
        return data.read_pairs(shards, evidence=self._of_evidence)

    def group(self, row: Pair) -> str:
        """The commit."""
        return row.commit or row.idx

    def texts(self, rows: Sequence[Pair]) -> Iterator[str]:
        """All texts of both sides: a tokenizer that has seen only chosen code would need fewer tokens for it,
        and length would tell the sides apart."""
        return (text for p in rows for text in (p.system, p.input, p.chosen, p.rejected))

    def encode(
        self, rows: Sequence[Pair], tokenizer: PreTrainedTokenizerFast, part: str
    ) -> tuple[list[Item], Account]:
        """See `trainers.data`."""
        pairs, account = data.encode_pairs(rows, tokenizer, Cutting.of(self._config))
        return [item_of(pair, int(self.needs_vocabulary)) for pair in pairs], account

    def counts(self, rows: Sequence[Pair]) -> dict[str, dict[str, int]]:
        """Pairs by criterion, language and licence."""
        columns = {"aspects": "aspect", "languages": "language", "licenses": "license"}
        return {name: dict(data.count_by(rows, column)) for name, column in columns.items()}

    def totals(self, items: Iterable[Item]) -> dict[str, float]:
        """Pairs and target tokens."""
        pairs = tokens = 0
        for item in items:
            pairs += 1
            tokens += item.predicted
        return {"pairs": pairs, "lm_tokens": tokens}

    def loss(
        self, output: Output, batch: Batch, totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """`losses.objective` of the pass."""
        config = self._config
        if output.scores is None:
            raise TypeError("the model gave no scores")
        chosen, rejected = output.scores[0::2], output.scores[1::2]
        flipped: float | Tensor = config.label_smoothing
        if config.soft_labels:
            sure = [
                1.0 if item.facts.pair.confidence is None else item.facts.pair.confidence
                for item in batch.items
            ]
            flipped = 1 - torch.tensor(sure, dtype=torch.float32, device=chosen.device)
        margin: float | Tensor = config.margin
        if config.margin_by == "strength":
            margin = torch.tensor(
                [config.margin * _share(item.facts.pair.strength) for item in batch.items],
                dtype=torch.float32,
                device=chosen.device,
            )
        bt = losses.bradley_terry(chosen, rejected, margin, flipped).sum()
        magnitude = losses.magnitude(chosen, rejected, config.magnitude).sum()
        lm = -output.logprobs.sum()
        loss = losses.objective(
            bt,
            lm,
            magnitude,
            pairs=totals["pairs"],
            lm_tokens=totals["lm_tokens"],
            lm_weight=config.lm_weight,
            mu=config.magnitude_weight,
        )
        margins = (chosen - rejected).detach().double().cpu().numpy()
        return loss, {
            "bt": float(bt.detach()),
            "lm": float(lm.detach()),
            "magnitude": float(magnitude.detach()),
            "right": float(metrics.credits_of(margins).sum()),
            "margin": float(margins.sum()),
        }

    def statistics(
        self, sums: Mapping[str, float], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> dict[str, float]:
        """Means over the pairs of a step, `lm` over its target tokens."""
        pairs = totals["pairs"]
        return {
            "bt": sums["bt"] / pairs,
            "lm": sums["lm"] / max(1.0, totals["lm_tokens"]),
            "magnitude": sums["magnitude"] / pairs,
            "accuracy": sums["right"] / pairs,
            "margin": sums["margin"] / pairs,
        }

    def evaluate(self, items: Sequence[Item], found: Sequence[Found], seed: int) -> dict[str, Any]:
        """`metrics.summary`, and `loss`, the mean Bradley-Terry loss."""
        scores = np.array([one.scores for one in found], dtype=np.float64).reshape(-1, 2)
        margins = torch.from_numpy(scores[:, 0] - scores[:, 1])
        loss = float(-functional.logsigmoid(margins).mean()) if len(scores) else None
        return {"loss": loss, **metrics.summary(scores[:, 0], scores[:, 1], seed, "dev")}
