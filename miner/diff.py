"""The changed regions of a file, as a zero-context unified diff numbers them."""

from __future__ import annotations

import pygit2

from schemas.records import Hunk

_MARGIN = 64
"""Equal lines kept on both sides of what differs, so that the diff may slide a region as git does."""


def _common_prefix(one: bytes, other: bytes) -> int:
    """Number of equal leading bytes; by halving, since comparing runs at memory speed and copies nothing."""
    view = memoryview(other)
    low, high = 0, min(len(one), len(other))
    if one.startswith(view[:high]):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle
    return low


def _common_suffix(one: bytes, other: bytes, most: int) -> int:
    """Number of equal trailing bytes, at most `most`."""
    view = memoryview(other)
    low, high = 0, most
    if one.endswith(view[len(other) - high :]):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one.endswith(view[len(other) - middle : len(other) - low], 0, len(one) - low):
            low = middle
        else:
            high = middle
    return low


def _line_start(data: bytes, at: int) -> int:
    """Start of the line that is `_MARGIN` lines above the one at a position."""
    for _ in range(_MARGIN + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _line_end(data: bytes, at: int) -> int:
    """End of the line that is `_MARGIN` lines below the one at a position."""
    for _ in range(_MARGIN + 1):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return len(data)
    return at


def line_hunks(old: bytes, new: bytes) -> list[Hunk]:
    """The regions in which two versions differ, top to bottom; lines end at line feeds.

    An empty side's start is the line before it, as in `diff -U0`. Replacing each old region by its
    new one makes the new version of the old one.
    """
    if old == new:
        return []
    # Most edits touch a small part of a large file: only that part is diffed.
    prefix = _common_prefix(old, new)
    suffix = _common_suffix(old, new, min(len(old), len(new)) - prefix)
    start = _line_start(old, prefix)
    end = _line_end(old, len(old) - suffix)
    skipped = old.count(b"\n", 0, start)
    patch = pygit2.Patch.create_from(
        old[start:end], new[start : len(new) - (len(old) - end)], context_lines=0, interhunk_lines=0
    )
    return [
        Hunk(
            old_start=hunk.old_start + skipped,
            old_lines=hunk.old_lines,
            new_start=hunk.new_start + skipped,
            new_lines=hunk.new_lines,
        )
        for hunk in patch.hunks
    ]
