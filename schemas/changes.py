"""The lines that an edit changes, from its two versions and its hunks.

Line ends are found in the bytes at once instead of splitting whole files: a change is a few lines of
a file of thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def lines_at(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Lines of `text`, without their line feeds, at spans (first line, count), lines counted from 1.

    Spans are in order. A line that the text does not have is left out.
    """
    if not spans:
        return []
    data = text.encode("utf-8", "surrogatepass")
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    found: list[str] = []
    for first, count in spans:
        if count and first <= len(ends) + 1:
            begin = int(ends[first - 2]) + 1 if first > 1 else 0
            last = first + count - 1
            end = int(ends[last - 1]) if last <= len(ends) else len(data)
            found += data[begin:end].decode("utf-8", "surrogatepass").split("\n")
    return found


def changed_lines(edit: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(lines only in the old file, lines only in the new file) of a row of `edits`, top to bottom."""
    hunks = edit["hunks"]
    removed = lines_at(edit["old_contents"], [(hunk["old_start"], hunk["old_lines"]) for hunk in hunks])
    added = lines_at(edit["new_contents"], [(hunk["new_start"], hunk["new_lines"]) for hunk in hunks])
    return removed, added
