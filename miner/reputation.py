"""Whether a repository is known well enough to learn from, by stars, contributors and issues.

In: a repository's row of `repositories`, or nothing where none is there. What is not known is marked and
never speaks against a repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miner.config import SelectConfig
from schemas.errors import ShardError
from schemas.records import Edit, RepositoryFacts
from schemas.rundir import RunDir
from schemas.shards import iter_rows

_COLUMNS = ("repo", "url", "contributors", "stars", "issues")
_COUNTS = ("stars", "contributors", "issues")

Facts = Mapping[str, Any]


def read_facts(run: RunDir) -> dict[str, list[tuple[str, Facts]]]:
    """Repository -> (unit, facts) of each row of the table `repositories` that bears this name."""
    found: dict[str, list[tuple[str, Facts]]] = {}
    for part in run.parts("repositories"):
        try:
            for row in iter_rows(part.path, RepositoryFacts, _COLUMNS):
                found.setdefault(row["repo"], []).append((part.name, row))
        except ShardError:
            # Made by another version; the stage will make it again, and until then nothing is known.
            continue
    return found


def facts_of(known: Mapping[str, list[tuple[str, Facts]]], shard: Path, unit: str) -> Facts | None:
    """The facts of the repository that a part of `edits` was mined from, or None when they are not known.

    Folders of one name have parts whose names tell them apart: `repo-067c1b0d` and `repo-067c1b0d-00003`.
    """
    first = next(iter_rows(shard, Edit, ["repo"]), None)
    rows = known.get(first["repo"], []) if first is not None else []
    own = [facts for name, facts in rows if unit.rpartition("-")[0] == name]
    if len(own or rows) != 1:
        return None
    return own[0] if own else rows[0][1]


def by_reputation(config: SelectConfig, facts: Facts | None) -> tuple[tuple[str, str] | None, list[str]]:
    """Why a repository's edits are dropped, as (reason, detail), or None; and marks of what is not known."""
    local = facts is not None and facts["url"] is None
    if config.reputation == "none" or (config.reputation == "remote" and local):
        return None, []
    refused, marks = None, []
    for what in _COUNTS:
        least: int = getattr(config, f"min_{what}")
        number = None if facts is None else facts[what]
        if not least:
            continue
        if number is None:
            marks.append(f"{what}_unknown")
        elif number < least and refused is None:
            refused = f"few_{what}", f"{number} {what}"
    return refused, marks
