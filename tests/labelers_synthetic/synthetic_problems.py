"""A problem small enough to know by hand which programs solve it, its program, and labelled candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelers.programs.config import DecomposeConfig, VerifyConfig
from labelers.programs.decompose import decompose
from labelers.programs.step_labels import Verifier
from schemas import shards
from schemas.declare import as_row
from schemas.ids import content_id
from schemas.records import Candidate, Generator, Problem, ProblemTest
from schemas.rundir import RunDir
from schemas.stage import Keep, Output, Unit
from schemas.steps import ShardWriter, UnitReader, UnitStep

SOLUTION = '''\
def total(prices):
    """Sum of prices with a tenth of tax."""
    # a tenth goes on top of the sum
    return add_tax(subtotal(prices))


def subtotal(prices):
    """Sum of prices."""
    result = 0
    for price in prices:
        # one after the other
        result += price
    return result


def add_tax(amount):
    """An amount with a tenth on top."""
    return amount + amount // 10
'''
SUITE = (
    "def check(candidate):\n    assert candidate([10, 20]) == 33\n    assert candidate([]) == 0\n"
    "    assert candidate([100]) == 110\n"
)
VERIFY = VerifyConfig(cpu_s=1, suite_cpu_s=1, wall_s=10, suite_wall_s=10)
# Completions by hand: what makes them, what it does to the reference.
HANDS = {
    "reference": ("", ""),
    "mutation-1": ("result += price", "result -= price"),
    "model-a": ("amount // 10", "amount // 11"),
    "model-a right": ("result = 0\n", "result = int()\n"),
    "model-b right": ("amount + amount // 10", "amount // 10 + amount"),
}


def problem_of(solution: str = SOLUTION, name: str = "small/0", **other: Any) -> dict[str, Any]:
    """A problem row."""
    check = ProblemTest(kind="check", code=SUITE, stdin=None, stdout=None, args=None, expected=None)
    fields = {
        "id": content_id("small", solution, name),
        "name": name,
        "prompt": "Write `total`.\n",
        "language": "Python",
        "entry_point": "total",
        "solution": solution,
        "references": [],
        "tests": [check],
        "tolerance": 0.0,
        "time_limit_s": None,
        "memory_limit_mb": None,
        "source": "small.jsonl",
        "license": "MIT",
        "difficulty": None,
        "released": None,
        "url": None,
    }
    row: dict[str, Any] = as_row(Problem(**{**fields, **other}))
    return row


def program_of(problem: dict[str, Any]) -> dict[str, Any]:
    """The program row of a problem."""
    outcome = decompose(problem, DecomposeConfig(cpu_s=2, wall_s=20))
    assert isinstance(outcome, Keep), outcome
    row: dict[str, Any] = as_row(outcome.records[0])
    return row


def candidate_of(program: dict[str, Any], completion: str, model: str) -> dict[str, Any]:
    """A candidate row."""
    row: dict[str, Any] = as_row(
        Candidate(
            id=content_id(program["id"], completion, model),
            problem_id=program["problem_id"],
            program_id=program["id"],
            completion=completion,
            program=None,
            pieces=[],
            fault=None,
            generator=Generator(model=model, temperature=None, seed=0, detail=None, prompt_version=None),
        )
    )
    return row


def steps_of(problem: dict[str, Any], program: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of `steps`: the candidates of `HANDS`, judged by the suite."""
    candidates = [
        candidate_of(
            program, program["code"].replace(*change) if change[0] else program["code"], name.split()[0]
        )
        for name, change in HANDS.items()
    ]
    return [as_row(one) for keep in judged(program, problem, candidates) for one in keep.records]


def judged(program: dict[str, Any], problem: dict[str, Any], candidates: list[dict[str, Any]]) -> list[Keep]:
    """Candidates with what the suite says of them."""
    return list(Verifier(program, problem, [], VERIFY, 0).label(candidates))


def write_table(
    run: RunDir, table: str, record: type, rows: list[dict[str, Any]], output: Output, stage: str
) -> None:
    """One part of a table."""
    path = run.part_path(stage, output, "0")
    path.parent.mkdir(parents=True, exist_ok=True)
    count, size, digest = shards.write_shard(path, record, rows)
    made = shards.Sidecar(
        table=table,
        split=output.split,
        stage=stage,
        unit="0",
        key="k",
        rows=count,
        bytes=size,
        sha256=digest,
        schema=shards.schema_digest(record),
    )
    shards.write_sidecar(path, made)


def run_stage(
    run: RunDir, stage: str, outputs: tuple[Output, ...], step: UnitStep, units: list[Unit]
) -> None:
    """What a runner does with a stage."""
    data: Any = None
    for part in (UnitReader(run.root, stage, outputs, units), step, ShardWriter(run.root, stage, outputs)):
        data = part.run(data, 0, 1)
    for _ in data:
        pass


def new_run(root: Path) -> RunDir:
    """An empty run directory."""
    return RunDir.open(root, create=True)
