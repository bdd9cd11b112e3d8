"""Scoring of files in parts, and evaluation of scores with outcomes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from schemas.errors import AssayError
from trainers import outcomes, scoring
from trainers.conversations import Request
from trainers.score import Scorer


def no_system(request: Request) -> str:
    """The row's own system prompt, or none."""
    return request.system or ""


@pytest.fixture(scope="module")
def model(trained: tuple[Any, Path]) -> Path:
    """Folder of the trained model."""
    return trained[1].parent / "models" / "rm"


def jsonl(path: Path, rows: list[Any]) -> Path:
    """Write JSON lines; text goes in as it is."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def answers(count: int) -> list[dict[str, Any]]:
    """Responses of many lengths to a few tasks."""
    return [
        {
            "id": f"r{n:03d}",
            "task_id": f"t{n % 3}",
            "prompt": f"Task {n % 3}.",
            "response": "def f(value):\n" + "    x = 1\n" * (n * 7 % 11) + "    return value\n",
            "resolved": bool(n % 2),
        }
        for n in range(count)
    ]


def score(model: Path, path: Path, out: Path, rows: int = 4) -> dict[str, Any]:
    """Score a file in parts of some rows."""
    options = scoring.Options(batch_size=4, part_rows=rows)
    return scoring.score_files(lambda: Scorer(model), [path], out, no_system, options, "key")


def contents(out: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def test_a_run_that_was_stopped_leaves_the_same_bytes(model: Path, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", answers(10))
    score(model, path, tmp_path / "whole")
    cut = tmp_path / "cut"
    score(model, path, cut)
    # What a kill leaves: a part without its facts, one with half of its bytes, one that is not there.
    (cut / "part-00000-00000.json").unlink()
    (cut / "part-00000-00001.parquet").write_bytes(b"PAR1")
    (cut / "part-00000-00002.parquet").unlink()
    (cut / "scores.json").unlink()
    again = score(model, path, cut)
    assert (again["parts"], again["made"]) == (3, 3)
    assert contents(cut) == contents(tmp_path / "whole")


def test_what_is_done_needs_no_model(model: Path, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", answers(6))
    score(model, path, tmp_path / "out")
    again = score(tmp_path / "no model", path, tmp_path / "out")
    assert (again["made"], again["scored"]) == (0, 6)


def test_scores_of_other_inputs_are_not_taken_for_these(model: Path, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", answers(3))
    score(model, path, tmp_path / "out")
    with pytest.raises(AssayError, match="holds scores of other inputs"):
        scoring.score_files(
            lambda: Scorer(model), [path], tmp_path / "out", no_system, scoring.Options(), "other"
        )


def test_rows_carry_their_names_and_outcomes(model: Path, tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "a.jsonl",
        [*answers(2), {**answers(1)[0], "id": "pair", "chosen": "good", "rejected": "bad"}],
    )
    score(model, path, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "part-00000-00000.parquet").to_pylist()
    assert [(row["id"], row["row"], row["instance"], row["outcome"]) for row in rows] == [
        ("r000", 1, "t0", 0.0),
        ("r001", 2, "t1", 1.0),
        ("pair", 3, "t0", None),
    ]
    assert [row["score"] is None for row in rows] == [False, False, True]
    assert [row["chosen_score"] is None for row in rows] == [True, True, False]
    expected = Scorer(model).score(["Task 0."], [answers(1)[0]["response"]])
    assert rows[0]["score"] == pytest.approx(expected[0], abs=1e-4)


def test_bad_rows_cost_themselves(model: Path, tmp_path: Path) -> None:
    good = answers(4)
    path = jsonl(tmp_path / "a.jsonl", [good[0], "{", {"prompt": "p"}, *good[1:]])
    found = score(model, path, tmp_path / "out", rows=100)
    assert (found["rows"], found["scored"]) == (6, 4)
    assert found["dropped"] == {"bad_json": 1, "missing_field": 1}
    facts = json.loads((tmp_path / "out" / "part-00000-00000.json").read_text())
    assert [(drop["row"], drop["reason"]) for drop in facts["drops"]] == [
        (2, "bad_json"),
        (3, "missing_field"),
    ]


def test_a_row_that_the_model_refuses_costs_itself(model: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict"
    shutil.copytree(model, strict)
    settings = json.loads((strict / "run.json").read_text())
    settings["config"]["long_prompt"] = "drop"
    (strict / "run.json").write_text(json.dumps(settings))
    rows = answers(3)
    rows[1]["prompt"] = "word " * 2000
    found = score(strict, jsonl(tmp_path / "a.jsonl", rows), tmp_path / "out")
    assert (found["scored"], found["dropped"]) == (2, {"prompt_too_long": 1})


def test_what_is_too_long_to_be_read_whole_is_told(model: Path, tmp_path: Path) -> None:
    rows = answers(2)
    rows[1]["response"] = "x = 1\n" * 500
    found = score(model, jsonl(tmp_path / "a.jsonl", rows), tmp_path / "out")
    assert found["cut"] == 1
    table = pq.read_table(tmp_path / "out" / "part-00000-00000.parquet")
    assert table["cut"].to_pylist() == [False, True]


def test_a_model_that_can_score_nothing_is_an_error(model: Path, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", answers(3))
    options = scoring.Options(max_length=1)
    with pytest.raises(AssayError, match="none of 3 rows could be scored"):
        scoring.score_files(lambda: Scorer(model), [path], tmp_path / "out", no_system, options, "key")


def test_the_key_changes_with_the_model_the_input_and_the_settings(model: Path, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", answers(2))
    digest = scoring.model_digest(model)
    keys = {scoring.part_key(digest, [path], {"a": 1}), scoring.part_key(digest, [path], {"a": 2})}
    keys.add(scoring.part_key("other", [path], {"a": 1}))
    jsonl(path, answers(3))
    keys.add(scoring.part_key(digest, [path], {"a": 1}))
    assert len(keys) == 4
    assert scoring.model_digest(model) == digest


def rows_of(count: int, seed: int = 0, name: str = "i") -> list[dict[str, Any]]:
    """Scores that know something of their outcomes, four a task."""
    draws = np.random.default_rng(seed)
    found = []
    for n in range(count):
        logit = float(draws.normal(0, 2))
        right = bool(draws.random() < 1 / (1 + np.exp(-logit)))
        found.append({"id": f"r{n}", "instance": f"{name}{n // 4}", "score": 3 * logit, "resolved": right})
    return found


def test_neither_the_order_nor_the_cut_of_files_matters(tmp_path: Path) -> None:
    rows = rows_of(40)
    whole = outcomes.read([jsonl(tmp_path / "a.jsonl", rows)])
    parts = [jsonl(tmp_path / "b.jsonl", rows[25:][::-1]), jsonl(tmp_path / "c.jsonl", rows[:25])]
    cut = outcomes.read(parts)
    assert outcomes.best_of_k(cut, [1, 2, 4], 0) == outcomes.best_of_k(whole, [1, 2, 4], 0)
    assert outcomes.calibrate(cut) == outcomes.calibrate(whole)


def test_a_temperature_fitted_on_dev_calibrates_the_test(tmp_path: Path) -> None:
    test = outcomes.read([jsonl(tmp_path / "a.jsonl", rows_of(2000))])
    dev = outcomes.read([jsonl(tmp_path / "b.jsonl", rows_of(2000, 1, "d"))])
    found = outcomes.calibrate(test, dev)
    assert found["temperature"] == pytest.approx(3.0, rel=0.15)
    assert found["scaled"]["ece"] < found["ece"] / 2
    assert found["scaled"]["auc"] == found["auc"]


def test_dev_that_shares_instances_with_test_is_refused(tmp_path: Path) -> None:
    test = outcomes.read([jsonl(tmp_path / "a.jsonl", rows_of(8))])
    with pytest.raises(AssayError, match="share 2 instances, such as i0"):
        outcomes.calibrate(test, test)


def test_probabilities_and_their_logits_say_the_same(tmp_path: Path) -> None:
    rows = rows_of(60)
    chances = [{**row, "score": 1 / (1 + np.exp(-row["score"]))} for row in rows]
    left = outcomes.calibrate(outcomes.read([jsonl(tmp_path / "a.jsonl", rows)]))
    path = jsonl(tmp_path / "b.jsonl", chances)
    right = outcomes.calibrate(outcomes.read([path], "probability"), kind="probability")
    assert (right["ece"], right["brier"], right["auc"]) == pytest.approx(
        (left["ece"], left["brier"], left["auc"])
    )


def test_drift_pairs_rows_by_id_and_counts_those_without(tmp_path: Path) -> None:
    rows = rows_of(20)
    old = outcomes.read(
        [jsonl(tmp_path / "a.jsonl", [{**row, "score": row["score"] + 1} for row in rows[:-2]])]
    )
    found = outcomes.calibrate(outcomes.read([jsonl(tmp_path / "b.jsonl", rows[::-1])]), before=old)["drift"]
    assert found["rows"] == 18
    assert (found["largest"], found["shift"]) == pytest.approx((1.0, -1.0))
    assert (found["only_before"], found["only_now"]) == (0, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"score": None}, "no_score"),
        ({"score": "high"}, "wrong_type"),
        ({"score": 1e308}, "wrong_type"),
        ({"resolved": None}, "no_outcome"),
        ({"resolved": 7}, "bad_outcome"),
    ],
)
def test_bad_scores_are_counted(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    rows = rows_of(4)
    found = outcomes.read([jsonl(tmp_path / "a.jsonl", [rows[0], {**rows[1], **change}, rows[2]])])
    assert (found.rows, len(found.ids), found.dropped) == (3, 2, {reason: 1})


def test_single_candidates_are_nothing_to_pick_from(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "instance"} for row in rows_of(4)]
    scored = outcomes.read([jsonl(tmp_path / "a.jsonl", rows)])
    with pytest.raises(AssayError, match="each of 4 tasks has one candidate"):
        outcomes.best_of_k(scored, [1], 0)


def test_outcomes_in_between_are_refused_for_calibration_and_taken_for_best_of_k(tmp_path: Path) -> None:
    rows = [{**row, "resolved": 0.5} for row in rows_of(4)]
    scored = outcomes.read([jsonl(tmp_path / "a.jsonl", rows)])
    with pytest.raises(AssayError, match="outcomes of 0 and 1"):
        outcomes.calibrate(scored)
    assert outcomes.best_of_k(scored, [4], 0)["best_of"]["4"]["rm"] == 0.5
