"""`assay status`: every stage that ran has a line, in the order of the data, with its units and drops."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.stages import STAGES
from assay.status import amount, collect, show
from schemas import shards
from schemas.records import TABLES
from schemas.rundir import RunDir
from schemas.stage import Unit, all_outputs


def done(run: RunDir, stage: str, kept: int, drops: dict[str, int]) -> None:
    """Leave what a stage with one finished unit and one that is planned leaves."""
    for number, output in enumerate(all_outputs(STAGES[stage].outputs)):
        path = run.part_path(stage, output, "u")
        record = TABLES[output.table]
        rows, size, digest = shards.write_shard(path, record, [])
        accounting = shards.Accounting(kept + sum(drops.values()), kept, drops) if number == 0 else None
        schema, seconds = shards.schema_digest(record), 2.0 if number == 0 else None
        about = (output.table, output.split, stage, "u", "key", rows, size, digest, schema)
        shards.write_sidecar(path, shards.Sidecar(*about, accounting, seconds))
    planned = [Unit("u", kept, {}, {}, "key"), Unit("later", 1, {}, {}, "key")]
    run.write_plan(stage, planned, failed=["later"])


@pytest.mark.parametrize(
    ("rows", "plural", "said"),
    [
        (1, "repositories", "1 repository"),
        (0, "repositories", "0 repositories"),
        (1, "trajectories", "1 trajectory"),
        (1, "commits", "1 commit"),
        (1, "preferences", "1 preference"),
        (1200, "labels", "1,200 labels"),
    ],
)
def test_one_row_is_not_told_in_the_plural(rows: int, plural: str, said: str) -> None:
    assert amount(rows, plural) == said


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_tells_its_units_and_drops(tmp_path: Path, stage: str) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    done(run, stage, 3, {"no_criterion": 2})
    (told,) = collect(run)["stages"]
    assert {key: told[key] for key in ("stage", "units", "done", "failed", "rows_in", "kept", "drops")} == {
        "stage": stage,
        "units": 2,
        "done": 1,
        "failed": ["later"],
        "rows_in": 5,
        "kept": 3,
        "drops": {"no_criterion": 2},
    }


def test_stages_are_listed_in_the_order_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    run = RunDir.open(tmp_path / "run", create=True)
    for stage in ("build", "preferences", "vote", "instruct", "evidence", "synthesize", "repositories"):
        done(run, stage, 1, {})
    show(run.root, as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [line for line in lines if len(line) > 2 and line[1] in STAGES]
    assert [row[1] for row in rows] == [
        *("repositories", "evidence", "vote", "instruct", "build", "synthesize", "preferences"),
    ]
    assert "1 repository" in " ".join(rows[0])
    assert "1 label" in " ".join(rows[2])
