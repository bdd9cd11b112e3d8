"""What an objective is: which rows it reads, what it makes of them, its loss, and how it is judged.

The loop knows nothing of pairs, programs or trajectories: it draws `Item`s, runs passes, and calls these
functions. Every term of a loss is divided by a total of the whole optimizer step (over all passes and ranks),
so that a step does not depend on how it is cut.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor
from transformers import PreTrainedTokenizerFast

from schemas.stage import Drop
from trainers.items import Batch, Found, Item, Output


@dataclasses.dataclass
class Account:
    """What became of the rows: `rows == kept + sum(drops)`.

    Attributes:
        rows: rows read.
        kept: rows that became items.
        noted: how many of the kept ones something was done to, such as `windowed`, by what it was.
        drops: the others.
    """

    rows: int = 0
    kept: int = 0
    noted: dict[str, int] = dataclasses.field(default_factory=dict)
    drops: list[Drop] = dataclasses.field(default_factory=list)

    def by_reason(self) -> dict[str, int]:
        """Number of drops of each reason."""
        return dict(sorted(Counter(drop.reason for drop in self.drops).items()))

    def as_dict(self) -> dict[str, Any]:
        """The counts, JSON-like."""
        return {"rows": self.rows, "kept": self.kept, "dropped": self.by_reason(), **self.noted}


class Objective(Protocol):
    """See the module. `rows` are of a type of the objective's own.

    Attributes:
        name: as in `train.objective`.
        table: the run directory's table that it reads: `pairs`, `steps`, `trajectories` or `` (any file).
        unit: what a row is called in messages, in the plural: `pairs`.
        head: what the loss reads: `score` (exported as a sequence classifier) or `vocabulary` (as a causal
            language model).
        needs_vocabulary: whether targets are predicted, so that a model without a vocabulary head is refused.
        referenced: whether items need `reference`.
    """

    name: str
    table: str
    unit: str
    head: str
    needs_vocabulary: bool
    referenced: bool

    def read(self, shards: Sequence[Path]) -> list[Any]:
        """All rows of some shards, ordered by id, so that neither order nor cut of shards matters.

        Raises:
            ShardError: a shard is missing, damaged or of another table.
            AssayError: the rows are not fit for this objective as a whole.
        """
        ...

    def group(self, row: Any) -> str:
        """What a row is held out by: rows of one group go to the same side."""
        ...

    def texts(self, rows: Sequence[Any]) -> Iterator[str]:
        """The texts on which a tokenizer is trained for a tiny model."""
        ...

    def encode(
        self, rows: Sequence[Any], tokenizer: PreTrainedTokenizerFast, part: str
    ) -> tuple[list[Item], Account]:
        """Items of rows (one or several rows an item), in the order of rows. `part` is `train` or `dev`: what
        changes the mix of the data does so in `train` only."""
        ...

    def counts(self, rows: Sequence[Any]) -> dict[str, dict[str, int]]:
        """Facts about the rows for `run.json`, such as how many of each language."""
        ...

    def totals(self, items: Iterable[Item]) -> dict[str, float]:
        """What the terms of a step over `items` are divided by. Additive over items, but for nothing."""
        ...

    def companions(self, items: Sequence[Item], order: Sequence[int]) -> list[Item] | None:
        """For an epoch that visits `items` in `order`: an item for each place of the order that is computed
        without gradient before its step (mismatched pairs of KTO). None when there are none."""
        ...

    def context(self, companions: Sequence[Item], found: Sequence[Found]) -> dict[str, float]:
        """What a step's companions tell its loss."""
        ...

    def loss(
        self, output: Output, batch: Batch, totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """The part of the step's loss that this pass contributes, a scalar that is differentiated, and sums
        over its items, which the loop adds over passes and ranks. The names of the sums never vary."""
        ...

    def statistics(
        self, sums: Mapping[str, float], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> dict[str, float]:
        """The step's line in `train.jsonl` (beside `loss`), from the sums of all its passes."""
        ...

    def evaluate(self, items: Sequence[Item], found: Sequence[Found], seed: int) -> dict[str, Any]:
        """Statistics of items that were held out, JSON-like; at the top level are the metrics by which
        `train.keep_best` may choose."""
        ...


class WithoutCompanions:
    """The part of an objective whose loss needs nothing beside a step's own items."""

    def companions(self, items: Sequence[Item], order: Sequence[int]) -> list[Item] | None:
        """None."""
        return None

    def context(self, companions: Sequence[Item], found: Sequence[Found]) -> dict[str, float]:
        """Nothing."""
        return {}
