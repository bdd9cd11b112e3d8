"""Verifiers: what is trained on, what the losses are, and how they are judged."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trajectory_helpers import attempt, message, tokenizer_of

from schemas.errors import AssayError
from schemas.stage import Drop
from trainers.config import TrainConfig
from trainers.engine import Engine
from trainers.items import Batch, Found, Item, Output, collate
from trainers.mixing import left_out, parse_shares
from trainers.model import build
from trainers.objectives.verifier import Facts, Verifier, item_of
from trainers.tokenizer import train_tokenizer
from trainers.trajectories import Attempt, Renderer
from trainers.world import Alone


def verifier(objective: str = "yesno", **values: Any) -> Verifier:
    settings = {"objective": objective, "max_length": 400, "vocab_size": 512, **values}
    return Verifier(TrainConfig.from_mapping(settings).resolved())


def crowd(counts: dict[tuple[str, bool], int], instances: int = 5) -> list[Attempt]:
    """So many attempts of each policy and outcome."""
    rows = []
    for (policy, resolved), count in counts.items():
        for number in range(count):
            facts = {
                "policy": policy,
                "idx": f"{policy}-{resolved}-{number}",
                "instance": f"i{number % instances}",
            }
            rows.append(attempt([message("user", "Fix it.")], resolved=resolved, **facts))
    return rows


def cells_of(
    objective: Verifier, rows: Sequence[Attempt], part: str
) -> tuple[Counter[tuple[str, bool]], Any]:
    items, account = objective.encode(rows, tokenizer_of(), part)
    by_id = {row.idx: (row.policy or "", bool(row.resolved)) for row in rows}
    return Counter(by_id[idx] for item in items for idx in item.facts.ids), account


def test_rows_of_unknown_outcome_are_dropped_with_a_reason() -> None:
    rows = [*crowd({("a", True): 2}), attempt([message("user", "Fix it.")], resolved=None, idx="u")]
    items, account = verifier().encode(rows, tokenizer_of(), "train")
    assert [drop for drop in account.drops if drop.id == "u"] == [Drop("u", "no_outcome", "resolved is null")]
    assert (account.rows, account.kept, len(items)) == (3, 2, 2)


def test_all_rows_count_unless_the_recipe_says_otherwise() -> None:
    cells = {("a", True): 9, ("a", False): 2, ("b", False): 4}
    found, account = cells_of(verifier(), crowd(cells), "train")
    assert (found, account.drops) == (cells, [])


@pytest.mark.parametrize(("ratio", "kept"), [(2.0, (8, 4)), (1.0, (9, 9)), (0.5, (4, 9)), (9.0, (9, 1))])
def test_positives_leaves_out_the_surplus_of_either_side(ratio: float, kept: tuple[int, int]) -> None:
    rows = crowd({("a", True): 9, ("a", False): 4 if ratio == 2.0 else 9})
    found, account = cells_of(verifier(positives=ratio), rows, "train")
    assert (found["a", True], found["a", False]) == kept
    assert {drop.reason for drop in account.drops} <= {"surplus"}
    assert account.rows == account.kept + len(account.drops)


def test_policies_get_their_shares_and_others_none() -> None:
    rows = crowd({("a", True): 30, ("a", False): 10, ("b", True): 6, ("b", False): 4, ("c", True): 9})
    found, account = cells_of(verifier(policies=["a=3", "b=1"]), rows, "train")
    assert sum(n for (policy, _), n in found.items() if policy == "a") == 30
    assert sum(n for (policy, _), n in found.items() if policy == "b") == 10
    assert account.by_reason() == {"other_policy": 9, "surplus": 10}


def test_both_shares_are_met_at_once() -> None:
    rows = crowd({("a", True): 30, ("a", False): 10, ("b", True): 6, ("b", False): 40})
    found, _ = cells_of(verifier(policies=["a=0.5", "b=0.5"], positives=2), rows, "train")
    assert found == {("a", True): 6, ("a", False): 3, ("b", True): 6, ("b", False): 3}


def test_development_rows_are_as_they_are() -> None:
    cells = {("a", True): 9, ("b", False): 4, ("c", True): 2}
    found, account = cells_of(verifier(policies=["a=1"], positives=1), crowd(cells), "dev")
    assert (found, account.drops) == (cells, [])


def test_which_rows_stay_depends_on_ids_and_seed_alone() -> None:
    rows = crowd({("a", True): 30, ("a", False): 10})
    kept = [
        {
            idx
            for item in verifier(positives=1, seed=seed).encode(some, tokenizer_of(), "train")[0]
            for idx in item.facts.ids
        }
        for some, seed in ((rows, 0), (rows[::-1], 0), (rows, 1))
    ]
    assert kept[0] == kept[1]
    assert kept[0] != kept[2]


def test_counts_are_of_what_is_trained_on() -> None:
    rows = crowd({("a", True): 9, ("a", False): 3, ("b", True): 5})
    assert verifier(policies=["a=1"], positives=2).counts(rows) == {
        "outcomes": {"resolved": 6, "unresolved": 3},
        "policies": {"a": 9},
        "sources": {"made": 9},
    }


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"policies": ["a=1", "z=1"]},
            "train.policies: there are no training trajectories of 'z'; leave it out",
        ),
        ({"policies": ["b=1"], "positives": 1}, "no unresolved training trajectories of 'b'"),
        ({"policies": ["a"]}, "'a' is not `name=share`"),
        ({"policies": ["a=0"]}, "'a=0' is not `name=share` with a share above 0"),
        ({"policies": ["a=nan"]}, "'a=nan' is not"),
        ({"policies": ["a=1", "a=2"]}, "'a' is named twice"),
    ],
)
def test_shares_that_cannot_be_had_are_one_clear_error(values: dict[str, Any], why: str) -> None:
    rows = crowd({("a", True): 3, ("a", False): 3, ("b", True): 3})
    with pytest.raises(AssayError, match=why):
        verifier(**values).encode(rows, tokenizer_of(), "train")


def test_positives_without_both_outcomes_is_one_clear_error() -> None:
    with pytest.raises(AssayError, match=r"train\.positives: there are no unresolved .*; set it to 0"):
        verifier(positives=2).encode(crowd({("a", True): 3}), tokenizer_of(), "train")


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    weights=st.lists(st.floats(0.01, 9), min_size=5, max_size=5),
)
def test_shares_are_met_but_for_rounding_with_as_many_rows_as_can_be(
    counts: list[int], weights: list[float]
) -> None:
    shares = parse_shares(
        [f"{cell}={weight}" for cell, weight in zip(range(len(counts)), weights, strict=False)]
    )
    rows = {}
    for cell, count in enumerate(counts):
        rows |= {len(rows) + number: (f"{cell}-{number}", str(cell)) for number in range(count)}
    out = left_out(rows, shares, 0)
    kept = Counter(cell for number, (_, cell) in rows.items() if number not in out)
    assert any(kept[str(cell)] == count for cell, count in enumerate(counts))
    most = min(count / shares[str(cell)] for cell, count in enumerate(counts))
    assert all(abs(kept[cell] - share * most) < 1 + 1e-6 for cell, share in shares.items())


def test_an_item_asks_for_both_answers_after_its_last_token() -> None:
    tokenizer = tokenizer_of()
    rows = crowd({("a", True): 1, ("a", False): 1})
    items, _ = verifier().encode(rows, tokenizer, "train")
    for item, row in zip(items, rows, strict=True):
        ids = item.sequences[0]
        assert (item.idx, item.group, item.facts) == (
            row.idx,
            row.instance,
            Facts((row.resolved or False,), (row.idx,)),
        )
        assert item.at[0].tolist() == [len(ids) - 1] * 2
        assert tokenizer.convert_ids_to_tokens(item.targets[0].tolist()) == ["YES", "NO"]


def test_candidates_of_a_task_are_dealt_into_items_of_like_mix() -> None:
    rows = crowd({("a", True): 20, ("a", False): 25})
    items, account = verifier("joint", together=4).encode(rows, tokenizer_of(), "train")
    assert account.kept == 45
    assert Counter(item.group for item in items) == dict.fromkeys(("i0", "i1", "i2", "i3", "i4"), 3)
    assert all(len(item.sequences) == 3 and item.facts.ranked for item in items)
    assert sorted(idx for item in items for idx in item.facts.ids) == sorted(row.idx for row in rows)
    assert len({item.idx for item in items}) == len(items)
    again, _ = verifier("joint", together=4).encode(rows[::-1], tokenizer_of(), "train")
    assert {frozenset(item.facts.ids) for item in again} == {frozenset(item.facts.ids) for item in items}


def batch_of(groups: Sequence[Sequence[bool]]) -> Batch:
    """Items with these outcomes, of one token a sequence."""
    ids = np.array([1], dtype=np.int32)
    items = [
        item_of(str(n), [attempt([], resolved=one) for one in group], [ids] * len(group), 3, 4)
        for n, group in enumerate(groups)
    ]
    return collate(items, "padded", 0)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


GROUPS = ((True, False, False), (True,), (False, False), (True, True, False))
TEMPERATURE = 1.7


def by_hand(objective: str, said: Any, weights: tuple[float, float, float] = (1, 1, 1)) -> float:
    """The loss in float64, written out."""
    flat = [one for group in GROUPS for one in group]
    odds = [(yes - no) / TEMPERATURE for yes, no in said]
    if objective == "yesno":
        total = 0.0
        for (yes, no), d, resolved in zip(said, odds, flat, strict=True):
            either = math.log(math.exp(yes) + math.exp(no))
            total -= either + math.log(sigmoid(d) if resolved else 1 - sigmoid(d))
        return total / len(flat)
    rank, tasks, at = 0.0, 0, 0
    for group in GROUPS:
        own = list(zip(odds[at : at + len(group)], group, strict=True))
        at += len(group)
        gaps = [good - bad for good, yes in own if yes for bad, no in own if not no]
        if gaps:
            rank += sum(-math.log(sigmoid(gap)) for gap in gaps) / len(gaps)
            tasks += 1
    each = sum(
        weights[1] * -math.log(sigmoid(d) if y else 1 - sigmoid(d)) + weights[2] * (sigmoid(d) - y) ** 2
        for d, y in zip(odds, flat, strict=True)
    )
    return weights[0] * rank / tasks + each / len(flat)


@pytest.mark.parametrize("objective", ["yesno", "joint"])
def test_the_loss_is_the_formula_however_a_step_is_cut(objective: str) -> None:
    weights = {"rank_weight": 0.7, "class_weight": 1.3, "brier_weight": 0.4}
    made = verifier(objective, temperature=TEMPERATURE, **weights)
    said = torch.log_softmax(torch.randn(9, 6, generator=torch.Generator().manual_seed(0)).double(), 1)[:, :2]
    totals = made.totals(batch_of(GROUPS).items)
    assert totals == {"trajectories": 9, "tasks": 2}
    wanted = by_hand(objective, said.tolist(), (0.7, 1.3, 0.4))
    for cut in ([0, 4], [0, 1, 4], [0, 2, 3, 4]):
        loss, sums = 0.0, Counter[str]()
        at = 0
        for begin, end in itertools.pairwise(cut):
            batch = batch_of(GROUPS[begin:end])
            size = sum(map(len, GROUPS[begin:end]))
            part, found = made.loss(Output(None, said[at : at + size].flatten().float()), batch, totals, {})
            at += size
            loss += float(part)
            sums.update(found)
        assert loss == pytest.approx(wanted, abs=1e-6)
        told = made.statistics(sums, totals, {})
        odds = [yes - no for yes, no in said.tolist()]
        flat = [one for group in GROUPS for one in group]
        assert told["accuracy"] == pytest.approx(
            np.mean([(d > 0) == y for d, y in zip(odds, flat, strict=True)])
        )
        assert told["answered"] == pytest.approx(float(said.exp().sum(1).mean()), abs=1e-6)
        assert told["brier"] == pytest.approx(
            np.mean([(sigmoid(d / TEMPERATURE) - y) ** 2 for d, y in zip(odds, flat, strict=True)]), abs=1e-6
        )


def test_at_temperature_one_yesno_is_cross_entropy_on_the_answer() -> None:
    made = verifier()
    logits = torch.randn(9, 6, generator=torch.Generator().manual_seed(1))
    said = torch.log_softmax(logits, 1)[:, :2]
    batch = batch_of(GROUPS)
    loss, _ = made.loss(Output(None, said.flatten()), batch, made.totals(batch.items), {})
    answers = torch.tensor([0 if one else 1 for group in GROUPS for one in group])
    assert float(loss) == pytest.approx(float(torch.nn.functional.cross_entropy(logits, answers)), abs=1e-6)


def test_an_item_that_has_nothing_to_rank_adds_no_ranking_and_its_gradient_is_finite() -> None:
    made = verifier("joint", class_weight=0.0, brier_weight=0.0)
    batch = batch_of([(True,), (False, False)])
    said = torch.randn(6, requires_grad=True)
    loss, _ = made.loss(Output(None, said), batch, made.totals(batch.items), {})
    torch.autograd.backward(loss)
    assert float(loss.detach()) == 0
    assert said.grad is not None
    assert torch.equal(said.grad, torch.zeros(6))


def found_of(odds: Sequence[Sequence[float]]) -> list[Found]:
    def said(d: float) -> Any:
        return np.log(np.array([sigmoid(d), 1 - sigmoid(d)]) * 0.5, dtype=np.float64).astype(np.float32)

    return [Found(np.empty(0, np.float32), tuple(said(d) for d in group)) for group in odds]


def test_evaluation_reads_the_probability_and_picks_the_best_of_a_task() -> None:
    made = verifier("joint", temperature=2.0)
    items = list(batch_of([(True, False, False), (False, True)]).items)
    items = [dataclasses.replace(item, group=name) for item, name in zip(items, "ab", strict=True)]
    result = made.evaluate(items, found_of([(2.0, -2.0, 4.0), (-1.0, 3.0)]), 0)
    probabilities = [sigmoid(d / 2) for d in (2.0, -2.0, 4.0, -1.0, 3.0)]
    outcomes = [1, 0, 0, 0, 1]
    assert result["brier"] == pytest.approx(
        np.mean([(p - y) ** 2 for p, y in zip(probabilities, outcomes, strict=True)]), abs=1e-6
    )
    assert result["auc"] == pytest.approx(4 / 6)
    assert result["auc_instance"] == pytest.approx((0.5 + 1) / 2)
    assert result["accuracy"] == pytest.approx(4 / 5)
    assert result["answered"] == pytest.approx(0.5, abs=1e-6)
    assert (result["rm_at_all"], result["random"], result["oracle"]) == (0.5, pytest.approx(5 / 12), 1.0)
    assert set(result["best_of"]) == {"2", "3"}
    json.dumps(result, allow_nan=False)


def test_evaluation_of_single_candidates_has_no_best_of_them() -> None:
    made = verifier()
    items = list(batch_of([(True,)]).items)
    result = made.evaluate(items, found_of([(1.0,)]), 0)
    assert (result["tasks"], result["rm_at_all"], result["auc"]) == (0, None, None)
    json.dumps(result, allow_nan=False)


texts = st.text(st.characters(codec="utf-8"), max_size=300)


@given(words=st.lists(texts, max_size=6), times=st.integers(1, 60), size=st.sampled_from([512, 2048]))
def test_a_tiny_models_tokenizer_has_both_answers_as_one_token_whatever_the_corpus(
    words: list[str], times: int, size: int
) -> None:
    rows = [attempt([message("user", word * times), message("assistant", "NOYES" * times)]) for word in words]
    tokenizer = train_tokenizer(verifier().texts(rows), size)
    renderer = Renderer(tokenizer, 100)
    assert tokenizer.convert_ids_to_tokens([renderer.yes, renderer.no]) == ["YES", "NO"]


def test_packed_shared_and_padded_passes_give_the_same_gradient() -> None:
    rows = [
        attempt(
            [message("user", "Fix it."), message("assistant", "x = 1\n" * n)], resolved=n % 2 == 0, idx=str(n)
        )
        for n in range(1, 7)
    ]
    made = verifier("joint", together=3)
    tokenizer = tokenizer_of()
    items, _ = made.encode(rows, tokenizer, "train")
    results = []
    for layout, budget in (("padded", 10_000), ("packed", 10_000), ("prefix", 10_000), ("prefix", 300)):
        model = build(TrainConfig(vocab_size=512).resolved(), tokenizer, scored=False)
        engine = Engine(model, Alone(), made, layout=layout, pass_tokens=budget, pad_id=0)
        loss, _ = engine.accumulate(items, made.totals(items), {})
        results.append((loss, [p.grad for p in model.parameters() if p.grad is not None]))
    for loss, gradients in results[1:]:
        assert loss == pytest.approx(results[0][0], abs=1e-5)
        for left, right in zip(gradients, results[0][1], strict=True):
            assert torch.allclose(left, right, atol=1e-5)


def test_items_know_when_there_is_something_to_rank() -> None:
    items: list[Item] = list(batch_of(GROUPS).items)
    assert [item.facts.ranked for item in items] == [True, False, False, True]
