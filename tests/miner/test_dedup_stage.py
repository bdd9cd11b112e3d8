"""The `dedup` stage over the parts of a run."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from edit_rows import record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from split_runs import finish

from miner.config import DedupConfig
from miner.steps import DedupEdits, plan_dedup
from schemas import shards
from schemas.errors import AssayError, RunDirError
from schemas.ids import content_id
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, Output, Unit
from schemas.steps import ShardWriter, UnitReader
from schemas.verdicts import kept_of

FILE = [f"line {n} of a file\n" for n in range(60)]
BLOCK = [f"    statement {n} of a change\n" for n in range(10)]


def edit(repo: str, old: str, new: str, time: int) -> Edit:
    return record(
        old,
        new,
        id=content_id(repo, old, new),
        repo=repo,
        old_id=content_id(old),
        new_id=content_id(new),
        author_time=time,
        commit_time=time,
    )


def selected(run: RunDir, unit: str, edits: list[Edit], refused: int = 0) -> None:
    """A part of edits of which `select` refused the last few."""
    verdicts = [
        Verdict(
            id=one.id, stage="select", keep=keep, reason=None if keep else "too_large", detail=None, marks=[]
        )
        for number, one in enumerate(edits)
        for keep in [number < len(edits) - refused]
    ]
    finish(run, "mine", Output("edits"), unit, edits, len(edits))
    finish(run, "select", VERDICTS, unit, verdicts, len(edits) - refused)


def dedup(run: RunDir, limit: int | None = None) -> dict[str, tuple[bool, str | None]]:
    (unit,) = plan_dedup(run, limit)
    steps: list[Any] = [
        UnitReader(run.root, "dedup", (VERDICTS,), [unit]),
        DedupEdits(DedupConfig(), run.root, 0),
        ShardWriter(run.root, "dedup", (VERDICTS,)),
    ]
    data: Any = None
    for step in steps:
        data = step.run(data, 0, 1)
    assert len(list(data)) == 1
    path = run.part_path("dedup", VERDICTS, unit.name)
    return {row["id"]: (row["keep"], row["reason"]) for row in shards.iter_rows(path, Verdict)}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.open(tmp_path / "run", create=True)


def changed(lines: list[str], at: int = 10) -> str:
    return "".join([*lines[:at], *BLOCK, *lines[at + len(BLOCK) :]])


def test_cherry_pick_in_another_repository_goes_and_the_original_stays(run: RunDir) -> None:
    fork = [*FILE[:-1], "a line of the fork\n"]
    original = edit("owner/project", "".join(FILE), changed(FILE), 1)
    picked = edit("other/fork", "".join(fork), changed(fork), 2)
    same = edit("third/copy", "".join(FILE), changed(FILE), 3)
    selected(run, "b", [original])
    selected(run, "a", [picked, same])
    assert dedup(run) == {
        original.id: (True, None),
        picked.id: (False, "same_patch"),
        same.id: (False, "exact_duplicate"),
    }


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3), min_size=12, max_size=12), st.randoms(use_true_random=False))
def test_result_depends_on_neither_number_nor_order_of_shards(
    tmp_path: Path, parts: list[int], order: random.Random
) -> None:
    edits = []
    for number in range(12):
        lines = [*FILE[:-1], f"a line of fork {number % 3}\n"]
        edits.append(
            edit(f"repo {number}", "".join(lines), changed(lines, 10 + number % 2 * 30), number // 2)
        )
    found = []
    for name, spread in (("one", [0] * 12), ("some", parts)):
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            run = RunDir.open(Path(folder, name), create=True)
            mixed = edits if name == "one" else order.sample(edits, len(edits))
            for part in sorted(set(spread)):
                own = [one for one, where in zip(mixed, spread, strict=True) if where == part]
                selected(run, f"part{part}", own)
            found.append(dedup(run))
            assert not list(run.root.glob(".dedup-*"))
    assert found[0] == found[1]
    assert sum(kept for kept, _ in found[0].values()) == 2


def test_edit_that_select_refused_is_not_looked_at(run: RunDir) -> None:
    refused = edit("owner/project", "".join(FILE), changed(FILE), 1)
    copy = edit("other/fork", "".join(FILE), changed(FILE), 2)
    selected(run, "a", [copy, refused], refused=1)
    ids = {row["id"] for row in run.rows("edits")}
    assert len(ids) == 2
    assert dedup(run) == {copy.id: (True, None)}


def test_part_learns_what_was_kept_of_its_own(run: RunDir) -> None:
    one = edit("owner/project", "".join(FILE), changed(FILE), 1)
    two = edit("other/fork", "".join(FILE), changed(FILE), 2)
    selected(run, "a", [one])
    selected(run, "b", [two])
    dedup(run)
    verdicts = run.part_path("dedup", VERDICTS, "all")
    parts = {part.name: kept_of(verdicts, "edits", part.path) for part in run.parts("edits")}
    assert parts == {"a": {one.id}, "b": set()}


def test_empty_parts_give_a_valid_empty_verdict(run: RunDir) -> None:
    selected(run, "a", [])
    assert dedup(run) == {}


def test_limit_bounds_the_edits(run: RunDir) -> None:
    edits = [edit("owner/project", "".join(FILE), changed(FILE, n), n) for n in range(4)]
    selected(run, "a", edits)
    assert len(dedup(run, limit=2)) == 2


def test_changed_verdict_of_select_gives_another_key(run: RunDir) -> None:
    one = edit("owner/project", "".join(FILE), changed(FILE), 1)
    selected(run, "a", [one])
    before: list[Unit] = plan_dedup(run)
    selected(run, "a", [one], refused=1)
    assert plan_dedup(run)[0].inputs != before[0].inputs


def test_dedup_before_select_says_what_is_missing(run: RunDir) -> None:
    with pytest.raises(RunDirError, match="no edits yet"):
        plan_dedup(run)
    finish(run, "mine", Output("edits"), "a", [], 0)
    with pytest.raises(RunDirError, match="verdicts/select lacks part a"):
        plan_dedup(run)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5])
def test_threshold_that_is_no_similarity_is_refused(threshold: float) -> None:
    with pytest.raises(AssayError, match=r"dedup\.threshold"):
        DedupConfig(threshold)


def test_negative_number_of_characters_is_refused() -> None:
    with pytest.raises(AssayError, match=r"dedup\.min_patch_chars"):
        DedupConfig(min_patch_chars=-1)
