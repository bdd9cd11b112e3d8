"""The select stage: which edits go on to be labelled.

In: one part of the `edits` table. Out: one outcome an edit, in the part's order: a `Keep` with its
verdict, or a `Drop` with a reason of `miner.reasons.SELECT`. An edit is judged by itself alone (copies
of one another are for `dedup` to find). Contents are never copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from miner.config import SelectConfig
from miner.credentials import find_credential
from schemas.records import Edit, Verdict
from schemas.rundir import RunDir
from schemas.shards import iter_rows
from schemas.stage import Drop, Keep, Outcome, Unit

STAGE = "select"

_SPACE = re.compile(r"\s+")


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _meaningful_lines(text: str) -> Iterator[tuple[int, str]]:
    """Indentation and text without inner whitespace of each line that is not blank."""
    for line in text.split("\n"):
        if bare := _SPACE.sub("", line):
            expanded = line.expandtabs(8)
            yield len(expanded) - len(expanded.lstrip()), bare


def is_whitespace_only(old: str, new: str, language: str) -> bool:
    """Whether two versions differ only in whitespace that means nothing.

    All whitespace counts as nothing, inside literals too, except that Python's indentation is meaning.
    A tab indents to the next multiple of eight columns, as Python reads it.
    """
    if _SPACE.sub("", old) != _SPACE.sub("", new):
        return False
    return language != "Python" or list(_meaningful_lines(old)) == list(_meaningful_lines(new))


def _by_provenance(config: SelectConfig, edit: dict[str, Any]) -> tuple[str, str | None] | None:
    if config.drop_bots and edit["bot"]:
        return "bot", None
    if config.drop_reverted and edit["reverted_by"] is not None:
        return "reverted", f"by {edit['reverted_by']}"
    if config.drop_ai_assisted and edit["ai_assisted"] is not None:
        return "ai_assisted", edit["ai_assisted"]
    if config.require_merged and edit["merged_by"] is None:
        return "not_merged", None
    if config.licenses and edit["license"] not in config.licenses:
        return "license_not_allowed", edit["license"] or "not recognised"
    return None


def _by_size(config: SelectConfig, edit: dict[str, Any]) -> tuple[str, str] | None:
    larger = max(len(edit["old_contents"]), len(edit["new_contents"]))
    if larger < config.min_file_chars:
        return "too_small", f"{larger} characters"
    if larger > config.max_file_chars:
        return "too_large", f"{larger} characters"
    changed = edit["lines_added"] + edit["lines_removed"]
    if changed > config.max_changed_lines:
        return "too_many_changed_lines", f"{changed} lines"
    if len(edit["hunks"]) > config.max_hunks:
        return "too_many_hunks", f"{len(edit['hunks'])} hunks"
    return None


def _by_content(edit: dict[str, Any]) -> tuple[str, str | None] | None:
    old, new = edit["old_contents"], edit["new_contents"]
    if _unix_lines(old) == _unix_lines(new):
        return "line_ends_only", None
    if is_whitespace_only(old, new, edit["language"]):
        return "whitespace_only", None
    for side, text in (("old", old), ("new", new)):
        if found := find_credential(text):
            return "secret", f"{found} of the {side} version"
    return None


def judge(config: SelectConfig, edit: dict[str, Any]) -> tuple[str, str | None] | None:
    """Why an edit is dropped, as (reason, detail), or None when it is kept."""
    return _by_provenance(config, edit) or _by_size(config, edit) or _by_content(edit)


def select_edits(config: SelectConfig, edits: Iterator[dict[str, Any]]) -> Iterator[Outcome]:
    """One outcome for every edit, in order."""
    for edit in edits:
        if (refused := judge(config, edit)) is None:
            yield Keep((Verdict(id=edit["id"], stage=STAGE, keep=True, reason=None, detail=None, marks=[]),))
        else:
            yield Drop(edit["id"], *refused)


def select_unit(config: SelectConfig, run_dir: Path, unit: Unit) -> Iterator[Outcome]:
    """`select_edits` for the part that a unit names."""
    rows = iter_rows(run_dir / unit.payload["edits"], Edit)
    return select_edits(config, islice(rows, unit.rows))


def plan_select(run: RunDir, limit: int | None = None) -> list[Unit]:
    """One unit a part of the edits; `limit` bounds all edits together.

    Raises:
        AssayError: there are no edits yet.
    """
    return run.units_per_part("edits", limit=limit)
