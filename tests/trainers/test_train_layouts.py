"""Packed, with shared prefixes and padded: the same rewards, losses, gradients and curves."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_helpers import bt_step, rewards_of
from train_helpers import TINY, made_pairs, pair_row, shard
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config

from schemas.errors import AssayError
from trainers import attention
from trainers.config import TrainConfig
from trainers.data import Pair, TokenPair
from trainers.loop import train
from trainers.model import RewardModel
from trainers.packing import Ids, layout

VOCABULARY = 300
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
CONFIGS: dict[str, Any] = {
    "qwen3": lambda **other: Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16, **other),
    "llama": lambda **other: LlamaConfig(**SIZES, num_key_value_heads=4, **other),
    "llama-grouped": lambda **other: LlamaConfig(
        **SIZES, num_key_value_heads=1, attention_bias=True, **other
    ),
}
NOBODY = Pair("p", "", "", "", "", "Python", "FC", "c", None)


def made(config: Any) -> RewardModel:
    torch.manual_seed(0)
    causal: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model = RewardModel(causal.base_model, causal.get_output_embeddings())
    with torch.no_grad():
        model.score.weight.copy_(torch.linspace(-1, 1, model.score.weight.shape[1]))
    return model


@functools.cache
def model_of(family: str, wanted: str) -> RewardModel:
    model = made(CONFIGS[family]())
    model.fit_layout(wanted, 512)
    assert model.layout == wanted
    return model


@st.composite
def pair_lists(draw: st.DrawFn) -> list[TokenPair]:
    """Pairs with all that may be shared: nothing, a prompt, code, a whole side; prompts may be equal."""
    draws = np.random.default_rng(draw(st.integers(0, 1000)))
    prompts = [draws.integers(3, VOCABULARY, size) for size in draw(st.lists(st.integers(0, 20), min_size=2))]
    pairs = []
    for _ in range(draw(st.integers(1, 6))):
        prompt = draw(st.sampled_from(prompts))
        code = draws.integers(3, VOCABULARY, draw(st.sampled_from([0, 1, 7, 30])))
        # Different first tokens: what is shared is what was meant to be.
        ends = [draw(st.sampled_from([0, 1, 2, 25])), draw(st.integers(1, 40))]
        tails = [
            np.concatenate([[first], draws.integers(3, VOCABULARY, size)])[:size]
            for first, size in zip((1, 2), ends, strict=True)
        ]
        if draw(st.booleans()):
            tails.reverse()
        sides = [np.concatenate([prompt, code, tail]).astype(np.int32) for tail in tails]
        if min(map(len, sides)):
            pairs.append(TokenPair(NOBODY, sides[0], sides[1], len(prompt), False))
    return pairs or [TokenPair(NOBODY, np.array([1], np.int32), np.array([2], np.int32), 0, False)]


def step_of(model: RewardModel, pairs: list[TokenPair], **other: Any) -> tuple[torch.Tensor, torch.Tensor]:
    # The terms all weigh enough to show when one goes wrong.
    values = {"lm_weight": 0.4, "magnitude_weight": 0.1, "max_length": 512, "pass_tokens": 300, **other}
    model.zero_grad()
    step = bt_step(model, pairs, **values)
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return gradients, step.terms()


@pytest.mark.parametrize("family", CONFIGS)
@given(pairs=pair_lists())
@settings(max_examples=25, deadline=None)
def test_packed_shared_and_padded_steps_have_the_same_losses_and_gradients(
    family: str, pairs: list[TokenPair]
) -> None:
    gradients, terms = step_of(model_of(family, "padded"), pairs)
    for wanted in ("packed", "prefix"):
        got_gradients, got_terms = step_of(model_of(family, wanted), pairs)
        torch.testing.assert_close(got_terms, terms, rtol=1e-5, atol=1e-5)
        scale = max(1.0, gradients.abs().max().item())
        assert (got_gradients - gradients).abs().max().item() < 1e-4 * scale


@given(pairs=pair_lists(), budgets=st.lists(st.integers(1, 400), min_size=1, max_size=2))
@settings(max_examples=15, deadline=None)
def test_a_step_does_not_depend_on_its_budget(pairs: list[TokenPair], budgets: list[int]) -> None:
    model = model_of("qwen3", "prefix")
    gradients, terms = step_of(model, pairs, pass_tokens=10_000)
    for budget in budgets:
        got_gradients, got_terms = step_of(model, pairs, pass_tokens=budget)
        torch.testing.assert_close(got_terms, terms, rtol=1e-5, atol=1e-5)
        assert (got_gradients - gradients).abs().max().item() < 1e-4 * max(1.0, gradients.abs().max().item())


@pytest.mark.parametrize("family", CONFIGS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_tree_of_candidates_has_the_rewards_of_each_alone(family: str, data: st.DataObject) -> None:
    few = st.lists(st.integers(1, 3), min_size=1, max_size=12)
    groups = data.draw(st.lists(st.lists(few, min_size=1, max_size=6), min_size=1, max_size=3))
    arrays = [[np.array(one, dtype=np.int32) for one in group] for group in groups]
    model = model_of(family, "prefix").eval()
    with torch.inference_mode():
        got = rewards_of(model, arrays)
        alone = [rewards_of(model, [[one]], "padded")[0] for group in arrays for one in group]
    torch.testing.assert_close(got, torch.stack(alone), rtol=0, atol=1e-5)


def test_a_changed_token_after_the_shared_prefix_changes_only_its_own_side() -> None:
    model = model_of("qwen3", "prefix").eval()
    sides: list[Ids] = [np.array([5, 6, 7, *end], dtype=np.int32) for end in ([8, 9], [10, 11])]
    other = [sides[0], np.array([5, 6, 7, 10, 99], dtype=np.int32)]
    with torch.inference_mode():
        first, second = (rewards_of(model, [group]) for group in (sides, other))
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_what_both_sides_share_is_computed_once() -> None:
    head = np.arange(3, 43, dtype=np.int32)
    sides = [np.concatenate([head, np.full(size, token, np.int32)]) for token, size in ((1, 5), (2, 9))]
    pairs = [TokenPair(NOBODY, sides[0], sides[1], 4, False)] * 2
    computed = {
        wanted: bt_step(model_of("qwen3", wanted), pairs, max_length=512).computed
        for wanted in ("prefix", "packed", "padded")
    }
    assert computed == {"prefix": 2 * 54, "packed": 2 * 94, "padded": 4 * 49}


def test_any_budget_and_any_layout_trains_along_the_same_curve(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.parquet", made_pairs(24))
    curves = []
    for number, changes in enumerate(
        (
            {"layout": "padded", "pass_tokens": 700},
            {"layout": "padded"},
            {"layout": "packed"},
            {"pass_tokens": 1},
            {"pass_tokens": 500},
        )
    ):
        config = TrainConfig.from_mapping({**TINY, "epochs": 2, "batch_size": 8, **changes})
        train(config, [path], tmp_path / str(number))
        lines = map(json.loads, (tmp_path / str(number) / "train.jsonl").read_text().splitlines())
        curves.append([line["loss"] for line in lines if line["event"] == "step"])
    for curve in curves[1:]:
        assert curve == pytest.approx(curves[0], abs=1e-4)


def test_sides_that_become_equal_by_cutting_are_dropped_and_counted_in_every_layout(tmp_path: Path) -> None:
    long = "x = 1\n" * 200
    rows = [pair_row("kept", "a = 1\n", "b = 2\n"), pair_row("cut", long + "a\n", long + "b\n")]
    path = shard(tmp_path / "a.parquet", rows)
    for wanted in ("prefix", "packed", "padded"):
        config = TrainConfig.from_mapping(
            {**TINY, "max_steps": 1, "dev_share": 0.0, "truncation": "head", "layout": wanted}
        )
        result = train(config, [path], tmp_path / wanted)
        assert result.dropped == {"identical_after_truncation": 1}
        assert result.run["layout"]["used"] == wanted
        assert result.run["layout"]["why_padded"] == ""


def test_the_exported_config_does_not_name_an_attention_of_ours(tmp_path: Path) -> None:
    config = TrainConfig.from_mapping({**TINY, "max_steps": 1})
    train(config, [shard(tmp_path / "a.parquet", made_pairs(8))], tmp_path / "rm")
    for path in (tmp_path / "rm").glob("*.json"):
        assert attention.NAME not in path.read_text(), path.name


def test_a_row_whose_segments_are_lost_is_refused_and_not_read_as_one_sequence() -> None:
    trunk = model_of("qwen3", "prefix").trunk
    with pytest.raises(AssayError, match="neither segments nor an attention mask"):
        trunk(input_ids=torch.ones(1, 4, dtype=torch.long))


def test_a_row_is_refused_by_a_model_that_was_not_attached() -> None:
    with pytest.raises(AssayError, match="the model is not attached"):
        attention.hidden_states(made(CONFIGS["qwen3"]()).trunk, layout([[np.ones(3, np.int32)]]))


def test_segments_of_another_batch_are_refused() -> None:
    trunk = model_of("qwen3", "prefix").trunk
    segments = attention.Segments(layout([[np.ones(3, np.int32)]]))
    with pytest.raises(AssayError, match="not those of this batch"):
        trunk(input_ids=torch.ones(1, 4, dtype=torch.long), segments=segments)


def sliding(window: int) -> Any:
    return Qwen3Config(
        **SIZES,
        num_key_value_heads=2,
        head_dim=16,
        use_sliding_window=True,
        sliding_window=window,
        max_window_layers=1,
    )


def test_a_sliding_window_shorter_than_the_sequences_is_padded_and_says_why() -> None:
    model = made(sliding(16))
    model.fit_layout("auto", 32)
    assert model.layout == "padded"
    assert model.why_padded == "its sliding window of 16 tokens is shorter than 32"
    with pytest.raises(AssayError, match=r"train\.layout: prefix does not fit this model .*; use padded"):
        model.fit_layout("prefix", 32)


def test_a_sliding_window_that_no_sequence_exceeds_is_packed_and_checked_again_at_use() -> None:
    model = made(sliding(16)).eval()
    model.fit_layout("auto", 16)
    assert model.layout == "prefix"
    ids = np.arange(3, 19, dtype=np.int32)
    with torch.inference_mode():
        torch.testing.assert_close(rewards_of(model, [[ids]]), rewards_of(model, [[ids]], "padded"))
        with pytest.raises(AssayError, match="a sliding window of 16 is not supported for sequences of 17"):
            rewards_of(model, [[np.arange(3, 20, dtype=np.int32)]])


def test_a_model_that_cannot_be_packed_computes_as_it_did_before() -> None:
    model = made(sliding(16)).eval()
    sides = [[np.arange(3, 43, dtype=np.int32), np.arange(9, dtype=np.int32)]]
    with torch.inference_mode():
        before = rewards_of(model, sides, "padded")
        model.fit_layout("auto", 512)
        assert torch.equal(rewards_of(model, sides, "padded"), before)


@pytest.mark.parametrize("name", ["softcap", "s_aux"])
def test_additions_to_attention_that_segments_do_not_have_are_refused(name: str) -> None:
    segments = attention.Segments(layout([[np.ones(3, np.int32)]]))
    heads = torch.ones(1, 2, 3, 4)
    with pytest.raises(AssayError, match=f"{name} is not supported; use the padded layout"):
        attention.segment_attention(
            torch.nn.Identity(), heads, heads, heads, None, segments=segments, **{name: 1.0}
        )


def test_a_model_that_loses_the_segments_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(CONFIGS["llama"]())
    forward = model.trunk.forward

    def lossy(*args: Any, segments: object = None, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.trunk, "forward", lossy)
    model.fit_layout("auto", 64)
    assert model.layout == "padded"
    assert "neither segments nor an attention mask" in model.why_padded


def test_a_model_that_orders_tokens_by_their_place_in_the_row_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = made(CONFIGS["llama"]())
    forward = model.trunk.forward

    def misled(*args: Any, position_ids: torch.Tensor | None = None, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.trunk, "forward", misled)
    model.fit_layout("auto", 64)
    assert model.why_padded.startswith("a packed row gives it other hidden states")


def test_a_model_with_learned_positions_is_packed_or_padded_but_never_wrong() -> None:
    model = made(GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64)).eval()
    model.fit_layout("auto", 64)
    sides = [np.array([5, 6, 7, *end], dtype=np.int32) for end in ([8, 9], [10])]
    with torch.inference_mode():
        wanted = rewards_of(model, [sides], "padded")
        if model.layout == "prefix":
            torch.testing.assert_close(rewards_of(model, [sides]), wanted)
        else:
            assert model.why_padded
