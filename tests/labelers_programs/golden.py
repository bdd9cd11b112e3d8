"""A problem small enough to know by hand what each candidate's labels must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelers.programs import config
from labelers.programs.decompose import decompose
from labelers.programs.unit_tests import Proposed, harvest
from schemas import shards
from schemas.declare import as_row
from schemas.ids import content_id
from schemas.records import Candidate, FunctionSuite, FunctionTest, Generator, Problem, ProblemTest
from schemas.rundir import RunDir
from schemas.stage import Keep, Output, Unit
from schemas.steps import ShardWriter, UnitReader, UnitStep

DECOMPOSE = config.DecomposeConfig(cpu_s=2, wall_s=20)
TESTS = config.TestsConfig(max_mutants=8, generated=8, rounds=2, cpu_s=1, wall_s=10)
SAMPLE = config.SampleConfig(candidates=6)
VERIFY = config.VerifyConfig(cpu_s=1, suite_cpu_s=1, wall_s=10, suite_wall_s=10)

SOLUTION = '''\
def total(prices):
    """Sum of prices with a tenth of tax."""
    return add_tax(subtotal(prices))


def subtotal(prices):
    """Sum of prices."""
    result = 0
    for price in prices:
        if price < 0:
            raise ValueError("negative")
        result += price
    return result


def add_tax(amount):
    """An amount with a tenth on top."""
    return amount + amount // 10


class Note:
    def text(self):
        return "a method"
'''

SUITE = """\
def check(candidate):
    assert candidate([10, 20]) == 33
    assert candidate([]) == 0
    assert candidate([100]) == 110
    try:
        candidate([-1])
    except ValueError:
        pass
    else:
        raise AssertionError("no error")
"""


def piece_of(kind: str, code: str) -> ProblemTest:
    """A piece of a suite that is source."""
    return ProblemTest(kind=kind, code=code, stdin=None, stdout=None, args=None, expected=None)


def problem_of(
    solution: str = SOLUTION,
    suite: str | None = SUITE,
    entry: str = "total",
    kind: str = "check",
    **other: Any,
) -> dict[str, Any]:
    """A problem row."""
    tests = [] if suite is None else [piece_of(kind, suite)]
    fields = {
        "id": content_id("golden", solution, suite or "", entry),
        "name": "golden/0",
        "prompt": "Write `total`.\n",
        "language": "Python",
        "entry_point": entry,
        "solution": solution,
        "references": [],
        "tests": tests,
        "tolerance": 0.0,
        "time_limit_s": None,
        "memory_limit_mb": None,
        "source": "golden.jsonl",
        "license": "MIT",
        "difficulty": None,
        "released": None,
        "url": None,
    }
    row: dict[str, Any] = as_row(Problem(**{**fields, **other}))
    return row


def program_of(problem: dict[str, Any], settings: config.DecomposeConfig = DECOMPOSE) -> dict[str, Any]:
    """The program row of a problem that decomposes."""
    outcome = decompose(problem, settings)
    assert isinstance(outcome, Keep), outcome
    row: dict[str, Any] = as_row(outcome.records[0])
    return row


def harvested(
    problem: dict[str, Any], program: dict[str, Any], settings: config.TestsConfig = TESTS
) -> list[dict[str, Any]]:
    """The test rows of a program."""
    return rows_of(problem, program, settings)[0]


def rows_of(
    problem: dict[str, Any],
    program: dict[str, Any],
    settings: config.TestsConfig = TESTS,
    proposed: Proposed | None = None,
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The test rows of a program, and the row of each of its functions by name."""
    outcome, _ = harvest(program, problem, settings, 0, proposed)
    assert isinstance(outcome, Keep), outcome
    tests = [as_row(one) for one in outcome.records if isinstance(one, FunctionTest)]
    suites = [as_row(one) for one in outcome.records if isinstance(one, FunctionSuite)]
    assert len(tests) + len(suites) == len(outcome.records)
    return tests, {one["function"]: one for one in suites}


def candidate_of(program: dict[str, Any], completion: str) -> dict[str, Any]:
    """A candidate row."""
    row: dict[str, Any] = as_row(
        Candidate(
            id=content_id(program["id"], completion),
            problem_id=program["problem_id"],
            program_id=program["id"],
            completion=completion,
            program=None,
            pieces=[],
            fault=None,
            generator=Generator(model="hand", temperature=None, seed=0, detail=None, prompt_version=None),
        )
    )
    return row


def write_problems(root: Path, problems: list[dict[str, Any]]) -> RunDir:
    """A run directory with one part of problems."""
    run = RunDir.open(root, create=True)
    path = run.part_path("problems", Output("problems"), "0")
    rows, size, digest = shards.write_shard(path, Problem, problems)
    made = shards.Sidecar(
        table="problems",
        split=None,
        stage="problems",
        unit="0",
        key="k",
        rows=rows,
        bytes=size,
        sha256=digest,
        schema=shards.schema_digest(Problem),
    )
    shards.write_sidecar(path, made)
    return run


def run_stage(
    run: RunDir, stage: str, outputs: tuple[Output, ...], step: UnitStep, units: list[Unit]
) -> None:
    """What a runner does with a stage."""
    data: Any = None
    for part in (UnitReader(run.root, stage, outputs, units), step, ShardWriter(run.root, stage, outputs)):
        data = part.run(data, 0, 1)
    for _ in data:
        pass
