"""A problem's suite, run on whole programs: the outcome label, in any language and for every kind of test.

In: a `Problem` row and programs. Out: a `Verdict` a program, whatever the number of workers. Source suites
run apart from the program (`split`), or beside it where values cannot travel (`unittest`), as was found on
the reference; calls and standard input are judged outside of the sandbox. Tests are tried in order, a few
at first, and none after one that failed.
Wrong: nothing of a program's doing raises; where the sandbox failed, or the suite says nothing of a
program, `passed` is None. `SandboxUnavailable` where the machine cannot isolate.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labelers.programs import runs
from labelers.programs.suites import suites
from sandbox import (
    Call,
    EncodeError,
    Equals,
    ErrorRecord,
    Job,
    Judgement,
    Limits,
    Raises,
    Result,
    Rules,
    encode,
    in_one_process,
    judge_calls,
    judge_script,
    judge_suite,
)
from sandbox.names import canonical, script_file, solution_file
from sandbox.show import line, show

SPLIT, IN_PLACE, TOGETHER = "split", "split-in-place", "unittest"
CALLS, SCRIPT = "calls", "script"
_TRUST = ("inproc", "split", "external")
# Tests of the first round, and how many times more there are in each further one.
_FIRST, _GROWTH = 1, 4
# Statuses of a suite that might do in another arrangement: what it exchanges cannot travel by value, or
# it looks at what the program does to the arguments.
_CANNOT_TRAVEL = ("unserializable", "invalid_suite")
_LOOKS = ("failed", "exception")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a suite says of a program.

    Attributes:
        passed: None where nothing is known.
        reason: `passed`, `failed`, or the sandbox's status.
        detail: what failed first, for a person; empty when nothing did.
        trust: the weakest of the runs: `external`, `split`, `inproc`; `none` without a run.
        isolation: backend and layers.
    """

    passed: bool | None
    reason: str
    detail: str
    trust: str
    isolation: str


class Suite:
    """The suite of one problem, ready for programs that solve it."""

    def __init__(
        self, problem: Mapping[str, Any], exports: Sequence[str], bounds: Limits, kind: str = SPLIT
    ) -> None:
        """Prepare a suite.

        Args:
            exports: functions besides the entry point that tests may call by name.
            bounds: of one run; the problem's own limits raise them.
            kind: how source suites run: the `suite_kind` column, or one of its parts.
        """
        self.problem = problem
        self.entry = problem["entry_point"] or ""
        self.lang = canonical(problem["language"])
        self.exports = tuple(name for name in exports if name != self.entry and name.isidentifier())
        self.bounds = _raised(bounds, problem)
        found = [one for one in (TOGETHER, IN_PLACE, SPLIT) if one in kind.split("+")]
        self.code_kind = found[0] if found else SPLIT
        self.sources = suites(problem) if self.lang == "python" else []
        self.calls, self.expected = _calls_of(problem)
        self.scripts = [(test["stdin"] or "", test["stdout"] or "") for test in _of(problem, "stdin")]
        self.rules = Rules.for_language(self.lang, abs_tol=problem["tolerance"])
        if self.lang == "python":
            # JSON knows neither tuples nor the difference of 1 and 1.0.
            self.rules = dataclasses.replace(self.rules, sequences=True, numeric=True, text_keys=True)

    @property
    def kind(self) -> str:
        """The `suite_kind` column."""
        kinds = [self.code_kind] * bool(self.sources) + [CALLS] * bool(self.calls)
        return "+".join([*kinds, *([SCRIPT] * bool(self.scripts))])

    def settle(self, reference: str, workers: int = 1) -> None:
        """Take what the reference returns where a call has no expected value of its own.

        A call on which the reference does not come to a value or error is left out.
        """
        open_ = [index for index, one in enumerate(self.expected) if one is None]
        if not open_:
            return
        job = self._calls_job(reference, [self.calls[index] for index in open_])
        (result,) = runs.run_all([job], workers)
        found: dict[int, Equals | Raises] = {}
        for index, value in zip(open_, result.outputs, strict=False):
            wanted = _expectation(value)
            if wanted is not None:
                found[index] = wanted
        kept = [index for index, one in enumerate(self.expected) if one is not None or index in found]
        self.expected = [self.expected[index] or found[index] for index in kept]
        self.calls = [self.calls[index] for index in kept]

    def arrange(self, reference: str, workers: int = 1) -> Verdict:
        """Settle, choose how source suites run, and judge the reference.

        A suite runs split if the reference passes it so, with arguments changed in place if it needs that,
        and in one process only where values cannot travel.
        """
        self.settle(reference, workers)
        (first,) = self.judge([reference], workers)
        if first.passed or not self.sources:
            return first
        others = {**dict.fromkeys(_LOOKS, (IN_PLACE, TOGETHER)), **dict.fromkeys(_CANNOT_TRAVEL, (TOGETHER,))}
        for kind in others.get(first.reason, ()):
            self.code_kind = kind
            (verdict,) = self.judge([reference], workers)
            if verdict.passed and (kind == IN_PLACE or self._asks(reference, workers)):
                return verdict
        self.code_kind = SPLIT
        return first

    def _asks(self, reference: str, workers: int) -> bool:
        """Whether every source file calls the program at all; in one process a suite of nothing passes."""
        jobs = [
            dataclasses.replace(
                self._job(reference, number), record=(self.entry, *self.exports), record_max=1
            )
            for number in range(len(self.sources))
        ]
        return all(one.recorded or one.record_skipped for one in runs.run_all(jobs, workers))

    def judge(self, programs: Sequence[str], workers: int = 1, retries: int = 1) -> list[Verdict]:
        """Judge programs; equal ones are run once."""
        distinct = list(dict.fromkeys(programs))
        total = len(self.sources) + bool(self.calls) + len(self.scripts)
        ran: dict[str, list[tuple[Result, Judgement]]] = {code: [] for code in distinct}
        start, size = 0, _FIRST
        while start < total:
            numbers = range(start, min(start + size, total))
            alive = [code for code in distinct if all(one.passed is not False for _, one in ran[code])]
            asked = [(code, number) for code in alive for number in numbers]
            results = runs.run_all((self._job(code, number) for code, number in asked), workers, retries)
            for (code, number), result in zip(asked, results, strict=True):
                ran[code].append((result, self._judge(result, number)))
            start, size = numbers.stop, size * _GROWTH
        made = {code: self._verdict(found) for code, found in ran.items()}
        return [made[code] for code in programs]

    def _job(self, code: str, number: int) -> Job:
        if number < len(self.sources):
            job = Job(
                "split",
                {"solution.py": code, "test.py": self.sources[number]},
                self.entry,
                exports=self.exports,
                in_place=self.code_kind == IN_PLACE,
                limits=self.bounds,
            )
            return in_one_process(job) if self.code_kind == TOGETHER else job
        number -= len(self.sources)
        if self.calls:
            if number == 0:
                return self._calls_job(code, self.calls)
            number -= 1
        name = script_file(self.lang)
        stdin = self.scripts[number][0]
        return Job("script", {name: code}, name, stdin=stdin, lang=self.lang, limits=self.bounds)

    def _calls_job(self, code: str, calls: Sequence[Call]) -> Job:
        files = {solution_file(self.lang): code}
        return Job("calls", files, self.entry, calls, lang=self.lang, limits=self.bounds)

    def _judge(self, result: Result, number: int) -> Judgement:
        if number < len(self.sources):
            return judge_suite(result)
        number -= len(self.sources)
        if self.calls:
            if number == 0:
                return judge_calls(result, [one for one in self.expected if one is not None], self.rules)
            number -= 1
        expected = self.scripts[number][1]
        return judge_script(result, expected)

    def _verdict(self, found: Sequence[tuple[Result, Judgement]]) -> Verdict:
        if not found:
            return Verdict(None, "invalid_suite", "the suite has no test", "none", "none")
        # One that failed decides; without a verdict on one of them the suite has not passed.
        order = {False: 0, None: 1, True: 2}
        number = min(range(len(found)), key=lambda index: (order[found[index][1].passed], index))
        result, judged = found[number]
        trust = min((one.trust for one, _ in found), key=_TRUST.index)
        isolation = f"{result.backend}, isolation {result.isolation}"
        if judged.passed:
            return Verdict(True, "passed", "", trust, isolation)
        if judged.passed is None:
            infra = result.status == "infra_error"
            reason = "infra_error" if infra else "invalid_suite"
            return Verdict(None, reason, judged.reason[:500], trust, isolation)
        reason = "failed" if result.status == "ok" else result.status
        return Verdict(False, reason, self._detail(number, result, judged)[:500], trust, isolation)

    def _detail(self, number: int, result: Result, judged: Judgement) -> str:
        total = len(self.sources) + bool(self.calls) + len(self.scripts)
        where = f"test {number + 1} of {total}: " if total > 1 else ""
        if result.status in runs.TIMEOUTS:
            # How long it took to be stopped differs from run to run.
            return where + result.status
        if number == len(self.sources) and self.calls and judged.failures:
            failure = judged.failures[0]
            if result.status != "ok" and failure.index >= len(result.outputs):
                told = shown_call(self.entry, self.calls[failure.index])
                return f"{where}{told}: {result.status}: {line(result.detail)}"
            return f"{where}{shown_call(self.entry, self.calls[failure.index])}: {failure.why}"
        return where + judged.reason


def shown_call(name: str, call: Call) -> str:
    """A call about as Python writes it, cut."""
    given = [show(value) for value in call.args]
    given += [f"{line(key)}={show(value)}" for key, value in call.kwargs.items()]
    return f"{name}({', '.join(given)})"


def _of(problem: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    return (test for test in problem["tests"] if test["kind"] == kind)


def _raised(bounds: Limits, problem: Mapping[str, Any]) -> Limits:
    """Bounds that are no tighter than the problem's own."""
    seconds, memory = problem["time_limit_s"], problem["memory_limit_mb"]
    if seconds is not None:
        ratio = bounds.wall_s / bounds.cpu_s
        cpu_s = min(max(bounds.cpu_s, seconds), 3600.0)
        bounds = dataclasses.replace(bounds, cpu_s=cpu_s, wall_s=min(cpu_s * ratio, 86400.0))
    if memory is not None:
        bounds = dataclasses.replace(bounds, memory_mb=min(max(bounds.memory_mb, memory), 1 << 16))
    return bounds


def _calls_of(problem: Mapping[str, Any]) -> tuple[list[Call], list[Equals | Raises | None]]:
    """Calls of the entry point that can be sent, and what they should come to; None where not told."""
    calls: list[Call] = []
    expected: list[Equals | Raises | None] = []
    for test in _of(problem, "call"):
        try:
            args = json.loads(test["args"])
            encode((tuple(args), {}))
            wanted = None if test["expected"] is None else Equals(json.loads(test["expected"]))
        except (ValueError, TypeError, RecursionError, EncodeError):
            continue
        calls.append(Call(tuple(args)))
        expected.append(wanted)
    return calls, expected


def _expectation(value: Any) -> Equals | Raises | None:
    found = runs.outcome_of(value)
    if found is None or isinstance(value, ErrorRecord):
        return None if found is None else Raises(found[1])
    return Equals(value)
