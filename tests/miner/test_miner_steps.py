"""The miner's stages as pipelines: repositories and files in, shards with accounts out."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

from gitrepos import BASE, Builder

from miner.config import ImportConfig, MineConfig, SelectConfig
from miner.steps import (
    MINE_OUTPUTS,
    PROBLEMS_OUTPUTS,
    SELECT_OUTPUTS,
    TRAJECTORIES_OUTPUTS,
    ImportProblems,
    ImportTrajectories,
    MineEdits,
    SelectEdits,
    plan_mine,
    plan_problems,
    plan_select,
    plan_trajectories,
)
from schemas.ids import task_key
from schemas.rundir import RunDir
from schemas.stage import Output, Unit
from schemas.steps import ShardWriter, UnitReader, UnitStep


def work(run: RunDir, step: UnitStep, outputs: tuple[Output, ...], units: list[Unit], ranks: int = 1) -> None:
    """Run a stage as an executor would, with steps that have been through a pickle."""
    keyed = [dataclasses.replace(unit, key=task_key(step.name, {}, "", unit.inputs)) for unit in units]
    for rank in range(ranks):
        pipeline = [
            UnitReader(run.root, step.name, outputs, keyed),
            pickle.loads(pickle.dumps(step)),
            ShardWriter(run.root, step.name, outputs),
        ]
        data: Any = None
        for one in pipeline:
            data = one.run(data, rank, ranks)
        for _ in data:
            pass


def shard_bytes(run: RunDir) -> dict[str, bytes]:
    return {str(path.relative_to(run.root)): path.read_bytes() for path in run.root.rglob("*.parquet")}


def history(repo: Builder) -> None:
    for number in range(7):
        repo.commit({"a.py": BASE + f"x = {number}\n"}, f"Set the value of x to number {number}")
    repo.commit({"b.py": BASE, "c.py": BASE})
    repo.commit({"a.py": BASE + "x  =  6\n"}, "Space the statement out a little")


def test_mine_then_select_accounts_for_every_row(repo: Builder, tmp_path: Path) -> None:
    history(repo)
    run = RunDir.open(tmp_path / "run", create=True)
    config = MineConfig(commits_per_unit=4, revert_window=0)
    work(run, MineEdits(config, run.root, 0), MINE_OUTPUTS, plan_mine(config, [repo.path]))
    accounts = [part.sidecar.accounting for part in run.parts("edits")]
    assert sum(one.rows_in for one in accounts if one) == 10
    assert sum(one.kept for one in accounts if one) == 8
    work(run, SelectEdits(SelectConfig(min_file_chars=0), run.root, 0), SELECT_OUTPUTS, plan_select(run))
    verdicts = list(run.rows("verdicts"))
    edits = {row["id"] for row in run.rows("edits", columns=["id"])}
    assert {row["id"] for row in verdicts if row["stage"] == "select"} == edits
    assert [row["reason"] for row in verdicts if row["stage"] == "select" and not row["keep"]] == [
        "whitespace_only"
    ]


def test_number_of_ranks_changes_no_byte(repo: Builder, tmp_path: Path) -> None:
    history(repo)
    config = MineConfig(commits_per_unit=3)
    runs = []
    for ranks in (1, 3):
        run = RunDir.open(tmp_path / f"run{ranks}", create=True)
        step = MineEdits(config, run.root, 0)
        work(run, step, MINE_OUTPUTS, plan_mine(config, [repo.path]), ranks)
        work(
            run,
            SelectEdits(SelectConfig(min_file_chars=0), run.root, 0),
            SELECT_OUTPUTS,
            plan_select(run),
            ranks,
        )
        runs.append(shard_bytes(run))
    assert runs[0] == runs[1]


def test_finished_units_are_not_mined_again(repo: Builder, tmp_path: Path) -> None:
    history(repo)
    run = RunDir.open(tmp_path / "run", create=True)
    config = MineConfig(commits_per_unit=4, revert_window=0)
    step = MineEdits(config, run.root, 0)
    work(run, step, MINE_OUTPUTS, plan_mine(config, [repo.path]))
    before = {part.name: part.path.stat().st_mtime_ns for part in run.parts("edits")}
    repo.commit({"a.py": "x = 99\n"}, "Set the value of x to ninety-nine")
    work(run, step, MINE_OUTPUTS, plan_mine(config, [repo.path]))
    after = {part.name: part.path.stat().st_mtime_ns for part in run.parts("edits")}
    assert sum(after[name] == stamp for name, stamp in before.items()) == 2


def test_problems_and_trajectories_become_shards(tmp_path: Path) -> None:
    run = RunDir.open(tmp_path / "run", create=True)
    config = ImportConfig(test_share=0.5)
    problems = tmp_path / "set.jsonl"
    row = {
        "task_id": "a/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "test": "def check(candidate):\n    assert candidate(1) == 1\n",
    }
    problems.write_text(json.dumps(row) + "\n{\n")
    work(run, ImportProblems(config, run.root, 0), PROBLEMS_OUTPUTS, plan_problems(config, [problems]))
    assert [found["name"] for found in run.rows("problems")] == ["a/0"]
    chats = tmp_path / "chats.jsonl"
    message = {"role": "assistant", "content": "Done."}
    lines = [{"instance_id": f"i-{number}", "messages": [message]} for number in range(20)]
    chats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    step = ImportTrajectories(config, run.root, 0)
    work(run, step, TRAJECTORIES_OUTPUTS, plan_trajectories(config, [chats]))
    assert sum(1 for _ in run.rows("trajectories")) == 20
    assert all(row["split"] == "test" for row in run.rows("trajectories", "test"))
    assert list(run.rows("trajectories", "train"))
