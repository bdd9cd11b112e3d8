"""Completions from elsewhere: what is read, what program each is, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from golden import SAMPLE, SOLUTION, problem_of, program_of, run_stage, write_problems

from labelers.programs import config
from labelers.programs.completions import check, read_completions
from labelers.programs.steps import DecomposeProblems, SampleCandidates, plan_decompose, plan_sample
from schemas.errors import AssayError
from schemas.rundir import RunDir, outputs_of

ROW = {"problem": "golden/0", "completion": SOLUTION, "model": "m", "temperature": 0.7, "seed": 3}


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def test_blank_lines_are_no_rows_and_defaults_are_filled(tmp_path: Path) -> None:
    file = write(tmp_path / "c.jsonl", {"problem": "p", "completion": "c", "model": "m"}, "", ROW)
    first, second = read_completions([file])
    assert (first.temperature, first.seed) == (None, 0)
    assert (second.temperature, second.seed) == (0.7, 3)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ({**ROW, "model": None}, "'model' must be text"),
        ({"problem": "p", "model": "m"}, "'completion' must be text"),
        ({**ROW, "temperature": "hot"}, "'temperature'"),
        ({**ROW, "temperature": True}, "'temperature'"),
        (json.dumps({**ROW, "temperature": float("nan")}), "'temperature'"),
        ({**ROW, "seed": 1.5}, "'seed'"),
        ({**ROW, "seed": 1 << 70}, "'seed'"),
        ({**ROW, "completion": "\ud800"}, "'completion' holds a lone surrogate"),
    ],
    ids=range(11),
)
def test_a_line_that_is_no_completion_costs_itself_and_is_told_by_place(
    tmp_path: Path, row: Any, says: str
) -> None:
    file = write(tmp_path / "c.jsonl", ROW, row)
    assert len(read_completions([file])) == 1
    told = check([file], {"golden/0"})
    assert (told["completions_refused"], told["completions_of_no_problem"]) == (1, 0)
    assert re.search(r"1 lines are no completions \(\S*c\.jsonl line 2: .*" + says, told["line"])
    with pytest.raises(AssayError, match=says):
        read_completions([write(tmp_path / "d.jsonl", row)])


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=r"none\.jsonl"):
        read_completions([str(tmp_path / "none.jsonl")])


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = write_problems(tmp_path / "run", [problem_of()])
    step = DecomposeProblems(config.DecomposeConfig(), run.root, 0)
    run_stage(run, "decompose", outputs_of("programs"), step, plan_decompose(run, None))
    return run


def test_completions_come_on_top_of_what_is_made_and_once_each(run: RunDir, tmp_path: Path) -> None:
    other = SOLUTION.replace("result += price", "result -= price * 7")
    program_id = program_of(problem_of())["problem_id"]
    file = write(
        tmp_path / "c.jsonl",
        ROW,
        {**ROW, "completion": other},
        {**ROW, "completion": f"```\n{other}```", "problem": program_id},
        {**ROW, "problem": "of another run"},
    )
    settings = config.SampleConfig(candidates=2, completions=(file,))
    step = SampleCandidates(settings, run.root, 0)
    run_stage(run, "sample", outputs_of("candidates"), step, plan_sample(run, None, settings))
    found = list(run.rows("candidates"))
    # A fenced copy is another text: where functions stand in it is what training needs.
    assert [one["program"] for one in found[2:]] == [None, None, other]
    assert [one["completion"] for one in found[2:4]] == [SOLUTION, other]
    assert len({one["id"] for one in found}) == len(found)
    assert found[-1]["generator"] == {
        "model": "m",
        "temperature": 0.7,
        "seed": 3,
        "detail": None,
        "prompt_version": None,
    }


def test_a_changed_file_of_completions_changes_the_unit(run: RunDir, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    settings = config.SampleConfig(completions=(write(file, ROW),))
    (before,) = plan_sample(run, None, settings)
    write(file, ROW, ROW)
    (after,) = plan_sample(run, None, settings)
    assert before.inputs["completions"] != after.inputs["completions"]
    assert "completions" not in plan_sample(run, None, SAMPLE)[0].inputs


def test_completions_of_no_problem_are_told(tmp_path: Path) -> None:
    file = write(
        tmp_path / "c.jsonl", ROW, {**ROW, "problem": "elsewhere/1"}, {**ROW, "problem": "elsewhere/2"}
    )
    told = check([file], {"golden/0"})
    assert told["completions_of_no_problem"] == 2
    assert "2 completions name no problem of this run, such as 'elsewhere/1'" in told["line"]
    assert check([file], {"golden/0", "elsewhere/1", "elsewhere/2"})["line"] is None
