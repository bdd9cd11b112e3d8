"""The `dedup` stage: of edits that are the same or nearly so, in all repositories of a run, one stays.

In: all parts of `edits`, and what `select` decided about each. Out: one verdict for each edit that
`select` kept. It is one unit of work, since any two edits of a run may be alike; it reads the shards
one at a time, and a second time where edits may be nearly the same. What it finds does not depend on how
edits are spread over shards. See `miner.duplicates` for what counts as the same, and for the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from miner.config import DedupConfig
from miner.duplicates import COLUMNS, SIDES, Duplicates, Looked, Sides
from miner.ngrams import grouped
from schemas import shards
from schemas.errors import ShardError
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.stage import WHOLE, Drop, Keep, Outcome, Unit
from schemas.verdicts import kept_of

_BATCH = 4 << 20
"""Characters of files that are looked at together."""


def plan_dedup(run: RunDir, limit: int | None = None) -> list[Unit]:
    """The stage's one unit: every part of `edits` with its verdicts.

    Raises:
        RunDirError: `mine` or `select` has not finished.
    """
    parts = run.units_per_part("edits", ("verdicts/select",))
    kept = 0
    inputs = {}
    for part in parts:
        counted = shards.read_sidecar(run.root / part.payload["verdicts/select"]).accounting
        if counted is None:
            raise ShardError(f"{run.root}: verdicts of select lack their accounting; run select --clean")
        kept += counted.kept
        inputs.update({f"{part.name}/{name}": digest for name, digest in part.inputs.items()})
    rows = kept if limit is None else min(limit, kept)
    found = [[part.payload["edits"], part.payload["verdicts/select"]] for part in parts]
    return [Unit(WHOLE, rows, {"parts": found, "limit": rows}, inputs)]


def _selected(run_dir: Path, unit: Unit, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The edits that `select` kept, shard by shard, up to the unit's limit."""
    left = unit.payload["limit"]
    for edits, verdicts in unit.payload["parts"]:
        if left == 0:
            return
        kept = kept_of(run_dir / verdicts, "edits", run_dir / edits)
        for row in shards.iter_rows(run_dir / edits, Edit, columns):
            if row["id"] in kept:
                yield row
                left -= 1
                if left == 0:
                    return


def _size(row: dict[str, Any]) -> int:
    return len(row["old_contents"]) + len(row["new_contents"])


def find_duplicates(config: DedupConfig, run_dir: Path, unit: Unit) -> tuple[Looked, Duplicates]:
    """What was looked at, and which of it are duplicates."""
    looked = Looked(unit.rows)
    for batch in grouped(_selected(run_dir, unit, COLUMNS), _size, _BATCH):
        looked.add(batch)
    found = Duplicates(looked, config.min_patch_chars)
    wanted = found.wanted()
    if len(wanted):
        mask = np.zeros(looked.rows, bool)
        mask[wanted] = True
        rows = _selected(run_dir, unit, ("id", *SIDES))
        again = (row for row, is_wanted in zip(rows, mask, strict=True) if is_wanted)
        with Sides(run_dir, wanted) as sides:
            for batch in grouped(again, _size, _BATCH):
                sides.add(batch)
            found.join_alike(sides, wanted, config.threshold)
    found.settle()
    return looked, found


def dedup_unit(config: DedupConfig, run_dir: Path, unit: Unit) -> Iterator[Outcome]:
    """One outcome for each edit that `select` kept."""
    looked, found = find_duplicates(config, run_dir, unit)
    for position, own in enumerate(looked.names()):
        if (why := found.why(position)) is None:
            yield Keep((Verdict(id=own, stage="dedup", keep=True, reason=None, detail=None, marks=[]),))
        else:
            yield Drop(own, why.reason, f"{why.stays} stays")
