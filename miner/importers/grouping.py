"""Rows of one prompt that stand together become one row, where a set publishes an answer a row.

A group is a row `{"group": [row, ...]}` with the number and the place of its first. A row that has no prompt
stays alone as it is, so that what reads it says what is wrong. Where a group begins depends on nothing
that stands before it, so reading can go on at any group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from miner.importers.fields import BadRow, parse_object
from miner.importers.rows import Numbered, object_line, source_rows

MOST = 4
"""Rows of a group; further rows of the same prompt begin another."""


def grouped_rows(path: Path, max_bytes: int, first: int = 1, place: int = 0) -> Iterator[Numbered]:
    """The groups of a file's rows, from the one that row `first` at `place` begins.

    Raises:
        AssayError: see `source_rows`.
    """
    held: list[bytes] = []
    prompt, start, at, size = "", 0, 0, 0
    for number, where, row in source_rows(path, max_bytes, first, place):
        told = row if isinstance(row, BadRow) else _prompt_of(row)
        joins = held and told == prompt and len(held) < MOST
        if held and not (joins and isinstance(row, bytes) and size + len(row) <= max_bytes):
            yield start, at, _joined(held)
            held = []
        if isinstance(row, BadRow) or not isinstance(told, str):
            yield number, where, row
            continue
        if not held:
            prompt, start, at, size = told, number, where, 0
        held.append(row)
        size += len(row)
    if held:
        yield start, at, _joined(held)


def _prompt_of(row: bytes) -> str | None:
    try:
        prompt = parse_object(row).get("prompt")
    except BadRow:
        return None
    return prompt if isinstance(prompt, str) else None


def _joined(rows: list[bytes]) -> bytes | BadRow:
    try:
        return object_line({"group": [parse_object(row) for row in rows]})
    except BadRow as bad:
        return bad
