"""The select stage: which edits go on to be labelled.

In: one part of the `edits` table, and what is known of its repository. Out: one outcome an edit, in the
part's order: a `Keep` with its verdict, or a `Drop` with a reason of `miner.reasons.SELECT`; either bears
what was noted, of `miner.reasons.MARKS`. An edit is judged by itself alone (copies of one another are for
`dedup` to find). Contents are never copied. What is cheap to check is checked first: only edits that pass
the rest are parsed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from miner import checks
from miner.config import SelectConfig
from miner.reputation import Facts, by_reputation, facts_of, read_facts
from miner.syntax import Parsed
from schemas.ids import digest_json
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.shards import iter_rows
from schemas.stage import Drop, Keep, Outcome, Unit

STAGE = "select"


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What became of an edit.

    Attributes:
        reason: why it is dropped; None when it is kept.
        detail: what a person would want to know about the drop.
        marks: what was noted, in order of their names. For a dropped edit, what was looked at before.
    """

    reason: str | None
    detail: str | None
    marks: tuple[str, ...]


def consider(
    config: SelectConfig, edit: dict[str, Any], facts: Facts | None = None, parsed: Parsed | None = None
) -> Judgement:
    """Judge one row of `edits`.

    Args:
        facts: what is known of its repository: a row of `repositories`, or None.
        parsed: keeps trees from one edit to the next; None for an edit alone.
    """
    refused: checks.Refusal | None
    refused, marks = by_reputation(config, facts)
    if checks.is_test_file(edit["path"]):
        marks.append("test_file")
    refused = refused or checks.by_provenance(config, edit) or checks.by_size(config, edit)
    refused = refused or checks.by_message(config, edit) or checks.by_tokens(config, edit)
    if refused is None:
        refused, found = checks.by_content(config, edit, parsed or Parsed())
        marks += found
    reason, detail = refused or (None, None)
    return Judgement(reason, detail, tuple(sorted(set(marks))))


def judge(config: SelectConfig, edit: dict[str, Any]) -> tuple[str, str | None] | None:
    """Why an edit of an unknown repository is dropped, as (reason, detail), or None when it is kept."""
    found = consider(config, edit)
    return None if found.reason is None else (found.reason, found.detail)


def select_edits(
    config: SelectConfig, edits: Iterator[dict[str, Any]], facts: Facts | None = None
) -> Iterator[Outcome]:
    """One outcome for every edit, in order; the edits are of one repository."""
    parsed = Parsed()
    for edit in edits:
        found = consider(config, edit, facts, parsed)
        if found.reason is None:
            marks = list(found.marks)
            yield Keep(
                (Verdict(id=edit["id"], stage=STAGE, keep=True, reason=None, detail=None, marks=marks),)
            )
        else:
            yield Drop(edit["id"], found.reason, found.detail, found.marks)


def select_unit(config: SelectConfig, run_dir: Path, unit: Unit) -> Iterator[Outcome]:
    """`select_edits` for the part that a unit names."""
    rows = iter_rows(run_dir / unit.payload["edits"], Edit)
    return select_edits(config, islice(rows, unit.rows), unit.payload["repository"])


def plan_select(run: RunDir, limit: int | None = None) -> list[Unit]:
    """One unit a part of the edits; `limit` bounds all edits together.

    What is known of a part's repository is in its payload and inputs, so that new facts of one repository
    make only its own parts again.

    Raises:
        AssayError: there are no edits yet, or a part cannot be read.
    """
    known, units = read_facts(run), []
    for unit in run.units_per_part("edits", limit=limit):
        facts = facts_of(known, run.root / unit.payload["edits"], unit.name)
        payload = {**unit.payload, "repository": facts}
        inputs = {**unit.inputs, "repository": digest_json(facts)}
        units.append(dataclasses.replace(unit, payload=payload, inputs=inputs))
    return units
