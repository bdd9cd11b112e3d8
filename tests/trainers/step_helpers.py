"""Steps and rewards of a model, computed as the loop does, from token pairs made by a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from trainers.config import TrainConfig
from trainers.data import TokenPair
from trainers.engine import Engine
from trainers.items import Batch, Item, collate
from trainers.model import RewardModel
from trainers.objectives.bradley_terry import NOTHING, BradleyTerry, item_of
from trainers.packing import Ids
from trainers.world import Alone


@dataclasses.dataclass
class Step:
    """The statistics of a step."""

    loss: float
    bt: float
    lm: float
    magnitude: float
    margin: float
    computed: int

    def terms(self) -> torch.Tensor:
        """All but `computed`."""
        return torch.tensor([self.loss, self.bt, self.lm, self.magnitude, self.margin])


def bt_step(model: RewardModel, pairs: Sequence[TokenPair], **values: Any) -> Step:
    """Add the gradient of a Bradley-Terry step to a model, in its layout."""
    config = TrainConfig.from_mapping(values).resolved()
    objective = BradleyTerry(config)
    engine = Engine(model, Alone(), objective, layout=model.layout, pass_tokens=config.pass_tokens, pad_id=0)
    items = [item_of(pair, int(objective.needs_vocabulary)) for pair in pairs]
    totals = objective.totals(items)
    loss, sums = engine.accumulate(items, totals, {})
    told = objective.statistics(sums, totals, {})
    terms = (told[name] for name in ("bt", "lm", "magnitude", "margin"))
    return Step(loss, *terms, engine.computed)


def batch_of(groups: Sequence[Sequence[Ids]], how: str) -> Batch:
    """Groups of sequences as one pass that reads scores only."""
    items = []
    for number, group in enumerate(groups):
        nothing = tuple(NOTHING for _ in group)
        items.append(Item(str(number), "", "", tuple(group), nothing, nothing))
    return collate(items, how, 0)


def rewards_of(model: RewardModel, groups: Sequence[Sequence[Ids]], how: str = "") -> torch.Tensor:
    """Scores of all sequences of groups, in the model's layout or another."""
    scores = model(batch_of(groups, how or model.layout), logprobs=False).scores
    assert scores is not None
    return scores
