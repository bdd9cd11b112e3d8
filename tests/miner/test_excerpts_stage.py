"""The `cut` stage over the parts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from excerpt_edits import edit
from split_runs import finish

from miner.config import CutConfig
from miner.cutting import AFTER
from miner.reasons import CUT
from miner.steps import CutEdits, plan_cut
from schemas import shards
from schemas.errors import RunDirError
from schemas.records import TABLES, Edit, Excerpt, Hunk, Verdict
from schemas.rundir import RunDir, outputs_of
from schemas.stage import VERDICTS, WHOLE, Output
from schemas.steps import ShardWriter, UnitReader

OLD = "import os\n\n\ndef f(a):\n    return a\n\n\ndef g(b):\n    return b\n"


def record(row: dict[str, Any]) -> Edit:
    return Edit(**{**row, "hunks": [Hunk(**hunk) for hunk in row["hunks"]]})


def put(run: RunDir, unit: str, rows: list[dict[str, Any]]) -> None:
    finish(run, "mine", Output("edits"), unit, [record(row) for row in rows], len(rows))


def decide(run: RunDir, unit: str, rows: list[dict[str, Any]], refused: tuple[str, ...] = ()) -> None:
    verdicts = [
        Verdict(
            id=row["id"],
            stage=AFTER,
            keep=row["id"] not in refused,
            reason="near_duplicate" if row["id"] in refused else None,
            detail=None,
            marks=[],
        )
        for row in rows
    ]
    finish(run, AFTER, VERDICTS, unit, verdicts, len(verdicts))


def cut(run: RunDir, limit: int | None = None) -> list[dict[str, Any]]:
    units = plan_cut(run, limit)
    outputs = outputs_of("excerpts")
    steps: list[Any] = [
        UnitReader(run.root, "cut", outputs, units),
        CutEdits(CutConfig(), run.root, 0),
        ShardWriter(run.root, "cut", outputs),
    ]
    data: Any = None
    for step in steps:
        data = step.run(data, 0, 1)
    assert len(list(data)) == len(units)
    return list(run.rows("excerpts"))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.open(tmp_path / "run", create=True)


ROWS = [edit(OLD, OLD.replace("return a", f"return a + {n}")) for n in range(3)]


def test_kept_edits_get_an_excerpt_and_refused_ones_do_not(run: RunDir) -> None:
    put(run, "a", ROWS)
    decide(run, WHOLE, ROWS, refused=(ROWS[1]["id"],))
    assert {row["edit_id"] for row in cut(run)} == {ROWS[0]["id"], ROWS[2]["id"]}


@pytest.mark.parametrize("unit", ["a", WHOLE])
def test_verdicts_may_cover_a_part_or_the_run(run: RunDir, unit: str) -> None:
    put(run, "a", ROWS)
    decide(run, unit, ROWS)
    assert [unit.rows for unit in plan_cut(run)] == [3]


def test_hostile_edit_costs_its_own_row_and_no_other(run: RunDir) -> None:
    bad = edit("x = 1\n\0\n", "x = 2\n\0\n")
    put(run, "a", [ROWS[0], bad, ROWS[2]])
    decide(run, WHOLE, [ROWS[0], bad, ROWS[2]])
    assert {row["edit_id"] for row in cut(run)} == {ROWS[0]["id"], ROWS[2]["id"]}
    (verdict,) = shards.iter_rows(run.part_path("cut", VERDICTS, "a"), Verdict)
    assert (verdict["id"], verdict["reason"]) == (bad["id"], "not_parsed")
    assert verdict["reason"] in CUT


def test_limit_bounds_the_edits(run: RunDir) -> None:
    put(run, "a", ROWS[:2])
    put(run, "b", ROWS[2:])
    decide(run, WHOLE, ROWS)
    assert [unit.rows for unit in plan_cut(run, limit=2)] == [2, 0]
    assert len(cut(run, limit=1)) == 1


def test_changed_verdict_gives_another_key(run: RunDir) -> None:
    put(run, "a", ROWS)
    decide(run, WHOLE, ROWS)
    before = plan_cut(run)
    decide(run, WHOLE, ROWS, refused=(ROWS[0]["id"],))
    assert plan_cut(run)[0].inputs != before[0].inputs


def test_missing_verdicts_are_told(run: RunDir) -> None:
    put(run, "a", ROWS)
    with pytest.raises(RunDirError, match=f"no verdicts of {AFTER} yet"):
        plan_cut(run)


def test_excerpts_lie_sorted_by_edit_and_piece(run: RunDir) -> None:
    put(run, "a", ROWS)
    decide(run, WHOLE, ROWS)
    found = [(row["edit_id"], row["piece"]) for row in cut(run)]
    assert found == sorted(found)
    assert Excerpt in TABLES.values()
