"""Passes of a model over items, shared out over the processes of a run: with gradient or without.

In: items, the same on every process. Out: with `accumulate` the gradient of a whole optimizer step in the
parameters, and the sums that its statistics are made of; with `infer` what the model says of each item,
in order. Both are the same on all processes, and do not depend on how many there are beyond float rounding.

Items go to processes so that all compute about equally many positions. A model in shards needs all
processes in every pass, so one that has fewer passes repeats its first item with a loss of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from trainers.items import Batch, Found, Item, bundles, collate, passes
from trainers.objectives.base import Objective
from trainers.packing import balance
from trainers.world import World

Progress = Callable[[int, int], None]


class Engine:
    """A model and how it is run.

    Attributes:
        computed: positions computed with gradient so far, padding among them, on all processes.
        broken: ids of the items of the passes whose loss was not finite in the last `accumulate`.
    """

    def __init__(
        self,
        model: nn.Module,
        world: World,
        objective: Objective,
        *,
        layout: str,
        pass_tokens: int,
        pad_id: int,
    ) -> None:
        """
        Args:
            model: called with a `Batch`, see `trainers.model`.
            world: the processes.
            objective: says what is read and gives the loss.
            layout: `prefix`, `packed` or `padded`.
            pass_tokens: most positions in a pass, unless one item has more.
            pad_id: token to pad with.
        """
        self.model, self.world, self.objective = model, world, objective
        self.layout, self.pass_tokens, self.pad_id = layout, pass_tokens, pad_id
        self.computed = 0
        self.broken: tuple[str, ...] = ()

    def _passes(self, items: Sequence[Item]) -> tuple[list[Batch], int]:
        """The passes of this process, and how many each process has to run."""
        parts = bundles(items, self.layout, self.pass_tokens)
        mine = balance([cost for _, cost in parts], self.world.size)[self.world.rank]
        made = passes([parts[index] for index in mine], self.layout, self.pass_tokens, self.pad_id)
        return made, self.world.most(len(made))

    def _idle(self, items: Sequence[Item]) -> Batch:
        """A pass that counts for nothing."""
        return collate([min(items, key=lambda item: item.tokens)], self.layout, self.pad_id)

    def accumulate(
        self, items: Sequence[Item], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[float, dict[str, float]]:
        """Add the gradient of one optimizer step.

        Args:
            items: all items of the step.
            totals: what the loss's terms are divided by, of the whole step.
            context: what the items' companions tell.

        Returns:
            The loss of the step, and the objective's sums over it.
        """
        self.model.train()
        made, rounds = self._passes(items)
        names: list[str] = []
        sums = np.zeros(0)
        broken: list[str] = []
        for number in range(rounds):
            counts = number < len(made)
            batch = made[number] if counts else self._idle(items)
            with self.world.synchronising(self.model, number + 1 == rounds):
                output = self.model(
                    batch,
                    scores=self.objective.head == "score",
                    logprobs=self.objective.needs_vocabulary,
                )
                loss, found = self.objective.loss(output, batch, totals, context)
                torch.autograd.backward(loss if counts else loss * 0.0)
            if not names:
                names, sums = list(found), np.zeros(len(found) + 2)
            if counts:
                value = float(loss.detach())
                sums += [value, batch.computed, *found.values()]
                if not math.isfinite(value):
                    broken += [item.idx for item in batch.items]
        loss_sum, computed, *rest = self.world.total(sums).tolist()
        self.broken = ()
        if not math.isfinite(loss_sum):
            self.broken = tuple(idx for part in self.world.gather(broken) for idx in part)
        self.computed += int(computed)
        return loss_sum, dict(zip(names, rest, strict=True))

    def infer(self, items: Sequence[Item], progress: Progress | None = None) -> list[Found]:
        """What the model says of items, in their order, without gradient.

        Args:
            items: the items.
            progress: called with the passes done and all passes of this process.
        """
        if not items:
            return []
        where: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            where.setdefault(id(item), []).append(index)
        was = self.model.training
        self.model.eval()
        mine: list[tuple[int, Found]] = []
        made, rounds = self._passes(items)
        with torch.no_grad():
            for number in range(rounds):
                counts = number < len(made)
                batch = made[number] if counts else self._idle(items)
                found = self._read(batch)
                if counts:
                    mine += [
                        (where[id(item)].pop(), one) for item, one in zip(batch.items, found, strict=True)
                    ]
                if progress is not None:
                    progress(number + 1, rounds)
        self.model.train(was)
        everything = dict(pair for part in self.world.gather(mine) for pair in part)
        return [everything[index] for index in range(len(items))]

    def _read(self, batch: Batch) -> list[Found]:
        output = self.model(
            batch,
            scores=self.objective.head == "score",
            logprobs=self.objective.needs_vocabulary and self.objective.head == "vocabulary",
        )
        scores = None if output.scores is None else output.scores.float().cpu().numpy()
        read = len(output.logprobs) > 0
        parts = [part.float().cpu().numpy() for part in output.by_sequence(batch)] if read else []
        made, at = [], 0
        for item in batch.items:
            end = at + len(item.sequences)
            of_targets = (
                tuple(parts[at:end]) if read else tuple(np.empty(0, np.float32) for _ in item.sequences)
            )
            own = np.empty(0, np.float32) if scores is None else scores[at:end].copy()
            made.append(Found(own, of_targets))
            at = end
        return made
