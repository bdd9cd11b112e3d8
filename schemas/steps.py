"""Datatrove steps that every stage shares: units in, shards out.

A stage's pipeline is `[UnitReader, <a UnitStep>, ShardWriter]`. The three talk in datatrove
`Document`s: one that opens a unit, one an outcome, one that closes it. The same list runs under our
runner, one unit a call, and under a datatrove executor, where a rank takes every world_size-th unit.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from schemas import shards
from schemas.declare import table_of
from schemas.errors import AccountingError
from schemas.records import SPLIT_TABLES, TABLES, Verdict
from schemas.rundir import RunDir
from schemas.stage import VERDICTS, Drop, Keep, Outcome, Output, Unit, all_outputs


class UnitReader(PipelineStep):  # type: ignore[misc]
    """Open every unit of this rank that is not done yet."""

    name = "units"
    type = "reader"

    def __init__(self, run_dir: Path, stage: str, outputs: Sequence[Output], units: Sequence[Unit]) -> None:
        super().__init__()
        self.run_dir, self.stage, self.outputs, self.units = run_dir, stage, tuple(outputs), tuple(units)

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield an opening document a unit."""
        if data:
            yield from data
        run = RunDir(self.run_dir)
        for unit in self.units[rank::world_size]:
            if run.is_done(self.stage, self.outputs, unit):
                self.stat_update("skipped", unit="unit")
                continue
            self.stat_update("opened", unit="unit")
            yield Document(text=unit.name, id=unit.name, metadata={"open": unit})


class UnitStep(PipelineStep, abc.ABC):  # type: ignore[misc]
    """A stage's work as a step; a subclass names its stage and implements `process`.

    What `process` counts beside its outcomes, by `count`, stands in the unit's sidecar.
    """

    type = "stage"

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def count(self, numbers: Mapping[str, int]) -> None:
        """Add numbers, by name, to what this unit counts."""
        self.counts.update(numbers)
        for name, number in numbers.items():
            self.stat_update(name, value=number)

    @abc.abstractmethod
    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield one outcome for every row of the unit."""

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Pass opening documents on, each followed by its outcomes and a closing document."""
        for document in data:
            yield document
            unit: Unit = document.metadata["open"]
            self.counts = Counter()
            with self.track_time("unit"):
                for number, outcome in enumerate(self.process(unit)):
                    what = "kept" if isinstance(outcome, Keep) else f"dropped_{outcome.reason}"
                    self.stat_update(what)
                    yield Document(text=what, id=f"{unit.name}/{number}", metadata={"outcome": outcome})
            counts = {name: number for name, number in sorted(self.counts.items()) if number}
            yield Document(text=unit.name, id=unit.name, metadata={"close": unit, "counts": counts})


@dataclasses.dataclass
class _Open:
    """What a unit has given so far."""

    unit: Unit
    builders: dict[Output, shards.ShardBuilder]
    kept: int
    drops: Counter[str]
    started: float


class ShardWriter(PipelineStep):  # type: ignore[misc]
    """Write a unit's outcomes as one shard an output, drops as verdicts, and check the accounting."""

    name = "shards"
    type = "writer"

    def __init__(self, run_dir: Path, stage: str, outputs: Sequence[Output]) -> None:
        super().__init__()
        self.run_dir, self.stage, self.outputs = run_dir, stage, all_outputs(outputs)

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Consume outcomes; yield the closing document of every unit that was written."""
        with contextlib.ExitStack() as opened:
            current: _Open | None = None
            for document in data:
                if (unit := document.metadata.get("open")) is not None:
                    opened.close()
                    current = self._open(unit, opened)
                elif current is None:
                    raise AccountingError(f"{self.stage}: an outcome came before its unit was opened")
                elif "close" in document.metadata:
                    self._finish(current, document.metadata.get("counts", {}))
                    current = None
                    yield document
                else:
                    self._take(current, document.metadata["outcome"])

    def _open(self, unit: Unit, opened: contextlib.ExitStack) -> _Open:
        run = RunDir(self.run_dir)
        builders = {}
        for output in self.outputs:
            path = run.part_path(self.stage, output, unit.name)
            builders[output] = opened.enter_context(shards.ShardBuilder(path, TABLES[output.table]))
        return _Open(unit, builders, 0, Counter(), time.monotonic())

    def _take(self, current: _Open, outcome: Outcome) -> None:
        if isinstance(outcome, Drop):
            current.drops[outcome.reason] += 1
            current.builders[VERDICTS].add(
                Verdict(
                    id=outcome.id,
                    stage=self.stage,
                    keep=False,
                    reason=outcome.reason,
                    detail=outcome.detail,
                    marks=list(outcome.marks),
                )
            )
            return
        current.kept += 1
        for record in outcome.records:
            table = table_of(type(record))
            # Only published tables have a folder a split.
            split = record.split if table in SPLIT_TABLES else None
            current.builders[Output(table, split)].add(record)

    def _finish(self, current: _Open, counts: dict[str, int]) -> None:
        unit, run = current.unit, RunDir(self.run_dir)
        dropped = current.drops.total()
        if unit.rows != current.kept + dropped:
            raise AccountingError(
                f"{self.stage} {unit.name}: {unit.rows} rows in, but {current.kept} kept and "
                f"{dropped} dropped; nothing was written"
            )
        # The first output comes last: its sidecar carries the accounting of the whole task.
        for output in reversed(self.outputs):
            record = TABLES[output.table]
            path = run.part_path(self.stage, output, unit.name)
            rows, size, digest = current.builders[output].finish()
            first = output == self.outputs[0]
            drops = dict(sorted(current.drops.items()))
            sidecar = shards.Sidecar(
                table=output.table,
                split=output.split,
                stage=self.stage,
                unit=unit.name,
                key=unit.key,
                rows=rows,
                bytes=size,
                sha256=digest,
                schema=shards.schema_digest(record),
                accounting=shards.Accounting(unit.rows, current.kept, drops) if first else None,
                seconds=round(time.monotonic() - current.started, 3) if first else None,
                inputs=unit.inputs,
                counts=counts if first else {},
            )
            shards.write_sidecar(path, sidecar)
            self.stat_update(f"rows_{output.table}", value=rows, unit="unit")
