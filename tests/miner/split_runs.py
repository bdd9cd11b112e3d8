"""Edits made of lines, and run directories as the stages before leave them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import Any

from miner.diff import compare
from schemas import shards
from schemas.ids import content_id
from schemas.records import TABLES, Edit, RepositoryFacts, Verdict
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, Output, Unit
from schemas.steps import ShardWriter, UnitReader, UnitStep

DAY = 86_400


def words(seed: str, count: int) -> list[str]:
    """Words that nothing else has."""
    return [f"{seed}_{number}" for number in range(count)]


def lines(seed: str, count: int) -> list[str]:
    """Lines of four words that nothing else has."""
    return [f"    {seed}_{n}a = call_{seed}_{n}b({seed}_{n}c, {seed}_{n}d)\n" for n in range(count)]


def edit(
    repo: str,
    path: str = "a.py",
    *,
    old: Sequence[str] | None = None,
    add: Sequence[str] = (),
    at: int = 0,
    message: str | None = None,
    commit: str | None = None,
) -> Edit:
    """An edit that puts lines into the middle of a file; the file is one of its own unless given."""
    before = list(old) if old is not None else lines(f"own{content_id(repo, path)[:8]}", 20)
    middle = len(before) // 2
    after = [*before[:middle], *add, *before[middle:]]
    first, second = "".join(before), "".join(after)
    hunks, patch = compare(path.encode(), first.encode(), second.encode())
    said = message if message is not None else f"Change {path} of {repo}"
    made = commit or content_id(repo, path, first, second, str(at), said)
    return Edit(
        id=content_id(repo, made, path),
        repo=repo,
        commit=made,
        parent="p" * 40,
        path=path,
        language="Python",
        old_contents=first,
        new_contents=second,
        old_id=content_id(first),
        new_id=content_id(second),
        patch_id=patch,
        subject=said.partition("\n")[0],
        message=said,
        author_time=at,
        commit_time=at,
        license=None,
        file_license=None,
        merged_by=None,
        reverted_by=None,
        reverted_how=None,
        cherry_picked_from=None,
        bot=False,
        ai_assisted=None,
        companions=[],
        hunks=hunks,
        lines_added=len(add),
        lines_removed=0,
    )


def finish(run: RunDir, stage: str, output: Output, unit: str, rows: Sequence[Any], kept: int) -> None:
    """Write a shard and its sidecar as a stage does."""
    path = run.part_path(stage, output, unit)
    count, size, digest = shards.write_shard(path, TABLES[output.table], rows)
    drops = {"test": count - kept} if count > kept else {}
    sidecar = shards.Sidecar(
        table=output.table,
        split=None,
        stage=stage,
        unit=unit,
        key="k",
        rows=count,
        bytes=size,
        sha256=digest,
        schema=shards.schema_digest(TABLES[output.table]),
        accounting=shards.Accounting(count, kept, drops),
        seconds=0.0,
    )
    shards.write_sidecar(path, sidecar)


def verdicts(stage: str, edits: Iterable[Edit], dropped: Iterable[Edit] = ()) -> list[Verdict]:
    """What a stage decided: all edits are kept but those of `dropped`."""
    gone = {one.id for one in dropped}
    return [
        Verdict(
            id=one.id,
            stage=stage,
            keep=one.id not in gone,
            reason="test" if one.id in gone else None,
            detail=None,
            marks=[],
        )
        for one in edits
    ]


def mined(run: RunDir, parts: dict[str, list[Edit]], stage: str, dropped: Sequence[Edit] = ()) -> None:
    """Parts of edits with the verdicts of a stage: one shard for `dedup`, else one a part."""
    gone = {one.id for one in dropped}
    for name, edits in parts.items():
        finish(run, "mine", Output("edits"), name, edits, len(edits))
        if stage != "dedup":
            kept = sum(one.id not in gone for one in edits)
            finish(run, stage, VERDICTS, name, verdicts(stage, edits, dropped), kept)
    if stage == "dedup":
        every = [one for edits in parts.values() for one in edits]
        finish(run, stage, VERDICTS, "all", verdicts(stage, every, dropped), len(every) - len(gone))


def repositories(run: RunDir, roots: dict[str, list[str]]) -> None:
    """The table of repositories with their root commits."""
    rows = [
        RepositoryFacts(
            repo=repo,
            url=None,
            head="h" * 40,
            object_format="sha1",
            roots=own,
            commits=1,
            first_commit_time=None,
            last_commit_time=None,
            license=None,
            license_files=[],
            contributors=1,
            stars=None,
            issues=None,
            fork_of=None,
            known_from=None,
        )
        for repo, own in roots.items()
    ]
    finish(run, "repositories", Output("repositories"), "all", rows, len(rows))


def work(run: RunDir, step: UnitStep, outputs: tuple[Output, ...], units: list[Unit]) -> None:
    """Run a stage's units to their shards, those that are there already too."""
    units = [dataclasses.replace(unit, key=str(time.monotonic_ns())) for unit in units]
    steps: list[Any] = [
        UnitReader(run.root, step.name, outputs, units),
        step,
        ShardWriter(run.root, step.name, outputs),
    ]
    data: Any = None
    for one in steps:
        data = one.run(data, 0, 1)
    assert len(list(data)) == len(units)


def decided(run: RunDir, stage: str) -> dict[str, tuple[str | None, str | None, list[str]]]:
    """What a stage's verdicts say of each edit: (reason, detail, marks)."""
    return {
        row["id"]: (row["reason"], row["detail"], row["marks"])
        for part in run.parts("verdicts")
        if part.sidecar.stage == stage
        for row in shards.iter_rows(part.path, Verdict)
    }
