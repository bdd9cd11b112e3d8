"""Tokens a second of a training step on one thread: padded as TRL's RewardTrainer computes it, packed, and
packed with each pair's common beginning computed once.

    python benchmarks/bench_train.py [--rounds 3] [--batches 2] [--spread 0.75]

The peer is the computation of TRL 1.16's RewardTrainer, through transformers: chosen and rejected sides
stacked into one batch padded on the right, `AutoModelForSequenceClassification` with one label and sdpa,
the mean of -log sigmoid(r_chosen - r_rejected) + c (r_chosen + r_rejected)^2. Ours is
`trainers.engine` with the same objective, in a model with the same weights; the losses are compared.

Lengths are drawn as those of commits are: of 604 edits with both versions within 1,500 tokens, out of 40
repositories, the quantiles 10 to 90 % of the share of the new version that stands before the first difference
were .05, .15, .36, .69, .86, and the standard deviation of the logarithm of its length was .75 (`--spread`).
Prompts have about 100 tokens, completions a median of 320.
"""

from __future__ import annotations

import argparse
import functools
from typing import Any

import numpy as np
import torch
from common import best, cores
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Qwen3Config

from trainers.config import TrainConfig
from trainers.data import Pair, TokenPair
from trainers.engine import Engine
from trainers.items import pad
from trainers.model import RewardModel
from trainers.objectives.bradley_terry import BradleyTerry, item_of
from trainers.world import Alone

PAIRS = 8
CENTERING = 0.01
CONFIG = Qwen3Config(
    vocab_size=4096,
    hidden_size=256,
    intermediate_size=768,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=4096,
    tie_word_embeddings=True,
    pad_token_id=0,
    num_labels=1,
)


def batch_of(seed: int, spread: float) -> list[TokenPair]:
    """Pairs with the lengths that the module tells."""
    draws = np.random.default_rng(seed)
    nobody = Pair("p", "", "", "", "", "Python", "FC", "c", None)
    pairs = []
    for _ in range(PAIRS):
        prompt = round(min(400, draws.lognormal(np.log(90), 0.5)))
        chosen = round(np.clip(draws.lognormal(np.log(320), spread), 16, 1500))
        rejected = round(np.clip(chosen * draws.lognormal(0, 0.2), 16, 1500))
        shared = prompt + int(draws.beta(0.8, 1.1) * min(chosen, rejected))
        head = draws.integers(3, CONFIG.vocab_size, shared)
        sides = [
            np.concatenate([head, [first], draws.integers(3, CONFIG.vocab_size, prompt + size - shared)])
            for first, size in ((1, chosen), (2, rejected))
        ]
        pairs.append(TokenPair(nobody, *(side.astype(np.int32) for side in sides), prompt, False))
    return pairs


def padded_step(model: Any, pairs: list[TokenPair]) -> float:
    """One step as TRL computes it."""
    model.zero_grad(set_to_none=True)
    ids, mask = pad([pair.chosen for pair in pairs] + [pair.rejected for pair in pairs], 0)
    chosen, rejected = model(input_ids=ids, attention_mask=mask).logits.squeeze(-1).chunk(2)
    loss = -functional.logsigmoid(chosen - rejected).mean() + CENTERING * (chosen + rejected).square().mean()
    loss.backward()
    return float(loss.detach())


def our_step(model: RewardModel, pairs: list[TokenPair]) -> float:
    """One step of ours, whole in one pass."""
    model.zero_grad(set_to_none=True)
    values = {"lm_weight": 0.0, "magnitude_weight": CENTERING, "max_length": 4096}
    objective = BradleyTerry(TrainConfig.from_mapping(values).resolved())
    engine = Engine(model, Alone(), objective, layout=model.layout, pass_tokens=1 << 20, pad_id=0)
    items = [item_of(pair, 0) for pair in pairs]
    return engine.accumulate(items, objective.totals(items), {})[0]


def models() -> tuple[Any, dict[str, RewardModel]]:
    """The peer's model, and one of ours for each layout, of the same weights."""
    torch.manual_seed(0)
    causal: Any = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)
    peer: Any = AutoModelForSequenceClassification.from_config(CONFIG, dtype=torch.float32)
    peer.model.load_state_dict(causal.model.state_dict())
    ours = {}
    for wanted in ("packed", "prefix"):
        own: Any = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)
        own.load_state_dict(causal.state_dict())
        ours[wanted] = RewardModel(own.base_model, None, peer.score.weight.detach())
        ours[wanted].fit_layout(wanted, 4096)
    return peer, ours


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--spread", type=float, default=0.75)
    given = parser.parse_args()
    torch.set_num_threads(1)
    peer, ours = models()
    total: dict[str, float] = {}
    counts = np.zeros(3, dtype=np.int64)
    worst = 0.0
    for seed in range(given.batches):
        pairs = batch_of(seed, given.spread)
        steps = {
            "padded": functools.partial(padded_step, peer, pairs),
            **{name: functools.partial(our_step, model, pairs) for name, model in ours.items()},
        }
        # This also warms every way up.
        losses = [step() for step in steps.values()]
        worst = max(worst, max(losses) - min(losses))
        for name, seconds in best(steps, given.rounds).items():
            total[name] = total.get(name, 0.0) + seconds
        counts += [
            2 * PAIRS * max(pair.length for pair in pairs),
            sum(pair.tokens for pair in pairs),
            sum(pair.unique_tokens for pair in pairs),
        ]
    print(f"{cores()}, one thread, {given.batches} steps of {PAIRS} pairs, best of {given.rounds} in turns")
    print(
        f"tokens: {counts[0]:,} with padding, {counts[1]:,} of sides, {counts[2]:,} without what sides share"
    )
    print(f"largest difference of the losses: {worst:.1e}")
    for name, seconds in total.items():
        print(f"{name:8} {counts[1] / seconds:8,.0f} tokens/s  {total['padded'] / seconds:5.2f}x")


if __name__ == "__main__":
    main()
