"""`kto` and `step-kto`: a policy learns from right and wrong programs, with the latter from functions too.

In: the `steps` table. Out: items of one sequence, see `trainers.programs`. Losses and their sources are in
`trainers.losses`; r below is a log-ratio of the model and what it was before training, summed over a
completion or over one function of it, and beta r is a reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from schemas.errors import AssayError
from trainers import calibration, losses, programs
from trainers.config import TrainConfig
from trainers.data import Cutting
from trainers.items import Batch, Found, Item, Output
from trainers.metrics import Floats
from trainers.objectives import ratios
from trainers.objectives.base import Account
from trainers.packing import Places
from trainers.programs import UNKNOWN, Facts, Labelled


class Kto:
    """See the module."""

    table = "steps"
    unit = "programs"
    head = "vocabulary"
    needs_vocabulary = True
    referenced = True

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self.name = config.objective
        self._steps = config.objective == "step-kto"

    def read(self, shards: Sequence[Path]) -> list[Labelled]:
        """All programs, ordered by id."""
        return programs.read_programs(shards, self._config.step_label)

    def group(self, row: Labelled) -> str:
        """The problem."""
        return row.problem_id

    def texts(self, rows: Sequence[Labelled]) -> Iterator[str]:
        """Prompts and completions."""
        return (text for row in rows for text in (row.prompt, row.completion))

    def encode(
        self, rows: Sequence[Labelled], tokenizer: PreTrainedTokenizerFast, part: str
    ) -> tuple[list[Item], Account]:
        """See `trainers.programs`.

        Raises:
            AssayError: functions are to be trained on, but none has a label.
        """
        config = self._config
        items, account = programs.encode_programs(
            rows, tokenizer, Cutting.of(config), config.conflicts == "mask"
        )
        if self._steps and part == "train" and items and not account.noted["functions_labelled"]:
            left_out = {name: n for name, n in account.noted.items() if name.startswith("functions_") and n}
            why = ", ".join(f"{count} {name}" for name, count in left_out.items()) or "they have none"
            advice = {
                "functions_cut": "raise train.max_length",
                "functions_unlabelled": f"{config.step_label} is null; set train.step_label to another",
                "functions_masked": "set train.conflicts to keep",
            }.get(max(left_out, key=lambda name: left_out[name], default=""), "check their byte offsets")
            raise AssayError(
                f"train.objective: step-kto has no function to train on in {len(items)} programs ({why}); "
                f"{advice if left_out else 'label functions with `assay verify`'}, or use kto"
            )
        return items, account

    def counts(self, rows: Sequence[Labelled]) -> dict[str, dict[str, int]]:
        """See `programs.counts`."""
        return programs.counts(rows)

    def totals(self, items: Iterable[Item]) -> dict[str, float]:
        """Programs, those with functions to train on (`stepped`), and what is right and wrong of programs
        and functions."""
        found = dict.fromkeys(("programs", "right", "stepped", "functions", "right_functions"), 0.0)
        for item in items:
            facts: Facts = item.facts
            known = facts.trained != UNKNOWN
            found["programs"] += 1
            found["right"] += facts.right
            found["stepped"] += bool(known.any())
            found["functions"] += int(known.sum())
            found["right_functions"] += int(np.sum(facts.trained == 1))
        return found

    def companions(self, items: Sequence[Item], order: Sequence[int]) -> list[Item]:
        """Mismatched pairs, see `programs.mismatched`."""
        return programs.mismatched(items, order, self._config.max_length)

    def context(self, companions: Sequence[Item], found: Sequence[Found]) -> dict[str, float]:
        """The reference points of a step: `z0` of programs from the mean r of its mismatched pairs, `step_z0`
        of functions as `train.step_reference` says, where `per_step` takes the mean r of all labelled
        functions of the mismatched pairs. `kl` and `step_kl` are these means before they are raised to 0,
        `own_task` the share of pairs whose completion is of the prompt's own task."""
        whole: list[float] = []
        of_functions: list[float] = []
        for item, one in zip(companions, found, strict=True):
            (found_of,) = ratios.of_found(item, one)
            whole.append(float(found_of.sum()))
            of_functions += _sums(found_of, item.facts.spans).tolist()
        z0 = losses.reference_point(sum(whole), len(whole))
        step_z0 = {"shared": z0, "zero": 0.0}.get(
            self._config.step_reference, losses.reference_point(sum(of_functions), len(of_functions))
        )
        return {
            "z0": z0,
            "step_z0": step_z0,
            "kl": sum(whole) / max(1, len(whole)),
            "step_kl": sum(of_functions) / max(1, len(of_functions)),
            "own_task": sum(item.facts.own_task for item in companions) / max(1, len(companions)),
        }

    def loss(
        self, output: Output, batch: Batch, totals: Mapping[str, float], context: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        """L = sum of kto / programs + lambda * sum of step_kto / stepped, see `losses.kto` and
        `losses.step_kto`; `kto` leaves the second term out."""
        config = self._config
        weights = {
            "beta": config.beta,
            "desirable_weight": config.desirable_weight,
            "undesirable_weight": config.undesirable_weight,
        }
        tokens, places = ratios.of_batch(output.logprobs, batch)
        facts: list[Facts] = [item.facts for item in batch.items]
        device = tokens.device
        whole = losses.span_sums(tokens, torch.from_numpy(places).to(device))
        right = torch.tensor([one.right for one in facts], device=device)
        outcome = losses.kto(whole, right, context["z0"], **weights).sum()
        loss = outcome / totals["programs"]
        spans = np.concatenate([one.spans + start for one, (start, _) in zip(facts, places, strict=True)])
        labels = torch.from_numpy(np.concatenate([one.trained for one in facts])).to(device)
        trained = self._steps and config.step_weight > 0
        functions = losses.span_sums(
            tokens if trained else tokens.detach(), torch.from_numpy(spans).to(device)
        )
        counts = torch.tensor([len(one.trained) for one in facts], device=device)
        steps = losses.step_kto(functions, labels, counts, context["step_z0"], **weights).sum()
        if trained:
            loss = loss + config.step_weight * steps / max(1.0, totals["stepped"])
        sums = {"outcome": float(outcome.detach()), "steps": float(steps.detach())}
        sums |= _rewards("", whole, right.long(), context["z0"], config.beta)
        return loss, sums | _rewards("step_", functions, labels, context["step_z0"], config.beta)

    def statistics(
        self, sums: Mapping[str, float], totals: Mapping[str, float], context: Mapping[str, float]
    ) -> dict[str, float]:
        """`outcome_loss` a program, `kl` (may be below 0, where the reference point is not); `reward_right`,
        `reward_wrong` (means; absent where a step has none), `reward_margin`, and `accuracy`, the share of
        programs whose r is on its label's side of the reference point. With `step_` before them the same of
        functions. `kl_own_task` is there when mismatched pairs had to be made of one task."""
        made = {"outcome_loss": sums["outcome"] / totals["programs"], "kl": context["kl"]}
        made |= _means("", sums, totals["right"], totals["programs"])
        if self._steps:
            made["step_loss"] = sums["steps"] / max(1.0, totals["stepped"])
            made["step_kl"] = context["step_kl"]
        made |= _means("step_", sums, totals["right_functions"], totals["functions"])
        if context["own_task"]:
            made["kl_own_task"] = context["own_task"]
        return made

    def evaluate(self, items: Sequence[Item], found: Sequence[Found], seed: int) -> dict[str, Any]:
        """Whether rewards tell right from wrong.

        Keys: `programs`; `auc` of a program's reward for its outcome, `auc_within` (its mean over tasks with
        both outcomes) and `auc_tasks`, how many these are; `accuracy`, the share of rewards above 0 if right
        and below if not (0 counts half); `reward_right`, `reward_wrong` (means) and `reward_margin`. Of
        labelled functions, with contradicting ones: the same with `step_` before, without the tasks. Of
        functions inside of failing programs: `failing`, see there. What is not defined is None.

        `failing` holds `programs` (failing ones with right and wrong functions), `order` (mean over them of
        the share of their pairs of a right and a wrong function in which the right one has the higher r,
        ties half), `order_per_token` (the same of r over the function's tokens), `right_up` and `wrong_down`
        (share of their functions whose r is above or below 0).
        """
        beta = self._config.beta
        tokens = [ratios.of_found(item, one)[0] for item, one in zip(items, found, strict=True)]
        whole = np.array([part.sum() for part in tokens])
        outcomes = np.array([float(item.facts.right) for item in items])
        within, tasks = calibration.auc_within(whole, outcomes, [item.group for item in items])
        sums = [_sums(part, item.facts.spans) for part, item in zip(tokens, items, strict=True)]
        functions = np.concatenate([*sums, np.zeros(0)])
        labels = np.concatenate([*(item.facts.labels for item in items), np.zeros(0)]).astype(np.float64)
        return {
            "programs": len(items),
            **_judged("", beta * whole, outcomes),
            "auc_within": within,
            "auc_tasks": tasks,
            **_judged("step_", beta * functions, labels),
            "functions": len(functions),
            "failing": _failing(items, sums),
        }


def _sums(tokens: Floats, spans: Places) -> Floats:
    before = np.concatenate([np.zeros(1), np.cumsum(tokens)])
    made: Floats = before[spans[:, 1]] - before[spans[:, 0]]
    return made


def _rewards(prefix: str, r: Tensor, labels: Tensor, z0: float, beta: float) -> dict[str, float]:
    """Sums over what is right and wrong: rewards, and how many are on their label's side of z0, ties half."""
    r = r.detach()
    right, wrong = r[labels == 1], r[labels == 0]
    sides = torch.cat([right - z0, z0 - wrong])
    good = torch.heaviside(sides, torch.full_like(sides[:1], 0.5)) if len(sides) else sides
    return {
        f"{prefix}reward_right": beta * float(right.sum()),
        f"{prefix}reward_wrong": beta * float(wrong.sum()),
        f"{prefix}good": float(good.sum()),
    }


def _means(prefix: str, sums: Mapping[str, float], right: float, count: float) -> dict[str, float]:
    made = {}
    for name, size in (("right", right), ("wrong", count - right)):
        if size:
            made[f"{prefix}reward_{name}"] = sums[f"{prefix}reward_{name}"] / size
    if len(made) == 2:
        made[f"{prefix}reward_margin"] = made[f"{prefix}reward_right"] - made[f"{prefix}reward_wrong"]
    if count:
        made[f"{prefix}accuracy"] = sums[f"{prefix}good"] / count
    return made


def _judged(prefix: str, rewards: Floats, labels: Floats) -> dict[str, float | None]:
    means = [
        float(part.mean()) if len(part) else None for part in (rewards[labels > 0], rewards[labels == 0])
    ]
    right, wrong = means
    sides = np.where(labels > 0, rewards, -rewards)
    return {
        f"{prefix}auc": calibration.auc_of(rewards, labels),
        f"{prefix}accuracy": float(np.heaviside(sides, 0.5).mean()) if len(sides) else None,
        f"{prefix}reward_right": right,
        f"{prefix}reward_wrong": wrong,
        f"{prefix}reward_margin": None if right is None or wrong is None else right - wrong,
    }


def _failing(items: Sequence[Item], sums: Sequence[Floats]) -> dict[str, Any]:
    mixed = [
        (item.facts, part)
        for item, part in zip(items, sums, strict=True)
        if not item.facts.right and len(set(item.facts.labels.tolist())) == 2
    ]
    names = [str(number) for number, (_, part) in enumerate(mixed) for _ in part]
    r = np.concatenate([*(part for _, part in mixed), np.zeros(0)])
    lengths = np.concatenate([*(np.diff(facts.spans, axis=1)[:, 0] for facts, _ in mixed), np.zeros(0)])
    labels = np.concatenate([*(facts.labels for facts, _ in mixed), np.zeros(0)]).astype(np.float64)
    return {
        "programs": len(mixed),
        "order": calibration.auc_within(r, labels, names)[0],
        "order_per_token": calibration.auc_within(r / np.maximum(1, lengths), labels, names)[0],
        "right_up": float(np.mean(r[labels > 0] > 0)) if mixed else None,
        "wrong_down": float(np.mean(r[labels == 0] < 0)) if mixed else None,
    }
