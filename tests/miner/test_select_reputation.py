"""Stars, contributors and issues of repositories."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from edit_rows import NEW, OLD, edit

from miner.config import SelectConfig
from miner.filters import consider, plan_select, select_unit
from schemas import shards
from schemas.records import Edit, RepositoryFacts
from schemas.rundir import RunDir
from schemas.stage import Drop, Keep, Output

GOOD: dict[str, Any] = {"url": "https://host/ada/engine", "stars": 15, "contributors": 5, "issues": 10}


def judged(facts: dict[str, Any] | None, **settings: Any) -> tuple[str | None, tuple[str, ...]]:
    found = consider(SelectConfig(**settings), edit(), facts)
    return found.reason, found.marks


def test_repository_at_the_bounds_is_kept() -> None:
    assert judged(GOOD) == (None, ())


@pytest.mark.parametrize("what", ["stars", "contributors", "issues"])
def test_repository_below_a_bound_is_dropped_by_that_name(what: str) -> None:
    assert judged({**GOOD, what: GOOD[what] - 1}) == (f"few_{what}", ())
    assert judged({**GOOD, what: GOOD[what] - 1}, **{f"min_{what}": 0}) == (None, ())


@pytest.mark.parametrize("what", ["stars", "issues"])
def test_what_is_not_known_is_marked_and_drops_nothing(what: str) -> None:
    assert judged({**GOOD, what: None}) == (None, (f"{what}_unknown",))


def test_repository_without_facts_is_marked() -> None:
    assert judged(None) == (None, ("contributors_unknown", "issues_unknown", "stars_unknown"))
    assert judged(None, reputation="none") == (None, ())


def test_local_repository_was_chosen_by_its_user() -> None:
    local = {**GOOD, "url": None, "stars": 0, "contributors": 1, "issues": None}
    assert judged(local) == (None, ())
    assert judged(local, reputation="all") == ("few_stars", ("issues_unknown",))
    assert judged({**local, "url": "https://host/a"}, reputation="none") == (None, ())


def write(run: RunDir, stage: str, table: str, name: str, record: type, rows: list[Any]) -> None:
    path = run.part_path(stage, Output(table), name)
    count, size, digest = shards.write_shard(path, record, rows)
    sidecar = shards.Sidecar(
        table=table, split=None, stage=stage, unit=name, key="k", rows=count, bytes=size,
        sha256=digest, schema=shards.schema_digest(record),
    )  # fmt: skip
    shards.write_sidecar(path, sidecar)


def describe(run: RunDir, unit: str, repo: str, **change: Any) -> None:
    row = RepositoryFacts(
        repo=repo, url=GOOD["url"], head="a" * 40, object_format="sha1", roots=[], commits=1,
        first_commit_time=None, last_commit_time=None, license=None, license_files=[], contributors=9,
        stars=99, issues=99, fork_of=None, known_from=None,
    )  # fmt: skip
    write(run, "repositories", "repositories", unit, RepositoryFacts, [dataclasses.replace(row, **change)])


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.open(tmp_path / "run", create=True)
    for unit, repo in (("ada-engine-1-00000", "ada/engine"), ("ada-loom-2-00000", "ada/loom")):
        write(made, "mine", "edits", unit, Edit, [edit(OLD, NEW, repo=repo)])
    return made


def outcomes(run: RunDir) -> list[Any]:
    return [one for unit in plan_select(run) for one in select_unit(SelectConfig(), run.root, unit)]


def test_edits_are_judged_by_the_facts_of_their_own_repository(run: RunDir) -> None:
    describe(run, "ada-engine-1", "ada/engine", stars=3)
    describe(run, "ada-loom-2", "ada/loom")
    engine, loom = outcomes(run)
    assert isinstance(engine, Drop)
    assert (engine.reason, engine.detail) == ("few_stars", "3 stars")
    assert isinstance(loom, Keep)


def test_new_facts_make_only_the_parts_of_their_repository_again(run: RunDir) -> None:
    describe(run, "ada-engine-1", "ada/engine")
    describe(run, "ada-loom-2", "ada/loom")
    before = [unit.inputs for unit in plan_select(run)]
    describe(run, "ada-loom-2", "ada/loom", stars=7)
    after = [unit.inputs for unit in plan_select(run)]
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_facts_that_decide_nothing_make_no_part_again(run: RunDir) -> None:
    describe(run, "ada-engine-1", "ada/engine")
    before = [unit.inputs for unit in plan_select(run)]
    describe(run, "ada-engine-1", "ada/engine", head="b" * 40, commits=2)
    assert before == [unit.inputs for unit in plan_select(run)]


def test_run_without_the_table_knows_nothing(run: RunDir) -> None:
    assert [one.records[0].marks for one in outcomes(run)] == [
        ["contributors_unknown", "issues_unknown", "stars_unknown"]
    ] * 2


def test_folders_of_one_name_are_told_apart_by_their_unit(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    for unit in ("repo-1-00000", "repo-2-00000", "repo-3-00000"):
        write(run, "mine", "edits", unit, Edit, [edit(OLD, NEW, repo="repo")])
    describe(run, "repo-1", "repo", stars=1)
    describe(run, "repo-2", "repo")
    first, second, third = outcomes(run)
    assert isinstance(first, Drop)
    assert second.records[0].marks == []
    assert "stars_unknown" in third.records[0].marks


def test_part_without_a_row_is_planned(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    write(run, "mine", "edits", "ada-engine-1-00000", Edit, [])
    assert outcomes(run) == []
