"""Unit tests of a program's functions, without a model: calls recorded while the suite runs.

In: a `Program` row and its `Problem` row. Out: `FunctionTest`s and what became of the calls. A recorded
call becomes a test of its function if all of these hold:
* it leaves its arguments as they were, and comes to a value or error that has an encoding;
* two runs of the reference in fresh processes, with other hash seeds and the calls in opposite
  orders, come to the same;
* it fails when the function's body is `pass`;
* it fails on at least one of the function's mutants, first-order faults drawn by the seed.
A mutant that does not end in time is killed by the call during which time ran out; calls after it were
not made and count for nothing. Methods are not called from outside, so they have no tests.
Wrong: nothing of the program's doing raises; a failure of the sandbox is a `Drop`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decompose.functions import functions
from decompose.mutate import Mutant, mutants
from decompose.skeleton import skeleton
from labelers.programs import runs
from labelers.programs.config import TestsConfig
from labelers.programs.decompose import module_functions
from labelers.programs.suites import suites
from sandbox import Call, EncodeError, Job, RecordedCall, Result
from schemas.ids import content_id, rng
from schemas.records import FunctionTest
from schemas.stage import Drop, Keep, Outcome

HARVESTED = "harvested"
# Any two that differ from each other and from the seed under which calls are recorded.
_HASH_SEEDS = (1, 2)


@dataclasses.dataclass
class Counts:
    """What became of the recorded calls of one program, and of the mutants they were tried on."""

    recorded: int = 0
    mutating: int = 0
    unstable: int = 0
    passes_on_stub: int = 0
    kills_nothing: int = 0
    kept: int = 0
    selected: int = 0
    mutants: int = 0
    killed: int = 0
    killed_by_timeout_only: int = 0
    runs: int = 0


class _InfraError(Exception):
    """The sandbox failed, more than once."""


@dataclasses.dataclass(frozen=True)
class _Test:
    """A call with what the reference comes to."""

    call: Call
    expected: runs.Outcome


def harvest(
    program: Mapping[str, Any], problem: Mapping[str, Any], config: TestsConfig, seed: int
) -> tuple[Outcome, Counts]:
    """The tests of one program, as one outcome, with counts."""
    counts = Counts()
    names = module_functions(program["functions"])
    try:
        recorded = _record(program, problem, names, config, counts)
        if isinstance(recorded, Drop):
            return recorded, counts
        found: list[FunctionTest] = []
        for name in names:
            calls = [call for call in recorded if call.function == name]
            found += _tests_of(program, name, calls, config, seed, counts)
    except _InfraError as error:
        return Drop(program["id"], "infra_error", str(error)[:500]), counts
    return Keep(tuple(found)), counts


def _run(jobs: Sequence[Job], config: TestsConfig, counts: Counts) -> Iterator[Result]:
    for result in runs.run_all(jobs, config.workers):
        counts.runs += 1
        if result.status == "infra_error":
            raise _InfraError(result.detail)
        yield result


def _record(
    program: Mapping[str, Any],
    problem: Mapping[str, Any],
    names: Sequence[str],
    config: TestsConfig,
    counts: Counts,
) -> list[RecordedCall] | Drop:
    """Distinct calls of each function while the suite runs on the reference, `max_calls` at most."""
    bounds = runs.limits(config.suite_cpu_s, config.suite_wall_s, config.memory_mb)
    jobs = [
        Job(
            "unittest",
            {"solution.py": program["code"], "test.py": text},
            program["entry_point"],
            limits=bounds,
            record=names,
            record_max=config.max_calls,
            record_bytes=config.max_call_bytes,
        )
        for text in suites(problem)
    ]
    kept: list[RecordedCall] = []
    seen: dict[str, set[str]] = {name: set() for name in names}
    for result in _run(jobs, config, counts):
        if result.status != "ok":
            return Drop(program["id"], "reference_unrecordable", f"{result.status}: {result.detail}"[:500])
        for call in result.recorded:
            key = runs.call_text(Call(call.args, call.kwargs))
            if key not in seen[call.function] and len(seen[call.function]) < config.max_calls:
                seen[call.function].add(key)
                kept.append(call)
    counts.recorded += len(kept)
    return kept


def _tests_of(
    program: Mapping[str, Any],
    name: str,
    recorded: Sequence[RecordedCall],
    config: TestsConfig,
    seed: int,
    counts: Counts,
) -> list[FunctionTest]:
    """The tests of one function, in the order in which its calls ended."""
    code = program["code"]
    tests = []
    for call in recorded:
        expected = runs.outcome_of(call.error or call.value)
        counts.mutating += call.mutated
        if expected is not None and not call.mutated and _has_text(expected):
            tests.append(_Test(Call(call.args, call.kwargs), expected))
    stable = _stable(code, name, tests, config, counts)
    counts.unstable += len(tests) - len(stable)
    tests = stable
    stub = skeleton(code, keep=[span.name for span in functions(code) if span.name != name])
    failing = _fails(code=stub, name=name, tests=tests, config=config, counts=counts)
    counts.passes_on_stub += len(tests) - len(failing)
    tests = [tests[index] for index in failing]
    if not tests:
        return []
    faults = mutants(
        code, name, limit=config.max_mutants, rng=rng(seed, "mutants", f"{program['id']}/{name}")
    )
    kills = _kill_matrix(name, faults, tests, config, counts)
    chosen = set(greedy_cover(kills))
    counts.kills_nothing += sum(not one for one in kills)
    counts.selected += len(chosen)
    made = []
    for index, (test, killed) in enumerate(zip(tests, kills, strict=True)):
        if killed:
            text = runs.call_text(test.call)
            made.append(
                FunctionTest(
                    id=content_id(program["id"], name, text),
                    program_id=program["id"],
                    function=name,
                    call=text,
                    expected=runs.to_text(test.expected),
                    shown="",
                    source=HARVESTED,
                    timeouts=[],
                    kills=killed,
                    mutants=len(faults),
                    selected=index in chosen,
                )
            )
    counts.kept += len(made)
    return made


def _has_text(expected: runs.Outcome) -> bool:
    """Whether an outcome fits its column: what came back alone may be a level too deep to be put in one."""
    try:
        runs.to_text(expected)
    except EncodeError:
        return False
    return True


def _stable(code: str, name: str, tests: Sequence[_Test], config: TestsConfig, counts: Counts) -> list[_Test]:
    """Tests that the reference passes twice, in fresh processes, in either order of calls."""
    if not tests:
        return []
    bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
    orders = (list(tests), _elsewhere(tests))
    jobs = [
        runs.calls_job(code, name, [test.call for test in order], bounds, hash_seed)
        for order, hash_seed in zip(orders, _HASH_SEEDS, strict=True)
    ]
    passed: list[set[int]] = []
    for order, result in zip(orders, _run(jobs, config, counts), strict=True):
        # Where the run was stopped, the later calls have no output, and so no place here.
        pairs = zip(order, result.outputs, strict=False)
        passed.append({id(test) for test, value in pairs if runs.same(runs.outcome_of(value), test.expected)})
    return [test for test in tests if all(id(test) in one for one in passed)]


def _elsewhere(tests: Sequence[_Test]) -> list[_Test]:
    """The tests in the opposite order, none in its old place: a function that counts its calls shows."""
    order = list(reversed(tests))
    middle = len(order) // 2
    if len(order) % 2 and middle:
        order[middle - 1], order[middle] = order[middle], order[middle - 1]
    return order


def _fails(code: str, name: str, tests: Sequence[_Test], config: TestsConfig, counts: Counts) -> list[int]:
    """Indices of the tests that a program fails."""
    if not tests:
        return []
    bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
    job = runs.calls_job(code, name, [test.call for test in tests], bounds)
    (result,) = _run([job], config, counts)
    return failures(result, [test.expected for test in tests])


def failures(result: Result, expected: Sequence[runs.Outcome]) -> list[int]:
    """Indices of the calls that did not come to what was expected.

    A run that was stopped fails the call that it was stopped in; the calls after it were never made
    and fail only where the program did not load.
    """
    wrong = [
        index
        for index, (value, wanted) in enumerate(zip(result.outputs, expected, strict=False))
        if not runs.same(runs.outcome_of(value), wanted)
    ]
    made = len(result.outputs)
    if made < len(expected):
        not_loaded = made == 0 and result.status in ("exception", "compile_error")
        wrong += range(made, len(expected) if not_loaded else made + 1)
    return wrong


def _kill_matrix(
    name: str, faults: Sequence[Mutant], tests: Sequence[_Test], config: TestsConfig, counts: Counts
) -> list[list[int]]:
    """For each test, the indices of the mutants that it fails on: one run a mutant."""
    bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
    calls = [test.call for test in tests]
    expected = [test.expected for test in tests]
    kills: list[list[int]] = [[] for _ in tests]
    jobs = [runs.calls_job(fault.code, name, calls, bounds) for fault in faults]
    for number, result in enumerate(_run(jobs, config, counts)):
        failed = failures(result, expected)
        for index in failed:
            kills[index].append(number)
        counts.mutants += 1
        counts.killed += bool(failed)
        stopped = result.status in runs.TIMEOUTS and failed == [len(result.outputs)]
        counts.killed_by_timeout_only += stopped
    return kills


def greedy_cover(kills: Sequence[Sequence[int]]) -> list[int]:
    """A small set of tests with the same kills as all of them: the greedy set cover.

    Each round takes the test with most mutants not yet killed, the earliest of equals.
    """
    left = {mutant for one in kills for mutant in one}
    chosen: list[int] = []
    while left:
        best = max(range(len(kills)), key=lambda index: (len(left & set(kills[index])), -index))
        chosen.append(best)
        left -= set(kills[best])
    return sorted(chosen)
