"""`assay steps`: from a problem file to labelled functions in one command, with and without models."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_runs import PROBLEM, assay, command
from loopback_llm import Action, LoopbackModel, last, says

from schemas.rundir import RunDir

REFERENCE = PROBLEM["prompt"] + PROBLEM["canonical_solution"]
WRONG = REFERENCE.replace("row * 2 + 1", "row * 2")
ALONE = {
    **PROBLEM,
    "task_id": "tiny/1",
    "canonical_solution": (
        "    result = 0\n    for row in rows:\n        result += row * 2 + row % 2\n    return result\n"
    ),
}
REWRITTEN = """\
def total(rows):
    \"\"\"Sum of the weights of all rows.\"\"\"
    return sum(weight(row) for row in rows)


def weight(row):
    \"\"\"Twice the row, and one more when it is odd.\"\"\"
    return row * 2 + row % 2
"""
ANSWERS = [
    f"Here you are:\n```python\n{REFERENCE}```\n",
    f"```python\n{WRONG}```",
    "I would rather not.",
    "",
]


def problems(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def policy(asked: dict[str, Any]) -> Action:
    """Each sample of one prompt is another answer: the reference, a fault, prose, nothing."""
    return says(ANSWERS[asked["seed"] % len(ANSWERS)])


def teacher(asked: dict[str, Any]) -> Action:
    """Rewrites, writes assertions and judges, by what it is asked for."""
    if "response_format" in asked:
        return says(json.dumps({"correct": "row * 2\n```" not in last(asked), "reason": "Read it."}))
    if "assert" in last(asked):
        return says("```python\nassert weight(7) == 15\nassert total([7, 8]) == 31\n```")
    return says(f"```python\n{REWRITTEN}```")


def rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    return list(RunDir.open(run_dir).rows(table))


SMALL = ("--set", "sample.candidates=4", "--set", "tests.max_mutants=6", "--workers", "1")


def test_one_command_labels_functions_without_a_model(tmp_path: Path) -> None:
    file = problems(tmp_path / "p.jsonl", PROBLEM, ALONE)
    done = assay("steps", file, "--run-dir", tmp_path / "run", *SMALL, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert [stage["stage"] for stage in told["stages"]] == [
        "problems",
        "decompose",
        "tests",
        "sample",
        "verify",
    ]
    made = {program["problem"]: program["decomposed_by"] for program in rows(tmp_path / "run", "programs")}
    assert made == {"tiny/0": "as-written", "tiny/1": "extracted-1"}
    found = rows(tmp_path / "run", "steps")
    assert {row["outcome"] for row in found} == {0, 1}
    for row in found:
        if row["generator"]["model"] == "reference":
            assert {step["label"] for step in row["steps"]} == {1}


@pytest.fixture(scope="module")
def asked_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """A run with a teacher and a policy, and how often each was asked."""
    root = tmp_path_factory.mktemp("models")
    file = problems(root / "p.jsonl", PROBLEM, ALONE)
    with LoopbackModel(teacher) as one, LoopbackModel(policy) as other:
        done = assay(
            *("steps", file, "--run-dir", root / "run", *SMALL),
            *("--model", "teacher", "--base-url", one.url, "--policy", "policy", "--policy-url", other.url),
            *("--set", "verify.judge=true", "--set", "sample.completions_each=12"),
        )
        assert done.code == 0, done.err
        counts = len(one.asked), len(other.asked)
    return root / "run", *counts


def test_a_model_rewrites_what_has_too_few_functions(asked_run: tuple[Path, int, int]) -> None:
    made = {program["problem"]: program for program in rows(asked_run[0], "programs")}
    assert made["tiny/1"]["decomposed_by"] == "loopback-model-served"
    assert made["tiny/1"]["prompt_version"].startswith("rewrite-")
    assert made["tiny/0"]["decomposed_by"] == "as-written"


def test_completions_keep_what_the_model_wrote_and_where_functions_stand_in_it(
    asked_run: tuple[Path, int, int],
) -> None:
    found = {row["completion"]: row for row in rows(asked_run[0], "steps") if row["problem_id"]}
    right = found[ANSWERS[0]]
    assert (right["outcome"], right["program"]) == (1, REFERENCE)
    data = right["completion"].encode()
    for step in right["steps"]:
        assert data[step["start_byte"] : step["end_byte"]].decode().startswith(f"def {step['name']}(")
    wrong = found[ANSWERS[1]]
    assert wrong["outcome"] == 0
    labels = {step["name"]: step["reference_label"] for step in wrong["steps"]}
    assert labels == {"total": 1, "weight": 0}
    assert {step["name"]: step["own_label"] for step in wrong["steps"]} == {"total": 0, "weight": 0}
    (step,) = (one for one in wrong["steps"] if one["name"] == "weight")
    assert step["first_failure"].startswith("weight(")
    assert (found[ANSWERS[2]]["outcome_reason"], found[ANSWERS[3]]["outcome_reason"]) == ("prose", "empty")


def test_generators_say_who_was_asked_and_how(asked_run: tuple[Path, int, int]) -> None:
    made = [row["generator"] for row in rows(asked_run[0], "candidates")]
    sampled = [one for one in made if one["prompt_version"]]
    assert {one["model"] for one in sampled} == {"loopback-model-served"}
    assert {one["prompt_version"] for one in sampled} == {"complete-1"}


def test_a_judge_has_its_word_beside_the_executed_label(asked_run: tuple[Path, int, int]) -> None:
    judged = [step["judge_label"] for row in rows(asked_run[0], "steps") for step in row["steps"]]
    assert {0, 1} <= set(judged)


def test_a_second_run_asks_no_model_again(asked_run: tuple[Path, int, int], tmp_path: Path) -> None:
    run_dir, *calls = asked_run
    # Both servers are gone: whatever is not in the cache would fail.
    done = assay("steps", "--run-dir", run_dir, "--clean")
    assert done.code == 0, done.err
    assert min(calls) > 0


def test_killed_runs_ask_nothing_twice_and_end_in_the_same_bytes(
    tmp_path: Path, asked_run: tuple[Path, int, int]
) -> None:
    file = problems(tmp_path / "p.jsonl", PROBLEM, ALONE)
    with LoopbackModel(lambda asked: says(f"answer {asked['seed']}", seconds=0.02)) as server:
        flags = (
            "--policy",
            "policy",
            "--policy-url",
            server.url,
            "--set",
            "sample.completions_each=40",
            *SMALL,
        )
        wait = 1.5
        for _ in range(6):
            with subprocess.Popen(
                command("steps", file, "--run-dir", tmp_path / "run", *flags),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                try:
                    process.wait(wait)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    wait += 1.5
        done = assay("steps", file, "--run-dir", tmp_path / "run", *flags)
        assert done.code == 0, done.err
        bodies = [json.dumps(asked, sort_keys=True) for asked in server.asked]
    # What was on its way when the run was killed was not stored, and has to be asked again.
    assert len(bodies) - len(set(bodies)) <= 6 * server.most_at_once
    assert len(set(bodies)) == 80


def test_what_became_of_answers_is_counted_and_told(tmp_path: Path) -> None:
    file = problems(tmp_path / "p.jsonl", ALONE)
    with LoopbackModel(lambda asked: says("No.")) as one, LoopbackModel(policy) as other:
        done = assay(
            *("steps", file, "--run-dir", tmp_path / "run", *SMALL, "--json"),
            *("--model", "teacher", "--base-url", one.url, "--policy", "policy", "--policy-url", other.url),
            *("--set", "sample.completions_each=12", "--set", "tests.assertions=0"),
        )
    assert done.code == 0, done.err
    stages = {stage["stage"]: stage for stage in json.loads(done.out)["stages"]}
    assert stages["decompose"]["counts"] == {"decomposed_extracted-1": 1, "rewrite_no_program": 2}
    counts = stages["sample"]["counts"]
    assert counts["completions"] == 12
    assert counts["fault_prose"] == 1
    assert counts["fault_empty"] == 1
    assert stages["sample"]["model_calls"]["calls"] == 14
