"""The stages `decompose`, `tests`, `sample` and `verify` as datatrove steps, and their units."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelers.programs.candidates import sample
from labelers.programs.completions import by_problem, completions_of, read_completions
from labelers.programs.config import DecomposeConfig, SampleConfig, TestsConfig, VerifyConfig
from labelers.programs.decompose import decompose_all
from labelers.programs.step_labels import Verifier
from labelers.programs.unit_tests import harvest
from schemas import shards
from schemas.ids import digest_files
from schemas.records import TABLES
from schemas.rundir import RunDir
from schemas.stage import Drop, Outcome, Unit
from schemas.steps import UnitStep


def plan_decompose(run: RunDir, limit: int | None) -> list[Unit]:
    """One unit a part of `problems`."""
    return run.units_per_part("problems", limit=limit)


def plan_tests(run: RunDir, limit: int | None) -> list[Unit]:
    """One unit a part of `programs`, with the problems that they solve."""
    return run.units_per_part("programs", ("problems",), limit)


def plan_sample(run: RunDir, limit: int | None, config: SampleConfig | None = None) -> list[Unit]:
    """One unit a part of `programs`, with the problems that they solve.

    With the config, files of completions are inputs too: a changed file gives other keys.

    Raises:
        AssayError: a file of completions is not one.
    """
    units = run.units_per_part("programs", ("problems",), limit)
    if config is None or not config.completions:
        return units
    read_completions(config.completions)
    digest = digest_files(Path(name) for name in config.completions)
    return [dataclasses.replace(unit, inputs={**unit.inputs, "completions": digest}) for unit in units]


def plan_verify(run: RunDir, limit: int | None) -> list[Unit]:
    """One unit a part of `candidates`, with their programs, tests and problems."""
    return run.units_per_part("candidates", ("programs", "tests", "problems"), limit)


class _ProgramStep(UnitStep):
    """What the four steps share: rows of a unit's shards."""

    def __init__(self, config: Any, run_dir: Path, seed: int) -> None:
        super().__init__()
        self.config, self.run_dir, self.seed = config, run_dir, seed

    def rows(self, unit: Unit, table: str) -> Iterator[dict[str, Any]]:
        """All rows of a shard of the unit."""
        return shards.iter_rows(self.run_dir / unit.payload[table], TABLES[table])

    def considered(self, unit: Unit, table: str) -> Iterator[dict[str, Any]]:
        """The rows of the shard that the unit is about, up to its limit."""
        return itertools.islice(self.rows(unit, table), unit.payload["limit"])


class DecomposeProblems(_ProgramStep):
    """Turn problems into programs."""

    name = "decompose"

    def __init__(self, config: DecomposeConfig, run_dir: Path, seed: int) -> None:
        super().__init__(config, run_dir, seed)

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `Program`, or why there is none, for each problem."""
        return decompose_all(self.considered(unit, "problems"), self.config)


class HarvestTests(_ProgramStep):
    """Make unit tests of programs' functions."""

    name = "tests"

    def __init__(self, config: TestsConfig, run_dir: Path, seed: int) -> None:
        super().__init__(config, run_dir, seed)

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `FunctionTest`s and `FunctionSuite`s of each program, and count what became of its calls."""
        problems = {row["id"]: row for row in self.rows(unit, "problems")}
        for program in self.considered(unit, "programs"):
            problem = problems.get(program["problem_id"])
            if problem is None:
                yield Drop(program["id"], "problem_missing", program["problem"])
                continue
            outcome, counts = harvest(program, problem, self.config, self.seed)
            for name, value in counts.totals().items():
                self.stat_update(name, value=value)
            yield outcome


class SampleCandidates(_ProgramStep):
    """Make candidates of programs without a model, and take in completions."""

    name = "sample"

    def __init__(self, config: SampleConfig, run_dir: Path, seed: int) -> None:
        super().__init__(config, run_dir, seed)

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `Candidate`s of each program."""
        grouped = by_problem(read_completions(self.config.completions))
        prompts = {row["id"]: row["prompt"] for row in self.rows(unit, "problems")} if grouped else {}
        for program in self.considered(unit, "programs"):
            prompt = prompts.get(program["problem_id"], "")
            yield sample(program, self.config, self.seed, prompt, completions_of(program, grouped))


class VerifyCandidates(_ProgramStep):
    """Run candidates and label them and their functions."""

    name = "verify"

    def __init__(self, config: VerifyConfig, run_dir: Path, seed: int) -> None:
        super().__init__(config, run_dir, seed)

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `StepLabeledCandidate` for each candidate."""
        programs = {row["id"]: row for row in self.rows(unit, "programs")}
        problems = {row["id"]: row for row in self.rows(unit, "problems")}
        tests: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows(unit, "tests"):
            tests.setdefault(row["program_id"], []).append(row)
        # Candidates of one program stand together and share what was run.
        together = itertools.groupby(self.considered(unit, "candidates"), lambda row: row["program_id"])
        for program_id, group in together:
            candidates = list(group)
            program = programs.get(program_id)
            problem = None if program is None else problems.get(program["problem_id"])
            if program is None or problem is None:
                reason = "program_missing" if program is None else "problem_missing"
                for candidate in candidates:
                    yield Drop(candidate["id"], reason, program_id)
                continue
            verifier = Verifier(program, problem, tests.get(program_id, []), self.config, self.seed)
            yield from verifier.label(candidates)
