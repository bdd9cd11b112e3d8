"""Rows with a number as items of a score, the loss by hand, and files that are not fit for it."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from program_helpers import engine_of, settings, small_model, tokenizer_for
from transformers import PreTrainedTokenizerFast

from schemas.errors import AssayError
from trainers.config import TrainConfig
from trainers.items import Found, Item
from trainers.loop import train
from trainers.objectives.pointwise import Pointwise


def rows_made(count: int, **other: Any) -> list[dict[str, Any]]:
    rng = random.Random(1)
    return [
        {
            "id": f"r{number:03d}",
            "prompt": f"Write function {number % 5}.",
            "response": "def f():\n" + "    x = 1\n" * rng.randrange(1, 9),
            "score": round(rng.uniform(-2, 2), 3),
            **other,
        }
        for number in range(count)
    ]


ROWS = rows_made(12)


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tokenizer_for([row[name] for row in ROWS for name in ("prompt", "response")])


def objective_of(**values: Any) -> Pointwise:
    return Pointwise(settings(objective="pointwise", **values))


def test_columns_of_other_names_and_kinds_of_files_give_the_same_items(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    objective = objective_of()
    wanted = objective.read([parquet(tmp_path / "a.parquet", ROWS)])
    renamed = [
        {"idx": row["id"], "input": row["prompt"], "completion": row["response"], "score": row["score"]}
        for row in ROWS
    ]
    chats = [
        {
            "id": row["id"],
            "messages": [
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": row["response"]},
            ],
            "score": row["score"],
        }
        for row in ROWS
    ]
    assert objective.read([parquet(tmp_path / "b.parquet", renamed)]) == wanted
    assert objective.read([parquet(tmp_path / "c.parquet", chats)]) == wanted
    lines = tmp_path / "d.jsonl.gz"
    lines.write_bytes(gzip.compress("\n".join(map(json.dumps, reversed(ROWS))).encode()))
    assert objective.read([lines]) == wanted
    parts = [parquet(tmp_path / f"{n}.parquet", ROWS[n::3]) for n in (2, 0, 1)]
    assert objective.read(parts) == wanted


def test_rows_without_ids_do_not_depend_on_the_cut_of_files(tmp_path: Path) -> None:
    objective = objective_of()
    bare = [{name: row[name] for name in ("prompt", "response", "score")} for row in ROWS]
    whole = objective.read([parquet(tmp_path / "a.parquet", bare)])
    parts = [parquet(tmp_path / f"{n}.parquet", bare[n::2]) for n in (1, 0)]
    assert objective.read(parts) == whole


def test_an_item_is_the_conversation_in_the_template(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    objective = objective_of()
    rows = objective.read([parquet(tmp_path / "a.parquet", rows_made(3, system="Be strict."))])
    items, account = objective.encode(rows, tokenizer, "train")
    assert account.kept == 3
    assert tokenizer.decode(items[0].sequences[0]) == (
        "<|im_start|>system\nBe strict.<|im_end|>\n<|im_start|>user\nWrite function 0.<|im_end|>\n"
        f"<|im_start|>assistant\n{rows[0].response}<|im_end|>\n"
    )
    assert [item.facts for item in items] == [row.target for row in rows]
    assert all(item.predicted == 0 for item in items)


def test_a_task_is_held_out_together_and_a_prompt_is_shared(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    objective = objective_of()
    rows = objective.read([parquet(tmp_path / "a.parquet", ROWS)])
    items, _ = objective.encode(rows, tokenizer, "train")
    assert len({item.share for item in items}) == len({objective.group(row) for row in rows}) == 5
    named = objective.read([parquet(tmp_path / "b.parquet", rows_made(4, task_id="t1"))])
    assert {objective.group(row) for row in named} == {"t1"}


def test_bad_rows_cost_themselves_and_are_counted(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    bad: list[Any] = [
        {**ROWS[0], "score": None},
        {**ROWS[0], "score": "high"},
        {**ROWS[0], "score": 1e400},
        {**ROWS[0], "response": None},
        {**ROWS[0], "prompt": " "},
        {name: value for name, value in ROWS[0].items() if name != "score"},
        [1],
    ]
    path = tmp_path / "a.jsonl"
    text = [json.dumps(row).replace("Infinity", "1e400") for row in [*ROWS, *bad]]
    path.write_text("\n".join([*text, "{"]))
    objective = objective_of(max_length=64)
    items, account = objective.encode(objective.read([path]), tokenizer, "train")
    assert account.rows == len(ROWS) + len(bad) + 1
    assert account.kept == len(items) == len(ROWS)
    assert account.by_reason() == {
        "bad_json": 1,
        "empty": 1,
        "missing_field": 1,
        "no_target": 2,
        "not_an_object": 1,
        "wrong_type": 2,
    }


def test_a_response_that_is_too_long_keeps_its_beginning_and_its_end_of_turn(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    rows = [{**ROWS[0], "response": "def f():\n" + "    x = 1\n" * 60}, ROWS[1]]
    objective = objective_of(max_length=64)
    items, account = objective.encode(
        objective.read([parquet(tmp_path / "a.parquet", rows)]), tokenizer, "train"
    )
    assert account.noted == {"windowed": 1, "prompts_cut": 0}
    assert len(items[0].sequences[0]) == 64
    assert tokenizer.decode(items[0].sequences[0]).endswith("<|im_end|>\n")
    long = [{**ROWS[0], "prompt": "Write it. " * 90}]
    for how, kept in (("cut", 1), ("drop", 0)):
        objective = objective_of(max_length=64, long_prompt=how)
        read = objective.read([parquet(tmp_path / "b.parquet", long)])
        items, account = objective.encode(read, tokenizer, "train")
        assert (len(items), account.noted["prompts_cut"]) == (kept, kept)
        assert account.by_reason() == ({} if kept else {"prompt_too_long": 1})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prompt": "a", "response": "b"}], r"a\.parquet: has no column 'score' \(train\.target\)"),
        (
            [{"prompt": "a", "response": "b", "score": "x"}] * 2,
            r"none of its 2 rows can be trained on; the first: wrong_type: score is 'x'",
        ),
        ([{"prompt": "a", "score": 1.0}], r"none of its 1 rows .*missing_field"),
        ([{"a": 1}], r"has none of the columns"),
    ],
)
def test_a_file_of_which_nothing_can_be_used_is_one_clear_line(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(AssayError, match=message) as caught:
        objective_of().read([parquet(tmp_path / "a.parquet", rows)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "folder"])
def test_a_damaged_file_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    path = parquet(tmp_path / "a.parquet", ROWS)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-50])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
        if damage == "folder":
            path.mkdir()
    with pytest.raises(AssayError, match=r"a\.parquet") as caught:
        objective_of().read([path])
    assert "\n" not in str(caught.value)


def test_targets_that_are_no_probabilities_are_refused_for_bce(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", [{**row, "score": 0.5} for row in ROWS[:4]] + ROWS[4:])
    with pytest.raises(AssayError, match=r"score of row r004 is .* numbers from 0 to 1; use mse or huber"):
        objective_of(regression="bce").read([path])


def test_a_column_that_says_something_else_elsewhere_may_be_the_target(tmp_path: Path) -> None:
    rows = [{**row, "label": number - 4} for number, row in enumerate(ROWS)]
    path = parquet(tmp_path / "a.parquet", rows)
    assert sorted(row.target for row in objective_of(target="label").read([path])) == list(range(-4, 8))
    # And does not disturb where it is not.
    assert all(row.fault is None for row in objective_of().read([path]))


@pytest.mark.parametrize("kind", ["mse", "huber", "bce"])
def test_the_loss_is_its_formula_in_any_layout_and_any_passes(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, kind: str
) -> None:
    rows = [{**row, "score": (row["score"] + 2) / 4} for row in ROWS] if kind == "bce" else ROWS
    objective = objective_of(regression=kind)
    items, _ = objective.encode(objective.read([parquet(tmp_path / "a.parquet", rows)]), tokenizer, "train")
    model = small_model(tokenizer, 3, 0.1, scored=True)
    assert model.score is not None
    torch.nn.init.normal_(model.score.weight, std=0.5)
    found = engine_of(model, objective).infer(items)
    scores = np.array([one.scores[0] for one in found], dtype=np.float64)
    targets = np.array([row["score"] for row in rows])
    gaps = np.abs(scores - targets)
    wanted = {
        "mse": gaps**2,
        "huber": np.where(gaps <= 1, gaps**2 / 2, gaps - 0.5),
        "bce": np.logaddexp(0, scores) - targets * scores,
    }[kind].mean()
    totals = objective.totals(items)
    for layout, budget in (("padded", 9999), ("padded", 1), ("packed", 150), ("prefix", 150)):
        loss, sums = engine_of(model, objective, layout, budget).accumulate(items, totals, {})
        assert loss == pytest.approx(wanted, rel=1e-5)
        told = objective.statistics(sums, totals, {})
        assert told[kind] == pytest.approx(wanted, rel=1e-5)
    judged = objective.evaluate(items, found, 0)
    assert judged["loss"] == pytest.approx(wanted, rel=1e-5)
    assert (told["mse"], told["mae"]) == pytest.approx((judged["mse"], judged["mae"]), rel=1e-4)


def said(values: list[float], targets: list[float]) -> tuple[list[Item], list[Found]]:
    nothing = np.empty(0, np.int64)
    ids = np.arange(2, dtype=np.int32)
    items = [Item(str(n), "", "", (ids,), (nothing,), (nothing,), t) for n, t in enumerate(targets)]
    return items, [Found(np.array([value], np.float32), ()) for value in values]


def test_evaluation_measures_distance_and_order() -> None:
    told = objective_of().evaluate(*said([0, 1, 4], [1, 2, 3]), 0)
    assert told["mse"] == told["mae"] == pytest.approx(1.0)
    assert told["variance"] == pytest.approx(2 / 3)
    assert told["spearman"] == pytest.approx(1.0)
    assert told["pearson"] == pytest.approx(float(np.corrcoef([0, 1, 4], [1, 2, 3])[0, 1]))


def test_what_is_undefined_is_none() -> None:
    assert objective_of().evaluate([], [], 0)["mse"] is None
    told = objective_of().evaluate(*said([0, 0], [1, 2]), 0)
    assert told["pearson"] is told["spearman"] is None


def test_a_logit_is_judged_as_a_probability() -> None:
    told = objective_of(regression="bce").evaluate(*said([0, 0], [0, 1]), 0)
    assert told["mae"] == pytest.approx(0.5)
    assert told["loss"] == pytest.approx(float(np.log(2)))


def test_a_score_learns_the_number_of_rows_of_other_tasks(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = []
    for number in range(80):
        lines = [rng.choice(["    x = 1\n", "    eval(x)\n"]) for _ in range(6)]
        rows.append(
            {
                "prompt": f"Write function {number}.",
                "response": "def f():\n" + "".join(lines),
                "share": lines.count("    x = 1\n") / 6,
            }
        )
    config = TrainConfig.from_mapping(
        {
            "objective": "pointwise",
            "target": "share",
            "vocab_size": 512,
            "max_length": 128,
            "batch_size": 16,
            "lr": 5e-3,
            "epochs": 12,
            "dev_share": 0.25,
        }
    )
    dev = train(config, [parquet(tmp_path / "a.parquet", rows)], tmp_path / "out").dev
    assert dev is not None
    assert dev["spearman"] > 0.8
    assert dev["mse"] < dev["variance"] / 2
