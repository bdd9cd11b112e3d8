"""Run directories and the shared steps: versions, locks, resume, accounting."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datatrove.executor import LocalPipelineExecutor

from schemas import shards
from schemas.errors import AccountingError, RunDirError
from schemas.records import Label
from schemas.rundir import RunDir, outputs_of
from schemas.stage import VERDICTS, Drop, Keep, Outcome, Unit
from schemas.steps import ShardWriter, UnitReader, UnitStep

OUTPUTS = outputs_of("labels")


def label(name: str) -> Label:
    return Label(
        id=name,
        labeler="test",
        method="rule",
        criterion=None,
        confidence=0.0,
        single_intent=1.0,
        scores=[],
        terms=[],
    )


class Count(UnitStep):
    """Keep the even rows of a unit."""

    name = "count"

    def process(self, unit: Unit) -> Iterator[Outcome]:
        for n in range(unit.payload["n"]):
            yield Keep((label(f"{unit.name}-{n}"),)) if n % 2 == 0 else Drop(f"{unit.name}-{n}", "odd")


def unit(name: str, n: int = 5, rows: int | None = None, key: str = "k") -> Unit:
    return Unit(name, n if rows is None else rows, {"n": n}, {}, key)


def steps(run: RunDir, units: list[Unit]) -> list[Any]:
    return [UnitReader(run.root, "count", OUTPUTS, units), Count(), ShardWriter(run.root, "count", OUTPUTS)]


def drive(run: RunDir, units: list[Unit]) -> int:
    data: Any = None
    for step in steps(run, units):
        data = step.run(data, 0, 1)
    return len(list(data))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.open(tmp_path / "run", create=True)


def contents(run: RunDir) -> dict[str, bytes]:
    return {str(path.relative_to(run.root)): path.read_bytes() for path in run.root.rglob("*.parquet")}


def test_unit_becomes_a_shard_with_its_drops_beside_it(run: RunDir) -> None:
    assert drive(run, [unit("a"), unit("b", 0)]) == 2
    assert [row["id"] for row in run.rows("labels")] == ["a-0", "a-2", "a-4"]
    assert [(row["id"], row["reason"]) for row in run.rows("verdicts")] == [("a-1", "odd"), ("a-3", "odd")]
    counted = run.parts("labels")[0].sidecar.accounting
    assert counted == shards.Accounting(5, 3, {"odd": 2})
    assert run.parts("labels")[1].sidecar.rows == 0


def test_lost_row_is_an_error_and_nothing_is_written(run: RunDir) -> None:
    with pytest.raises(AccountingError, match="6 rows in, but 3 kept and 2 dropped"):
        drive(run, [unit("a", 5, rows=6)])
    assert contents(run) == {}


def test_done_unit_is_skipped_and_a_changed_key_is_not(run: RunDir) -> None:
    drive(run, [unit("a"), unit("b")])
    assert drive(run, [unit("a"), unit("b")]) == 0
    assert drive(run, [unit("a", key="other"), unit("b")]) == 1


@pytest.mark.parametrize(
    "damage", ["labels/part-a.parquet", "labels/part-a.json", "verdicts/part-count-a.parquet"]
)
def test_missing_or_damaged_file_makes_its_unit_again(run: RunDir, damage: str) -> None:
    drive(run, [unit("a")])
    before = contents(run)
    (run.root / damage).write_bytes(b"garbage")
    assert drive(run, [unit("a")]) == 1
    assert contents(run) == before


def test_the_same_steps_run_in_a_datatrove_executor(run: RunDir, tmp_path: Path) -> None:
    units = [unit(name) for name in "abcde"]
    drive(run, units)
    other = RunDir.open(tmp_path / "other", create=True)
    LocalPipelineExecutor(
        pipeline=steps(other, units), tasks=3, workers=1, logging_dir=str(tmp_path / "logs")
    ).run()
    assert contents(other) == contents(run)


def test_unplanned_parts_are_retired(run: RunDir) -> None:
    drive(run, [unit("a"), unit("b")])
    run.retire("count", OUTPUTS, ["b"])
    assert sorted(contents(run)) == ["labels/part-b.parquet", "verdicts/part-count-b.parquet"]


def test_parts_of_another_stage_are_not_retired(run: RunDir) -> None:
    drive(run, [unit("a")])
    assert run.retire("other", OUTPUTS, []) == []


def test_shard_without_a_sidecar_is_not_read(run: RunDir) -> None:
    drive(run, [unit("a")])
    (run.root / "labels/part-a.json").unlink()
    assert list(run.rows("labels")) == []


def test_units_follow_the_parts_and_the_limit(run: RunDir) -> None:
    drive(run, [unit("a"), unit("b"), unit("c")])
    planned = run.units_per_part("labels", ("verdicts/count",), limit=4)
    assert [(one.name, one.rows) for one in planned] == [("a", 3), ("b", 1), ("c", 0)]
    assert planned[0].payload["verdicts/count"] == "verdicts/part-count-a.parquet"


def test_planning_without_the_table_says_which_is_missing(run: RunDir) -> None:
    with pytest.raises(RunDirError, match="no labels yet"):
        run.units_per_part("labels")


def test_folder_with_other_files_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(RunDirError, match="holds other files"):
        RunDir.open(tmp_path, create=True)


def test_missing_run_is_refused_when_it_should_be_there(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="not a run directory"):
        RunDir.open(tmp_path / "nowhere")


@pytest.mark.parametrize("marker", [json.dumps({"format": 99}), "[]", "{", ""])
def test_run_of_another_version_is_refused(tmp_path: Path, marker: str) -> None:
    (tmp_path / "run.json").write_text(marker)
    with pytest.raises(RunDirError, match="another version"):
        RunDir.open(tmp_path)


def _hold(root: Path, ready: Any, go: Any) -> None:
    with RunDir(root).lock():
        ready.set()
        go.wait(20)


def test_second_writer_is_refused_and_a_dead_one_is_not_in_the_way(run: RunDir) -> None:
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(run.root, ready, go))
    holder.start()
    assert ready.wait(20)
    with pytest.raises(RunDirError, match="another assay process"), run.lock():
        pass
    holder.kill()
    holder.join()
    with run.lock():
        pass


def test_lock_clears_what_a_killed_writer_left(run: RunDir) -> None:
    left = run.root / "labels" / ".part-a.parquet.123.tmp"
    left.parent.mkdir()
    left.write_bytes(b"half")
    with run.lock():
        assert not left.exists()


@pytest.mark.parametrize("place", ["/proc/run", "/dev/null/run"])
def test_unwritable_place_is_one_clear_line(place: str) -> None:
    with pytest.raises(RunDirError, match=f"{place}: cannot be written"):
        RunDir.open(place, create=True)


def test_shard_that_a_killed_process_left_without_a_sidecar_is_retired(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    drive(run, [unit("a"), unit("b")])
    left = [run.part_path("count", output, "b") for output in (*OUTPUTS, VERDICTS)]
    other = run.part_path("other", VERDICTS, "b")
    other.write_bytes(left[1].read_bytes())
    for path in left:
        shards.sidecar_path(path).unlink()
    assert sorted(run.retire("count", OUTPUTS, ["a"])) == sorted(left)
    assert other.exists()
    assert not any(path.exists() for path in left)


def test_shard_whose_sidecar_cannot_be_read_is_not_retired(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    drive(run, [unit("a")])
    path = run.part_path("count", OUTPUTS[0], "a")
    shards.sidecar_path(path).write_text('{"format": 99}')
    assert path not in run.retire("count", OUTPUTS, [])
    assert path.exists()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/below"])
def test_run_directory_that_cannot_be_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match="give another --run-dir"):
        RunDir.open(tmp_path / name, create=True)


def test_deeply_nested_marker_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(RunDirError, match="another version"):
        RunDir.open(tmp_path)


def test_file_system_without_locks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    run = RunDir.open(tmp_path / "run", create=True)
    with pytest.raises(RunDirError, match="cannot lock files"), run.lock():
        pass
