"""`assay preferences`: from published files to pairs in their splits, and from there to a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Ran, assay

from schemas.records import ImportedPair
from schemas.rundir import RunDir

sys.path.append(str(Path(__file__).parents[1] / "miner"))
from preference_rows import helpsteer, plain, rewardbench, tulu, ultrafeedback
from problem_rows import write

Contents = Callable[[Path], dict[str, bytes]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four sets of different formats, with rows that are dropped."""
    root = tmp_path_factory.mktemp("sets")
    return [
        write(root / "tulu.jsonl", *(tulu(at) for at in range(30)), b"{", tulu(99, rejected=[])),
        write(root / "steer.parquet", *(helpsteer(at) for at in range(60, 80))),
        write(root / "uf.json", *(ultrafeedback(at) for at in range(90, 95))),
        write(root / "bench.jsonl.gz", *(rewardbench(at) for at in range(95, 99)), rewardbench(95)),
    ]


def done(run: Path, *args: object) -> Ran:
    ran = assay("preferences", *args, "--run-dir", run, "--set", "preferences.rows_per_part=7")
    assert ran.code == 0, ran.err
    return ran


def rows(run: Path, split: str | None = None) -> list[dict[str, Any]]:
    return list(RunDir.open(run).rows("preferences", split))


def test_sets_become_pairs_in_their_splits_and_every_row_is_counted(
    tmp_path: Path, files: list[Path]
) -> None:
    run = tmp_path / "run"
    ran = done(run, *files, "--json", "--set", "preferences.test_share=0.3")
    (stage,) = json.loads(ran.out)["stages"]
    assert (stage["stage"], stage["rows_in"], stage["kept"]) == ("preferences", 52, 49)
    assert stage["drops"] == {"bad_field": 1, "bad_json": 1, "duplicate": 1}
    train, test = rows(run, "train"), rows(run, "test")
    assert (len(train) + len(test), len({row["idx"] for row in train + test})) == (49, 49)
    assert {row["split"] for row in train} == {"train"}
    assert {row["split"] for row in test} == {"test"}
    assert {row["source"] for row in test} >= {"hep-cpp"}
    assert train[0].keys() == set(ImportedPair.__dataclass_fields__)
    verdicts = {row["id"]: row["reason"] for row in RunDir.open(run).rows("verdicts")}
    assert verdicts == {
        "tulu.jsonl:31": "bad_json",
        "tulu.jsonl:32": "bad_field",
        "bench.jsonl.gz:5": "duplicate",
    }


def test_bytes_are_the_same_for_any_number_of_workers(
    tmp_path: Path, files: list[Path], contents: Contents
) -> None:
    runs = [tmp_path / f"run{workers}" for workers in (1, 3)]
    for run, workers in zip(runs, (1, 3), strict=True):
        done(run, *files, "--workers", workers)
    first, second = (
        {name: data for name, data in contents(run).items() if name.endswith(".parquet")} for run in runs
    )
    assert first == second
    assert len(first) > 10


def test_second_set_joins_the_first_and_nothing_is_made_twice(tmp_path: Path, files: list[Path]) -> None:
    run = tmp_path / "run"
    done(run, files[0])
    parts = {path: path.stat().st_mtime_ns for path in (run / "preferences").rglob("*.parquet")}
    done(run, files[1])
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    assert len(rows(run)) == 40


def test_settings_stand_in_the_recipe_and_the_command_alone_runs_it_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    path = write(tmp_path / "mine.jsonl", plain(0), plain(1))
    done(run, path, "--set", "preferences.aspect=Harmlessness", "--set", "preferences.license=MIT")
    again = done(run, "--clean")
    assert "2 in, 2 kept" in again.err
    assert {(row["aspect"], row["license"]) for row in rows(run)} == {("Harmlessness", "MIT")}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "no preferences given"),
        (("missing.jsonl",), "no such file"),
        (("hub:nothing",), "not a dataset"),
        (("--set", "preferences.format=csv", "x.jsonl"), "format"),
        (("--set", "preferences.min_margin=-1", "x.jsonl"), "preferences.min_margin"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    ran = assay("preferences", *args, "--run-dir", tmp_path / "run", cwd=tmp_path)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert says in ran.err


def test_dry_run_plans_and_leaves_no_trace(tmp_path: Path, files: list[Path]) -> None:
    ran = assay("preferences", files[1], "--run-dir", tmp_path / "run", "--dry-run")
    assert ran.code == 0, ran.err
    assert "10 preferences to consider; no model is called" in ran.err
    assert not (tmp_path / "run").exists()
