"""The `label` and `build` stages as datatrove steps, and how they are cut into units."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from labelers.commits import criteria, pairs
from labelers.commits.config import BuildConfig, LabelConfig
from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.ids import digest_json
from schemas.records import Edit, Excerpt, Label, SplitAssignment
from schemas.rundir import RunDir
from schemas.stage import WHOLE, Keep, Outcome, Output, Unit
from schemas.steps import UnitStep
from schemas.verdicts import kept_of

_DECIDED = "verdicts/decontaminate"


def _with_criteria(units: list[Unit], criteria_file: str) -> list[Unit]:
    """The criteria are an input too: a changed file gives other keys."""
    found = criteria.load(criteria_file)
    digest = digest_json([dataclasses.asdict(one) for one in found])
    return [dataclasses.replace(unit, inputs={**unit.inputs, "criteria": digest}) for unit in units]


def plan_label(run: RunDir, config: LabelConfig, limit: int | None) -> list[Unit]:
    """One unit a part of `edits`; it considers the edits that `decontaminate` kept.

    Raises:
        RunDirError: `mine` or `decontaminate` has not finished.
    """
    units, left = [], limit
    for part in run.units_per_part("edits", (_DECIDED,)):
        counted = shards.read_sidecar(run.root / part.payload[_DECIDED]).accounting
        if counted is None:
            raise ShardError(f"{run.root}: {_DECIDED} lacks its accounting; run decontaminate --clean")
        rows = counted.kept if left is None else min(left, counted.kept)
        left = None if left is None else left - rows
        units.append(dataclasses.replace(part, rows=rows, payload={**part.payload, "limit": rows}))
    return _with_criteria(units, config.criteria_file)


def plan_build(run: RunDir, config: LabelConfig, limit: int | None) -> list[Unit]:
    """One unit a part of `labels`, with the edits that it labels, their excerpts and the run's splits.

    Raises:
        RunDirError: `label`, `cut` or `split` has not finished.
    """
    units = run.units_per_part("labels", ("edits", "excerpts"), limit)
    splits = run.part_path("split", Output("splits"), WHOLE)
    try:
        digest = shards.read_sidecar(splits).sha256
    except ShardError:
        raise RunDirError(f"{run.root}: no splits yet; run split first") from None
    told = {"splits": str(splits.relative_to(run.root))}
    units = [
        dataclasses.replace(unit, payload={**unit.payload, **told}, inputs={**unit.inputs, "splits": digest})
        for unit in units
    ]
    return _with_criteria(units, config.criteria_file)


def _splits_of(splits: Path, labels: Path) -> dict[str, str]:
    """The splits of the edits that a shard of labels is about."""
    table = shards.read_shard(splits, SplitAssignment, ["id", "split"])
    wanted = shards.read_shard(labels, Label, ["id"])["id"]
    own = table.filter(pc.is_in(table["id"], value_set=wanted.combine_chunks()))
    return dict(zip(own["id"].to_pylist(), own["split"].to_pylist(), strict=True))


class LabelEdits(UnitStep):
    """Give every selected edit a label."""

    name = "label"

    def __init__(self, config: LabelConfig, run_dir: Path) -> None:
        super().__init__()
        self.config, self.run_dir = config, run_dir

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `Label` for each edit that `decontaminate` kept."""
        shard = self.run_dir / unit.payload["edits"]
        kept = kept_of(self.run_dir / unit.payload[_DECIDED], "edits", shard)
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
        shard = self.run_dir / unit.payload["labels"]
        labels = shards.iter_rows(shard, Label)
        splits = _splits_of(self.run_dir / unit.payload["splits"], shard)
        given = {row["id"]: row for row in itertools.islice(labels, unit.payload["limit"])}
        found = criteria.load(self.labels.criteria_file)
        # Sorted by edit and piece, as shards of excerpts are.
        cut: dict[str, list[dict[str, Any]]] = {}
        for excerpt in shards.iter_rows(self.run_dir / unit.payload["excerpts"], Excerpt):
            cut.setdefault(excerpt["edit_id"], []).append(excerpt)
        for edit in shards.iter_rows(self.run_dir / unit.payload["edits"], Edit):
            if (row := given.get(edit["id"])) is not None:
                excerpts, split = cut.get(edit["id"], ()), splits.get(edit["id"])
                yield pairs.pair(edit, row, found, self.config, self.seed, excerpts, split=split)
