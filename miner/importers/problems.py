"""Problem sets as published: files, and datasets on the Hub, become `Problem` rows.

Files are JSON Lines (also gzipped), a JSON list, or Parquet; `hub:` names a dataset. A file's format is
told by the fields of its first good row, or by the setting `importing.format`, and holds for all of it.
Programs are parsed where they are Python, never run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from miner.config import ImportConfig
from miner.importers.fields import Row
from miner.importers.formats import FORMATS, Format, choose
from miner.importers.hub import HubSource, fetched
from miner.importers.making import Reading
from miner.importers.planning import Source, plan_sources
from miner.importers.units import import_unit, plan_file
from schemas.ids import content_id
from schemas.stage import Outcome, Unit


class _Examiner:
    """Finds the format of a file at its first good row, and tells what each row is known by."""

    def __init__(self, config: ImportConfig) -> None:
        self.config = config
        self.format: Format | None = None if config.format == "auto" else FORMATS[config.format]

    def __call__(self, row: Row) -> str:
        form = self.format or choose(row)
        problems = form.read(row, Reading("", self.config))
        self.format = form
        return content_id(*(form.key(one) for one in problems[:1]))


def plan_problems(config: ImportConfig, given: Sequence[str | Path], limit: int | None = None) -> list[Unit]:
    """Plan the import of problem files and datasets, in the order given; `limit` bounds all rows together.
    The rows of a dataset are fetched into the cache, unless they are there.

    Of several good rows with one name in a file, the first counts.

    Raises:
        AssayError: nothing given, a file twice, or one that cannot be read or holds no good row.
    """
    return plan_sources(
        given, limit, lambda source, slug, left: _plan(config, source, slug, left), "problems"
    )


def _plan(config: ImportConfig, source: Source, slug: str, limit: int | None) -> list[Unit]:
    examine = _Examiner(config)
    inputs: dict[str, str] = {}
    if isinstance(source, HubSource):
        path, revision = fetched(source, config, limit)
        inputs["revision"] = revision
        planned = plan_file(config, path, slug, examine, limit, source.name)
    else:
        planned = plan_file(config, source, slug, examine, limit)
    if examine.format is None:
        raise AssertionError("a plan with a good row has a format")
    inputs["format"] = name = examine.format.name
    return [
        dataclasses.replace(unit, payload={**unit.payload, "format": name}, inputs={**unit.inputs, **inputs})
        for unit in planned
    ]


def import_problems(config: ImportConfig, unit: Unit, seed: int = 0) -> Iterator[Outcome]:
    """One outcome for every row of a unit: a `Keep` with its problems, or a `Drop`."""
    form = FORMATS[unit.payload["format"]]
    return import_unit(config, unit, lambda row, source: form.read(row, Reading(source, config, seed)))
