"""Rows of `edits` to find duplicates among."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miner.diff import compare
from miner.duplicates import Duplicate, Duplicates, Looked, Sides
from schemas.declare import as_row
from schemas.ids import content_id

BLOCK = [f"    new statement {n}\n" for n in range(12)]


def lines(seed: int, count: int = 80) -> list[str]:
    """A file unlike that of any other seed."""
    draw = random.Random(seed)
    return [f"line {draw.randrange(10**6)} of something\n" for _ in range(count)]


def put(text: Sequence[str], at: int, new: Sequence[str]) -> str:
    """The text with some lines replaced."""
    return "".join([*text[:at], *new, *text[at + len(new) :]])


def row(name: str, old: str, new: str, time: int = 0, path: str = "a.py", **more: Any) -> dict[str, Any]:
    """A row of `edits` with what is compared of it."""
    hunks, patch = compare(path.encode(), old.encode(), new.encode())
    return {
        "id": name,
        "commit": content_id(name, "commit") + "0" * 8,
        "author_time": time,
        "commit_time": time,
        "old_id": content_id(old),
        "new_id": content_id(new),
        "patch_id": patch,
        "cherry_picked_from": None,
        "old_contents": old,
        "new_contents": new,
        "hunks": [as_row(hunk) for hunk in hunks],
    } | more


def found(
    rows: Sequence[dict[str, Any]], folder: Path, threshold: float = 0.75, chars: int = 64, batch: int = 3
) -> dict[str, Duplicate]:
    """Of each row that goes why."""
    looked = Looked(len(rows))
    for start in range(0, len(rows), batch):
        looked.add(rows[start : start + batch])
    duplicates = Duplicates(looked, chars)
    wanted = duplicates.wanted()
    with Sides(folder, wanted) as sides:
        again = [rows[position] for position in wanted.tolist()]
        for start in range(0, len(again), batch):
            sides.add(again[start : start + batch])
        duplicates.join_alike(sides, wanted, threshold)
    duplicates.settle()
    return {name: why for at, name in enumerate(looked.names()) if (why := duplicates.why(at)) is not None}
