"""Evaluation and scoring: independence of batches and shards, baselines, empty input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from train_helpers import made_pairs, pair_row, shard
from transformers import AutoModelForSequenceClassification

from schemas.errors import AssayError
from schemas.records import Score
from schemas.shards import iter_rows
from trainers.data import conversation
from trainers.evaluate import evaluate
from trainers.loop import TrainResult
from trainers.score import Scorer, score

Trained = tuple[TrainResult, Path]


def scores_of(folder: Path) -> np.ndarray:
    rows = list(iter_rows(folder / "scores.parquet", Score))
    return np.array([[row["chosen_score"], row["rejected_score"]] for row in rows])


def test_the_results_do_not_depend_on_the_batch_size(trained: Trained, tmp_path: Path) -> None:
    result, path = trained
    for size in (1, 7, 64):
        evaluate(result.out_dir, [path], tmp_path / str(size), batch_size=size)
    one = scores_of(tmp_path / "1")
    for size in (7, 64):
        assert np.abs(scores_of(tmp_path / str(size)) - one).max() < 1e-6


def test_a_side_is_scored_without_knowledge_of_the_other(trained: Trained, tmp_path: Path) -> None:
    result, _ = trained
    there = shard(tmp_path / "a.parquet", [pair_row("p", "def f():\n    pass\n", "eval(x)\n")])
    back = shard(tmp_path / "b.parquet", [pair_row("p", "eval(x)\n", "def f():\n    pass\n")])
    evaluate(result.out_dir, [there], tmp_path / "there")
    evaluate(result.out_dir, [back], tmp_path / "back")
    assert scores_of(tmp_path / "there") == pytest.approx(scores_of(tmp_path / "back")[:, ::-1], abs=1e-6)


def test_scoring_a_text_gives_the_score_of_the_pair(trained: Trained, tmp_path: Path) -> None:
    result, _ = trained
    row = pair_row("p", "def f():\n    pass\n", "eval(x)\n", system="Be safe.", input="Do it.")
    evaluate(result.out_dir, [shard(tmp_path / "a.parquet", [row])], tmp_path / "out")
    got = score(result.out_dir, ["Do it."] * 2, [row["chosen"], row["rejected"]], systems=["Be safe."] * 2)
    assert got == pytest.approx(scores_of(tmp_path / "out")[0].tolist(), abs=1e-6)


def test_the_results_file_is_what_is_returned_and_every_row_is_in_it(
    trained: Trained, tmp_path: Path
) -> None:
    result, path = trained
    odd = [pair_row("same", "x\n", "x\n"), pair_row("empty", "", "x\n")]
    got = evaluate(result.out_dir, [path, shard(tmp_path / "b.parquet", odd)], tmp_path / "out")
    assert got == json.loads((tmp_path / "out" / "results.json").read_text())
    assert got["dropped"] == {"empty_completion": 1, "identical": 1}
    assert got["rows"] == 62 == got["pairs"] + sum(got["dropped"].values())
    drops = (tmp_path / "out" / "drops.jsonl").read_text().splitlines()
    assert {json.loads(line)["id"] for line in drops} == {"same", "empty"}
    for table in ("by_aspect", "by_language"):
        assert sum(group["pairs"] for group in got[table].values()) == got["pairs"] == 60
    assert len(scores_of(tmp_path / "out")) == 60


def test_the_accuracy_is_that_of_the_scores(trained: Trained, tmp_path: Path) -> None:
    result, _ = trained
    path = shard(tmp_path / "a.parquet", made_pairs(10, seed=5) + _swapped(made_pairs(30, seed=6)))
    got = evaluate(result.out_dir, [path], tmp_path / "out")
    margins = np.subtract(*scores_of(tmp_path / "out").T)
    assert got["overall"]["accuracy"] == pytest.approx(np.mean(margins > 0) + np.mean(margins == 0) / 2)
    assert got["overall"]["accuracy"] == pytest.approx(0.25)


def _swapped(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in rows]


def test_the_length_baselines_count_whole_sides_and_ties_half(trained: Trained, tmp_path: Path) -> None:
    result, _ = trained
    rows = [
        pair_row("a", "x = 1\n" * 500, "y\n"),
        pair_row("b", "x = 1\n" * 500, "y\n"),
        pair_row("c", "y\n", "x = 1\n"),
        pair_row("d", "x = 1\n", "x = 2\n"),
    ]
    got = evaluate(result.out_dir, [shard(tmp_path / "a.parquet", rows)], tmp_path / "out")
    assert got["baselines"]["longer_wins"]["accuracy"] == pytest.approx(2.5 / 4)
    assert got["baselines"]["shorter_wins"]["accuracy"] == pytest.approx(1.5 / 4)
    assert {name: group["pairs"] for name, group in got["by_length"].items()} == {
        "chosen_longer": 2,
        "chosen_shorter": 1,
        "same_length": 1,
    }


@pytest.mark.parametrize("rows", [None, []])
def test_no_pairs_give_valid_files_with_nulls(
    trained: Trained, tmp_path: Path, rows: list[dict[str, object]] | None
) -> None:
    result, _ = trained
    shards = [] if rows is None else [shard(tmp_path / "a.parquet", rows)]
    got = evaluate(result.out_dir, shards, tmp_path / "out")
    assert (got["pairs"], got["overall"]["accuracy"], got["by_aspect"], got["macro_aspect"]) == (
        0,
        None,
        {},
        None,
    )
    assert list(iter_rows(tmp_path / "out" / "scores.parquet", Score)) == []
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == got


def test_progress_ends_at_the_number_of_sides(trained: Trained, tmp_path: Path) -> None:
    result, path = trained
    seen: list[dict[str, object]] = []
    evaluate(result.out_dir, [path], tmp_path / "out", progress=seen.append)
    assert seen[-1] == {"event": "score", "done": 120, "total": 120}


def test_a_missing_model_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="rm: no such model folder"):
        evaluate(tmp_path / "rm", [], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damaged_weights_are_named_and_write_nothing(trained: Trained, tmp_path: Path) -> None:
    result, path = trained
    broken = tmp_path / "rm"
    shutil.copytree(result.out_dir, broken)
    weights = load_file(broken / "model.safetensors")
    weights["score.weight"][0, 0] = float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AssayError, match="rm: gives scores that are not finite"):
        evaluate(broken, [path], tmp_path / "out")
    (broken / "model.safetensors").write_bytes(b"{}")
    with pytest.raises(AssayError, match="rm: cannot be loaded as a reward model"):
        evaluate(broken, [path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_empty_response_has_a_score_and_a_long_one_is_cut(trained: Trained) -> None:
    result, _ = trained
    got = score(result.out_dir, ["Go."] * 2, ["", "x = 1\n" * 2000])
    assert np.isfinite(got).all()


def test_a_long_prompt_is_cut_as_in_training_and_not_refused(trained: Trained) -> None:
    scorer = Scorer(trained[0].out_dir)
    got = scorer.score(["word " * 900] * 2, ["eval(x)\n", "if x is None:\n    return []\n"])
    assert got[0] < got[1]


def test_scores_come_back_in_the_order_of_the_responses(trained: Trained) -> None:
    scorer = Scorer(trained[0].out_dir)
    responses = ["x = 1\n" * 30, "eval(x)\n", "if x is None:\n    return []\n" * 4, "y"]
    together = scorer.score(["Go."] * 4, responses, batch_size=3)
    alone = [scorer.score(["Go."], [response])[0] for response in responses]
    assert together == pytest.approx(alone, abs=1e-6)


def test_packed_and_padded_scores_and_those_of_transformers_are_the_same(trained: Trained) -> None:
    scorer, padded = Scorer(trained[0].out_dir), Scorer(trained[0].out_dir)
    assert scorer.why_padded == ""
    padded.why_padded = "asked for"
    prompts = ["Go.", "Go on and on.", "Go."] * 4
    responses = [f"def f(x{i}):\n    return eval(x)\n" * (1 + i % 3) for i in range(11)] + [""]
    wanted = padded.score(prompts, responses, batch_size=5)
    for batch_size in (1, 3, 12):
        assert scorer.score(prompts, responses, batch_size=batch_size) == pytest.approx(wanted, abs=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(trained[0].out_dir).eval()
    for prompt, response, score_ in zip(prompts, responses, wanted, strict=True):
        chat = conversation("", prompt, response)
        given = scorer.tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            assert model(**given).logits.item() == pytest.approx(score_, abs=1e-5)


def test_sequences_that_begin_alike_need_not_stand_together(trained: Trained) -> None:
    scorer = Scorer(trained[0].out_dir)
    draws = np.random.default_rng(0)
    heads = [draws.integers(3, 250, 9).astype(np.int32) for _ in range(3)]
    sequences = [
        np.concatenate([heads[i % 3], draws.integers(3, 250, i % 5).astype(np.int32)]) for i in range(20)
    ]
    alone = scorer.score_ids(sequences, 1)
    for size in (2, 3, 7, 20):
        got = scorer.score_ids(sequences, size, groups=[i % 3 for i in range(20)])
        assert np.abs(got - alone).max() < 1e-5


def test_a_model_that_cannot_be_packed_is_scored_with_padding(trained: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "sliding"
    shutil.copytree(trained[0].out_dir, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"use_sliding_window": True, "sliding_window": 16, "layer_types": ["sliding_attention"] * 2}
    (folder / "config.json").write_text(json.dumps(config))
    scorer = Scorer(folder)
    assert "sliding window of 16 tokens" in scorer.why_padded
    assert len(set(scorer.score(["Go."] * 2, ["x = 1\n", "eval(x)\n"]))) == 2


def test_a_model_of_another_maker_is_not_given_more_tokens_than_it_has_positions(
    trained: Trained, tmp_path: Path
) -> None:
    folder = tmp_path / "foreign"
    shutil.copytree(trained[0].out_dir, folder)
    (folder / "run.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    results = evaluate(folder, [trained[1]], tmp_path / "eval")
    assert (results["max_length"], results["min_completion"]) == (64, 32)
    assert results["windowed"] > 0
    with pytest.raises(AssayError, match="foreign: reads at most 64 tokens, but max_length is 65"):
        evaluate(folder, [trained[1]], tmp_path / "eval", max_length=65)
