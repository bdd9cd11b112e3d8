"""The changed regions of a file, as a zero-context unified diff numbers them, and the id of its patch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import pygit2
from pygit2.enums import DiffOption

from schemas.records import Hunk

_MARGIN = 32
"""Equal lines kept on both sides of what differs, so that the diff may slide a region as git does."""

_CONTEXT = 3
"""Lines of context in a patch, as git shows it unless told otherwise."""

_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


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
    `_CONTEXT` lines of context, without line numbers, object ids and any whitespace; unlike git's, without a
    change of the file's mode. It is the same where the same change was made to other versions of the file.
    """
    if old == new:
        return [], _digest([])
    # Most edits touch a small part of a large file: only that part is diffed.
    prefix = _common_prefix(old, new)
    suffix = _common_suffix(old, new, min(len(old), len(new)) - prefix)
    start = _line_start(old, prefix)
    end = _line_end(old, len(old) - suffix)
    skipped = old.count(b"\n", 0, start)
    # Named, since libgit2 reads the parts again when the patch is written out, and pygit2 does not hold them.
    old_part, new_part = old[start:end], new[start : len(new) - (len(old) - end)]
    patch = pygit2.Patch.create_from(
        old_part,
        new_part,
        flag=DiffOption.INDENT_HEURISTIC | DiffOption.FORCE_TEXT,
        context_lines=_CONTEXT,
        interhunk_lines=0,
    )
    return _read_patch(path, patch.data, skipped)


def _read_patch(path: bytes, patch: bytes, skipped: int) -> tuple[list[Hunk], str]:
    """Changed regions and id of a patch with context, whose line numbers are `skipped` too low."""
    hunks: list[Hunk] = []
    pieces = [b"diff--gita/", path, b"b/", path, b"---a/", path, b"+++b/", path]
    at_old = at_new = old_lines = new_lines = 0
    for line in patch[patch.find(b"\n@@ ") + 1 :].split(b"\n"):
        kind = line[:1]
        if kind in (b"-", b"+"):
            pieces.append(line)
            if kind == b"-":
                old_lines += 1
            else:
                new_lines += 1
            continue
        if kind == b"\\":  # "\ No newline at end of file"
            continue
        if old_lines or new_lines:
            # Where a side is empty its start is the line before it.
            hunks.append(
                Hunk(
                    old_start=at_old if old_lines else at_old - 1,
                    old_lines=old_lines,
                    new_start=at_new if new_lines else at_new - 1,
                    new_lines=new_lines,
                )
            )
            at_old, at_new = at_old + old_lines, at_new + new_lines
            old_lines = new_lines = 0
        if kind == b" ":
            pieces.append(line)
            at_old, at_new = at_old + 1, at_new + 1
        elif kind == b"@":
            numbers = _HEADER.match(line)
            assert numbers is not None  # noqa: S101 (libgit2 wrote it)
            at_old, at_new = (
                int(start) + skipped + (1 if count == b"0" else 0)
                for start, count in (numbers.group(1, 2), numbers.group(3, 4))
            )
    return hunks, _digest(pieces)


def _digest(pieces: Sequence[bytes]) -> str:
    return hashlib.sha1(b"".join(b"".join(pieces).split()), usedforsecurity=False).hexdigest()
