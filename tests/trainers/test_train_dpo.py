"""Pairs as items of DPO, its loss by hand, and what it says of held-out pairs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from program_helpers import engine_of, referred, settings, small_model, tokenizer_for
from train_helpers import made_pairs, pair_row, shard
from transformers import PreTrainedTokenizerFast

from trainers.data import Pair, TokenPair
from trainers.items import Found, Item
from trainers.objectives.dpo import Dpo, Facts, item_of

ROWS = made_pairs(8)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tokenizer_for([text for row in ROWS for text in (row["input"], row["chosen"], row["rejected"])])


def encoded(
    tokenizer: PreTrainedTokenizerFast, folder: Path, rows: list[dict[str, Any]], **values: Any
) -> list[Item]:
    objective = Dpo(settings(objective="dpo", **values))
    items, account = objective.encode(
        objective.read([shard(folder / "part-a.parquet", rows)]), tokenizer, "train"
    )
    assert account.kept == len(items) == account.rows - len(account.drops)
    return items


def whole(item: Item) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The completion tokens of both sides, put together from what is predicted."""
    chosen, rejected = item.targets
    return chosen, np.concatenate([chosen[: item.facts.shared], rejected])


def test_targets_are_both_completions_with_their_common_beginning_once(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    for item, row in zip(encoded(tokenizer, tmp_path, ROWS, max_length=512), ROWS, strict=True):
        chosen, rejected = whole(item)
        assert tokenizer.decode(chosen) == row["chosen"] + "<|im_end|>\n"
        assert tokenizer.decode(rejected) == row["rejected"] + "<|im_end|>\n"
        assert item.facts.shared > 0
        assert item.targets[1][0] != chosen[item.facts.shared]
        for ids, at, targets in zip(item.sequences, item.at, item.targets, strict=True):
            assert np.array_equal(ids[at + 1], targets)


@pytest.mark.parametrize("truncation", ["difference", "head"])
def test_a_side_that_is_cut_at_its_end_does_not_learn_to_stop_there(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, truncation: str
) -> None:
    long = "    x = 1\n" * 40
    rows = [
        pair_row("a", "def f():\n    return 1\n" + long, "def f():\n    return 2\n"),
        pair_row("b", "def f():\n    return 1\n", "def f():\n    return 2\n"),
    ]
    cut, short = encoded(tokenizer, tmp_path, rows, max_length=64, truncation=truncation)
    assert max(map(len, cut.sequences)) == 64
    end = tokenizer.eos_token_id
    assert [end in targets for targets in cut.targets] == [False, True]
    assert [end in targets for targets in short.targets] == [True, True]


bodies = st.lists(st.integers(1, 3), max_size=5)


@given(st.integers(0, 3), bodies, bodies, st.booleans())
def test_any_pair_of_sequences_gives_targets_that_rebuild_it(
    prompt: int, left: list[int], right: list[int], windowed: bool
) -> None:
    start = max(1, prompt)
    head, tail = [9] * start, [7, 8]
    sides = [np.array(head + body + tail, dtype=np.int32) for body in (left, right)]
    longest = max(map(len, sides))
    pair = TokenPair(Pair("a", "", "", "", "", "", "", None, None), sides[0], sides[1], prompt, windowed)
    item = item_of(pair, longest, len(tail))
    for built, side in zip(whole(item), sides, strict=True):
        cut = 2 if windowed and len(side) == longest else 0
        assert built.tolist() == side[start : len(side) - cut].tolist()


def log_sigma(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_its_formula_in_any_layout_and_any_passes(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, smoothing: float
) -> None:
    objective = Dpo(settings(objective="dpo", beta=0.2, label_smoothing=smoothing))
    before, model = small_model(tokenizer, 1, 0.2), small_model(tokenizer, 2, 0.1)
    items = referred(engine_of(before, objective), encoded(tokenizer, tmp_path, ROWS))
    found = engine_of(model, objective).infer(items)
    terms = []
    for item, one in zip(items, found, strict=True):
        chosen, rejected = (
            said.astype(np.float64) - old
            for said, old in zip(one.logprobs, item.reference or (), strict=True)
        )
        z = 0.2 * (chosen[item.facts.shared :].sum() - rejected.sum())
        terms.append(-(1 - smoothing) * log_sigma(z) - smoothing * log_sigma(-z))
    assert np.std(terms) > 0.02
    totals = objective.totals(items)
    for layout, budget in (
        ("padded", 10_000),
        ("padded", 1),
        ("packed", 900),
        ("prefix", 900),
        ("prefix", 1),
    ):
        loss, sums = engine_of(model, objective, layout, budget).accumulate(items, totals, {})
        assert loss == pytest.approx(np.mean(terms), rel=1e-5)
        told = objective.statistics(sums, totals, {})
        assert told["dpo"] == pytest.approx(loss, rel=1e-5)
        assert told["margin"] == pytest.approx(told["reward_chosen"] - told["reward_rejected"], rel=1e-5)
    judged = objective.evaluate(items, found, 0)
    assert judged["loss"] == pytest.approx(np.mean(terms), rel=1e-5)
    for name, other in (
        ("accuracy", "accuracy"),
        ("margin", "margin_mean"),
        ("reward_chosen", "reward_chosen"),
    ):
        assert told[name] == pytest.approx(judged[other], rel=1e-4, abs=1e-6)


def test_the_common_beginning_counts_for_both_rewards(tokenizer: PreTrainedTokenizerFast) -> None:
    nothing = np.empty(0, np.int64)
    item = Item(
        "a",
        "a",
        "",
        (np.arange(4, dtype=np.int32),) * 2,
        (nothing,) * 2,
        (nothing,) * 2,
        Facts(2),
        (np.zeros(3, np.float32), np.zeros(1, np.float32)),
    )
    found = Found(np.empty(0, np.float32), (np.array([1, 2, 4], np.float32), np.array([-8], np.float32)))
    told = Dpo(settings(objective="dpo", beta=0.5)).evaluate([item], [found], 0)
    assert (told["reward_chosen"], told["reward_rejected"], told["accuracy"]) == (3.5, -2.5, 1.0)


def test_an_untrained_model_loses_the_log_of_two(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    objective = Dpo(settings(objective="dpo"))
    engine = engine_of(small_model(tokenizer, 1), objective)
    items = referred(engine, encoded(tokenizer, tmp_path, ROWS))
    told = objective.evaluate(items, engine.infer(items), 0)
    assert told["loss"] == pytest.approx(math.log(2))
    assert (told["accuracy"], told["ties"]) == (0.5, len(items))
    assert objective.evaluate([], [], 0)["loss"] is None


def test_an_item_without_a_reference_is_not_taken_for_one_whose_reference_is_zero(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    objective = Dpo(settings(objective="dpo"))
    engine = engine_of(small_model(tokenizer, 1), objective)
    items = encoded(tokenizer, tmp_path, ROWS[:2])
    with pytest.raises(TypeError, match="before training"):
        objective.evaluate(items, engine.infer(items), 0)
    with pytest.raises(TypeError, match="before training"):
        engine.accumulate(items, objective.totals(items), {})


def test_steps_against_the_gradient_raise_the_margin(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    objective = Dpo(settings(objective="dpo", beta=0.5))
    model = small_model(tokenizer, 1, 0.1)
    engine = engine_of(model, objective, "prefix")
    items = referred(engine, encoded(tokenizer, tmp_path, ROWS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    totals = objective.totals(items)
    for _ in range(8):
        engine.accumulate(items, totals, {})
        optimizer.step()
        optimizer.zero_grad()
    told = objective.evaluate(items, engine.infer(items), 0)
    assert told["accuracy"] == 1.0
    assert told["loss"] < 0.5
