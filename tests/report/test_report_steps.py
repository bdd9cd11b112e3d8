"""What the report tells of functions: tests, candidates, labels, and where these disagree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from report_runs import (
    STEPS,
    TEST,
    TRAIN,
    candidate,
    finish,
    new_run,
    pair,
    program,
    suite,
    unit_test,
    unjudged,
)

from assay.report import collect
from schemas.stage import Output


def test_step_cells_count_functions_under_their_candidates_outcome(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        candidate(0, 1, (1, 0), conflict="o1_z0"),
        candidate(1, 0, (None, 0)),
        candidate(2, None, (1, 1)),
        candidate(3, 1, (1, 1), steps=[]),
    ]
    finish(run, "verify", {STEPS: rows})
    steps = collect(run)["steps"]
    cells = {(c["outcome"], c["label"]): c["rows"] for c in steps["cells"] if c["rows"]}
    assert cells == {("1", "1"): 1, ("1", "0"): 1, ("0", "null"): 1, ("0", "0"): 1, ("null", "1"): 2}
    assert (steps["rows"], steps["functions"], steps["labelled"]) == (4, 6, 5)
    assert steps["outcomes"] == {"1": 2, "0": 1, "null": 1}
    assert steps["conflicts"] == {"none": 3, "o1_z0": 1, "o0_allz1": 0}
    assert sum(row["rows"] for row in steps["generators"]) == 4


def test_candidates_are_counted_by_all_of_their_steps(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        candidate(0, 1, (1, 1)),
        candidate(1, 1, (None, 1)),
        candidate(2, 0, (1, 0)),
        candidate(3, 0, (0, None)),
        candidate(4, 0, (None, None)),
        candidate(5, None, (1, 1), steps=[]),
    ]
    finish(run, "verify", {STEPS: rows})
    found = {(c["outcome"], c["steps"]): c["rows"] for c in collect(run)["steps"]["candidates"] if c["rows"]}
    assert found == {("1", "all1"): 2, ("0", "some0"): 2, ("0", "none"): 1, ("null", "none"): 1}


def test_both_step_labels_are_crossed_and_trust_is_told_apart(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        candidate(0, labels=(1, 0), own=(0, 0), trust="inproc"),
        candidate(1, labels=(None, 1), own=(1, None)),
    ]
    finish(run, "verify", {STEPS: rows})
    steps = collect(run)["steps"]
    found = {(c["reference"], c["own"]): c["rows"] for c in steps["both"] if c["rows"]}
    assert found == {("1", "0"): 1, ("0", "0"): 1, ("null", "1"): 1, ("1", "null"): 1}
    assert {one["name"]: one["rows"] for one in steps["trust"]["top"]} == {"inproc": 1, "split": 1}
    assert steps["judge"] is None


def test_a_judge_is_measured_on_functions_that_have_both_labels(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [
        candidate(0, labels=(1, 1), own=(0, 1), judge=(1, 0)),
        candidate(1, labels=(0, 0), own=(0, None), judge=(0, 0)),
        candidate(2, labels=(0, None), own=(0, None), judge=(1, 1)),
        candidate(3, labels=(1, 1), judge=(None, None)),
    ]
    finish(run, "verify", {STEPS: rows})
    judge = collect(run)["steps"]["judge"]
    assert judge["functions"] == 6
    rates = {key: judge["reference"][key] for key in ("agreement", "recall_passing", "recall_failing")}
    assert {key: (rate["hits"], rate["total"]) for key, rate in rates.items()} == {
        "agreement": (3, 5),
        "recall_passing": (1, 2),
        "recall_failing": (2, 3),
    }
    assert rates["agreement"]["low"] < rates["agreement"]["share"] == 0.6 < rates["agreement"]["high"]
    assert judge["own"]["functions"] == 4
    assert judge["own"]["recall_failing"]["total"] == 3


def test_suites_sum_functions_mutants_and_dropped_calls(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    bare: dict[str, Any] = {"mutation_score": None, "coverage": None, "mutants": [], "dropped": []}
    rows = [
        suite(0),
        suite(1, tests=9, selected=4, mutation_score=0.25, coverage=float("nan")),
        suite(2, tests=0, selected=0, reason="no_calls", **bare),
    ]
    finish(run, "tests", {Output("suites"): rows})
    found = collect(run)["suites"]
    assert (found["rows"], found["with_tests"], found["tests"], found["selected"]) == (3, 2, 15, 6)
    assert found["selected_median"] == 3
    assert (found["mutants"], found["killed"], found["timeouts"]) == (8, 6, 2)
    assert found["operators"] == [
        {"name": "negate", "tried": 6, "killed": 4, "timeouts": 2},
        {"name": "swap", "tried": 2, "killed": 2, "timeouts": 0},
    ]
    assert found["mutation_score"] == {"bins": [0, 0, 1, 0, 0, 0, 0, 1, 0, 0], "known": 2, "mean": 0.5}
    assert found["coverage"]["known"] == 1
    assert {one["name"]: one["rows"] for one in found["dropped"]["top"]} == {"flaky": 6, "unencodable": 2}
    assert [(one["name"], one["rows"]) for one in found["reasons"]["top"]] == [("no_calls", 1)]
    assert found["tests_per_function"]["bins"][0] == {"lo": 0, "hi": 0, "rows": 1}


def test_faults_of_candidates_are_counted_by_reason(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [unjudged(0), unjudged(1, "prose"), unjudged(2, "prose"), unjudged(3, "empty")]
    finish(run, "sample", {Output("candidates"): rows})
    found = collect(run)["candidates"]["faults"]
    assert (found["rows"], found["top"][0]) == (3, {"name": "prose", "rows": 2})


def test_conflicts_are_found_wherever_they_stand(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    quiet = [candidate(n, 1, (1, 1)) for n in range(3000)]
    rows = [candidate(9000 + n, 0, (1, None), conflict="o0_allz1") for n in range(5)]
    finish(run, "verify", {STEPS: [*quiet, *rows, candidate(9999, failure="x", conflict="o1_z0")]})
    found = collect(run)["samples"]["conflicts"]
    assert [one["id"] for one in found] == ["c9999", "c9000", "c9001", "c9002"]
    assert [(step["name"], step["failure"]) for step in found[0]["steps"]] == [("two", "x")]
    assert [step["label"] for step in found[1]["steps"]] == [1, None]


def test_functions_without_tests_fill_the_zero_bin(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "decompose", {Output("programs"): [program(0), program(1)]})
    rows = [unit_test(0, "one", [0, 3]), unit_test(1, "one", [3, 4], selected=False)]
    finish(run, "tests", {Output("tests"): rows})
    facts = collect(run)
    tests = facts["tests"]
    assert (tests["functions_with_tests"], tests["functions_without_tests"]) == (1, 3)
    assert tests["tests_per_function"]["bins"][0] == {"lo": 0, "hi": 0, "rows": 3}
    assert (tests["mutants_killed"], tests["mutants"]) == (3, 4)
    assert tests["mutation_score"] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert tests["selected"] == 1
    assert facts["counts"]["functions"] == 4


def test_samples_prefer_different_criteria_and_mixed_labels(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    rows = [pair(n) for n in range(30)] + [pair(30, aspect="Memory Efficiency"), pair(31, aspect="X")]
    finish(run, "build", {TRAIN: rows, TEST: []})
    finish(run, "verify", {STEPS: [candidate(n, 1, (1, 1)) for n in range(20)] + [candidate(99, 0, (1, 0))]})
    samples = collect(run)["samples"]
    assert {row["aspect"] for row in samples["pairs"]} == {"Functional Correctness", "Memory Efficiency", "X"}
    assert samples["program"]["id"] == "c99"


def test_program_sample_puts_each_line_under_its_function(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "verify", {STEPS: [candidate(0)]})
    blocks = collect(run)["samples"]["program"]["blocks"]
    assert blocks == [
        {"step": 0, "lines": ["def one():", "    return 1"]},
        {"step": None, "lines": ["", ""]},
        {"step": 1, "lines": ["def two():", "    return one() + 1"]},
    ]


def test_program_sample_survives_spans_that_are_not_in_the_code(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    finish(run, "verify", {STEPS: [candidate(0, completion="ééé\nx")]})
    blocks = collect(run)["samples"]["program"]["blocks"]
    assert [line for block in blocks for line in block["lines"]] == ["ééé", "x"]
