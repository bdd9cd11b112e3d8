"""The stages `decompose`, `tests`, `sample` and `verify` as datatrove steps, and their units."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelers.llm import Client, ModelConfig
from labelers.programs.assertions import believed, propose
from labelers.programs.candidates import faults, sample
from labelers.programs.completions import by_problem, completions_of, read_completions
from labelers.programs.config import DecomposeConfig, SampleConfig, TestsConfig, VerifyConfig
from labelers.programs.decompose import Decomposer
from labelers.programs.judge import judge
from labelers.programs.policy import complete
from labelers.programs.step_labels import Verifier
from labelers.programs.unit_tests import harvest
from schemas import shards
from schemas.errors import AssayError
from schemas.ids import digest_files
from schemas.records import TABLES
from schemas.rundir import RunDir
from schemas.stage import Drop, Outcome, Unit
from schemas.steps import UnitStep

_NONE = ModelConfig()
# Programs whose completions are asked for together.
_PROGRAMS_AT_ONCE = 64


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


def plan_verify(
    run: RunDir, limit: int | None, config: VerifyConfig | None = None, model: ModelConfig = _NONE
) -> list[Unit]:
    """One unit a part of `candidates`, with their programs, tests, suites and problems.

    Raises:
        AssayError: a judge is wanted, and there is no model.
    """
    if config is not None and config.judge and not model.enabled:
        raise AssayError(
            "verify.judge needs a model: name it by --model or in [model] of the recipe, or go on without "
            "one by --set verify.judge=false"
        )
    return run.units_per_part("candidates", ("programs", "tests", "suites", "problems"), limit)


@contextlib.contextmanager
def client_of(model: ModelConfig, run_dir: Path) -> Iterator[Client | None]:
    """The client of a model, with the run's cache of calls; None where there is no model."""
    if not model.enabled:
        yield None
        return
    with Client(model, run_dir / "calls.sqlite") as client:
        yield client


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

    def __init__(self, config: DecomposeConfig, run_dir: Path, seed: int, model: ModelConfig = _NONE) -> None:
        super().__init__(config, run_dir, seed)
        self.model = model

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `Program`, or why there is none, for each problem."""
        with client_of(self.model, self.run_dir) as client:
            decomposer = Decomposer(self.config, client, self.seed)
            yield from decomposer.all(self.considered(unit, "problems"))
            self.count(decomposer.counts)


class HarvestTests(_ProgramStep):
    """Make unit tests of programs' functions."""

    name = "tests"

    def __init__(self, config: TestsConfig, run_dir: Path, seed: int, model: ModelConfig = _NONE) -> None:
        super().__init__(config, run_dir, seed)
        self.model = model

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the tests and suites of each program, and count what became of calls and mutants."""
        problems = {row["id"]: row for row in self.rows(unit, "problems")}
        programs = self.considered(unit, "programs")
        told: Counter[str] = Counter()
        with client_of(self.model, self.run_dir) as client:
            while batch := list(itertools.islice(programs, _PROGRAMS_AT_ONCE)):
                times = self.config.assertions
                proposed = propose(client, batch, times, self.seed, counts=told) if client and times else {}
                for program in batch:
                    problem = problems.get(program["problem_id"])
                    if problem is None:
                        yield Drop(program["id"], "problem_missing", program["problem"])
                        continue
                    mine = proposed.get(program["id"], {})
                    calls = {
                        name: [(model, one.call) for model, one in found] for name, found in mine.items()
                    }
                    outcome, counts = harvest(program, problem, self.config, self.seed, calls)
                    told.update(believed(outcome, mine))
                    self.count(counts.totals())
                    yield outcome
        self.count({f"assertions_{name}": value for name, value in told.items()})


class SampleCandidates(_ProgramStep):
    """Make candidates of programs: by mutation, by asking the policy, and of completions from elsewhere."""

    name = "sample"

    def __init__(self, config: SampleConfig, run_dir: Path, seed: int, policy: ModelConfig = _NONE) -> None:
        super().__init__(config, run_dir, seed)
        self.policy = policy

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield the `Candidate`s of each program."""
        grouped = by_problem(read_completions(self.config.completions))
        problems = {row["id"]: row for row in self.rows(unit, "problems")}
        programs = self.considered(unit, "programs")
        told: Counter[str] = Counter()
        with client_of(self.policy, self.run_dir) as client:
            while batch := list(itertools.islice(programs, _PROGRAMS_AT_ONCE)):
                known = [program for program in batch if program["problem_id"] in problems]
                asked = [(program, problems[program["problem_id"]]) for program in known]
                each = self.config.completions_each
                answers = complete(client, asked, each, self.seed, told) if client and each else {}
                for program in batch:
                    if program["problem_id"] not in problems:
                        yield Drop(program["id"], "problem_missing", program["problem"])
                        continue
                    prompt = problems[program["problem_id"]]["prompt"]
                    given = [*answers.get(program["id"], []), *completions_of(program, grouped)]
                    outcome = sample(program, self.config, self.seed, prompt, given)
                    told["repeated"] += len(given) - len({(one.model, one.text) for one in given})
                    told.update(faults(outcome))
                    yield outcome
        self.count(told)


class VerifyCandidates(_ProgramStep):
    """Run candidates and label them and their functions."""

    name = "verify"

    def __init__(self, config: VerifyConfig, run_dir: Path, seed: int, model: ModelConfig = _NONE) -> None:
        super().__init__(config, run_dir, seed)
        self.model = model

    def process(self, unit: Unit) -> Iterator[Outcome]:
        """Yield a `StepLabeledCandidate` for each candidate."""
        model = self.model if self.config.judge else _NONE
        with client_of(model, self.run_dir) as client:
            yield from self._verify(unit, client)

    def _verify(self, unit: Unit, client: Client | None) -> Iterator[Outcome]:
        programs = {row["id"]: row for row in self.rows(unit, "programs")}
        problems = {row["id"]: row for row in self.rows(unit, "problems")}
        scores: dict[str, dict[str, float | None]] = {}
        for row in self.rows(unit, "suites"):
            scores.setdefault(row["program_id"], {})[row["function"]] = row["mutation_score"]
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
            verifier = Verifier(
                program,
                problem,
                tests.get(program_id, []),
                self.config,
                self.seed,
                scores.get(program_id),
                None if client is None else functools.partial(judge, client, program, problem, self.seed),
            )
            yield from verifier.label(candidates)
