"""What a stage is: units of work, outcomes, and the accounting that nothing disappears.

A stage is cut into units that do not depend on the number of workers. Working on a unit yields one
`Outcome` for every row considered: `Keep` with the records made of it, or `Drop` with a reason. The
unit says beforehand how many rows it will consider; `schemas.steps.ShardWriter` compares.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Keep:
    """A considered row went on, with the records that were made of it (of any output table)."""

    records: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Drop:
    """A considered row was dropped. `reason` is a short code, `detail` a few words for a person,
    `marks` what else was noted about it."""

    id: str
    reason: str
    detail: str | None = None
    marks: tuple[str, ...] = ()


Outcome = Keep | Drop


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A folder that a stage writes one part a unit into."""

    table: str
    split: str | None = None


VERDICTS = Output("verdicts")

WHOLE = "all"
"""Name of the only unit of a stage that has to see all rows at once."""

ORDER = (
    *("repositories", "mine", "select", "dedup", "decontaminate", "label", "split", "cut"),
    *("evidence", "vote", "instruct", "build"),
    *("problems", "decompose", "tests", "sample", "verify", "synthesize", "preferences", "trajectories"),
)
"""Stages in the order in which data passes them."""


_MAKERS = {
    made: stage
    for stage, made in (
        *(("mine", "edits"), ("label", "labels"), ("split", "splits"), ("cut", "excerpts")),
        *(("vote", "votes"), ("instruct", "instructions"), ("build", "pairs")),
        *(("decompose", "programs"), ("tests", "suites"), ("sample", "candidates"), ("verify", "steps")),
        ("synthesize", "synthetic"),
    )
}


def maker_of(table: str) -> str:
    """The stage that makes a table, or what `verdicts/<stage>` names: most tables have a stage's name."""
    _, _, stage = table.partition("/")
    return stage or _MAKERS.get(table, table)


def rank(stage: str) -> tuple[int, str]:
    """Where a stage stands when stages are listed: by `ORDER`, others after them by name."""
    return (ORDER.index(stage) if stage in ORDER else len(ORDER), stage)


def all_outputs(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """A stage's outputs with the verdict table, which every stage writes its drops into, last."""
    named = tuple(outputs)
    return named if VERDICTS in named else (*named, VERDICTS)


def part_name(stage: str, output: Output, unit: str) -> str:
    """Name of a unit's part: verdicts of several stages share one folder, so theirs carries the stage."""
    return f"{stage}-{unit}" if output == VERDICTS else unit


@dataclasses.dataclass(frozen=True)
class Unit:
    """One task.

    Attributes:
        name: unique in the stage and stable; its part is `part-<name>.parquet`.
        rows: number of rows that it will consider.
        payload: what the stage's step needs to do it (JSON-like).
        inputs: name -> digest of everything it reads; goes into the key.
        key: task key; a finished part with this key is not made again. A planner leaves it empty,
            the runner fills it in, since only it knows the stage's config and code version.
    """

    name: str
    rows: int
    payload: dict[str, Any]
    inputs: dict[str, str]
    key: str = ""
