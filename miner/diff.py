"""The changed regions of a file, as a zero-context unified diff numbers them, and the id of its patch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pygit2
from pygit2.enums import DiffOption

from schemas.records import Hunk

_MARGIN = 64
"""Equal lines kept on both sides of what differs, so that the diff may slide a region as git does."""

_CONTEXT = 3
"""Lines of context in a patch, as git shows it unless told otherwise."""


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


def compare(path: bytes, old: bytes, new: bytes) -> tuple[list[Hunk], str]:
    """The regions in which two versions of a file differ, top to bottom, and the id of the patch.

    Lines end at line feeds. An empty side's start is the line before it, as in `diff -U0`. Replacing each
    old region by its new one makes the new version of the old one.

    The id is made as `git patch-id --stable` makes it (git's builtin/patch-id.c): SHA-1 of the patch with
    `_CONTEXT` lines of context, without line numbers, object ids and any whitespace. It is the same where
    the same change was made to other versions of the file.
    """
    if old == new:
        return [], _patch_id(path, [], [], [], 0)
    # Most edits touch a small part of a large file: only that part is diffed.
    prefix = _common_prefix(old, new)
    suffix = _common_suffix(old, new, min(len(old), len(new)) - prefix)
    start = _line_start(old, prefix)
    end = _line_end(old, len(old) - suffix)
    skipped = old.count(b"\n", 0, start)
    old_part, new_part = old[start:end], new[start : len(new) - (len(old) - end)]
    patch = pygit2.Patch.create_from(
        old_part, new_part, flag=DiffOption.INDENT_HEURISTIC, context_lines=0, interhunk_lines=0
    )
    hunks = [
        Hunk(
            old_start=hunk.old_start + skipped,
            old_lines=hunk.old_lines,
            new_start=hunk.new_start + skipped,
            new_lines=hunk.new_lines,
        )
        for hunk in patch.hunks
    ]
    return hunks, _patch_id(path, _lines(old_part), _lines(new_part), hunks, skipped)


def line_hunks(old: bytes, new: bytes) -> list[Hunk]:
    """The regions of `compare` alone."""
    return compare(b"", old, new)[0]


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _patch_id(
    path: bytes, old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], skipped: int
) -> str:
    """The patch id of a change; `old` and `new` are the lines after the first `skipped` ones."""
    pieces = [b"diff--gita/", path, b"b/", path, b"---a/", path, b"+++b/", path]
    at = 0
    for number, hunk in enumerate(hunks):
        # Where a side is empty its start is the line before it.
        first = hunk.old_start - skipped - (1 if hunk.old_lines else 0)
        begin = hunk.new_start - skipped - (1 if hunk.new_lines else 0)
        pieces += old[max(at, first - _CONTEXT) : first]
        for line in old[first : first + hunk.old_lines]:
            pieces += (b"-", line)
        for line in new[begin : begin + hunk.new_lines]:
            pieces += (b"+", line)
        at = first + hunk.old_lines
        if number + 1 < len(hunks):
            after = hunks[number + 1]
            stop = min(at + _CONTEXT, after.old_start - skipped - (1 if after.old_lines else 0))
        else:
            stop = at + _CONTEXT
        pieces += old[at:stop]
        at = stop
    return hashlib.sha1(b"".join(b"".join(pieces).split()), usedforsecurity=False).hexdigest()
