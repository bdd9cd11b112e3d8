"""The `cut` stage: the edits that passed every check get their excerpts.

In: a part of `edits`, and the verdicts of `AFTER` about it. Out: one outcome for each edit that these kept: a
`Keep` with its excerpts (see `miner.excerpts`), or a `Drop` with a reason of `miner.reasons.CUT`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

from decompose.grammars import SourceError
from miner.config import CutConfig
from miner.excerpts import excerpts
from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.records import Edit
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, WHOLE, Drop, Keep, Outcome, Unit
from schemas.verdicts import kept_of

AFTER = "decontaminate"
"""The last stage whose verdicts say which edits go on."""


def _verdicts(run: RunDir, unit: str) -> tuple[Path, shards.Sidecar]:
    """What `AFTER` decided about a part: a shard of its own, or one for the whole run."""
    for name in (unit, WHOLE):
        path = run.part_path(AFTER, VERDICTS, name)
        try:
            return path, shards.read_sidecar(path)
        except ShardError:
            continue
    raise RunDirError(f"{run.root}: no verdicts of {AFTER} yet; run the stages up to {AFTER} first")


def plan_cut(run: RunDir, limit: int | None = None) -> list[Unit]:
    """One unit a part of `edits`; `limit` bounds all edits together.

    Raises:
        RunDirError: `mine` or `AFTER` has not finished.
    """
    units, left = [], limit
    for part in run.units_per_part("edits"):
        path, decided = _verdicts(run, part.name)
        kept = len(kept_of(path, "edits", run.root / part.payload["edits"]))
        rows = kept if left is None else min(left, kept)
        left = None if left is None else left - rows
        payload = {**part.payload, "verdicts": str(path.relative_to(run.root)), "limit": rows}
        inputs = {**part.inputs, "verdicts": decided.sha256}
        units.append(dataclasses.replace(part, rows=rows, payload=payload, inputs=inputs))
    return units


def cut_unit(config: CutConfig, run_dir: Path, unit: Unit) -> Iterator[Outcome]:
    """One outcome for each edit of the part that `AFTER` kept, in the part's order."""
    shard = run_dir / unit.payload["edits"]
    kept = kept_of(run_dir / unit.payload["verdicts"], "edits", shard)
    chosen = (edit for edit in shards.iter_rows(shard, Edit) if edit["id"] in kept)
    for edit in itertools.islice(chosen, unit.payload["limit"]):
        try:
            yield Keep(tuple(excerpts(edit, config)))
        except SourceError as error:
            yield Drop(edit["id"], "not_parsed", str(error))
