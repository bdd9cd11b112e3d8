"""Preference sets as published: files, and datasets on the Hub, become `ImportedPair` rows.

Files are JSON Lines (also gzipped), a JSON list, or Parquet; `hub:` names a dataset. A file's format is
told by the fields of its first good row, or by the setting `preferences.format`, and holds for all of it.
A pair that an earlier row, of this file or another, has too is a duplicate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from miner.config import PreferencesConfig
from miner.importers.fields import BadRow, Row, parse_object
from miner.importers.grouping import MOST
from miner.importers.hub import HubSource, fetched
from miner.importers.layouts import choose
from miner.importers.lines import shown
from miner.importers.planning import Source, plan_sources
from miner.importers.preferences_formats import CLASSES, FORMATS, Format
from miner.importers.preferences_making import PairReading
from miner.importers.rows import source_rows
from miner.importers.units import Seen, import_unit, plan_file
from schemas.ids import content_id
from schemas.records import ImportedPair
from schemas.stage import Outcome, Unit


def plan_preferences(
    config: PreferencesConfig, given: Sequence[str | Path], limit: int | None = None
) -> list[Unit]:
    """Plan the import of preference files and datasets, in the order given; `limit` bounds all rows together.
    The rows of a dataset are fetched into the cache, unless they are there.

    Raises:
        AssayError: nothing given, a file twice, or one that cannot be read or holds no good row.
    """
    seen: Seen = {}
    return plan_sources(
        given, limit, lambda source, slug, left: _plan(config, source, slug, left, seen), "preferences"
    )


def _plan(config: PreferencesConfig, source: Source, slug: str, limit: int | None, seen: Seen) -> list[Unit]:
    inputs: dict[str, str] = {}
    split = ""
    if isinstance(source, HubSource):
        # Several rows of a set may make one of ours.
        most = None if limit is None else limit * MOST
        path, inputs["revision"] = fetched(source, config, most, CLASSES)
        name, split = source.name, source.split
    else:
        path, name = source, shown(source.name)
    by = PairReading(name, config, split=split)
    form = _recognised(by, path)

    def examine(row: Row) -> str:
        # Without a format no row is good, and the first one's fault is told.
        made = (form or choose(row, FORMATS)).read(row, by)
        return content_id(*(part for one in made for part in known_by(one)))

    rows = source_rows if form is None else form.rows
    planned = plan_file(
        config,
        path,
        slug,
        examine,
        limit,
        name if isinstance(source, HubSource) else None,
        rows=rows,
        seen=seen,
    )
    if form is None:
        raise AssertionError("a plan with a good row has a format")
    told = {"format": form.name, "split": split}
    return [
        dataclasses.replace(unit, payload=unit.payload | told, inputs=unit.inputs | inputs | told)
        for unit in planned
    ]


def _recognised(by: PairReading, path: Path) -> Format | None:
    """The format of a file by its first good row; None where it has none."""
    if by.config.format != "auto":
        return FORMATS[by.config.format]
    for _, _, line in source_rows(path, by.config.max_row_bytes, classes=CLASSES):
        try:
            if isinstance(line, BadRow):
                continue
            row = parse_object(line)
            form = choose(row, FORMATS)
            if not form.grouped:
                form.read(row, by)
            return form
        except BadRow:
            continue
    return None


def known_by(pair: ImportedPair) -> tuple[str, ...]:
    """What makes two pairs the same, whatever sets they come from and whatever ids they have there."""
    return pair.system, pair.input, pair.chosen, pair.rejected, pair.aspect


def import_preferences(config: PreferencesConfig, unit: Unit, seed: int = 0) -> Iterator[Outcome]:
    """One outcome for every row of a unit: a `Keep` with its pairs, or a `Drop`. Rows that make pairs only
    together count as one."""
    form, split = FORMATS[unit.payload["format"]], unit.payload["split"]
    return import_unit(
        config, unit, lambda row, source: form.read(row, PairReading(source, config, seed, split)), form.rows
    )
