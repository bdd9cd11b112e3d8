"""Shares with an interval: what a number of hits out of so many tells.

In: two counts. Out: the share and its 95 % interval. Wrong: nothing; of nothing there is no share.
"""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval (Wilson, 1927); `share` and `interval` are None of nothing."""

    hits: int
    total: int

    @property
    def share(self) -> float | None:
        """Hits of total."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Bounds that hold the true share in 95 of 100 such samples."""
        if not self.total:
            return None
        z = 1.959963984540054
        n, p = self.total, self.hits / self.total
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return max(0.0, middle - half), min(1.0, middle + half)

    def row(self) -> dict[str, float | int | None]:
        """The rate as plain values."""
        low, high = self.interval or (None, None)
        return {"share": self.share, "low": low, "high": high, "hits": self.hits, "total": self.total}
