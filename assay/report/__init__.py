"""The report of a run: one HTML page that needs nothing else, and the same facts as JSON.

`collect` reads a run directory into plain facts, `render` turns facts into HTML without reading
anything, `write_report` does both and writes `report/report.json` and `report/index.html`, each whole
or not at all. The page never shows the time of its making, so the same run gives the same bytes.

A damaged shard, curve or evaluation costs its own figures and leaves a note on the page; what can
fail is writing (`RunDirError`). Everything shown is data of strangers: it is escaped, clipped, and freed
of characters that reorder or hide text.

Importing this package is cheap; pyarrow and jinja2 are loaded by the first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemas.rundir import RunDir

Reasons = Mapping[str, Mapping[str, str]]
"""Stage -> reason code of a drop -> the sentence that explains it."""


def collect(run: RunDir, reasons: Reasons | None = None) -> dict[str, Any]:
    """The facts of a run as JSON-able values (finite numbers, text that is valid UTF-8).

    Memory holds a few row groups of one table at a time, and a count a distinct name.
    """
    from assay.report.facts import collect as gather

    return gather(run, reasons or {})


def render(facts: dict[str, Any]) -> str:
    """The page of `collect`'s facts: a whole HTML document without scripts or outside resources."""
    from assay.report.page import render as draw

    return draw(facts)


def write_report(run: RunDir, reasons: Reasons | None = None) -> Path:
    """Write `report/report.json` and `report/index.html`; returns the page's path.

    Raises:
        RunDirError: the report folder cannot be written.
    """
    import json

    from schemas import shards
    from schemas.errors import RunDirError

    found = collect(run, reasons)
    html = render(found)
    folder = run.root / "report"
    page = folder / "index.html"
    try:
        folder.mkdir(exist_ok=True)
        text = json.dumps(found, indent=1, allow_nan=False) + "\n"
        shards.write_text(folder / "report.json", text)
        shards.write_text(page, html)
    except OSError as error:
        raise RunDirError(
            f"{folder}: the report cannot be written ({error.strerror}); free the place or its rights"
        ) from None
    return page
