"""Small shards of programs with labelled functions, made from nothing, and a model to try them on."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from schemas.records import StepLabeledCandidate
from schemas.shards import write_shard
from trainers.config import TrainConfig
from trainers.engine import Engine
from trainers.items import Item
from trainers.model import RewardModel
from trainers.objectives.base import Objective
from trainers.programs import Facts
from trainers.tokenizer import train_tokenizer
from trainers.world import Alone


def step_row(name: str, start: int, end: int, label: int | None, **other: Any) -> dict[str, Any]:
    """A function of a program."""
    row: dict[str, Any] = {
        "name": name,
        "start_byte": start,
        "end_byte": end,
        "label": label,
        "reference_label": label,
        "suite_label": None,
        "own_label": label,
        "judge_label": None,
        "tests_run": 3,
        "tests_passed": 3 if label else 0,
        "reason": "passed" if label else "failed",
        "own_reason": "passed",
        "first_failure": None,
        "mutation_score": None,
        "trust": "external",
    }
    return {**row, **other}


def program_row(
    idx: str,
    completion: str,
    outcome: int | None,
    functions: Sequence[tuple[str, int | None]] = (),
    **other: Any,
) -> dict[str, Any]:
    """A program; `functions` are texts that stand in it, with their labels."""
    steps = []
    for text, label in functions:
        start = completion.encode().index(text.encode())
        steps.append(step_row(text[:12], start, start + len(text.encode()), label))
    row: dict[str, Any] = {
        "id": idx,
        "problem_id": "p0",
        "program_id": "g0",
        "prompt": "Complete the program.",
        "completion": completion,
        "program": None,
        "outcome": outcome,
        "outcome_reason": "passed" if outcome else "failed",
        "outcome_detail": None,
        "trust": "external",
        "steps": steps,
        "conflict": "none",
        "language": "Python",
        "source": "made",
        "license": "MIT",
        "generator": {
            "model": "mutation-1",
            "temperature": None,
            "seed": 0,
            "detail": None,
            "prompt_version": None,
        },
        "isolation": "none",
        "limits": "none",
        "split": "train",
    }
    return {**row, **other}


RIGHT = "def {name}(values):\n    return sorted(values)[:{n}]"
WRONG = "def {name}(values):\n    return values[{n}] * 0"


def made_programs(problems: int, each: int = 2, seed: int = 0) -> list[dict[str, Any]]:
    """Programs of two functions, every second one failing since one of its functions is wrong."""
    rng = random.Random(seed)
    rows = []
    for problem in range(problems):
        names = rng.sample(["load", "first", "merge", "split", "count", "pick"], 2)
        for number in range(each):
            n = rng.randrange(10)
            failing = number % 2
            bad = rng.randrange(2) if failing else -1
            texts = [
                (WRONG if at == bad else RIGHT).format(name=name, n=n + at) for at, name in enumerate(names)
            ]
            rows.append(
                program_row(
                    f"{seed}-{problem:03d}-{number}",
                    texts[0] + "\n\n\n" + texts[1] + "\n",
                    1 - failing,
                    [(text, int(at != bad)) for at, text in enumerate(texts)],
                    problem_id=f"p{problem:03d}",
                    prompt=f"Problem {problem}: write {names[0]} and {names[1]}.",
                )
            )
    return rows


def steps_shard(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a shard of `steps`."""
    write_shard(path, StepLabeledCandidate, rows)
    return path


def tokenizer_for(texts: Sequence[str], vocab_size: int = 400) -> PreTrainedTokenizerFast:
    """A tokenizer trained on some texts."""
    return train_tokenizer(texts, vocab_size)


def small_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, spread: float = 0.3, **heads: bool
) -> RewardModel:
    """A one-layer model whose logits differ from token to token by about `spread` times some."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=2048,
        initializer_range=spread,
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        dtype="float32",
    )
    made: Any = Qwen3ForCausalLM(config)
    return RewardModel(made.base_model, made.get_output_embeddings(), scored=heads.get("scored", False))


def engine_of(
    model: RewardModel, objective: Objective, layout: str = "padded", pass_tokens: int = 100_000
) -> Engine:
    """A model that computes an objective's items on this process."""
    model.fit_layout(layout, 2048)
    return Engine(model, Alone(), objective, layout=layout, pass_tokens=pass_tokens, pad_id=0)


def referred(engine: Engine, items: Sequence[Item]) -> list[Item]:
    """Items with what the engine's model says of them as their reference."""
    return [
        dataclasses.replace(item, reference=one.logprobs)
        for item, one in zip(items, engine.infer(items), strict=True)
    ]


def settings(**values: Any) -> TrainConfig:
    """A resolved config."""
    return TrainConfig.from_mapping({"max_length": 256, **values}).resolved()


def numbered(groups: list[int]) -> list[Item]:
    """Items whose prompt tokens are their task's number and whose completion is their own."""
    made = []
    for number, group in enumerate(groups):
        ids = np.array([group, group, 1000 + number, 1000 + number], dtype=np.int32)
        at = np.arange(2, 4)
        facts = Facts(True, 2, np.array([[0, 2]]), np.ones(1, np.int8), np.ones(1, np.int8))
        made.append(
            Item(
                str(number),
                str(group),
                str(group),
                (ids,),
                (at - 1,),
                (ids[at].astype(np.int64),),
                facts,
            )
        )
    return made
