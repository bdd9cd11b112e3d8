"""`yesno` and `joint`: the probability that an agent's attempt resolves its task.

In: the `trajectories` table. Out: sequences that end in a question (`trainers.trajectories`), of which the
model answers with one token. `yesno` trains that token by next-token prediction (SWE-RM, 2512.21919): an item
is a trajectory. `joint` trains the log-odds d = (l_yes - l_no) / T of a task's candidates together: to rank
resolved ones above others, to classify each, and to be a calibrated probability (Brier score): an item is a
task, or a part of one that has more than `together` candidates. Losses are in `trainers.losses`.

In training, `positives` and `policies` say which shares of the rows count; development rows are as they are.
The reward, and what is evaluated, is sigma(d) = exp(l_yes/T) / (exp(l_yes/T) + exp(l_no/T)).

Reasons of drops: those of `trainers.trajectories`, `no_outcome` (not known whether it is resolved),
`other_policy` (not one that the recipe names), `surplus` (more of its kind than the recipe's shares allow).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from schemas.errors import AccountingError, AssayError
from schemas.ids import fraction
from schemas.records import TrajectoryScore
from schemas.stage import Drop
from trainers import calibration, losses, ranking
from trainers.config import TrainConfig
from trainers.items import Batch, Found, Item, Output
from trainers.metrics import Floats
from trainers.mixing import left_out, parse_shares
from trainers.objectives.base import Account, WithoutCompanions
from trainers.packing import Ids
from trainers.tokenizer import CORPUS_CHARS
from trainers.trajectories import QUESTION, Attempt, Renderer, read_attempts

# One part in so many of a tokenizer's corpus is answers: fewer merges than any vocabulary has can then come
# before those that make each of them one token.
_ANSWER_SHARE = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Of each sequence of an item: whether it is resolved, and its trajectory's id."""

    resolved: tuple[bool, ...]
    ids: tuple[str, ...]

    @property
    def ranked(self) -> bool:
        """Whether there is something to rank."""
        return len(set(self.resolved)) == 2


def item_of(idx: str, attempts: Sequence[Attempt], sequences: Sequence[Ids], yes: int, no: int) -> Item:
    """Attempts at one task as an item: the two answers are targets after the last token of each."""
    return Item(
        idx=idx,
        group=attempts[0].instance,
        share=attempts[0].instance,
        sequences=tuple(sequences),
        at=tuple(np.array([len(ids) - 1] * 2, dtype=np.int64) for ids in sequences),
        targets=tuple(np.array([yes, no], dtype=np.int64) for _ in sequences),
        facts=Facts(
            tuple(bool(attempt.resolved) for attempt in attempts), tuple(attempt.idx for attempt in attempts)
        ),
    )


class Verifier(WithoutCompanions):
    """See the module."""

    table = "trajectories"
    unit = "trajectories"
    head = "vocabulary"
    needs_vocabulary = True
    referenced = False

    def __init__(self, config: TrainConfig) -> None:
        self.name = config.objective
        self._config = config
        self._shares = parse_shares(config.policies)

    def read(self, shards: Sequence[Path]) -> list[Attempt]:
        """All trajectories, ordered by instance and id."""
        return read_attempts(shards)

    def group(self, row: Attempt) -> str:
        """The instance."""
        return row.instance

    def texts(self, rows: Sequence[Attempt]) -> Iterator[str]:
        """The answers, so often that each becomes one token, then all that rows hold."""
        config = self._config
        size = sum(len(text) for row in rows for text in _texts(row))
        yield f"{config.yes_token}\n{config.no_token}\n" * (min(size, CORPUS_CHARS) // _ANSWER_SHARE + 1)
        question = QUESTION.format(yes=config.yes_token, no=config.no_token)
        for row in rows:
            yield from _texts(row)
            yield question

    def encode(
        self, rows: Sequence[Attempt], tokenizer: PreTrainedTokenizerFast, part: str
    ) -> tuple[list[Item], Account]:
        """See the module.

        Raises:
            AssayError: an answer is not one token, the template refuses conversations, or the recipe asks for
                a share of rows of which there are none.
        """
        config = self._config
        wanted, drops = self._mixed(rows, part)
        account = Account(rows=len(rows), drops=drops, noted={"windowed": 0})
        renderer = Renderer(tokenizer, config.max_length, config.yes_token, config.no_token)
        kept: list[tuple[Attempt, Ids]] = []
        for attempt, found in zip(wanted, renderer.encode(wanted), strict=True):
            if isinstance(found, Drop):
                account.drops.append(found)
            else:
                kept.append((attempt, found.ids))
                account.noted["windowed"] += found.windowed
        account.kept = len(kept)
        if account.rows != account.kept + len(account.drops):
            raise AccountingError(
                f"encoding: {account.rows} trajectories in, but {account.kept} kept and "
                f"{len(account.drops)} dropped"
            )
        items = []
        for name, members in self._items(kept):
            attempts, sequences = zip(*members, strict=True)
            items.append(item_of(name, attempts, sequences, renderer.yes, renderer.no))
        return items, account

    def _items(self, kept: Sequence[tuple[Attempt, Ids]]) -> Iterator[tuple[str, list[tuple[Attempt, Ids]]]]:
        """What goes into each item, with its id."""
        if self.name == "yesno":
            yield from ((one[0].idx, [one]) for one in kept)
            return
        tasks: dict[str, list[tuple[Attempt, Ids]]] = {}
        for one in kept:
            tasks.setdefault(one[0].instance, []).append(one)
        for instance, members in tasks.items():
            parts = -(-len(members) // self._config.together)
            # Dealt out one by one, resolved ones first: each part gets as many of either as can be.
            members.sort(
                key=lambda one: (
                    not one[0].resolved,
                    fraction(self._config.seed, "together", one[0].idx),
                    one[0].idx,
                )
            )
            for number in range(parts):
                yield (f"{instance}#{number}" if number else instance), members[number::parts]

    def _mixed(self, rows: Sequence[Attempt], part: str) -> tuple[list[Attempt], list[Drop]]:
        """The rows that count, and why the others do not."""
        config = self._config
        reasons: dict[int, Drop] = {}
        cells: dict[int, tuple[str, tuple[str, bool]]] = {}
        for number, row in enumerate(rows):
            if row.resolved is None:
                reasons[number] = Drop(row.idx, "no_outcome", "resolved is null")
            elif part == "train" and self._shares and row.policy not in self._shares:
                reasons[number] = Drop(row.idx, "other_policy", row.policy or "not known")
            else:
                policy = (row.policy or "") if self._shares else ""
                cells[number] = row.idx, (policy, row.resolved and config.positives > 0)
        if part == "train" and (self._shares or config.positives):
            outcomes = {False: 1.0}
            if config.positives:
                outcomes = {
                    False: 1 / (1 + config.positives),
                    True: config.positives / (1 + config.positives),
                }
            shares = {
                (policy, outcome): share * other
                for policy, share in (self._shares or {"": 1.0}).items()
                for outcome, other in outcomes.items()
            }
            self._check_cells({cell for _, cell in cells.values()}, shares)
            for number in left_out(cells, shares, config.seed):
                row = rows[number]
                kind = "resolved" if row.resolved else "unresolved"
                reasons[number] = Drop(row.idx, "surplus", f"{kind}, of {row.policy or 'an unknown policy'}")
        wanted = [row for number, row in enumerate(rows) if number not in reasons]
        return wanted, [reasons[number] for number in sorted(reasons)]

    def _check_cells(self, there: set[tuple[str, bool]], shares: Iterable[tuple[str, bool]]) -> None:
        for policy, outcome in shares:
            if (policy, outcome) not in there:
                kind = ("resolved " if outcome else "unresolved ") if self._config.positives else ""
                setting = "policies" if policy else "positives"
                raise AssayError(
                    f"train.{setting}: there are no {kind}training trajectories"
                    + (f" of {policy!r}; leave it out" if policy else "; set it to 0")
                )

    def counts(self, rows: Sequence[Attempt]) -> dict[str, dict[str, int]]:
        """Trajectories that are trained on, by outcome, policy and source."""
        wanted, _ = self._mixed(rows, "train")
        return {
            "outcomes": _count("resolved" if row.resolved else "unresolved" for row in wanted),
            "policies": _count(row.policy or "unknown" for row in wanted),
            "sources": _count(row.source for row in wanted),
        }

    def totals(self, items: Iterable[Item]) -> dict[str, float]:
        """Trajectories, and items that hold resolved and unresolved ones."""
        trajectories = tasks = 0
        for item in items:
            trajectories += len(item.sequences)
            tasks += item.facts.ranked
        return {"trajectories": trajectories, "tasks": tasks}

    def loss(
        self, output: Output, batch: Batch, totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """`yesno`: L = sum of `losses.yes_no` / trajectories. `joint`: L = w_rank ranking / tasks +
        (w_class classification + w_brier Brier) / trajectories, all of the log-odds; tasks are those with
        both outcomes."""
        said = output.logprobs.view(-1, 2)
        resolved = torch.tensor(
            [one for item in batch.items for one in item.facts.resolved], device=said.device
        )
        terms = self._terms(said[:, 0], said[:, 1], resolved, [len(item.sequences) for item in batch.items])
        return self._total(terms, totals), {
            name: float(value.detach() if isinstance(value, Tensor) else value)
            for name, value in terms.items()
        }

    def _terms(self, yes: Tensor, no: Tensor, resolved: Tensor, sizes: Sequence[int]) -> dict[str, Tensor]:
        """Sums over trajectories, of `rank` over items, of `sizes` trajectories each."""
        config = self._config
        odds = losses.log_odds(yes, no, config.temperature)
        terms = {
            "brier": losses.brier(odds, resolved).sum(),
            "right": ((odds > 0) == resolved).sum() * 1.0,
            "answered": torch.logaddexp(yes.float(), no.float()).exp().sum().detach(),
        }
        if self.name == "yesno":
            return {"nll": losses.yes_no(yes, no, resolved, config.temperature).sum(), **terms}
        parts = zip(torch.split(odds, list(sizes)), torch.split(resolved, list(sizes)), strict=True)
        return {
            "rank": torch.stack([losses.ranking(scores, which) for scores, which in parts]).sum(),
            "class": losses.classification(odds, resolved).sum(),
            **terms,
        }

    def _total(self, terms: Mapping[str, Tensor], totals: Mapping[str, float]) -> Tensor:
        trajectories = max(1.0, totals["trajectories"])
        if self.name == "yesno":
            return terms["nll"] / trajectories
        config = self._config
        each = config.class_weight * terms["class"] + config.brier_weight * terms["brier"]
        return config.rank_weight * terms["rank"] / max(1.0, totals["tasks"]) + each / trajectories

    def statistics(
        self, sums: Mapping[str, float], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> dict[str, float]:
        """Means over trajectories, of `rank` over tasks with both outcomes; `accuracy` at 1/2; `answered` is
        the probability that the answer is either word."""
        means = {
            name: value / max(1.0, totals["tasks" if name == "rank" else "trajectories"])
            for name, value in sums.items()
        }
        means["accuracy"] = means.pop("right")
        return means

    def evaluate(self, items: Sequence[Item], found: Sequence[Found], seed: int) -> dict[str, Any]:
        """How well the probability sigma(d) tells what is resolved.

        `loss` of the objective; `answered` (see `statistics`); what `calibration.summary` gives of d; over
        `tasks` that have several candidates `rm_at_all`, the share that the best-scored of all of them
        resolves, beside `random` and `oracle`; and `best_of`, the same of fewer (`ranking.summary`).
        """
        said = np.array([one for answer in found for one in answer.logprobs], dtype=np.float64).reshape(-1, 2)
        resolved = np.array([one for item in items for one in item.facts.resolved], dtype=bool)
        instances = [item.group for item in items for _ in item.sequences]
        yes, no = torch.from_numpy(said).unbind(1)
        sizes = [len(item.sequences) for item in items]
        terms = self._terms(yes, no, torch.from_numpy(resolved), sizes)
        odds = self.odds(found)
        outcomes = resolved.astype(np.float64)
        return {
            "loss": float(self._total(terms, self.totals(items))),
            "answered": float(terms["answered"]) / max(1, len(outcomes)),
            **calibration.summary(odds, outcomes, instances, seed=seed),
            **_best_of(odds, outcomes, instances, seed),
        }

    def odds(self, found: Sequence[Found]) -> Floats:
        """Log-odds over the temperature of every trajectory, item by item."""
        said = np.array([one for answer in found for one in answer.logprobs], dtype=np.float64).reshape(-1, 2)
        return (said[:, 0] - said[:, 1]) / self._config.temperature

    def scores(self, items: Sequence[Item], found: Sequence[Found]) -> list[TrajectoryScore]:
        """What is said of every trajectory."""
        numbers = iter(self.odds(found).tolist())
        return [
            TrajectoryScore(id=idx, instance_id=item.group, resolved=resolved, score=next(numbers))
            for item in items
            for idx, resolved in zip(item.facts.ids, item.facts.resolved, strict=True)
        ]


def _best_of(odds: Floats, outcomes: Floats, instances: Sequence[str], seed: int) -> dict[str, Any]:
    members: dict[str, list[int]] = {}
    for number, instance in enumerate(instances):
        members.setdefault(instance, []).append(number)
    tasks = [
        ranking.Task(instance, odds[numbers], outcomes[numbers])
        for instance, numbers in members.items()
        if len(numbers) > 1
    ]
    if not tasks:
        return {"tasks": 0, "rm_at_all": None, "random": None, "oracle": None, "best_of": {}}
    most = max(len(task.scores) for task in tasks)
    ks = sorted({*(2**power for power in range(1, most.bit_length())), most})
    picked = [ranking.rm_at_k(task.scores, task.resolved, len(task.scores)) for task in tasks]
    return {
        "tasks": len(tasks),
        "rm_at_all": float(np.mean(picked)),
        "random": float(np.mean([task.resolved.mean() for task in tasks])),
        "oracle": float(np.mean([task.resolved.max() for task in tasks])),
        "best_of": ranking.summary(tasks, ks, seed)["best_of"],
    }


def _texts(row: Attempt) -> Iterator[str]:
    for message in row.messages:
        yield message.content
        yield from (text for call in message.tool_calls for text in (call.name, call.arguments))
    yield row.patch or ""


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
