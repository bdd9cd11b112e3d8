"""Rows of `edits` made from two texts, with their real hunks."""

from __future__ import annotations

import dataclasses
from typing import Any

from miner.diff import compare
from schemas.ids import content_id
from schemas.records import Edit

OLD = "def total(values):\n    return sum(values) + 1\n"
NEW = "def total(values):\n    return sum(values)\n"


def record(old: str = OLD, new: str = NEW, **change: Any) -> Edit:
    """An edit that is kept by default, with any column changed."""
    hunks, patch_id = compare(b"a.py", old.encode(), new.encode())
    made = Edit(
        id=content_id(old, new, repr(change)),
        repo="ada/engine",
        commit="c" * 40,
        parent="d" * 40,
        path="a.py",
        language="Python",
        old_contents=old,
        new_contents=new,
        old_id="1" * 40,
        new_id="2" * 40,
        patch_id=patch_id,
        subject="Sum what was given",
        message="Sum what was given",
        author_time=1,
        commit_time=1,
        license="MIT",
        file_license=None,
        merged_by=None,
        reverted_by=None,
        reverted_how=None,
        cherry_picked_from=None,
        bot=False,
        ai_assisted=None,
        companions=[],
        hunks=hunks,
        lines_added=sum(hunk.new_lines for hunk in hunks),
        lines_removed=sum(hunk.old_lines for hunk in hunks),
    )
    return dataclasses.replace(made, **change)


def edit(old: str = OLD, new: str = NEW, **change: Any) -> dict[str, Any]:
    """The same as a row."""
    return {**dataclasses.asdict(record(old, new)), "id": content_id(old, new, repr(change)), **change}
