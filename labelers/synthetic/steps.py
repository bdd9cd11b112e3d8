"""The stage `synthesize` as a datatrove step, and how it is cut into units."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labelers.commits import criteria
from labelers.commits.config import BuildConfig, LabelConfig
from labelers.llm import ModelConfig, Request
from labelers.programs.steps import client_of
from labelers.synthetic.bugs import plant, requests
from labelers.synthetic.config import SynthesizeConfig
from labelers.synthetic.pairs import Synthesizer
from schemas import shards
from schemas.errors import RunDirError, ShardError
from schemas.ids import digest_json
from schemas.records import TABLES
from schemas.rundir import RunDir, outputs_of
from schemas.stage import Outcome, Unit
from schemas.steps import UnitStep

_NONE = ModelConfig()
# Programs whose bugs are asked for together.
_PROGRAMS_AT_ONCE = 64


def plan_synthesize(
    run: RunDir,
    limit: int | None,
    label: LabelConfig = LabelConfig(),  # noqa: B008 (frozen)
) -> list[Unit]:
    """One unit a part of `programs`, with the problems that they solve and their labelled candidates.

    Raises:
        RunDirError: `verify` has not finished.
        AssayError: the criteria cannot be read.
    """
    digest = digest_json([dataclasses.asdict(one) for one in criteria.load(label.criteria_file)])
    units = []
    for unit in run.units_per_part("programs", ("problems",), limit):
        payload, inputs = dict(unit.payload), {**unit.inputs, "criteria": digest}
        for output in outputs_of("steps"):
            name = f"steps/{output.split}"
            path = run.part_path("verify", output, unit.name)
            try:
                inputs[name] = shards.read_sidecar(path).sha256
            except ShardError:
                raise RunDirError(f"{run.root}: {name} lacks part {unit.name}; run verify first") from None
            payload[name] = str(path.relative_to(run.root))
        units.append(dataclasses.replace(unit, payload=payload, inputs=inputs))
    return units


class SynthesizePairs(UnitStep):
    """Make pairs of programs, labelled by execution."""

    name = "synthesize"

    def __init__(
        self,
        config: SynthesizeConfig,
        run_dir: Path,
        seed: int,
        label: LabelConfig = LabelConfig(),  # noqa: B008 (frozen)
        build: BuildConfig = BuildConfig(),  # noqa: B008 (frozen)
        model: ModelConfig = _NONE,
    ) -> None:
        """Prepare.

        Args:
            label: names the criteria.
            build: shares of system prompts.
            model: puts bugs into programs; none is asked where `config.bugs` is 0.
        """
        super().__init__()
        self.config, self.run_dir, self.seed = config, run_dir, seed
        self.label, self.build, self.model = label, build, model

    def _rows(self, unit: Unit, name: str) -> Iterator[dict[str, Any]]:
        return shards.iter_rows(self.run_dir / unit.payload[name], TABLES[name.partition("/")[0]])

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `SyntheticPair`s of each program, or why there is none."""
        config, counts = self.config, Counter[str]()
        found = criteria.load(self.label.criteria_file)
        made = Synthesizer(config, found, self.build, self.seed)
        problems = {row["id"]: row for row in self._rows(unit, "problems")}
        programs = itertools.islice(self._rows(unit, "programs"), unit.payload["limit"])
        with client_of(self.model if config.bugs else _NONE, self.run_dir) as client:
            while batch := list(itertools.islice(programs, _PROGRAMS_AT_ONCE)):
                rows = self._labelled(unit, {program["id"] for program in batch})
                asked = _askable(batch, problems, rows)
                planted = plant(client, asked, config.bugs, self.seed, counts) if client else {}
                for program in batch:
                    problem: Mapping[str, Any] | None = problems.get(program["problem_id"])
                    mine = planted.get(program["id"], ())
                    yield made.pairs(program, problem, rows[program["id"]], mine)
        self.count(counts + made.counts)

    def requests(self, units: Sequence[Unit]) -> list[tuple[ModelConfig, Iterator[Request]]]:
        """What the model would be asked for units."""
        if not self.model.enabled or not self.config.bugs:
            return []
        return [(self.model, self._asked(units))]

    def _asked(self, units: Sequence[Unit]) -> Iterator[Request]:
        for unit in units:
            problems = {row["id"]: row for row in self._rows(unit, "problems")}
            programs = itertools.islice(self._rows(unit, "programs"), unit.payload["limit"])
            while batch := list(itertools.islice(programs, _PROGRAMS_AT_ONCE)):
                rows = self._labelled(unit, {program["id"] for program in batch})
                yield from requests(_askable(batch, problems, rows), self.config.bugs, self.seed)

    def _labelled(self, unit: Unit, wanted: set[str]) -> dict[str, list[dict[str, Any]]]:
        """Rows of `steps` of these programs, in the order of their shards."""
        found: dict[str, list[dict[str, Any]]] = {one: [] for one in wanted}
        for output in outputs_of("steps"):
            for row in self._rows(unit, f"steps/{output.split}"):
                if row["program_id"] in found:
                    found[row["program_id"]].append(row)
        return found


def _askable(
    batch: Sequence[Mapping[str, Any]],
    problems: Mapping[str, Mapping[str, Any]],
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Programs with their problems; no bug is asked for where no pair can be made."""
    return [
        (program, problems[program["problem_id"]])
        for program in batch
        if program["problem_id"] in problems and rows[program["id"]]
    ]
