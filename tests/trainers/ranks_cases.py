"""Small models, data and a gradient of one step, the same for one process and for many.

Run by tests as one of several processes (see `ranks_launch`), it prints what each process is told of a model
that the first one cannot make, and the first one writes what each case gives to `CASE.pt` in the folder.

python ranks_cases.py FOLDER
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn import functional
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from schemas.errors import AssayError
from trainers import parallel
from trainers.config import TrainConfig
from trainers.items import Item, collate
from trainers.model import RewardModel
from trainers.world import World

VOCABULARY, LENGTH, ITEMS = 97, 64, 7

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dense": ({}, {}),
    "padded": ({}, {"layout": "padded"}),
    "untied": ({}, {"tie_word_embeddings": False}),
    "recomputed": ({"activation_checkpointing": True}, {}),
    "experts": ({}, {"experts": True}),
    "experts-recomputed": ({"activation_checkpointing": True}, {"experts": True}),
    "lora": ({"lora_rank": 4}, {}),
    "bf16": ({"precision": "bf16"}, {}),
    "bf16-lora": ({"precision": "bf16", "lora_rank": 4, "activation_checkpointing": True}, {}),
    "summed-each-pass": ({}, {}),
    "unused-head": ({}, {"tie_word_embeddings": False, "targets": False}),
}
"""Settings, and what the model and the data are, of each case."""


def config(**settings: Any) -> TrainConfig:
    """A resolved config."""
    return TrainConfig(**settings).resolved()


def model(layout: str = "prefix", *, experts: bool = False, targets: bool = True, **more: Any) -> RewardModel:
    """A two-layer model with weights that are always the same, its score head not 0."""
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "max_position_embeddings": 2 * LENGTH,
        **more,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made: Any
        if experts:
            several = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
            made = Qwen3MoeForCausalLM(Qwen3MoeConfig(**shape, **several))
        else:
            made = Qwen3ForCausalLM(Qwen3Config(**shape))
        whole = RewardModel(made.base_model, made.get_output_embeddings())
        assert whole.score is not None
        torch.nn.init.normal_(whole.score.weight)
    whole.fit_layout(layout, LENGTH)
    return whole


def items(targets: bool = True, seed: int = 0) -> list[Item]:
    """Pairs that begin alike, with targets in all of them or in the first one alone."""
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return rng.integers(0, VOCABULARY, size=rng.integers(low, high)).astype(np.int32)

    made = []
    for number in range(ITEMS):
        prompt = draw(3, 10)
        sides = tuple(np.concatenate([prompt, draw(3, 12)]) for _ in range(2))
        wanted = targets or number == 0
        at = tuple(np.arange(len(prompt) - 1, len(side) - 1 if wanted else len(prompt) - 1) for side in sides)
        predicted = tuple(side[where + 1].astype(np.int64) for side, where in zip(sides, at, strict=True))
        made.append(Item(str(number), str(number), "", sides, at, predicted))
    return made


def gradient(whole: RewardModel, world: World, data: list[Item]) -> dict[str, Any]:
    """Loss, gradient and its norm of one step, and scores before it. The first of many processes computes its
    items in one pass, the others one by one."""
    whole.train()
    how = whole.layout
    mine = data[world.rank :: world.size]
    parts = [mine] if world.rank == 0 and world.size > 1 else [[item] for item in mine]
    rounds = world.most(len(parts))
    with torch.no_grad():
        scores = whole(collate(data, how, 0), logprobs=False).scores
    total = 0.0
    for number in range(rounds):
        counts = number < len(parts)
        batch = collate(parts[number] if counts else data[:1], how, 0)
        with world.synchronising(whole, number + 1 == rounds):
            output = whole(batch)
            chosen, rejected = output.scores.view(-1, 2).unbind(dim=1)
            loss = -functional.logsigmoid(chosen - rejected).sum() - 0.01 * output.logprobs.sum()
            loss = loss / len(data) if counts else loss * 0.0
            loss.backward()
        total += float(loss.detach())
    named = [(name, parameter) for name, parameter in whole.named_parameters() if parameter.requires_grad]
    found: dict[str, Tensor] = {}
    for name, parameter in named:
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        found[name] = (grad.full_tensor() if isinstance(grad, DTensor) else grad).detach().clone()
    return {
        "loss": float(world.total(np.array([total]))[0]),
        "gradient": found,
        "scores": scores,
        "norm": world.clip(whole, 0.5),
        "clipped": world.clip(whole, 0.0),
    }


def case(name: str, world: World) -> dict[str, Any]:
    """What a case gives on these processes."""
    settings, shape = CASES[name]
    given = config(**settings)
    whole = parallel.materialise(lambda: model(**shape), world, given)
    if name == "summed-each-pass" and isinstance(world, parallel.Ranks):
        world.holds = False
    found = gradient(whole, world, items(shape.get("targets", True)))
    state = parallel.full_state(whole)
    found["state"] = None if state is None else {key: value.clone() for key, value in state.items()}
    return found


def _none() -> RewardModel:
    raise AssayError("no such model")


def main(folder: Path) -> None:
    """Run all cases on these processes."""
    warnings.simplefilter("error")
    with parallel.joined(config()) as world:
        try:
            parallel.materialise(_none, world, config())
        except AssayError as error:
            print(error)
        for name in CASES:
            found = case(name, world)
            if world.rank == 0:
                torch.save(found, folder / f"{name}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
