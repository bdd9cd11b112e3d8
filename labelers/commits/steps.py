"""The `label` and `build` stages as datatrove steps, and how they are cut into units."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelers.commits import criteria, pairs
from labelers.commits.config import BuildConfig, LabelConfig
from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.ids import digest_json
from schemas.records import Edit, Excerpt, Label
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, WHOLE, Keep, Outcome, Unit
from schemas.steps import UnitStep
from schemas.verdicts import kept_of


def _with_criteria(units: list[Unit], criteria_file: str) -> list[Unit]:
    """The criteria are an input too: a changed file gives other keys."""
    found = criteria.load(criteria_file)
    digest = digest_json([dataclasses.asdict(one) for one in found])
    return [dataclasses.replace(unit, inputs={**unit.inputs, "criteria": digest}) for unit in units]


def plan_label(run: RunDir, config: LabelConfig, limit: int | None) -> list[Unit]:
    """One unit a part of `edits`; it considers the edits that `dedup` kept.

    Raises:
        RunDirError: `mine` or `dedup` has not finished.
    """
    parts = run.units_per_part("edits")
    verdicts = run.part_path("dedup", VERDICTS, WHOLE)
    try:
        decided = shards.read_sidecar(verdicts)
    except ShardError:
        raise RunDirError(f"{run.root}: no verdicts of dedup yet; run select and dedup first") from None
    units, left = [], limit
    for part in parts:
        kept = len(kept_of(verdicts, "edits", run.root / part.payload["edits"]))
        rows = kept if left is None else min(left, kept)
        left = None if left is None else left - rows
        payload = {**part.payload, "verdicts": str(verdicts.relative_to(run.root)), "limit": rows}
        inputs = {**part.inputs, "verdicts": decided.sha256}
        units.append(dataclasses.replace(part, rows=rows, payload=payload, inputs=inputs))
    return _with_criteria(units, config.criteria_file)


def plan_build(run: RunDir, config: LabelConfig, limit: int | None) -> list[Unit]:
    """One unit a part of `labels`, with the edits that it labels and their excerpts."""
    return _with_criteria(run.units_per_part("labels", ("edits", "excerpts"), limit), config.criteria_file)


class LabelEdits(UnitStep):
    """Give every selected edit a label."""

    name = "label"

    def __init__(self, config: LabelConfig, run_dir: Path) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `Label` for each edit that `dedup` kept."""
        shard = self.run_dir / unit.payload["edits"]
        kept = kept_of(self.run_dir / unit.payload["verdicts"], "edits", shard)
        found = criteria.load(self.config.criteria_file)
        edits = shards.iter_rows(shard, Edit)
        selected = (edit for edit in edits if edit["id"] in kept)
        for edit in itertools.islice(selected, unit.payload["limit"]):
            yield Keep((pairs.label(edit, found, self.config),))


class BuildPairs(UnitStep):
    """Turn labelled edits into preference pairs."""

    name = "build"

    def __init__(self, config: BuildConfig, labels: LabelConfig, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.labels, self.run_dir, self.seed = config, labels, run_dir, seed

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a pair, or why there is none, for each label."""
        labels = shards.iter_rows(self.run_dir / unit.payload["labels"], Label)
        given = {row["id"]: row for row in itertools.islice(labels, unit.payload["limit"])}
        found = criteria.load(self.labels.criteria_file)
        # Sorted by edit and piece, as shards of excerpts are.
        cut: dict[str, list[dict[str, Any]]] = {}
        for excerpt in shards.iter_rows(self.run_dir / unit.payload["excerpts"], Excerpt):
            cut.setdefault(excerpt["edit_id"], []).append(excerpt)
        for edit in shards.iter_rows(self.run_dir / unit.payload["edits"], Edit):
            if (row := given.get(edit["id"])) is not None:
                yield pairs.pair(edit, row, found, self.config, self.seed, cut.get(edit["id"], ()))
