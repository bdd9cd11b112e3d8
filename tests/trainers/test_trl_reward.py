"""The same optimizer steps as TRL's RewardTrainer, on the same data in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from train_helpers import made_pairs, shard
from transformers import AutoModelForSequenceClassification

from trainers import data
from trainers.config import TrainConfig
from trainers.data import Cutting
from trainers.loop import train
from trainers.packing import epoch_order
from trainers.tokenizer import load_tokenizer

pytest.importorskip("trl", reason="trl is not installed")

STEPS = 6
SETTINGS: dict[str, Any] = {
    "vocab_size": 512,
    "max_length": 192,
    "threads": 1,
    "dev_share": 0.0,
    "batch_size": 4,
    "lm_weight": 0.0,
    "magnitude_weight": 0.01,
    "weight_decay": 0.0,
    "betas": (0.9, 0.999),
    "min_lr_ratio": 1.0,
    "warmup_ratio": 0.0,
    "lr": 1e-3,
    "clip": 1.0,
    "max_steps": STEPS,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["prefix", "packed", "padded"])
def test_losses_and_norms_of_every_step_are_those_of_trls_reward_trainer(tmp_path: Path, layout: str) -> None:
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    path = shard(tmp_path / "a.parquet", made_pairs(40))
    # A model to begin with, whose score head is not zero.
    train(TrainConfig.from_mapping({**SETTINGS, "max_steps": 3}), [path], tmp_path / "start")
    config = TrainConfig.from_mapping({**SETTINGS, "model": str(tmp_path / "start"), "layout": layout})
    train(config, [path], tmp_path / "ours")
    lines = [json.loads(line) for line in (tmp_path / "ours" / "train.jsonl").read_text().splitlines()]
    ours = [(line["loss"], line["grad_norm"]) for line in lines if line["event"] == "step"]

    tokenizer: Any = load_tokenizer(str(tmp_path / "start"))
    pairs, _ = data.encode_pairs(data.read_pairs([path]), tokenizer, Cutting.of(config.resolved()))
    rows = [pairs[index] for index in epoch_order(len(pairs), 0, config.seed)]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "start", dtype=torch.float32)
    trainer: Any = RewardTrainer(
        model=model,
        args=RewardConfig(
            output_dir=str(tmp_path / "theirs"),
            per_device_train_batch_size=4,
            max_steps=STEPS,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            weight_decay=0.0,
            center_rewards_coefficient=0.01,
            max_length=192,
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
            disable_dropout=True,
        ),
        train_dataset=Dataset.from_list(
            [{"chosen_ids": p.chosen.tolist(), "rejected_ids": p.rejected.tolist()} for p in rows]
        ),
        processing_class=tokenizer,
    )
    trainer.train()
    theirs = [(line["loss"], line["grad_norm"]) for line in trainer.state.log_history if "loss" in line]
    assert len(theirs) == STEPS
    for (our_loss, our_norm), (their_loss, their_norm) in zip(ours, theirs, strict=True):
        assert float(their_loss) == pytest.approx(our_loss, abs=1e-5)
        assert float(their_norm) == pytest.approx(our_norm, rel=1e-3)
