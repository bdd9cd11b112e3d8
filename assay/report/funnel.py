"""What became of the rows, stage by stage: the sums of the accountings in the shards' sidecars.

A task's accounting stands in the sidecar of its first output only, so a sum over all tables counts a
task once. No shard is opened here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from assay.report import Reasons
from assay.report.plain import clip, count, name, number, shown
from schemas.records import TABLES
from schemas.rundir import Part, RunDir
from schemas.stage import rank


def parts_of(run: RunDir) -> dict[str, list[Part]]:
    """The finished shards of every table that has any."""
    found = {table: run.parts(table) for table in TABLES}
    return {table: parts for table, parts in found.items() if parts}


def _plan(run: RunDir, stage: str) -> tuple[int | None, int | None]:
    """(units planned, units failed) as the stage last wrote them; None when it does not tell."""
    try:
        plan = run.read_plan(stage)
        return (len(plan["units"]), len(plan["failed"])) if plan else (None, None)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None, None


def funnel(
    parts: dict[str, list[Part]], run: RunDir, reasons: Reasons
) -> tuple[list[dict[str, Any]], list[str]]:
    """(stages in order with rows in, kept and dropped by reason; what does not add up)."""
    rows_in: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    units: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    drops: dict[str, Counter[str]] = {}
    notes = []
    for shards in parts.values():
        for part in shards:
            stage, accounting = str(part.sidecar.stage), part.sidecar.accounting
            if accounting is None:
                continue
            units[stage] += 1
            # A sidecar is a file like any other: what is not a count in it counts nothing.
            rows_in[stage] += count(accounting.rows_in) or 0
            kept[stage] += count(accounting.kept) or 0
            given: Any = accounting.drops
            of = drops.setdefault(stage, Counter())
            for reason, rows in given.items() if isinstance(given, dict) else ():
                of[str(reason)] += count(rows) or 0
            seconds[stage] = seconds.get(stage, 0.0) + (number(part.sidecar.seconds) or 0.0)
    stages = []
    for stage in sorted(units, key=rank):
        dropped = drops[stage].total()
        if rows_in[stage] != kept[stage] + dropped:
            notes.append(
                f"{name(stage)}: {rows_in[stage]} rows in, but {kept[stage]} kept and {dropped} dropped; "
                "a sidecar was changed by hand, or a stage lost rows"
            )
        planned, failed = _plan(run, stage)
        sentences = reasons.get(stage, {})
        stages.append(
            {
                "stage": name(stage),
                "units": units[stage],
                "units_planned": planned,
                "units_failed": failed,
                "rows_in": rows_in[stage],
                "kept": kept[stage],
                "dropped": dropped,
                "seconds": round(seconds[stage], 3),
                "drops": [
                    {
                        "reason": name(reason),
                        "rows": rows,
                        "meaning": clip(shown(sentences[reason]), 400) if reason in sentences else None,
                    }
                    for reason, rows in sorted(drops[stage].items(), key=lambda item: (-item[1], item[0]))
                    if rows
                ],
            }
        )
    return stages, notes


def unfinished(run: RunDir, parts: dict[str, list[Part]]) -> list[str]:
    """A sentence for each table with shards that have no valid sidecar: they are not counted anywhere."""
    notes = []
    for table in TABLES:
        known = {part.path for part in parts.get(table, [])}
        left = [path for path in sorted((run.root / table).rglob("part-*.parquet")) if path not in known]
        if left:
            notes.append(
                f"{table}: {len(left)} unfinished or damaged shard(s), first {name(left[0].name)}; "
                "not counted here. Run the stage again to make them whole."
            )
    return notes
