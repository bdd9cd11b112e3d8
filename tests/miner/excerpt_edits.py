"""Rows of `edits` for tests of excerpts."""

from __future__ import annotations

import dataclasses
from typing import Any

from miner.diff import compare
from schemas.ids import content_id

PATHS = {"Python": "a.py", "C": "a.c", "Java": "A.java", "JavaScript": "a.js", "TypeScript": "a.tsx"}


def edit(
    old: str, new: str, language: str = "Python", message: str = "Change it", **change: Any
) -> dict[str, Any]:
    """A row of `edits` that changes one text to another."""
    path = PATHS.get(language, "a.txt")
    found, patch_id = compare(path.encode(), old.encode(), new.encode())
    hunks = [dataclasses.asdict(hunk) for hunk in found]
    row = {
        "id": content_id(old, new, message),
        "repo": "owner/project",
        "commit": "c" * 40,
        "parent": "p" * 40,
        "path": path,
        "language": language,
        "old_contents": old,
        "new_contents": new,
        "old_id": content_id(old),
        "new_id": content_id(new),
        "patch_id": patch_id,
        "subject": message.partition("\n")[0],
        "message": message,
        "author_time": 0,
        "commit_time": 0,
        "license": None,
        "file_license": None,
        "merged_by": None,
        "reverted_by": None,
        "reverted_how": None,
        "cherry_picked_from": None,
        "bot": False,
        "ai_assisted": None,
        "companions": [],
        "hunks": hunks,
        "lines_added": sum(hunk["new_lines"] for hunk in hunks),
        "lines_removed": sum(hunk["old_lines"] for hunk in hunks),
    }
    return {**row, **change}
