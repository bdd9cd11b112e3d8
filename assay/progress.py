"""What a person sees while a stage works: a live view on a terminal, else a plain line now and then.

The runner calls an `Observer`; nothing here knows what a stage does. All of it goes to standard
error, so that standard output stays for results and `--json`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any, Protocol

PLAIN_EVERY = 30.0
"""Seconds between two lines where standard error is not a terminal."""
_NOTE_EVERY = 0.2


class Observer(Protocol):
    """What the runner reports."""

    def started(self, stage: str, units: int, skipped: int, rows: int) -> None:
        """A stage begins: units in all, of these already done, and rows that the rest will consider."""

    def unit_done(self, unit: str, kept: int, drops: dict[str, int]) -> None:
        """A unit was written."""

    def trouble(self, message: str) -> None:
        """A worker died or a unit failed: one line for a person."""

    def tick(self) -> None:
        """Called several times a second while workers are busy."""

    def note(self, text: str) -> None:
        """How far work without units is, such as training: shown in place of the last note."""

    def finished(self, summary: str) -> None:
        """The stage is over."""

    def closed(self) -> None:
        """Nothing more comes, whether the stage finished or not."""


class Quiet:
    """Only trouble is told."""

    def started(self, stage: str, units: int, skipped: int, rows: int) -> None:
        """Nothing to show."""

    def unit_done(self, unit: str, kept: int, drops: dict[str, int]) -> None:
        """Nothing to show."""

    def trouble(self, message: str) -> None:
        """Print the line."""
        print(f"assay: {message}", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Nothing to show."""

    def note(self, text: str) -> None:
        """Nothing to show."""

    def finished(self, summary: str) -> None:
        """Nothing to show."""

    def closed(self) -> None:
        """Nothing to close."""


class _Counted(Quiet):
    """Counts that both views print."""

    def started(self, stage: str, units: int, skipped: int, rows: int) -> None:
        self.stage, self.units, self.skipped, self.rows = stage, units, skipped, rows
        self.done, self.kept = 0, 0
        self.drops: Counter[str] = Counter()
        self.begun = self.told = time.monotonic()

    def unit_done(self, unit: str, kept: int, drops: dict[str, int]) -> None:
        self.done += 1
        self.kept += kept
        self.drops.update(drops)

    def line(self) -> str:
        """One line: units, rows per second, drops, time left."""
        seen = self.kept + self.drops.total()
        spent = max(time.monotonic() - self.begun, 1e-9)
        text = f"{self.stage}: {self.done}/{self.units - self.skipped} units"
        text += f", {seen:,} rows, {seen / spent:,.0f} rows/s"
        if self.drops:
            text += f", {self.drops.total():,} dropped"
        if 0 < seen < self.rows:
            text += f", about {(self.rows - seen) / (seen / spent):,.0f} s left"
        return text


class Plain(_Counted):
    """A line every 30 s and one at the end of a stage."""

    def __init__(self) -> None:
        self.told = time.monotonic()

    def note(self, text: str) -> None:
        """Print the note when the last line is old enough."""
        if time.monotonic() - self.told >= PLAIN_EVERY:
            self.told = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Print a line when the last is old enough."""
        if time.monotonic() - self.told >= PLAIN_EVERY:
            self.told = time.monotonic()
            print(self.line(), file=sys.stderr, flush=True)

    def finished(self, summary: str) -> None:
        """Print the summary."""
        print(summary, file=sys.stderr, flush=True)


class Live(_Counted):
    """A live view by rich: progress bar, rows per second, drops by reason."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self.console = Console(stderr=True)
        self.view: RichLive | None = None

    def _render(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        todo = self.units - self.skipped
        head = Table.grid(padding=(0, 1))
        head.add_row(ProgressBar(total=max(todo, 1), completed=self.done, width=30), Text(self.line()))
        drops = ", ".join(f"{reason} {count:,}" for reason, count in self.drops.most_common(6))
        return Group(head, Text(f"  dropped: {drops}", style="dim")) if drops else head

    def started(self, stage: str, units: int, skipped: int, rows: int) -> None:
        """Open the view."""
        from rich.live import Live as RichLive

        super().started(stage, units, skipped, rows)
        if units > skipped:
            self.view = RichLive(self._render(), console=self.console, refresh_per_second=8, transient=True)
            self.view.start()

    def tick(self) -> None:
        """Refresh the view."""
        if self.view:
            self.view.update(self._render())

    def note(self, text: str) -> None:
        """Show the note on a line of its own that the next one replaces."""
        from rich.live import Live as RichLive
        from rich.text import Text

        if self.view is None:
            self.view = RichLive(console=self.console, refresh_per_second=8, transient=True)
            self.view.start()
        self.view.update(Text(text, overflow="ellipsis", no_wrap=True))

    def trouble(self, message: str) -> None:
        """Print the line above the view."""
        from rich.text import Text

        self.console.print(Text(f"assay: {message}", style="yellow"))

    def finished(self, summary: str) -> None:
        """Close the view and leave the summary."""
        from rich.text import Text

        self.closed()
        self.console.print(Text(summary))

    def closed(self) -> None:
        """Close the view."""
        if self.view:
            self.view.stop()
            self.view = None


class Meter:
    """How far work over a known number of rows is, as notes of a view: percent, rows a second, time left."""

    def __init__(self, view: Observer, what: str, unit: str = "rows") -> None:
        self._view, self._what, self._unit = view, what, unit
        self._begun = self._told = time.monotonic()

    def __call__(self, done: int, total: int | None, made: int | None = None) -> None:
        """Say that `done` rows of `total` (None when not known) are behind; `made` of them since the start
        of this run, where others had been done before."""
        now = time.monotonic()
        if now - self._told < _NOTE_EVERY and done != total:
            return
        self._told = now
        fresh = done if made is None else made
        rate = fresh / max(now - self._begun, 1e-9)
        of = "" if total is None else f" of {total:,}"
        text = f"{self._what}: {done:,}{of} {self._unit}"
        if total:
            text += f" ({done / total:.0%})"
        if fresh:
            text += f", {rate:,.1f} {self._unit}/s"
            if total and done < total:
                text += f", about {(total - done) / rate:,.0f} s left"
        self._view.note(text)


def observer(as_json: bool) -> Observer:
    """The view that fits: quiet for `--json`, live on a terminal, else plain."""
    if as_json:
        return Quiet()
    return Live() if sys.stderr.isatty() else Plain()
