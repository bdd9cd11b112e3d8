"""The report's facts: numbers are those of the run, and damage costs no more than what it hit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import (
    EDITS,
    LABELS,
    TEST,
    TRAIN,
    edit,
    finish,
    label,
    new_run,
    pair,
    trajectory,
)

from assay.report import collect, write_report
from assay.report.plain import Doubling, name, number, shown
from assay.report.samples import diff_lines
from schemas.errors import RunDirError
from schemas.rundir import RunDir
from schemas.shards import sidecar_path
from schemas.stage import VERDICTS, Output


def evaluation(run: RunDir, text: str, model: str = "m") -> None:
    folder = run.root / "models" / model / "eval"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(text)


def log(run: RunDir, text: str, model: str = "m") -> None:
    folder = run.root / "models" / model
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.jsonl").write_text(text)


def test_funnel_sums_the_accounting_of_all_units(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(0), edit(1)]}, {"binary": 3, "merge": 1}, unit="a", seconds=1.25)
    finish(run, "mine", {EDITS: [edit(2)]}, {"binary": 2}, unit="b", seconds=2)
    (stage,) = collect(run)["stages"]
    assert (stage["rows_in"], stage["kept"], stage["dropped"], stage["units"]) == (9, 3, 6, 2)
    assert [(drop["reason"], drop["rows"]) for drop in stage["drops"]] == [("binary", 5), ("merge", 1)]
    assert stage["seconds"] == 3.25


def test_verdict_shards_of_several_stages_are_told_apart(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(0)]})
    finish(run, "select", {VERDICTS: []}, {"bot": 1}, kept=0)
    found = {stage["stage"]: (stage["rows_in"], stage["kept"]) for stage in collect(run)["stages"]}
    assert found == {"mine": (1, 1), "select": (1, 0)}


def test_a_unit_with_two_split_outputs_is_counted_once(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(0)], TEST: [pair(1, split="test", repo="o/s")]}, {"short": 1})
    (stage,) = collect(run)["stages"]
    assert (stage["units"], stage["rows_in"]) == (1, 3)


def test_stages_stand_in_the_order_of_the_data_and_strangers_last(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    for stage in ("verify", "zz", "build", "mine"):
        finish(run, stage, {VERDICTS: []}, kept=0)
    assert [stage["stage"] for stage in collect(run)["stages"]] == ["mine", "build", "verify", "zz"]


def test_reasons_are_explained_by_the_stage_that_gave_them(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: []}, {"same": 1, "bare": 1})
    drops = collect(run, {"mine": {"same": "It is the same."}, "select": {"bare": "no"}})["stages"][0][
        "drops"
    ]
    assert {drop["reason"]: drop["meaning"] for drop in drops} == {"same": "It is the same.", "bare": None}


def test_accounting_that_does_not_add_up_is_said(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(0)]})
    path = run.root / "edits" / "part-u.json"
    sidecar = json.loads(path.read_text())
    sidecar["accounting"]["rows_in"] = 5
    path.write_text(json.dumps(sidecar))
    assert any("5 rows in, but 1 kept" in note for note in collect(run)["notes"])


@pytest.mark.parametrize("damage", ["many", -3, None, [1], float("nan"), 1.5])
def test_a_sidecar_with_odd_numbers_breaks_nothing(tmp_path: Path, damage: Any) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(0)]}, {"binary": 1})
    path = run.root / "edits" / "part-u.json"
    sidecar = json.loads(path.read_text())
    sidecar.update(
        seconds=damage, rows=damage, accounting={"rows_in": damage, "kept": damage, "drops": damage}
    )
    path.write_text(json.dumps(sidecar))
    assert write_report(run).exists()


def test_planned_and_failed_units_come_from_the_plan(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: []})
    run.write_plan("mine", [], failed=["x"])
    assert collect(run)["stages"][0]["units_failed"] == 1
    (run.root / "stages" / "mine.json").write_text("{")
    assert collect(run)["stages"][0]["units_failed"] is None


def test_unfinished_shard_is_noted_and_not_counted(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(0)]}, unit="a")
    finish(run, "mine", {EDITS: [edit(1)]}, unit="b")
    sidecar_path(run.root / "edits" / "part-b.parquet").unlink()
    facts = collect(run)
    assert facts["edits"]["rows"] == facts["counts"]["edits"] == 1
    assert any("part-b.parquet" in note for note in facts["notes"])


def test_damaged_shard_costs_its_own_rows_only(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(0)]}, unit="a")
    finish(run, "mine", {EDITS: [edit(1)]}, unit="b")
    (run.root / "edits" / "part-b.parquet").write_bytes(b"PAR1 no longer")
    facts = collect(run)
    assert facts["edits"]["rows"] == 1
    assert any("part-b.parquet cannot be read" in note for note in facts["notes"])


def test_language_by_criterion_counts_every_pair(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        pair(0),
        pair(1),
        pair(2, language="Go", aspect="Memory Efficiency"),
    ]
    finish(run, "build", {TRAIN: rows, TEST: [pair(3, split="test", repo="o/s", license=None)]})
    pairs = collect(run)["pairs"]
    cells = {(c["language"], c["aspect"], c["split"]): c["rows"] for c in pairs["cells"]}
    assert cells == {
        ("Python", "Functional Correctness", "train"): 2,
        ("Go", "Memory Efficiency", "train"): 1,
        ("Python", "Functional Correctness", "test"): 1,
    }
    assert pairs["splits"] == {
        "test": {"rows": 1, "repositories": 1},
        "train": {"rows": 3, "repositories": 1},
    }
    assert [(one["name"], one["rows"]) for one in pairs["licences"]["top"]] == [
        ("MIT", 3),
        ("not recognised", 1),
    ]


def test_repository_in_both_splits_is_seen(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(0)], TEST: [pair(1, split="test")]})
    assert collect(run)["pairs"]["repositories_in_both_splits"] == 1


def test_lengths_are_characters_not_bytes(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(0, chosen="é" * 3, rejected="")], TEST: []})
    sides = collect(run)["pairs"]["characters"]
    assert sides["chosen"]["bins"] == [{"lo": 2, "hi": 3, "rows": 1}]
    assert sides["rejected"]["bins"] == [{"lo": 0, "hi": 0, "rows": 1}]


def test_edits_are_dated_by_month_and_broken_clocks_are_counted_apart(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    times = [0, 1_600_000_000, 1_600_000_001, -1, 2**62, -(2**62)]
    finish(run, "mine", {EDITS: [edit(n, commit_time=t) for n, t in enumerate(times)]})
    edits = collect(run)["edits"]
    assert edits["months"] == [{"month": "1970-01", "rows": 1}, {"month": "2020-09", "rows": 2}]
    assert edits["undated"] == 3


def test_pull_requests_are_one_way_to_get_in(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    ways = ["pr:1", "pr:2", "merge-commit", None]
    finish(run, "mine", {EDITS: [edit(n, merged_by=way) for n, way in enumerate(ways)]})
    found = {one["name"]: one["rows"] for one in collect(run)["edits"]["merged_by"]["top"]}
    assert found == {"pr": 2, "merge-commit": 1, "not known": 1}


def test_confidence_leaves_out_labels_without_a_criterion(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [label(0, "FC", 1.0), label(1, "RE", 0.0), label(2, None, 0.0), label(3, "FC", float("nan"))]
    finish(run, "label", {LABELS: rows})
    labels = collect(run)["labels"]
    assert labels["rows"] == 4
    assert labels["confidence"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_trajectories_are_counted_by_message_and_resolution(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [trajectory(0, 0, True), trajectory(1, 5, None), trajectory(2, 6, False)]
    finish(run, "trajectories", {Output("trajectories", "train"): rows})
    found = collect(run)["trajectories"]
    assert found["resolved"] == {"true": 1, "false": 1, "null": 1}
    assert found["instances"] == 1
    assert [one["rows"] for one in found["messages"]["bins"]] == [1, 0, 0, 2]


def test_shard_with_rows_of_many_batches_is_read_whole(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(n) for n in range(700)], TEST: []})
    pairs = collect(run)["pairs"]
    assert pairs["rows"] == pairs["characters"]["chosen"]["rows"] == 700


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"overall": {}}',
        '{"overall": {"accuracy": 7}}',
        '{"overall": {"accuracy": NaN}}',
        '{"overall": {"accuracy": "0.5"}}',
        "[" * 100_000,
        '{"overall": {"accuracy": ' + "9" * 5000 + "}}",
    ],
)
def test_damaged_evaluation_is_a_note_of_its_model(tmp_path: Path, text: str) -> None:
    run = new_run(tmp_path / "run")
    evaluation(run, text)
    (model,) = collect(run)["models"]
    assert model["evaluation"] is None
    assert any("results.json" in note for note in model["notes"])


def test_evaluation_keeps_what_can_be_used(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    results = {
        "pairs": 10,
        "overall": {
            "accuracy": 0.75,
            "ci95": [0.5, 2],
            "ties": -1,
            "margin_mean": 1.5,
            "ece": 0.1,
            "note": "x",
        },
        "by_aspect": {"FC": {"accuracy": 0.5, "ci95": [0.25, 0.75], "pairs": 4}, "ME": "no"},
        "by_language": 3,
        "baselines": {"longer wins": 0.5},
    }
    evaluation(run, json.dumps(results))
    facts = collect(run)
    found = facts["models"][0]["evaluation"]
    assert (found["pairs"], found["overall"]["ci95"], found["overall"]["ties"]) == (10, None, None)
    assert found["overall"]["others"] == {"ece": 0.1}
    assert [(row["name"], row["ci95"]) for row in found["by_aspect"]] == [("FC", [0.25, 0.75])]
    assert found["baselines"][0]["accuracy"] == 0.5
    assert len(facts["models"][0]["notes"]) == 2
    assert facts["accuracy"] == {"model": "m", "models": 1, "accuracy": 0.75, "ci95": None}


def test_headline_is_the_model_with_the_highest_accuracy(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    for model, accuracy in (("a", 0.6), ("b", 0.7), ("c", 0.7)):
        evaluation(run, json.dumps({"overall": {"accuracy": accuracy}}), model)
    assert collect(run)["accuracy"]["model"] == "b"


def test_training_log_cut_short_keeps_the_lines_before(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    log(
        run,
        '{"step": 1, "loss": 2, "name": "x", "on": true}\n\n{"step": 2, "loss": NaN}\n[]\n{"step": 3, "lo',
    )
    (model,) = collect(run)["models"]
    (metric,) = model["training"]["metrics"]
    assert (metric["name"], metric["points"]) == ("loss", [[1.0, 2.0]])
    assert any("2 of 4 lines" in note for note in model["notes"])
    assert any("NaN or infinite in 1" in note for note in model["notes"])


def test_accuracy_on_development_pairs_has_its_own_curve(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    log(
        run,
        '{"event": "step", "step": 1, "steps": 2, "accuracy": 0.5, "seconds": 1}\n'
        '{"event": "dev", "step": 1, "accuracy": 0.9, "ties": 0}\n'
        '{"event": "step", "step": 2, "steps": 2, "accuracy": 0.6, "seconds": 2}\n',
    )
    metrics = collect(run)["models"][0]["training"]["metrics"]
    assert {metric["name"]: metric["points"] for metric in metrics} == {
        "accuracy": [[1.0, 0.5], [2.0, 0.6]],
        "dev accuracy": [[1.0, 0.9]],
    }


def test_long_curve_is_thinned_by_averages_and_keeps_its_end(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    log(run, "".join(json.dumps({"step": n, "loss": n % 2}) + "\n" for n in range(1, 10_001)))
    (metric,) = collect(run)["models"][0]["training"]["metrics"]
    assert len(metric["points"]) <= 800
    assert metric["points"][-1][0] == 10_000
    assert {value for _, value in metric["points"]} == {0.5}


@pytest.mark.parametrize(
    ("text", "seed", "noted"),
    [("seed = 17\n", 17, False), ('seed = "x"', None, False), ("seed =", None, True)],
)
def test_seed_is_that_of_the_recipe(tmp_path: Path, text: str, seed: int | None, noted: bool) -> None:
    run = new_run(tmp_path / "run")
    (run.root / "recipe.toml").write_text(text)
    facts = collect(run)
    assert facts["recipe"] == text
    assert facts["run"]["seed"] == seed
    assert bool(facts["notes"]) == noted


def test_names_beyond_the_listed_are_summed(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "mine", {EDITS: [edit(n, repo=f"o/r{n:03d}") for n in range(100)]})
    found = collect(run)["edits"]["repositories"]
    assert (found["names"], len(found["top"]), found["other_names"], found["other_rows"]) == (100, 40, 60, 60)


def test_report_json_is_the_facts(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "build", {TRAIN: [pair(0, evidence={"confidence": float("nan")})], TEST: []}, {"short": 2})
    page = write_report(run)
    assert page == run.root / "report" / "index.html"
    assert json.loads((run.root / "report" / "report.json").read_text()) == collect(run)


def test_report_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    (run.root / "report").write_text("in the way")
    with pytest.raises(RunDirError, match="report cannot be written"):
        write_report(run)


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_diff_adds_and_removes_what_differs(old: str, new: str) -> None:
    lines, cut = diff_lines(old, new)
    if not cut:
        expected = Counter(new.split("\n"))
        expected.subtract(old.split("\n"))
        counted: Counter[str] = Counter()
        for line in lines:
            counted[line["text"]] += {"+": 1, "-": -1}.get(line["kind"], 0)
        # The empty line that a final newline leaves is not a line of the file.
        assert {k: v for k, v in counted.items() if v and k} == {k: v for k, v in expected.items() if v and k}


def test_diff_hunk_header_counts_lines_of_the_whole_files() -> None:
    old = [str(n) for n in range(1, 101)]
    new = [*old[:49], "fifty", *old[50:]]
    lines, _ = diff_lines("\n".join(old) + "\n", "\n".join(new) + "\n")
    assert lines[0]["text"] == "@@ -47,7 +47,7 @@"
    assert [line["text"] for line in lines if line["kind"] in "+-"] == ["50", "fifty"]


def test_diff_of_long_files_is_cut() -> None:
    old = "\n".join(f"a{n}" for n in range(5000))
    new = "\n".join(f"b{n}" for n in range(5000))
    lines, cut = diff_lines(old, new)
    assert cut
    assert len(lines) <= 44


@given(st.lists(st.integers(0, 2**40)))
def test_doubling_bins_hold_every_value_once(values: list[int]) -> None:
    bins = Doubling()
    for value in values:
        bins.add(value)
    facts = bins.facts()
    for one in facts["bins"]:
        assert one["rows"] == sum(one["lo"] <= value <= one["hi"] for value in values)
    assert sum(one["rows"] for one in facts["bins"]) == len(values) == facts["rows"]


@given(st.text(st.characters()))
def test_shown_text_is_utf8_without_unseen_characters(text: str) -> None:
    made = shown(text)
    made.encode()
    assert not set(made) & set("\u202e\u200b\x00\x1b\r\ufeff")
    assert len(name(text)) <= 120


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "1", None, [1]])
def test_what_is_not_a_finite_number_is_none(value: Any) -> None:
    assert number(value) is None
