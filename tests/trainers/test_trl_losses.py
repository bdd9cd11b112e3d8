"""The losses of KTO, DPO and Bradley-Terry against those of TRL's trainers, on the same rows and weights.

TRL tokenises the rows by itself and computes them padded. Model and reference have different weights, so that
every log-ratio, and the KL of mismatched pairs, is far from zero.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from program_helpers import (
    engine_of,
    made_programs,
    referred,
    settings,
    small_model,
    steps_shard,
    tokenizer_for,
)
from train_helpers import made_pairs, shard
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM, Qwen3ForSequenceClassification

from trainers import losses
from trainers.items import Item
from trainers.model import RewardModel
from trainers.objectives.base import Objective
from trainers.objectives.bradley_terry import BradleyTerry
from trainers.objectives.dpo import Dpo
from trainers.objectives.kto import Kto

pytest.importorskip("trl", reason="trl, which only tests use, is not installed")

# TRL sets an option of transformers that both of them rename.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")

LAYOUTS = ("padded", "packed", "prefix")
LENGTH = 512


def causal(model: RewardModel) -> Qwen3ForCausalLM:
    """The same weights as a model of transformers that TRL may change as it likes."""
    made = Qwen3ForCausalLM(model.trunk.config)
    made.model = copy.deepcopy(model.trunk)
    made.lm_head = copy.deepcopy(model.head)
    return made


def trl_loss(
    kind: str,
    rows: list[dict[str, Any]],
    models: Sequence[Any],
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    **values: Any,
) -> tuple[float, dict[str, float], torch.Tensor]:
    """Loss, statistics and gradient of one batch of a TRL trainer, which holds all rows."""
    import trl
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    args: dict[str, Any] = {
        "output_dir": str(folder / "trl"),
        "per_device_train_batch_size": len(rows),
        "train_sampling_strategy": "sequential",
        "max_length": LENGTH,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "disable_dropout": True,
        **values,
    }
    reference = {} if len(models) == 1 else {"ref_model": models[1]}
    trainer: Any = getattr(trl, f"{kind}Trainer")(
        model=models[0],
        **reference,
        args=getattr(trl, f"{kind}Config")(**args),
        train_dataset=Dataset.from_list(rows),
        processing_class=copy.deepcopy(tokenizer),
    )
    (batch,) = list(trainer.get_train_dataloader())
    trainer.model.train()
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    told = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    return loss.item(), told, gradient(trainer.model)


def gradient(model: torch.nn.Module) -> torch.Tensor:
    """Of the input embedding, through which all others pass."""
    trunk: Any = getattr(model, "trunk", None) or getattr(model, "model", None)
    found = trunk.get_input_embeddings().weight.grad
    assert found is not None
    return found


def our_loss(
    objective: Objective, model: RewardModel, items: Sequence[Item], context: dict[str, float], layout: str
) -> tuple[float, dict[str, float], torch.Tensor]:
    """The same of ours."""
    model.zero_grad()
    totals = objective.totals(items)
    loss, sums = engine_of(model, objective, layout, 300).accumulate(items, totals, context)
    return loss, objective.statistics(sums, totals, context), gradient(model)


@pytest.mark.parametrize("labels", ["mixed", "all_right"])
def test_kto_with_weights_and_a_kl_above_zero_is_trls(tmp_path: Path, labels: str) -> None:
    made = [row for row in made_programs(6, 2) if row["id"][-1] == str(int(row["problem_id"][-1]) % 2)]
    if labels == "all_right":
        made = [{**row, "outcome": 1} for row in made]
    tokenizer = tokenizer_for([text for row in made for text in (row["prompt"], row["completion"])])
    model, before = small_model(tokenizer, 2, 0.1), small_model(tokenizer, 1, 0.2)
    rows = [
        {
            "prompt": [{"role": "user", "content": row["prompt"]}],
            "completion": [{"role": "assistant", "content": row["completion"]}],
            "label": bool(row["outcome"]),
        }
        for row in made
    ]
    weights = {"beta": 0.1, "desirable_weight": 1.3, "undesirable_weight": 0.7}
    theirs = trl_loss("KTO", rows, [causal(model), causal(before)], tokenizer, tmp_path, **weights)

    objective = Kto(settings(objective="kto", max_length=LENGTH, **weights))
    read = objective.read([steps_shard(tmp_path / "part-a.parquet", made)])
    assert [row.idx for row in read] == [row["id"] for row in made]
    old = engine_of(before, objective)
    items = referred(old, objective.encode(read, tokenizer, "train")[0])
    # TRL joins a prompt with the completion before it, ours with the one after it.
    pairs = referred(old, objective.companions(items, list(reversed(range(len(items))))))
    context = objective.context(pairs, engine_of(model, objective).infer(pairs))
    assert context["z0"] > 1
    assert context["z0"] == pytest.approx(theirs[1]["kl"], rel=1e-5)
    for layout in LAYOUTS:
        ours = our_loss(objective, model, items, context, layout)
        assert ours[0] == pytest.approx(theirs[0], abs=1e-5)
        torch.testing.assert_close(ours[2], theirs[2], rtol=1e-3, atol=1e-5)
        for name, other in (("reward_right", "rewards/chosen"), ("reward_wrong", "rewards/rejected")):
            assert (name in ours[1]) == (other in theirs[1])
            assert ours[1].get(name, 0) == pytest.approx(theirs[1].get(other, 0), rel=1e-4)


def pair_texts(rows: list[dict[str, Any]]) -> list[str]:
    return [text for row in rows for text in (row["input"], row["chosen"], row["rejected"])]


def conversations(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "prompt": [{"role": "user", "content": row["input"]}],
            "chosen": [{"role": "assistant", "content": row["chosen"]}],
            "rejected": [{"role": "assistant", "content": row["rejected"]}],
        }
        for row in rows
    ]


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_dpo_and_conservative_dpo_are_trls(tmp_path: Path, smoothing: float) -> None:
    made = made_pairs(5)
    tokenizer = tokenizer_for(pair_texts(made))
    model, before = small_model(tokenizer, 2, 0.1), small_model(tokenizer, 1, 0.2)
    objective = Dpo(settings(objective="dpo", max_length=LENGTH, beta=0.3, label_smoothing=smoothing))
    items, account = objective.encode(
        objective.read([shard(tmp_path / "part-a.parquet", made)]), tokenizer, "train"
    )
    assert account.kept == 5
    assert account.noted["windowed"] == 0
    items = referred(engine_of(before, objective), items)
    values: dict[str, Any] = {"beta": 0.3, "loss_type": ["sigmoid"]}
    batches = [conversations(made)]
    if smoothing:
        # Of TRL's losses `aot` is the one with this smoothing; it sorts log-ratios over a batch, of one here.
        values = {"beta": 0.3, "loss_type": ["aot"], "label_smoothing": smoothing}
        batches = [[row] for row in batches[0]]
    theirs = [
        trl_loss("DPO", batch, [causal(model), causal(before)], tokenizer, tmp_path, **values)
        for batch in batches
    ]
    loss = sum(one[0] for one in theirs) / len(theirs)
    slope = sum(one[2] for one in theirs) / len(theirs)
    for layout in LAYOUTS:
        ours = our_loss(objective, model, items, {}, layout)
        assert ours[0] == pytest.approx(loss, abs=1e-5)
        torch.testing.assert_close(ours[2], slope, rtol=1e-3, atol=1e-5)
        for name, other in (
            ("reward_chosen", "rewards/chosen"),
            ("reward_rejected", "rewards/rejected"),
            ("margin", "rewards/margins"),
            ("accuracy", "rewards/accuracies"),
        ):
            wanted = sum(one[1][other] for one in theirs) / len(theirs)
            assert ours[1][name] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def classifier(model: RewardModel) -> Qwen3ForSequenceClassification:
    """A reward model's weights, with a score head that is not zero, as a model of transformers."""
    assert model.score is not None
    torch.nn.init.normal_(model.score.weight, std=0.5)
    model.trunk.config.num_labels = 1
    made = Qwen3ForSequenceClassification(model.trunk.config)
    made.model, made.score = copy.deepcopy(model.trunk), copy.deepcopy(model.score)
    return made


def test_bradley_terry_with_a_margin_and_centering_is_trls(tmp_path: Path) -> None:
    made = made_pairs(5)
    tokenizer = tokenizer_for(pair_texts(made))
    model = small_model(tokenizer, 2, 0.1, scored=True)
    rows = [{**row, "margin": 0.7} for row in conversations(made)]
    theirs = trl_loss(
        "Reward", rows, [classifier(model)], tokenizer, tmp_path, center_rewards_coefficient=0.05
    )
    objective = BradleyTerry(settings(max_length=LENGTH, margin=0.7, magnitude_weight=0.05, lm_weight=0.0))
    items, _ = objective.encode(
        objective.read([shard(tmp_path / "part-a.parquet", made)]), tokenizer, "train"
    )
    for layout in LAYOUTS:
        ours = our_loss(objective, model, items, {}, layout)
        assert ours[0] == pytest.approx(theirs[0], abs=1e-5)
        torch.testing.assert_close(ours[2], theirs[2], rtol=1e-3, atol=1e-5)
        assert ours[1]["accuracy"] == pytest.approx(theirs[1]["accuracy"])
        assert ours[1]["margin"] == pytest.approx(theirs[1]["margin"], rel=1e-4)


def test_margins_of_single_pairs_are_trls(tmp_path: Path) -> None:
    made = made_pairs(4)
    margins = [0.0, 0.5, 1.0, 3.0]
    tokenizer = tokenizer_for(pair_texts(made))
    model = small_model(tokenizer, 2, 0.1, scored=True)
    rows = [{**row, "margin": m} for row, m in zip(conversations(made), margins, strict=True)]
    theirs, _, _ = trl_loss("Reward", rows, [classifier(model)], tokenizer, tmp_path)
    objective = BradleyTerry(settings(max_length=LENGTH, lm_weight=0.0))
    items, _ = objective.encode(
        objective.read([shard(tmp_path / "part-a.parquet", made)]), tokenizer, "train"
    )
    found = engine_of(model, objective).infer(items)
    chosen, rejected = (torch.tensor([float(one.scores[side]) for one in found]) for side in (0, 1))
    ours = losses.bradley_terry(chosen, rejected, torch.tensor(margins)).mean()
    assert ours.item() == pytest.approx(theirs, abs=1e-5)
