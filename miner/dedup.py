"""The `dedup` stage: of edits that are nearly the same, in all repositories of a run, the earliest stays.

In: all parts of `edits`, and what `select` decided about each. Out: one verdict for each edit that
`select` kept. It is one unit of work, since any two edits of a run may be alike; it reads the shards
one at a time, and those with possible duplicates a second time. See `miner.nearduplicates`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from miner.config import DedupConfig
from miner.nearduplicates import Looked, Signatures, alike_changes, duplicates, side_signatures
from schemas import shards
from schemas.errors import ShardError
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.stage import WHOLE, Drop, Keep, Outcome, Unit
from schemas.verdicts import kept_of

_COLUMNS = ("id", "commit_time", "old_contents", "new_contents", "hunks")
_BATCH = 500


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


def _selected(run_dir: Path, unit: Unit) -> Iterator[dict[str, Any]]:
    """The edits that `select` kept, shard by shard, with the columns that are looked at."""
    for edits, verdicts in unit.payload["parts"]:
        kept = kept_of(run_dir / verdicts, "edits", run_dir / edits)
        for row in shards.iter_rows(run_dir / edits, Edit, _COLUMNS):
            if row["id"] in kept:
                yield row


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(itertools.islice(rows, _BATCH)):
        yield batch


def dedup_unit(config: DedupConfig, run_dir: Path, unit: Unit) -> Iterator[Outcome]:
    """One outcome for each edit that `select` kept, by commit time."""
    looked = Looked()
    for batch in _batches(itertools.islice(_selected(run_dir, unit), unit.payload["limit"])):
        looked.add(batch)
    looked.settle()
    pairs = alike_changes(looked, config.threshold)
    wanted = {looked.ids[position] for pair in pairs for position in pair}
    sides: dict[str, tuple[Signatures, Signatures]] = {}
    again = (row for row in _selected(run_dir, unit) if row["id"] in wanted) if wanted else iter(())
    for batch in _batches(again):
        sides.update(zip((row["id"] for row in batch), side_signatures(batch), strict=True))
    gone = duplicates(looked, pairs, sides, config.threshold)
    for own in looked.ids:
        if (why := gone.get(own)) is None:
            yield Keep((Verdict(id=own, stage="dedup", keep=True, reason=None, detail=None, marks=[]),))
        else:
            reason = "exact_duplicate" if why.exact else "near_duplicate"
            yield Drop(own, reason, f"{why.stays} stays")
