"""Unit tests of a program's functions: calls with what the reference comes to, and how sharp they are.

In: a `Program` row, its `Problem` row, and calls that somebody proposes, such as a model. Out: the
`FunctionTest`s and one `FunctionSuite` a function. Calls come from the suite, while it runs (`harvest`),
from whoever proposes some, and from inputs that are made (`inputs`). One becomes a test of its function if
it can be one (`observe`) and fails on at least one of the function's mutants: the stub, whose body does
nothing, and first-order faults drawn by the seed. A function has tests if one of them fails on the stub; a
call that comes to nothing, as the stub does, is a test where it tells another mutant. All calls of the
first round meet all mutants; further inputs are made for the mutants that are left, a bounded number of
rounds.
A mutant that does not end in time is killed by the call during which time ran out: in Python, more
statements than many times what the slowest call takes, so that no machine decides it. A mutant that no
compiler takes is none. Methods are not called from outside, but for those of a class Solution.
Wrong: nothing of the program's doing raises; a failure of the sandbox is a `Drop`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decompose.graft import without_unused_imports
from decompose.grammars import SourceError
from decompose.mutate import Mutant, mutants
from decompose.skeleton import skeleton
from labelers.programs import runs
from labelers.programs.config import TestsConfig
from labelers.programs.coverage import counted
from labelers.programs.declared import literals_of, parameters_of
from labelers.programs.harvest import (
    HARVESTED,
    Harvest,
    InfraError,
    Runner,
    call_tests,
    loadable,
    record,
    watch,
)
from labelers.programs.inputs import Inputs
from labelers.programs.kills import Failed, failures, greedy_cover, judged
from labelers.programs.observe import Given, Observed, Observer
from sandbox import Call, Job, Result
from sandbox.show import show
from schemas.errors import AssayError
from schemas.ids import content_id, rng
from schemas.records import Count, FunctionSuite, FunctionTest, MutantFate
from schemas.stage import Drop, Keep, Outcome

__all__ = ["HARVESTED", "Counts", "failures", "greedy_cover", "harvest"]

STUB = "stub"
"""Operator of the first mutant, which does nothing; the mutation score leaves it out."""

_COMPILED = frozenset({"C", "C++", "C#", "Go", "Java", "Rust", "TypeScript"})
# A mutant is late after so many times the steps of the slowest call: after no fewer than these, and no later
# than these after it.
_TIMES, _FEWEST_STEPS, _MOST_STEPS = 20, 20_000, 200_000
_MAX_SHOWN = 240
_NAME = re.compile(r"[^\W\d][\w$]*[?!]?|\$[\w$]*")
# Times that a call which killed what was left is preferred to another as a start.
_LIKED = 4
# A function that reads the clock gives another value on another day.
_CLOCK = re.compile(
    r"\b(?:datetime|date)\s*\.\s*(?:now|today|utcnow)\s*\(|\btime\s*\.\s*(?:localtime|gmtime|ctime|strftime|time)\s*\("
)

Proposed = Mapping[str, Sequence[tuple[str, Call]]]
"""Qualified name of a function -> (source, call) of each call that is proposed for it."""


@dataclasses.dataclass
class Counts:
    """What became of the calls of one program, and of the mutants they were tried on."""

    recorded: int = 0
    proposed: int = 0
    made: int = 0
    kept: int = 0
    selected: int = 0
    mutants: int = 0
    killed: int = 0
    killed_by_timeout_only: int = 0
    runs: int = 0
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)
    without_tests: Counter[str] = dataclasses.field(default_factory=Counter)

    def totals(self) -> dict[str, int]:
        """All counts by name."""
        found = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.type == "int"
        }
        for kind, counter in (("dropped", self.dropped), ("no_tests", self.without_tests)):
            found |= {f"{kind}_{reason}": count for reason, count in counter.items()}
        return found


def harvest(
    program: Mapping[str, Any],
    problem: Mapping[str, Any],
    config: TestsConfig,
    seed: int,
    proposed: Proposed | None = None,
) -> tuple[Outcome, Counts]:
    """The tests of one program with what is known of each function's, as one outcome, with counts.

    Args:
        proposed: further calls, by function; what they come to is observed, whatever the proposer thinks.
    """
    counts = Counts()

    def run(jobs: Sequence[Job]) -> Iterator[Result]:
        for result in runs.run_all(jobs, config.workers):
            counts.runs += 1
            if result.status == "infra_error":
                raise InfraError(result.detail)
            yield result

    records: list[FunctionTest | FunctionSuite] = []
    try:
        recorded = _known(program, problem, config, run)
        if isinstance(recorded, Drop):
            return recorded, counts
        for reason, count in sorted(recorded.failed.items()):
            counts.dropped[reason] += count
        watched = watch(program, problem, config, run) if program["language"] != "Python" else {}
        reached = _reached(program) if recorded.skipped else frozenset()
        for span in program["functions"]:
            maker = _Maker(program, span, config, seed, run)
            given = _given(span["name"], recorded, proposed or {}, counts)
            if program["entry_point"] in (span["name"], runs.entry_of(span["name"])):
                given += _unknown(call_tests(problem), given)
            given += _unknown(watched.get(span["name"], ()), given)
            suite, tests = maker.make(given, span["name"] in reached)
            records += [*tests, suite]
            _count(counts, suite, tests, maker)
    except InfraError as error:
        return Drop(program["id"], "infra_error", str(error)[:500]), counts
    return Keep(tuple(records)), counts


def callable_from_outside(span: Mapping[str, Any]) -> bool:
    """Whether the sandbox can call a function: one of no class, or a method of class Solution."""
    name = runs.entry_of(span["name"])
    # An operator of C++ or Ruby has no name that can be called.
    named = _NAME.fullmatch(name) is not None
    return named and (name == span["name"] or span["kind"] == "method")


def _known(
    program: Mapping[str, Any], problem: Mapping[str, Any], config: TestsConfig, run: Runner
) -> Harvest | Drop:
    """What could be recorded while the suite runs: something of Python alone."""
    if program["language"] != "Python":
        return Harvest()
    names = [span["name"] for span in program["functions"] if "." not in span["name"]]
    return record(program, problem, names, config, run)


def _reached(program: Mapping[str, Any]) -> frozenset[str]:
    """Functions that the entry point calls, directly or not; all of them where there is no entry point."""
    calls = {span["name"]: span["calls"] for span in program["functions"]}
    if program["entry_point"] is None:
        return frozenset(calls)
    seen: set[str] = set()
    stack = [program["entry_point"]]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += calls.get(name, ())
    return frozenset(seen)


def _given(name: str, recorded: Harvest, proposed: Proposed, counts: Counts) -> list[Given]:
    given = []
    for call in recorded.calls.get(name, {}).values():
        counts.recorded += 1
        outcome = runs.outcome_of(call.error or call.value)
        given.append(Given(Call(call.args, call.kwargs), HARVESTED, outcome))
    for source, one in proposed.get(name, ()):
        counts.proposed += 1
        given.append(Given(one, source))
    return given


def _unknown(calls: Sequence[Call], given: Sequence[Given]) -> list[Given]:
    """Calls of the suite that are not there yet."""
    texts = {runs.call_text(one.call) for one in given}
    found = []
    for call in calls:
        text = runs.call_text(call)
        if text not in texts:
            texts.add(text)
            found.append(Given(call, HARVESTED))
    return found


def _count(counts: Counts, suite: FunctionSuite, tests: Sequence[FunctionTest], maker: _Maker) -> None:
    counts.made += maker.made
    counts.kept += len(tests)
    counts.selected += suite.selected
    counts.mutants += len(suite.mutants)
    counts.killed += sum(one.killed for one in suite.mutants)
    counts.killed_by_timeout_only += sum(one.timeout for one in suite.mutants)
    counts.dropped.update(maker.dropped)
    if suite.reason is not None:
        counts.without_tests[suite.reason] += 1


class _Maker:
    """Makes the tests of one function."""

    def __init__(
        self, program: Mapping[str, Any], span: Mapping[str, Any], config: TestsConfig, seed: int, run: Runner
    ) -> None:
        self.program, self.span, self.config, self.seed, self.run = program, span, config, seed, run
        self.name, self.code, self.language = span["name"], program["code"], program["language"]
        self.dropped: Counter[str] = Counter()
        self.made = 0
        self.bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
        self.left = False
        self.faults: list[Mutant] = []
        self.late: set[int] = set()
        self.kills: dict[int, list[tuple[int, bool]]] = {}
        self.tests: list[Observed] = []

    def nothing(self, reason: str) -> FunctionSuite:
        """The row of a function without tests."""
        return FunctionSuite(
            id=content_id(self.program["id"], self.name),
            program_id=self.program["id"],
            function=self.name,
            tests=0,
            selected=0,
            mutants=[_fate(one, False, False) for one in self.faults],
            mutation_score=None,
            coverage=None,
            dropped=[
                Count(reason=reason, count=count) for reason, count in sorted(self.dropped.items()) if count
            ],
            reason=reason,
        )

    def make(self, given: Sequence[Given], skipped: bool) -> tuple[FunctionSuite, list[FunctionTest]]:
        """The function's row, and its tests.

        Args:
            given: calls that are known.
            skipped: whether it may be that its calls could not be recorded.
        """
        if not callable_from_outside(self.span):
            return self.nothing("method"), []
        if self._reads_clock():
            return self.nothing("reads_clock"), []
        draw = rng(self.seed, "mutants", f"{self.program['id']}/{self.name}")
        compiled = self.language in _COMPILED
        limit = self.config.max_compiled_mutants if compiled else self.config.max_mutants
        try:
            others = [one["name"] for one in self.program["functions"] if one["name"] != self.name]
            emptied = skeleton(self.code, keep=others, language=self.language)
            stub = without_unused_imports(emptied, self.language)
            ends = self.span["start_byte"], self.span["end_byte"]
            self.faults = [
                Mutant(stub, STUB, self.name, *ends, f"{self.name} does nothing"),
                *mutants(self.code, self.name, limit=limit, rng=draw, language=self.language),
            ]
        except (SourceError, AssayError):
            return self.nothing("no_mutants"), []
        parameters = parameters_of(self.span["signature"], self.language, self.name)
        known = [one.call for one in given]
        typed = parameters is not None and all(one.shape or not one.required for one in parameters)
        if not known and not typed:
            return self.nothing("unencodable" if skipped else "never_called"), []
        inputs = Inputs(
            parameters or (),
            literals_of(self.program, self.span),
            rng(self.seed, "inputs", f"{self.program['id']}/{self.name}"),
            self.config.max_call_bytes,
        )
        code = loadable(self.program, self.code)
        observer = Observer(code, self.name, self.language, self.config, self.run, self.dropped)
        observer.show(one.recorded[1] for one in given if one.recorded and one.recorded[0] == "error")
        inputs.learn(known)
        inputs.look()
        self._rounds(given, inputs, observer)
        return self._finish(observer, bool(known), skipped)

    def _reads_clock(self) -> bool:
        """Whether the function, or one that it calls, asks for the time."""
        data = self.code.encode()
        reached = _reached({**self.program, "entry_point": self.name})
        return self.language == "Python" and any(
            _CLOCK.search(data[one["start_byte"] : one["end_byte"]].decode("utf-8", "replace"))
            for one in self.program["functions"]
            if one["name"] in reached
        )

    def _rounds(self, given: Sequence[Given], inputs: Inputs, observer: Observer) -> None:
        alive = list(range(len(self.faults)))
        later: list[int] = []
        for number in range(max(1, self.config.rounds)):
            # What is made for the few mutants that are left costs less than what meets all of them.
            size = self.config.generated * (2 if number else 1)
            drawn = inputs.batch(size) if number < self.config.rounds else []
            self.made += len(drawn)
            batch = [Given(call, source) for source, call in drawn]
            found = observer.observe([*given, *batch] if number == 0 else batch)
            self.left = bool(observer.left)
            if number == 0:
                # Only what the reference answers is a place to start from.
                fitting = {runs.call_text(one.call) for one in found}
                inputs.known = [call for call in inputs.known if runs.call_text(call) in fitting]
            inputs.known += [one.call for one in found if one.source != HARVESTED]
            first = len(self.tests)
            killing = self._try(found, alive if number == 0 else [*self._stubs(), *alive], number == 0)
            if number == 0:
                alive = list(range(len(self.faults)))
            fresh = range(first, len(self.tests)) if number else range(0)
            later += fresh
            # What killed a mutant that was left is a good place to look for more.
            inputs.known += [self.tests[index].call for index in fresh] * _LIKED
            alive = [index for index in alive if index not in killing]
            if not alive or not drawn:
                break
        self._complete(later, alive)

    def _stubs(self) -> list[int]:
        """Index of the mutant that does nothing; none where it did not compile."""
        return [index for index, one in enumerate(self.faults[:1]) if one.operator == STUB]

    def _try(self, tests: list[Observed], alive: Sequence[int], first: bool) -> set[int]:
        """Try tests on mutants, keep those that kill one, and say which mutants died."""
        if not tests:
            return set()
        results = self._on_mutants(tests, alive)
        if first:
            # What no compiler takes is no mutant.
            born = [index for index in alive if results[index] is not None]
            self.faults = [self.faults[index] for index in born]
            results = {new: results[old] for new, old in enumerate(born)}
        kills: list[list[tuple[int, bool]]] = [[] for _ in tests]
        for mutant, failed in results.items():
            if failed is not None:
                for index in failed.indices:
                    kills[index].append((mutant, index in failed.timeouts))
        for test, killed in zip(tests, kills, strict=True):
            if killed:
                self.kills[len(self.tests)] = killed
                self.tests.append(test)
        self.dropped["kills_nothing"] += sum(not one for one in kills)
        return {mutant for killed in kills for mutant, _ in killed}

    def _on_mutants(self, tests: Sequence[Observed], which: Sequence[int]) -> dict[int, Failed | None]:
        """What of the tests fails on each mutant; None for one that does not compile."""
        calls, expected = [one.call for one in tests], [one.expected for one in tests]
        slowest = max(one.steps for one in tests)
        most = max(_FEWEST_STEPS, min(_TIMES * slowest, slowest + _MOST_STEPS))
        asked = []
        for index in which:
            code, entry = loadable(self.program, self.faults[index].code), self.name
            marks: tuple[str | None, str | None] = (None, None)
            python = self.language == "Python"
            program = counted(code, self.name, most, left=self.left) if python else None
            if program is not None:
                code, entry, marks = program.code, program.call, (program.slow, program.unmade)
            left = self.left and program is None
            job = runs.calls_job(code, entry, calls, self.bounds, lang=self.language, left=left)
            asked.append((index, job, marks))
        found: dict[int, Failed | None] = {}
        for (index, _, marks), result in zip(asked, self.run([job for _, job, _ in asked]), strict=True):
            stillborn = result.status == "compile_error"
            found[index] = None if stillborn else judged(result, expected, *marks)
            if not stillborn and index in self._stubs():
                # What does nothing does so in every call: where it ends the process, as in C, all would fail.
                later = range(len(result.outputs), len(expected))
                failed = judged(result, expected, *marks)
                found[index] = Failed(sorted({*failed.indices, *later}), failed.timeouts)
        return found

    def _complete(self, later: Sequence[int], alive: Sequence[int]) -> None:
        """Have the tests of later rounds meet the mutants that were dead when they came."""
        if not later:
            return
        tests = [self.tests[index] for index in later]
        slow = {mutant for killed in self.kills.values() for mutant, late in killed if late}
        met = {*slow, *alive, *self._stubs()}
        which = [index for index in range(len(self.faults)) if index not in met]
        for mutant, failed in self._on_mutants(tests, which).items():
            for index in failed.indices if failed else ():
                kills = self.kills[later[index]]
                if all(mutant != one for one, _ in kills):
                    kills.append((mutant, False))

    def _finish(
        self, observer: Observer, known: bool, skipped: bool
    ) -> tuple[FunctionSuite, list[FunctionTest]]:
        kills = [sorted(mutant for mutant, _ in self.kills[index]) for index in range(len(self.tests))]
        chosen = greedy_cover(kills)
        kept = sorted([*chosen, *self._others(set(chosen))][: self.config.max_tests])
        self.dropped["beyond_max_tests"] += len(self.tests) - len(kept)
        selected = set(chosen) & set(kept)
        if not kept:
            return self.nothing(self._why(known, skipped)), []
        stubs = set(self._stubs())
        if stubs and not any(stubs & set(kills[index]) for index in kept):
            return self.nothing("passes_on_stub"), []
        dead = {mutant for index in kept for mutant in kills[index]}
        by_value = {mutant for index in kept for mutant, late in self.kills[index] if not late}
        suite = dataclasses.replace(
            self.nothing(""),
            tests=len(kept),
            selected=len(selected),
            mutants=[
                _fate(one, index in dead, index in dead - by_value) for index, one in enumerate(self.faults)
            ],
            mutation_score=self._score(dead),
            coverage=self._coverage(observer, kept),
            reason=None,
        )
        return suite, [self._row(index, kills[index], index in selected) for index in kept]

    def _score(self, dead: set[int]) -> float | None:
        """Share of the mutants that died, the stub left out."""
        real = [index for index in range(len(self.faults)) if index not in self._stubs()]
        return len(dead.intersection(real)) / len(real) if real else None

    def _others(self, chosen: set[int]) -> list[int]:
        """Tests beside the chosen ones, best first: each way through it in turn, the suite's first.

        A way is told by the statements that run and how many do: another number of rounds of a loop is one.
        """
        rest = [index for index in range(len(self.tests)) if index not in chosen]
        rest.sort(key=lambda index: (self.tests[index].source != HARVESTED, index))
        turns: Counter[tuple[frozenset[int], int]] = Counter()
        ranks = {}
        for place, index in enumerate(rest):
            way = self.tests[index].statements, self.tests[index].steps
            ranks[index] = (turns[way], place)
            turns[way] += 1
        return sorted(rest, key=ranks.__getitem__)

    def _coverage(self, observer: Observer, kept: Sequence[int]) -> float | None:
        if observer.counted is None or not observer.counted.statements:
            return None
        hit = frozenset[int]().union(*(self.tests[index].statements for index in kept))
        return len(hit) / observer.counted.statements

    def _why(self, known: bool, skipped: bool) -> str:
        """Why a function has no test: what most of its calls were dropped for."""
        left = {reason: count for reason, count in self.dropped.items() if count}
        if not left:
            return "never_called" if not skipped else "unencodable"
        return min(left, key=lambda reason: (-left[reason], reason))

    def _row(self, index: int, kills: list[int], selected: bool) -> FunctionTest:
        test = self.tests[index]
        text = runs.call_text(test.call)
        return FunctionTest(
            id=content_id(self.program["id"], self.name, text),
            program_id=self.program["id"],
            function=self.name,
            call=text,
            expected=runs.to_text(test.expected),
            shown=shown(self.name, test.call, test.expected),
            source=test.source,
            kills=kills,
            timeouts=sorted(mutant for mutant, late in self.kills[index] if late),
            mutants=len(self.faults),
            selected=selected,
        )


def _fate(fault: Mutant, killed: bool, timeout: bool) -> MutantFate:
    return MutantFate(operator=fault.operator, detail=fault.detail, killed=killed, timeout=timeout)


def told(expected: runs.Outcome) -> str:
    """An outcome as a person would write it."""
    kind, value = expected
    if kind == "left":
        left = [show(one) for one in value[1]] + [f"{key}={show(one)}" for key, one in value[2].items()]
        return f"{show(value[0])} and leaves {', '.join(left)}"
    return f"raises {value}" if kind == "error" else show(value)


def shown(name: str, call: Call, expected: runs.Outcome) -> str:
    """A test as a person would write it: `f([1, 2]) -> 3`, cut to a line."""
    given = [show(value) for value in call.args]
    given += [f"{key}={show(value)}" for key, value in call.kwargs.items()]
    text = f"{name}({', '.join(given)}) -> {told(expected)}"
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
