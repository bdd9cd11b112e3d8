"""Small guards between a stranger's data and the page: text that is safe to show, numbers that are
numbers, files of bounded size, and counts that stay short.

Nothing here raises on odd input; a value that cannot be used comes back as None or as marked text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

NAME_CHARS = 120
"""Longest name (repository, path, reason, model) that the page prints, in characters."""

# Controls that a browser may not be given, and formatting characters that reorder or hide what a
# person reads ("Trojan Source", CVE-2021-42574). Tab and newline stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufdd0-\ufdef\ufffe\uffff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def shown(text: str) -> str:
    """Text with every unseen, reordering or unencodable character written out as `‹U+XXXX›`."""
    text = _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n"))
    return _UNSEEN.sub(lambda match: f"‹U+{ord(match[0]):04X}›", text)


def clip(text: str, limit: int) -> str:
    """The first `limit` characters, with an ellipsis for the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def name(value: Any, limit: int = NAME_CHARS) -> str:
    """A value as one short line to print."""
    # Clipped before it is searched: a name may be megabytes long.
    return clip(shown(clip(str(value), 4 * limit)).replace("\n", "⏎").replace("\t", " "), limit)


def number(value: Any) -> int | float | None:
    """A finite number as it stands, else None. (JSON allows NaN, and integers beyond any float.)"""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(float(value)) else None
    except OverflowError:
        return None


def count(value: Any) -> int | None:
    """A whole number of at least zero, else None."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def read_text(path: Path, limit: int) -> tuple[str | None, str | None]:
    """(text, problem) of a file of at most `limit` bytes; both None when there is no such file."""
    try:
        with path.open("rb") as handle:
            data = handle.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"
    if len(data) > limit:
        return None, f"is larger than {limit >> 20} MiB"
    return data.decode("utf-8", "replace"), None


def parse_json(text: str) -> tuple[Any, str | None]:
    """(value, problem) of JSON text."""
    try:
        return json.loads(text), None
    except (ValueError, RecursionError) as error:
        return None, f"is not JSON ({clip(str(error), 80)})"


def top(counts: Counter[str], limit: int) -> dict[str, Any]:
    """The most frequent names with their rows, and the sum of the rest: ties in order of the name."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = ranked[limit:]
    return {
        "names": len(ranked),
        "rows": sum(counts.values()),
        "top": [{"name": name(key), "rows": rows} for key, rows in ranked[:limit]],
        "other_names": len(rest),
        "other_rows": sum(rows for _, rows in rest),
    }


class Doubling:
    """A histogram whose bins double: 0, 1, 2-3, 4-7, 8-15 ... Fits lengths over many magnitudes."""

    def __init__(self) -> None:
        self.bins: Counter[int] = Counter()
        self.total = 0
        self.largest = 0

    def add(self, value: int, rows: int = 1) -> None:
        """Count `rows` rows of one value (0 or more)."""
        self.bins[value.bit_length()] += rows
        self.total += value * rows
        self.largest = max(self.largest, value)

    def facts(self) -> dict[str, Any]:
        """Rows, mean, largest value, and the bins from the first filled to the last."""
        rows = sum(self.bins.values())
        filled = [bit for bit, many in self.bins.items() if many]
        return {
            "rows": rows,
            "mean": round(self.total / rows, 3) if rows else None,
            "max": self.largest,
            "bins": [
                {"lo": (1 << bit) >> 1, "hi": max(0, (1 << bit) - 1), "rows": self.bins[bit]}
                for bit in (range(min(filled), max(filled) + 1) if filled else ())
            ],
        }


def share_bins(values: Iterable[float | None], bins: list[int]) -> None:
    """Count values of 0 to 1 into equal bins, in place; others, NaN too, are left out."""
    for value in values:
        if value is not None and 0 <= value <= 1:
            bins[min(int(value * len(bins)), len(bins) - 1)] += 1


def median(counts: Mapping[int, int] | Mapping[float, int]) -> float | None:
    """The middle of counted values, the mean of the two middle ones where there are two."""
    rows = sum(counts.values())
    if not rows:
        return None
    middle: list[float] = []
    seen = 0
    for value, many in sorted(counts.items()):
        middle += [value for at in {(rows - 1) // 2, rows // 2} if seen <= at < seen + many]
        seen += many
    # Divided first: the sum of two large numbers may be none.
    return sum(value / len(middle) for value in middle)


def tally(values: Iterable[Hashable]) -> Counter[str]:
    """How often each value occurs, None as `(none)`."""
    return Counter("(none)" if value is None else str(value) for value in values)
