"""The changed lines of an edit, cut out of its two versions by its hunks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """Whole lines of one version, or none: the place between two lines where the other version has some.

    Attributes:
        first: number of the first line, or of the one after the place, from 1.
        start: byte at which it begins.
        end: one past the last line's line end, or the end of the text; `start` when there is no line.
    """

    first: int
    start: int
    end: int


def regions(data: bytes, hunks: Sequence[Mapping[str, Any]], side: str) -> list[Region]:
    """Where the hunks stand in one version, in order. Linear in the text.

    Args:
        data: the version as UTF-8.
        hunks: rows of `schemas.records.Hunk`, top to bottom.
        side: `old` or `new`.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A) + 1

    def after(lines: int) -> int:
        """One past the end of that many lines."""
        return 0 if lines < 1 else int(ends[lines - 1]) if lines <= len(ends) else len(data)

    found = []
    for hunk in hunks:
        first, lines = hunk[f"{side}_start"], hunk[f"{side}_lines"]
        before = first - 1 if lines else first
        found.append(Region(before + 1, after(before), after(before + lines)))
    return found


def changed_text(data: bytes, places: Sequence[Region]) -> bytes:
    """All changed lines of one version together."""
    return b"".join(data[place.start : place.end] for place in places)
