"""The peer of `gpu_train.py`: a training step as TRL's RewardTrainer computes it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from gpu_common import CENTERING, Bench, Plan, config_of, out_of_memory, say, timed
from torch import nn
from torch.nn import functional
from transformers import AutoModelForSequenceClassification

from trainers.data import TokenPair
from trainers.items import pad
from trainers.tokenizer import train_tokenizer


def peer(bench: Bench, plan: Plan, pairs: Sequence[TokenPair], ours: float) -> None:
    """TRL's computation at its best micro-batch, through transformers, and TRL's own trainer where it is."""
    nominal = sum(pair.tokens for pair in pairs)
    torch.manual_seed(0)
    with torch.device(bench.device):
        model: Any = AutoModelForSequenceClassification.from_config(
            config_of(plan.shape), dtype=torch.float32, attn_implementation="sdpa"
        )
    model.config.use_cache = False
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=bench.device.type == "cuda" or None)

    def backward(part: Sequence[TokenPair], of: int) -> None:
        ids, mask = pad([p.chosen for p in part] + [p.rejected for p in part], 0)
        with torch.autocast(bench.device.type, torch.bfloat16):
            logits = model(input_ids=ids.to(bench.device), attention_mask=mask.to(bench.device)).logits
        chosen, rejected = logits.float().squeeze(-1).chunk(2)
        loss = -functional.logsigmoid(chosen - rejected) + CENTERING * (chosen + rejected).square()
        torch.autograd.backward(loss.sum() / of)

    def step(micro: int) -> None:
        for at in range(0, len(pairs), micro):
            backward(pairs[at : at + micro], len(pairs))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    found: dict[tuple[bool, int], float] = {}
    most = max(plan.micro)
    for again in (False, True):
        keep_activations(model, not again)
        for micro in plan.micro:
            if micro > len(pairs) or bench.left < 20:
                continue
            part = pairs[:most]
            with out_of_memory(f"peer, {micro} pairs{', activations again' if again else ''}"):
                backward(part[:micro], len(part))
                began = bench.now()
                for at in range(0, len(part), micro):
                    backward(part[at : at + micro], len(part))
                found[again, micro] = (bench.now() - began) / sum(pair.tokens for pair in part)
            optimizer.zero_grad(set_to_none=True)
    if not found:
        say("  peer: left out, no micro-batch fits or no time is left")
        return
    again, micro = min(found, key=found.__getitem__)
    keep_activations(model, not again)
    bench.start_peak()
    seconds = timed(bench, lambda: step(micro), 1)
    ratio = f"; ours takes {seconds / ours:.2f}x as many tokens a second" if ours else ""
    say(
        f"  padded as TRL, best of {len(found)} ways ({micro} pairs, activations "
        f"{'again' if again else 'kept'}): {nominal / seconds:,.0f} tokens/s, peak memory "
        f"{bench.peak_memory()}{ratio}"
    )
    if bench.trl:
        with_trl(bench, model, pairs, micro, again, ours)


def keep_activations(model: Any, keep: bool) -> None:
    """Keep a model's activations, or compute them again."""
    change = "disable" if keep else "enable"
    # Releases of transformers differ in the name.
    switch = getattr(model, f"activation_checkpointing_{change}", None)
    (switch or getattr(model, f"gradient_checkpointing_{change}"))()


def with_trl(
    bench: Bench, model: Any, pairs: Sequence[TokenPair], micro: int, again: bool, ours: float
) -> None:
    """TRL's own trainer, where it is installed."""
    try:
        from datasets import Dataset
        from transformers import TrainerCallback
        from trl import RewardConfig, RewardTrainer
    except ImportError as error:
        say(f"  TRL's trainer: left out, it is not installed ({error.name})")
        return

    stamps: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *given: Any, **more: Any) -> None:
            stamps.append(bench.now())

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer: Any = RewardTrainer(
            model=model,
            args=RewardConfig(
                output_dir=folder,
                per_device_train_batch_size=micro,
                gradient_accumulation_steps=max(1, len(pairs) // micro),
                max_steps=3,
                max_length=4096,
                center_rewards_coefficient=CENTERING,
                bf16=True,
                use_cpu=bench.device.type == "cpu",
                gradient_checkpointing=again,
                disable_tqdm=True,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
            ),
            train_dataset=Dataset.from_list(
                [{"chosen_ids": p.chosen.tolist(), "rejected_ids": p.rejected.tolist()} for p in pairs]
            ),
            processing_class=train_tokenizer(["x = 1\n"], 512),
            callbacks=[Clock()],
        )
        trainer.train()
    seconds = (stamps[-1] - stamps[0]) / (len(stamps) - 1)
    nominal = sum(pair.tokens for pair in pairs)
    ratio = f"; ours takes {seconds / ours:.2f}x as many" if ours else ""
    say(f"  TRL's trainer: {nominal / seconds:,.0f} tokens/s{ratio}")
