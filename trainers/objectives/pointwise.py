"""`pointwise`: a scalar score learns a number that each row brings, such as a share of tests passed.

In: Parquet or JSON files (see `trainers.rowfiles`) whose rows have a prompt and a response, in the columns
that `trainers.conversations` reads, and a number in the column `train.target`. Out: items of one sequence,
whose score is the number, or for `bce` its logit. A completion that is too long keeps its beginning.

A file without the column, or of which no row can be used, is an `AssayError`. Reasons of drops: those of
`trainers.conversations`, and `no_target`, `prompt_too_long`, `template_changes_text`.
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
from schemas.ids import content_id
from schemas.stage import Drop
from trainers import calibration, losses, metrics, ranking, rowfiles
from trainers.config import TrainConfig
from trainers.conversations import COLUMNS, request_of
from trainers.data import Cutting, cut_side, encode_sides
from trainers.items import Batch, Found, Item, Output
from trainers.objectives.base import Account, WithoutCompanions
from trainers.rowfiles import BadRow

_OTHER = frozenset(
    {"outcome", "resolved", "passed", "correct", "label", "pass_rate", "chosen", "rejected", "evidence"}
)
"""Columns that say something else of a row than what it asks; one of them may be the target."""
_READ = tuple(name for name in COLUMNS if name not in _OTHER)
_NOTHING = np.empty(0, dtype=np.int64)
_CHUNK = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """A row: what is scored and the number that the score should be; or, with `fault`, why it is not used."""

    idx: str
    group: str
    system: str
    prompt: str
    response: str
    target: float
    language: str
    fault: Drop | None = None


class Pointwise(WithoutCompanions):
    """See the module."""

    name = "pointwise"
    table = ""
    unit = "rows"
    head = "score"
    needs_vocabulary = False
    referenced = False

    def __init__(self, config: TrainConfig) -> None:
        self._config = config

    def read(self, shards: Sequence[Path]) -> list[Example]:
        """All rows of some files, ordered by id.

        Raises:
            AssayError: a file cannot be read, lacks the target, or has no row that can be used; a target is
                not from 0 to 1, which `bce` needs.
        """
        rows = [row for path in shards for row in self._file(Path(path))]
        return sorted(rows, key=lambda row: (row.idx, row.prompt, row.response, row.target, row.system))

    def _file(self, path: Path) -> list[Example]:
        target = self._config.target
        rows: list[Example] = []
        named = False
        for row in rowfiles.read(path, (*_READ, target)):
            named = named or (row.values is not None and target in row.values)
            try:
                if row.values is None:
                    raise BadRow(row.reason, row.detail)
                rows.append(self._example(row.values, row.number))
            except BadRow as bad:
                drop = Drop(f"{path.name}:{row.number}", bad.reason, bad.detail or None)
                rows.append(Example(drop.id, drop.id, "", "", "", 0.0, "", drop))
        if rows and not named:
            raise AssayError(
                f"{path}: has no column {target!r} (train.target); name the column with the number to learn"
            )
        faults = [row.fault for row in rows if row.fault is not None]
        if rows and len(faults) == len(rows):
            reason = f"{faults[0].reason}: {faults[0].detail}" if faults[0].detail else faults[0].reason
            raise AssayError(f"{path}: none of its {len(rows)} rows can be trained on; the first: {reason}")
        if self._config.regression == "bce":
            for made in rows:
                if made.fault is None and not 0 <= made.target <= 1:
                    raise AssayError(
                        f"{path}: {target} of row {made.idx} is {made.target:g}, but train.regression bce "
                        "needs numbers from 0 to 1; use mse or huber"
                    )
        return rows

    def _example(self, values: dict[str, Any], number: int) -> Example:
        target = rowfiles.number_of(values, (self._config.target,))
        if target is None:
            raise BadRow("no_target", f"{self._config.target} is null or missing")
        asked = request_of({name: values[name] for name in _READ if name in values}, number)
        (response,) = asked.right
        idx = asked.row_id
        if not any(values.get(name) is not None for name in ("id", "idx", "uid", "row_id")):
            # A row's number changes with how files are cut.
            idx = content_id(asked.system or "", asked.prompt, response, repr(target))
        return Example(
            idx=idx,
            group=asked.names.get("instance") or content_id(asked.system or "", asked.prompt),
            system=asked.system or "",
            prompt=asked.prompt,
            response=response,
            target=target,
            language=asked.names.get("language", "unknown"),
        )

    def group(self, row: Example) -> str:
        """The task, where rows name one, else the prompt."""
        return row.group

    def texts(self, rows: Sequence[Example]) -> Iterator[str]:
        """Prompts and responses."""
        return (text for row in rows for text in (row.system, row.prompt, row.response))

    def encode(
        self, rows: Sequence[Example], tokenizer: PreTrainedTokenizerFast, part: str
    ) -> tuple[list[Item], Account]:
        """See the module."""
        cutting = Cutting.of(self._config)
        account = Account(rows=len(rows), noted={"windowed": 0, "prompts_cut": 0})
        account.drops += [row.fault for row in rows if row.fault is not None]
        ready = [row for row in rows if row.fault is None]
        items = []
        for at in range(0, len(ready), _CHUNK):
            chunk = ready[at : at + _CHUNK]
            sides = encode_sides(tokenizer, [(row.system, row.prompt, row.response) for row in chunk])
            for row, side in zip(chunk, sides, strict=True):
                if not side.found:
                    account.drops.append(Drop(row.idx, "template_changes_text"))
                    continue
                ids = cut_side(side, cutting)
                if ids is None:
                    detail = f"{side.start} tokens of prompt, {cutting.max_length} in all"
                    account.drops.append(Drop(row.idx, "prompt_too_long", detail))
                    continue
                tail = len(side.ids) - side.end
                prompt = cutting.fit_prompt(side.ids[: side.start], side.end - side.start, tail)
                left = side.start if prompt is None else len(prompt)
                account.noted["prompts_cut"] += left < side.start
                account.noted["windowed"] += len(ids) - left < len(side.ids) - side.start
                share = content_id(row.system, row.prompt)
                items.append(Item(row.idx, row.group, share, (ids,), (_NOTHING,), (_NOTHING,), row.target))
        account.kept = len(items)
        if account.rows != account.kept + len(account.drops):
            raise AccountingError(
                f"encoding: {account.rows} rows in, {account.kept} kept and {len(account.drops)} dropped"
            )
        return items, account

    def counts(self, rows: Sequence[Example]) -> dict[str, dict[str, int]]:
        """Rows by language, of those that can be used."""
        return {"languages": dict(sorted(Counter(row.language for row in rows if row.fault is None).items()))}

    def totals(self, items: Iterable[Item]) -> dict[str, float]:
        """Rows."""
        return {"rows": sum(1 for _ in items)}

    def loss(
        self, output: Output, batch: Batch, totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """L = sum of `losses.regression` / rows."""
        if output.scores is None:
            raise TypeError("the model gave no scores")
        targets = torch.tensor([item.facts for item in batch.items], dtype=torch.float32)
        targets = targets.to(output.scores.device)
        values = losses.regression(output.scores, targets, self._config.regression).sum()
        said = output.scores.detach().float()
        if self._config.regression == "bce":
            said = torch.sigmoid(said)
        gaps = (said - targets).double()
        return values / totals["rows"], {
            "regression": float(values.detach()),
            "absolute": float(gaps.abs().sum()),
            "square": float(gaps.square().sum()),
        }

    def statistics(
        self, sums: Mapping[str, float], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> dict[str, float]:
        """Means over the rows of a step."""
        rows = totals["rows"]
        return {
            self._config.regression: sums["regression"] / rows,
            "mae": sums["absolute"] / rows,
            **({} if self._config.regression == "mse" else {"mse": sums["square"] / rows}),
        }

    def evaluate(self, items: Sequence[Item], found: Sequence[Found], seed: int) -> dict[str, Any]:
        """How near predictions (for `bce` sigma of the score) come to targets.

        Keys: `rows`, `loss` (the mean of what is trained), `mse`, `mae`, `variance` of the targets (the `mse`
        of always saying their mean), `pearson`, `spearman`; None where there is nothing to tell.
        """
        scores = np.array([one.scores[0] for one in found], dtype=np.float64)
        targets = np.array([item.facts for item in items], dtype=np.float64)
        values = losses.regression(
            torch.from_numpy(scores), torch.from_numpy(targets), self._config.regression
        )
        said = calibration.sigmoid(scores) if self._config.regression == "bce" else scores
        gaps = said - targets
        some = len(items) > 0
        return {
            "rows": len(items),
            "loss": float(values.mean()) if some else None,
            "mse": float(np.mean(gaps**2)) if some else None,
            "mae": float(np.mean(np.abs(gaps))) if some else None,
            "variance": float(targets.var()) if some else None,
            "pearson": metrics.correlation(said, targets),
            "spearman": ranking.spearman(said, targets) if some else None,
        }
