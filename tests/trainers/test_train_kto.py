"""The losses of KTO by hand, its reference point, what it says of held-out programs, and what it learns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from program_helpers import (
    engine_of,
    made_programs,
    numbered,
    referred,
    small_model,
    steps_shard,
    tokenizer_for,
)
from program_helpers import settings as configured
from transformers import PreTrainedTokenizerFast

from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.held_out import evaluate
from trainers.items import Found, Item
from trainers.loop import train
from trainers.objectives.kto import Kto
from trainers.programs import (
    Facts,
    Labelled,
    read_programs,
)

TEXTS = [text for row in made_programs(4) for text in (row["prompt"], row["completion"])]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tokenizer_for(TEXTS)


def rows_of(tmp_path: Path, rows: list[dict[str, Any]], label: str = "label") -> list[Labelled]:
    return read_programs([steps_shard(tmp_path / "part-a.parquet", rows)], label)


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.fixture(scope="module")
def ready(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model, items and mismatched pairs whose references are another model's."""
    rows = made_programs(4, 3)
    rows[0]["steps"] = []
    rows[1]["steps"] = [{**step, "label": None} for step in rows[1]["steps"]]
    objective = Kto(configured(objective="step-kto"))
    path = steps_shard(tmp_path_factory.mktemp("kto") / "part-a.parquet", rows)
    items, _ = objective.encode(objective.read([path]), tokenizer, "train")
    before = engine_of(small_model(tokenizer, 1, 0.6), objective)
    items = referred(before, items)
    pairs = referred(before, objective.companions(items, list(range(len(items)))))
    return {"model": small_model(tokenizer, 2, 0.1), "items": items, "pairs": pairs}


WEIGHTS = {"desirable_weight": 1.3, "undesirable_weight": 0.7, "beta": 0.2}


@pytest.mark.parametrize("reference", ["per_step", "zero", "shared"])
def test_the_loss_is_its_formula_in_any_layout_and_any_passes(ready: dict[str, Any], reference: str) -> None:
    config = configured(objective="step-kto", step_weight=0.5, step_reference=reference, **WEIGHTS)
    objective, items = Kto(config), ready["items"]
    engine = engine_of(ready["model"], objective)
    said = {
        item.idx: one.logprobs[0].astype(np.float64)
        for item, one in zip(items, engine.infer(items), strict=True)
    }
    apart = [
        one.logprobs[0].astype(np.float64) - pair.reference[0]
        for pair, one in zip(ready["pairs"], engine.infer(ready["pairs"]), strict=True)
    ]
    z0 = max(0.0, float(np.mean([part.sum() for part in apart])))
    own = [
        part[a:b].sum() for part, pair in zip(apart, ready["pairs"], strict=True) for a, b in pair.facts.spans
    ]
    step_z0 = {"per_step": max(0.0, float(np.mean(own))), "zero": 0.0, "shared": z0}[reference]
    assert z0 > 0.1
    assert step_z0 > 0.1 or reference == "zero"
    beta, right, wrong = config.beta, config.desirable_weight, config.undesirable_weight

    def value(r: float, good: bool, at: float) -> float:
        return right - right * sigma(beta * (r - at)) if good else wrong - wrong * sigma(beta * (at - r))

    outcome, steps = [], []
    for item in items:
        ratios = said[item.idx] - item.reference[0]
        outcome.append(value(ratios.sum(), item.facts.right, z0))
        terms = [
            value(ratios[a:b].sum(), bool(z), step_z0)
            for (a, b), z in zip(item.facts.spans, item.facts.labels, strict=True)
        ]
        steps += [sum(terms) / len(terms)] if terms else []
    assert 0 < len(steps) < len(outcome)
    wanted = np.mean(outcome) + 0.5 * np.mean(steps)

    context = objective.context(ready["pairs"], engine.infer(ready["pairs"]))
    totals = objective.totals(items)
    told, gradients = [], []
    for layout, budget in (
        ("padded", 10_000),
        ("padded", 100),
        ("packed", 200),
        ("prefix", 400),
        ("prefix", 1),
    ):
        ready["model"].zero_grad()
        engine = engine_of(ready["model"], objective, layout, budget)
        loss, sums = engine.accumulate(items, totals, context)
        assert loss == pytest.approx(wanted, rel=1e-5)
        told.append(objective.statistics(sums, totals, context))
        gradients.append(
            torch.cat([p.grad.flatten() for p in ready["model"].parameters() if p.grad is not None])
        )
        torch.testing.assert_close(gradients[-1], gradients[0], rtol=1e-4, atol=1e-6)
        assert told[-1] == pytest.approx(told[0], rel=1e-4)
    assert told[0]["outcome_loss"] == pytest.approx(np.mean(outcome), rel=1e-5)
    assert told[0]["step_loss"] == pytest.approx(np.mean(steps), rel=1e-5)
    assert told[0]["kl"] == pytest.approx(z0, rel=1e-5)


def test_programs_without_labels_train_like_plain_kto(ready: dict[str, Any]) -> None:
    gradients = []
    bare = [item for item in ready["items"] if not len(item.facts.spans)]
    assert len(bare) == 2
    for name in ("step-kto", "kto"):
        objective = Kto(configured(objective=name))
        ready["model"].zero_grad()
        engine = engine_of(ready["model"], objective)
        totals = objective.totals(bare)
        loss, _ = engine.accumulate(bare, totals, {"z0": 0.5, "step_z0": 0.5})
        head = ready["model"].head.weight.grad
        gradients.append((loss, head.clone()))
    assert gradients[0][0] == gradients[1][0]
    assert torch.equal(gradients[0][1], gradients[1][1])


def test_the_reference_point_is_the_step_s_and_not_below_zero(ready: dict[str, Any]) -> None:
    objective = Kto(configured(objective="step-kto"))
    worse = [
        Found(np.empty(0, np.float32), tuple(part - 1 for part in pair.reference)) for pair in ready["pairs"]
    ]
    context = objective.context(ready["pairs"], worse)
    assert context["z0"] == context["step_z0"] == 0
    assert context["kl"] < 0
    assert context["step_kl"] < 0


def test_functions_without_any_label_are_refused_for_steps_and_fine_for_outcomes(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    path = steps_shard(tmp_path / "part-a.parquet", made_programs(2))
    wanted = Kto(configured(objective="step-kto", step_label="judge_label"))
    rows = wanted.read([path])
    with pytest.raises(
        AssayError, match=r"8 functions_unlabelled.*judge_label is null.*step_label"
    ) as caught:
        wanted.encode(rows, tokenizer, "train")
    assert "\n" not in str(caught.value)
    assert len(wanted.encode(rows, tokenizer, "dev")[0]) == 4
    assert len(Kto(configured(objective="kto")).encode(rows, tokenizer, "train")[0]) == 4


def found_with(item: Item, ratios: list[float]) -> Found:
    assert item.reference is not None
    return Found(np.empty(0, np.float32), (item.reference[0] + np.array(ratios, np.float32),))


def judged(right: bool, labels: list[int], group: str) -> Item:
    """An item of one token a function, whose reference is zero."""
    (item,) = numbered([0])
    spans = np.array([[at, at + 1] for at in range(len(labels))], dtype=np.int64).reshape(-1, 2)
    marks = np.array(labels, dtype=np.int8)
    return Item(
        item.idx,
        group,
        "",
        item.sequences,
        item.at,
        item.targets,
        Facts(right, 2, spans, marks, marks),
        (np.zeros(2, np.float32),),
    )


def test_functions_that_are_cut_are_said_to_be_and_what_helps(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    objective = Kto(configured(objective="step-kto", max_length=20))
    with pytest.raises(AssayError, match=r"\(\d+ functions_cut\); raise train\.max_length, or use kto"):
        objective.encode(rows_of(tmp_path, made_programs(4)), tokenizer, "train")


def test_rows_that_are_all_dropped_are_told_by_the_first_one(tmp_path: Path) -> None:
    rows = [{**row, "outcome": 3} for row in made_programs(6)]
    path = steps_shard(tmp_path / "part-a.parquet", rows)
    with pytest.raises(AssayError, match=r"bad_outcome\); the first: .*: 3 is neither 0 nor 1"):
        train(configured(objective="kto", max_steps=1), [path], tmp_path / "policy")


def test_evaluation_says_whether_wrong_functions_of_failing_programs_stand_below_right_ones() -> None:
    objective = Kto(configured(objective="step-kto", beta=0.5))
    items = [judged(False, [1, 0], "p"), judged(False, [1, 0], "q"), judged(True, [1, 1], "p")]
    found = [found_with(items[0], [2, -1]), found_with(items[1], [-2, -1]), found_with(items[2], [1, 1])]
    told = objective.evaluate(items, found, 0)
    assert told["failing"] == {
        "programs": 2,
        "order": 0.5,
        "order_per_token": 0.5,
        "right_up": 0.5,
        "wrong_down": 1.0,
    }
    assert told["auc"] == 1.0
    assert (told["auc_within"], told["auc_tasks"]) == (1.0, 1)
    assert told["reward_right"] == pytest.approx(1.0)
    assert told["reward_wrong"] == pytest.approx(0.5 * (1 - 3) / 2)
    assert told["step_auc"] == pytest.approx((2 + 2 + 2 + 0) / 8)
    assert told["step_accuracy"] == pytest.approx(5 / 6)


def test_an_untrained_model_is_told_nothing_apart_from_half_right() -> None:
    objective = Kto(configured(objective="kto"))
    items = [judged(False, [1, 0], "p"), judged(True, [1, 1], "p")]
    told = objective.evaluate(items, [found_with(item, [0, 0]) for item in items], 0)
    assert (told["auc"], told["accuracy"], told["step_auc"], told["failing"]["order"]) == (0.5, 0.5, 0.5, 0.5)
    empty = objective.evaluate([], [], 0)
    assert empty["programs"] == 0
    assert empty["auc"] is empty["reward_margin"] is empty["step_accuracy"] is None


def test_counts_name_outcomes_labels_and_a_lack_of_other_tasks(tmp_path: Path) -> None:
    objective = Kto(configured(objective="kto"))
    rows = rows_of(tmp_path, made_programs(2))
    told = objective.counts(rows)
    assert told["outcomes"] == {"right": 2, "wrong": 2}
    assert told["functions"] == {"right": 6, "wrong": 2}
    assert told["tasks"] == {"mixed": 2}
    assert told["mismatched_with"] == {"another_task": 4}
    lone = [row for row in rows if row.problem_id == rows[0].problem_id]
    assert objective.counts(lone)["mismatched_with"] == {"own_task": 2}


def test_candidates_of_a_problem_share_their_prompt_and_are_held_out_together(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    objective = Kto(configured(objective="kto"))
    rows = rows_of(tmp_path, made_programs(3, 2))
    items, _ = objective.encode(rows, tokenizer, "train")
    assert [item.group for item in items] == [objective.group(row) for row in rows]
    assert len({item.share for item in items}) == len({item.group for item in items}) == 3


def test_a_step_without_wrong_programs_says_nothing_of_them(ready: dict[str, Any]) -> None:
    objective = Kto(configured(objective="kto"))
    right = [item for item in ready["items"] if item.facts.right]
    totals = objective.totals(right)
    context = objective.context(
        ready["pairs"], [found_with(pair, [0.0] * len(pair.targets[0])) for pair in ready["pairs"]]
    )
    _, sums = engine_of(ready["model"], objective).accumulate(right, totals, context)
    told = objective.statistics(sums, totals, context)
    assert "reward_right" in told
    assert "reward_wrong" not in told
    assert "reward_margin" not in told
    assert all(math.isfinite(value) for value in told.values())


def trained(folder: Path, objective: str, **values: Any) -> dict[str, Any]:
    """What a policy that is trained on some programs says of other tasks' programs."""
    shards = [
        steps_shard(folder / name, rows)
        for name, rows in (("a.parquet", made_programs(16, 4)), ("b.parquet", made_programs(6, 4, 1)))
    ]
    config = {
        "objective": objective,
        "vocab_size": 512,
        "max_length": 128,
        "batch_size": 16,
        "lr": 3e-3,
        "max_steps": 40,
        **values,
    }
    result = train(TrainConfig.from_mapping(config), shards[:1], folder / objective, dev_shards=shards[1:])
    assert result.dev is not None
    return result.dev


def test_steps_tell_right_from_wrong_functions_of_one_failing_program_and_outcomes_do_not(
    tmp_path: Path,
) -> None:
    steps, outcomes = (trained(tmp_path, name) for name in ("step-kto", "kto"))
    assert steps["failing"]["programs"] == outcomes["failing"]["programs"] == 12
    # Both learn which programs pass.
    assert steps["auc"] > 0.9
    assert outcomes["auc"] > 0.9
    assert steps["failing"]["wrong_down"] > 0.9
    assert steps["failing"]["right_up"] > 0.9
    # A program that fails is pushed down as a whole, with what is right in it.
    assert outcomes["failing"]["wrong_down"] > 0.9
    assert outcomes["failing"]["right_up"] < 0.7


def test_a_run_on_one_task_says_whose_completions_the_reference_point_came_from(tmp_path: Path) -> None:
    path = steps_shard(tmp_path / "a.parquet", made_programs(1, 4))
    config = TrainConfig.from_mapping(
        {"objective": "kto", "vocab_size": 512, "max_length": 128, "max_steps": 2, "dev_share": 0.0}
    )
    run = train(config, [path], tmp_path / "out").run
    assert run["counts"]["mismatched_with"] == {"own_task": 4}
    assert run["metrics"]["last_step"]["kl_own_task"] == 1.0


def test_other_weights_in_the_folder_that_is_trained_are_not_taken_for_those_it_began_with(
    tmp_path: Path,
) -> None:
    shard = steps_shard(tmp_path / "part-a.parquet", made_programs(6))
    base, out = tmp_path / "base", tmp_path / "policy"
    train(configured(objective="kto", model="tiny", vocab_size=512, max_steps=1), [shard], base)
    given = configured(objective="kto", model=str(base), max_steps=4, save_every=1)

    def killed(line: dict[str, Any]) -> None:
        if line.get("step") == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(given, [shard], out, progress=killed)
    train(configured(objective="kto", model="tiny", vocab_size=512, max_steps=2), [shard], base)
    with pytest.raises(AssayError, match=r"of another run \(the weights in train\.model\)"):
        train(given, [shard], out)
    train(given, [shard], out, resume="never")
    evaluate(out, [shard], tmp_path / "eval")
    train(configured(objective="kto", model="tiny", vocab_size=512, max_steps=1), [shard], base)
    with pytest.raises(AssayError, match=r"was trained from .*, whose weights are others now or gone"):
        evaluate(out, [shard], tmp_path / "eval")
