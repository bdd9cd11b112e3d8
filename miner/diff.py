"""The changed regions of a file, as a zero-context unified diff numbers them."""

from __future__ import annotations

import pygit2

from schemas.records import Hunk


def line_hunks(old: bytes, new: bytes) -> list[Hunk]:
    """The regions in which two versions differ, top to bottom; lines end at line feeds.

    An empty side's start is the line before it, as in `diff -U0`. Replacing each old region by its
    new one makes the new version of the old one.
    """
    patch = pygit2.Patch.create_from(old, new, context_lines=0, interhunk_lines=0)
    return [
        Hunk(old_start=h.old_start, old_lines=h.old_lines, new_start=h.new_start, new_lines=h.new_lines)
        for h in patch.hunks
    ]
