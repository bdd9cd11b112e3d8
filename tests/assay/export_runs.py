"""A small step-labelled run to export, written as the stages write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas import shards
from schemas.declare import as_row
from schemas.records import (
    TABLES,
    FunctionSpan,
    Generator,
    Problem,
    Program,
    Step,
    StepLabeledCandidate,
)
from schemas.rundir import RunDir, outputs_of

GOOD_ONE = "def one():\n    return 1"
GOOD_TWO = "    def two(self):\n        return one() + 1"
STATEMENT = "Write `two`."


def code_of(one: str = GOOD_ONE, two: str = GOOD_TWO) -> str:
    """A program of a function and a method."""
    return f"{one}\n\n\nclass Box:\n{two}\n"


def spans(code: str, one: str = GOOD_ONE, two: str = GOOD_TWO) -> list[tuple[str, int, int]]:
    data = code.encode()
    inner = two.lstrip().encode()
    at = data.index(inner)
    return [("one", 0, len(one.encode())), ("Box.two", at, at + len(inner))]


def program(number: int = 0, **changed: Any) -> Program:
    code = code_of()
    functions = [
        FunctionSpan(
            name=name,
            kind="function",
            start_byte=start,
            end_byte=end,
            signature="",
            docstring=None,
            calls=[],
            depth=3,
        )
        for name, start, end in spans(code)
    ]
    values: dict[str, Any] = {
        "id": f"g{number}",
        "problem_id": f"p{number}",
        "problem": f"P/{number}",
        "language": "Python",
        "entry_point": "one",
        "code": code,
        "functions": functions,
        "skeleton": "",
        "decomposed_by": "as-written",
        "prompt_version": None,
        "suite_kind": "split",
    }
    return Program(**{**values, **changed})


def problem(number: int = 0) -> Problem:
    return Problem(
        id=f"p{number}",
        name=f"P/{number}",
        prompt=STATEMENT,
        language="Python",
        entry_point="one",
        solution=code_of(),
        references=[],
        tests=[],
        tolerance=0.0,
        time_limit_s=None,
        memory_limit_mb=None,
        source="problems.jsonl",
        license="MIT",
        difficulty=None,
        released=None,
        url=None,
    )


def step(name: str, start: int, end: int, label: int | None, **changed: Any) -> Step:
    values: dict[str, Any] = {
        "name": name,
        "start_byte": start,
        "end_byte": end,
        "label": label,
        "reference_label": label,
        "suite_label": label,
        "own_label": label,
        "judge_label": None,
        "tests_run": 3,
        "tests_passed": 3 if label else 1,
        "reason": {1: "passed", 0: "failed", None: "no_tests"}[label],
        "own_reason": {1: "passed", 0: "failed", None: "no_tests"}[label],
        "first_failure": None,
        "mutation_score": 0.5,
        "trust": "external",
    }
    return Step(**{**values, **changed})


def candidate(
    number: int,
    outcome: int | None = 1,
    one: str = GOOD_ONE,
    labels: Sequence[int | None] = (1, 1),
    model: str = "m",
    of: int = 0,
    **changed: Any,
) -> dict[str, Any]:
    """A row of `steps`: a candidate whose first function has the given text."""
    completion = changed.get("completion", code_of(one))
    places = spans(code_of(one), one)
    values: dict[str, Any] = {
        "id": f"c{number:03d}",
        "problem_id": f"p{of}",
        "program_id": f"g{of}",
        "prompt": f"{STATEMENT} {of}",
        "completion": completion,
        "program": None,
        "outcome": outcome,
        "outcome_reason": {1: "passed", 0: "exception", None: "infra_error"}[outcome],
        "outcome_detail": None,
        "trust": "split",
        "steps": [step(*place, label) for place, label in zip(places, labels, strict=True)],
        "conflict": "none",
        "language": "Python",
        "source": "problems.jsonl",
        "license": "MIT",
        "generator": Generator(model=model, temperature=None, seed=0, detail=None, prompt_version=None),
        "isolation": "none",
        "limits": "",
        "split": "train",
    }
    row: dict[str, Any] = as_row(StepLabeledCandidate(**{**values, **changed}))
    return row


def put(run: RunDir, stage: str, table: str, unit: str, rows: Sequence[Any]) -> None:
    """What a finished unit leaves in a table."""
    for output in outputs_of(table):
        mine = [row for row in rows if output.split is None or row["split"] == output.split]
        path, record = run.part_path(stage, output, unit), TABLES[table]
        many, size, digest = shards.write_shard(path, record, mine)
        sidecar = shards.Sidecar(
            table, output.split, stage, unit, "key", many, size, digest, shards.schema_digest(record)
        )
        shards.write_sidecar(path, sidecar)


def make_run(root: Path, units: Mapping[str, Sequence[dict[str, Any]]], beside: bool = True) -> RunDir:
    """A run whose units hold these rows of `steps`, with the programs and problems that they name."""
    run = RunDir.open(root, create=True)
    for unit, rows in units.items():
        numbers = sorted({int(row["program_id"][1:]) for row in rows})
        if beside:
            put(run, "problems", "problems", unit, [problem(n) for n in numbers])
            put(run, "decompose", "programs", unit, [program(n) for n in numbers])
        put(run, "verify", "steps", unit, rows)
    return run
