"""Small models made from nothing: one that scores, one that writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
)

from trainers.tokenizer import train_tokenizer

TEXTS = [
    "def load(value):\n    if value is None:\n        return []\n    return value\n",
    "def merge(left, right):\n    return eval(left) + eval(right)\n",
    "Improve this function. Write a program in Python.\n",
]


def _learn(model: Any, tokenizer: PreTrainedTokenizerFast, learned: dict[str, str]) -> None:
    talks = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}], tokenize=False
        )
        for prompt, answer in learned.items()
    ]
    batch = tokenizer(talks, padding=True, return_tensors="pt", add_special_tokens=False)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.train()
    for _ in range(120):
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def _tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS * 8, 512)


def _config(tokenizer: PreTrainedTokenizerFast, **other: Any) -> Qwen3Config:
    values: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 2048,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "dtype": "float32",
    }
    return Qwen3Config(**{**values, **other})


def reward_model(folder: Path, max_length: int = 192, seed: int = 0) -> Path:
    """A sequence classifier with random weights that reads `max_length` tokens."""
    tokenizer = _tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = _config(tokenizer, num_labels=1, problem_type="regression")
        model: Any = Qwen3ForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"config": {"model": "tiny", "max_length": max_length, "threads": 1}}
    (folder / "run.json").write_text(json.dumps(settings))
    return folder


def policy(folder: Path, seed: int = 0, learned: dict[str, str] | None = None, **other: Any) -> Path:
    """A causal language model with random weights, or one that has learned answers to prompts by heart."""
    texts = [text for pair in (learned or {}).items() for text in pair]
    tokenizer = train_tokenizer([*TEXTS, *texts] * 8, 512)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = Qwen3ForCausalLM(_config(tokenizer, **other))
        if learned:
            _learn(model, tokenizer, learned)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
