"""The reward model against transformers' own classes, and a step's independence of its micro-batches."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_helpers import bt_step, rewards_of
from train_helpers import made_pairs
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM, Qwen3ForSequenceClassification

from schemas.errors import AssayError
from trainers import model as reward_model
from trainers.config import TrainConfig
from trainers.data import Pair, TokenPair
from trainers.fit import optimizer_groups
from trainers.items import Batch, collate, pad
from trainers.model import RewardModel, build, tiny_config
from trainers.objectives.bradley_terry import item_of
from trainers.tokenizer import train_tokenizer

CONFIG = TrainConfig(vocab_size=512, threads=1).resolved()
NOBODY = Pair("p", "", "", "", "", "Python", "FC", "c", None)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer((row["chosen"] for row in made_pairs(20)), 512)


@pytest.fixture
def model(tokenizer: PreTrainedTokenizerFast) -> RewardModel:
    made = build(CONFIG, tokenizer)
    with torch.no_grad():
        made.score.weight.copy_(torch.linspace(-1, 1, 64))
    return made


def random_pairs(lengths: list[tuple[int, int, int]], seed: int = 0) -> list[TokenPair]:
    draws = np.random.default_rng(seed)
    pairs = []
    for prompt, chosen, rejected in lengths:
        head = draws.integers(3, 250, prompt).astype(np.int32)
        ends = [draws.integers(3, 250, size).astype(np.int32) for size in (chosen, rejected)]
        pairs.append(
            TokenPair(NOBODY, np.concatenate([head, ends[0]]), np.concatenate([head, ends[1]]), prompt, False)
        )
    return pairs


def test_rewards_are_those_of_transformers_sequence_classifier(model: RewardModel) -> None:
    config: Any = model.trunk.config
    config.num_labels = 1
    peer = Qwen3ForSequenceClassification(config).eval()
    peer.model.load_state_dict(model.trunk.state_dict())
    assert model.score is not None
    peer.score.load_state_dict(model.score.state_dict())
    sides = [pair.chosen for pair in random_pairs([(1, 3, 1), (5, 40, 2), (2, 1, 1)])]
    ids, mask = pad(sides, 0)
    torch.testing.assert_close(
        rewards_of(model.eval(), [sides], "padded"),
        peer(input_ids=ids, attention_mask=mask).logits.squeeze(-1),
    )


def padded(pairs: list[TokenPair]) -> Batch:
    return collate([item_of(pair, 1) for pair in pairs], "padded", 0)


def test_the_language_model_term_is_transformers_loss_on_completion_tokens(model: RewardModel) -> None:
    config: Any = model.trunk.config
    peer = Qwen3ForCausalLM(config).eval()
    peer.model.load_state_dict(model.trunk.state_dict())
    peer.tie_weights()
    pairs = random_pairs([(4, 9, 3), (2, 30, 12), (7, 1, 20)])
    ids, mask = pad([pair.chosen for pair in pairs], 0)
    labels = torch.full_like(ids, -100)
    for row, pair in enumerate(pairs):
        labels[row, pair.prompt_length : len(pair.chosen)] = torch.from_numpy(
            pair.chosen[pair.prompt_length :].astype(np.int64)
        )
    theirs = peer(input_ids=ids, attention_mask=mask, labels=labels).loss
    ours = -model.eval()(padded(pairs)).logprobs.mean()
    torch.testing.assert_close(ours, theirs)


def test_logits_in_pieces_give_the_same_loss_and_gradient(
    model: RewardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = padded(random_pairs([(4, 50, 3), (2, 30, 12)]))

    def gradient() -> tuple[torch.Tensor, torch.Tensor]:
        model.zero_grad()
        loss = -model(batch).logprobs.sum()
        loss.backward()
        grad = model.trunk.get_input_embeddings().weight.grad
        assert grad is not None
        return loss.detach(), grad.clone()

    whole = gradient()
    vocabulary = model.trunk.get_input_embeddings().weight.shape[0]
    monkeypatch.setitem(reward_model.LOGITS_AT_ONCE, "cpu", 7 * vocabulary)
    for left, right in zip(whole, gradient(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"scored": False}, {"vocabulary": False}])
def test_a_head_that_is_missing_is_not_read(
    changes: dict[str, bool], tokenizer: PreTrainedTokenizerFast
) -> None:
    made = build(CONFIG, tokenizer, **changes)
    batch = padded(random_pairs([(3, 5, 8)]))
    if changes:
        with pytest.raises(AssayError, match=r"has no (score|vocabulary) head"):
            made(batch)
    assert len(made(batch, scores=changes.get("scored", True), logprobs=False).logprobs) == 0


def test_a_new_model_prefers_nothing(tokenizer: PreTrainedTokenizerFast) -> None:
    output = build(CONFIG, tokenizer)(padded(random_pairs([(3, 5, 8)])))
    assert output.scores.tolist() == [0, 0]


def test_padding_does_not_change_a_reward(model: RewardModel) -> None:
    pairs = random_pairs([(3, 5, 8), (3, 90, 60)])
    alone = model.eval()(padded(pairs[:1]))
    together = model(padded(pairs))
    torch.testing.assert_close(alone.scores, together.scores[:2], rtol=0, atol=1e-6)


lengths = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 60), st.integers(1, 60)), min_size=8, max_size=8
)


@given(lengths, st.sampled_from(["centered", "abs"]), st.integers(0, 1000))
@settings(max_examples=12, deadline=None)
def test_a_steps_gradient_does_not_depend_on_its_micro_batches(
    shape: list[tuple[int, int, int]], magnitude: str, seed: int
) -> None:
    pairs = random_pairs(shape, seed)
    # The terms all weigh enough to show when one is normalised by a micro-batch.
    base = {"vocab_size": 512, "threads": 1, "lm_weight": 0.4, "magnitude_weight": 0.1}
    results = []
    for tokens in (10_000, 400, 200, 1):
        made = _scored_model()
        step = bt_step(made, pairs, **base, magnitude=magnitude, pass_tokens=tokens)
        gradients = torch.cat([p.grad.flatten() for p in made.parameters() if p.grad is not None])
        results.append((gradients, step.terms()))
    for gradients, terms in results[1:]:
        torch.testing.assert_close(terms, results[0][1], rtol=1e-5, atol=1e-6)
        scale = results[0][0].abs().max().item()
        torch.testing.assert_close(gradients, results[0][0], rtol=1e-3, atol=2e-5 * max(1.0, scale))


@pytest.mark.parametrize("magnitude", ["centered", "abs"])
def test_a_steps_loss_and_gradient_are_those_of_a_plain_float64_loop(magnitude: str) -> None:
    """The peer reads one sequence at a time, unpadded, in float64, with the formulas spelled out."""
    pairs = random_pairs([(4, 9, 3), (0, 5, 30), (17, 1, 2), (2, 25, 25), (9, 3, 14)], seed=3)
    lam, mu, margin, flipped = 0.4, 0.1, 0.25, 0.1
    values = {"lm_weight": lam, "magnitude_weight": mu, "magnitude": magnitude, "label_smoothing": flipped}
    ours = _scored_model()
    plain: Any = copy.deepcopy(ours).double()
    stats = bt_step(ours, pairs, **values, margin=margin, vocab_size=512, pass_tokens=90)

    def reward(ids: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        given = torch.tensor(ids[None].astype(np.int64))
        states = plain.trunk(input_ids=given, attention_mask=torch.ones_like(given)).last_hidden_state[0]
        return states[-1] @ plain.score.weight[0], states

    preference = penalty = nll = torch.zeros((), dtype=torch.float64)
    tokens = 0
    for pair in pairs:
        good, states = reward(pair.chosen)
        bad, _ = reward(pair.rejected)
        z = good - bad - margin
        preference = (
            preference + (1 - flipped) * torch.log1p(torch.exp(-z)) + flipped * torch.log1p(torch.exp(z))
        )
        penalty = penalty + ((good.abs() + bad.abs()) if magnitude == "abs" else (good + bad)) ** 2
        for at in range(max(1, pair.prompt_length), len(pair.chosen)):
            logits = plain.head.weight @ states[at - 1]
            nll = nll + torch.log(torch.exp(logits).sum()) - logits[int(pair.chosen[at])]
            tokens += 1
    loss = (preference + mu * penalty) / len(pairs) + lam * nll / tokens
    loss.backward()

    assert stats.loss == pytest.approx(loss.item(), rel=1e-5)
    assert stats.lm == pytest.approx(nll.item() / tokens, rel=1e-5)
    for (name, mine), (_, theirs) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
        assert mine.grad is not None, name
        scale = theirs.grad.abs().max().item()
        torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=1e-3, atol=2e-5 * max(1.0, scale))


@pytest.mark.parametrize("lm_weight", [0.25, 0.0])
def test_a_length_beyond_the_models_positions_is_refused(lm_weight: float, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["x = 1\n"], 512)
    Qwen3ForCausalLM(tiny_config(len(tokenizer), 64, tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    settings = {"model": str(tmp_path), "lm_weight": lm_weight}
    build(TrainConfig.from_mapping({**settings, "max_length": 2048}).resolved(), tokenizer)
    with pytest.raises(AssayError, match=r"reads at most 2048 tokens, but train\.max_length is 2049"):
        build(TrainConfig.from_mapping({**settings, "max_length": 2049}).resolved(), tokenizer)


def _scored_model(cache: dict[str, PreTrainedTokenizerFast] = {}) -> RewardModel:  # noqa: B006
    if not cache:
        cache["tokenizer"] = train_tokenizer(["x = 1\n"], 512)
    made = build(CONFIG, cache["tokenizer"])
    with torch.no_grad():
        made.score.weight.copy_(torch.linspace(-1, 1, 64))
    return made


def test_norms_and_the_score_head_do_not_decay_and_nothing_is_left_out(model: RewardModel) -> None:
    groups = optimizer_groups(model, 0.1)
    free = {id(p) for p in groups[1]["params"]}
    for name, parameter in model.named_parameters():
        assert (id(parameter) in free) == ("norm" in name or name == "score.weight"), name
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    assert (groups[0]["weight_decay"], groups[1]["weight_decay"]) == (0.1, 0.0)


def test_weights_depend_on_the_seed_and_not_on_torchs_generator(tokenizer: PreTrainedTokenizerFast) -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.rand(3)
        config = TrainConfig(vocab_size=512, seed=seed).resolved()
        return build(config, tokenizer).trunk.get_input_embeddings().weight

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_margins_and_labels_may_come_from_each_pairs_evidence() -> None:
    """Against the formula with numbers of each pair, in float64."""
    pairs = random_pairs([(4, 9, 3), (2, 5, 30), (7, 1, 2)], seed=5)
    evidence = [(0.9, 5.0), (0.6, 2.0), (None, None)]
    told = [
        dataclasses.replace(pair, pair=dataclasses.replace(NOBODY, confidence=sure, strength=strength))
        for pair, (sure, strength) in zip(pairs, evidence, strict=True)
    ]
    made = _scored_model()
    settings = {"lm_weight": 0.0, "margin": 0.5, "margin_by": "strength", "soft_labels": True}
    step = bt_step(made, told, **settings, vocab_size=512)
    scores = [rewards_of(made.eval(), [[pair.chosen, pair.rejected]]).detach().double() for pair in pairs]
    wanted = 0.0
    for (good, bad), (sure, strength) in zip(scores, evidence, strict=True):
        z = float(good - bad) - 0.5 * (1.0 if strength is None else strength / 5)
        q = 0.0 if sure is None else 1 - sure
        wanted += (1 - q) * math.log1p(math.exp(-z)) + q * math.log1p(math.exp(z))
    assert step.bt == pytest.approx(wanted / 3, rel=1e-5)
