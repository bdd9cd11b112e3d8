"""Labels by execution: an outcome for a candidate, and labels for each function of its program.

In: `Candidate`s of one program with the program, its problem and its function tests. Out: one
`StepLabeledCandidate` each. Wrong: nothing of a candidate's doing raises; where the sandbox itself
fails the label is null with reason `infra_error`, never 0.

* outcome: the problem's suite on the whole candidate (`labelers.programs.outcomes`).
* step, beside the reference's functions: the candidate's function in the reference's program on the
  function's tests; 1 if all pass, 0 if one fails or the run was stopped, null without tests.
* step, by the suite's calls: the same, by the tests alone whose calls the suite itself makes. Inputs that are
  made may lie outside of what a function is meant for; where only such a test fails, this label is 1.
* step, beside its own: the same tests on the candidate's program as it is, so that a fault of a helper counts
  against its callers too.
  Expected values stay outside and are compared there, types and all.
* A function that the candidate lacks was asked for by its skeleton: 0 with reason `missing` where it
  has tests. A candidate that is no program has none of its functions: `syntax_error`. The span of a
  function that is not there is empty and stands at the end of the completion.
* A function that cannot be put into the reference has no label there: `not_grafted`. So it is where what it
  needs is nested too deeply, where the whole would be too large, where the name is bound other than by an
  unconditional definition, and where a candidate that runs is too large or too deep to be taken apart.
* A suite that says nothing of a candidate (`invalid_suite`) gives no outcome.
* A 0 that rests on made inputs alone, in a program that passes its suite, is in doubt, and counts for nothing
  unless told otherwise; the conflict is named all the same.
* Which label counts, and whether it does where outcome and steps disagree, are settings: the others stay
  beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from decompose.functions import counterparts
from decompose.graft import bound_names, graft
from decompose.grammars import SourceError
from labelers.programs import runs
from labelers.programs.answers import place
from labelers.programs.config import VerifyConfig
from labelers.programs.decompose import module_functions
from labelers.programs.harvest import HARVESTED, loadable
from labelers.programs.outcomes import Suite, Verdict, shown_call
from labelers.programs.suites import prompt_of
from labelers.programs.unit_tests import failures, told
from sandbox import Call, ErrorRecord, Job, Result
from schemas.ids import split_of
from schemas.records import FunctionSpan, Generator, Step, StepLabeledCandidate
from schemas.stage import Keep

_Test = tuple[Call, runs.Outcome, bool]
"""A call, what it comes to, and whether the suite makes it."""
Judge = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, int | None]]]
"""From candidates of one program, as rows, to what a model says of each of their functions by name."""


@dataclasses.dataclass(frozen=True)
class _Label:
    """A label with what it rests on."""

    label: int | None
    reason: str
    suite: int | None = None
    run: int = 0
    passed: int = 0
    failure: str | None = None


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A candidate with what has to be run of it."""

    candidate: Mapping[str, Any]
    program: str
    spans: dict[str, FunctionSpan] | None
    bound: set[str]
    among_reference: dict[str, Job]
    among_own: dict[str, Job]


class Verifier:
    """Judges candidates of one program; equal executions are made once."""

    def __init__(
        self,
        program: Mapping[str, Any],
        problem: Mapping[str, Any],
        tests: Sequence[Mapping[str, Any]],
        config: VerifyConfig,
        seed: int,
        scores: Mapping[str, float | None] | None = None,
        judge: Judge | None = None,
    ) -> None:
        """Prepare for candidates of `program`.

        Args:
            scores: mutation score of each function's tests.
            judge: asks a model for labels.

        Raises:
            AssayError: a test is not in the sandbox's encoding.
        """
        self.program, self.problem, self.config, self.seed = program, problem, config, seed
        self.scores, self.judge = scores or {}, judge
        self.language = program["language"]
        self.prompt = prompt_of(problem, program)
        self.tests: dict[str, list[_Test]] = {span["name"]: [] for span in program["functions"]}
        for test in tests if config.steps != "none" else ():
            if (test["selected"] or config.all_tests) and test["function"] in self.tests:
                harvested = test["source"] == HARVESTED
                one = runs.read_call(test["call"]), runs.read_outcome(test["expected"]), harvested
                self.tests[test["function"]].append(one)
        # Of a function that changes its arguments what it leaves of them is part of what is expected.
        self.left = {name for name, some in self.tests.items() if any(one[1][0] == "left" for one in some)}
        suite_bounds = runs.limits(config.suite_cpu_s, config.suite_wall_s, config.memory_mb)
        exports = module_functions(program["functions"])
        self.suite = Suite(problem, exports, suite_bounds, program["suite_kind"])
        self.suite.settle(program["code"])
        # A suite of calls is told in JSON, which has no tuples.
        self.rules = dataclasses.replace(runs.PLAIN, sequences="calls" in program["suite_kind"].split("+"))
        self.bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
        self.limits = f"suite {_shown(self.suite.bounds)}; a function's tests {_shown(self.bounds)}"
        self.outcomes: dict[str, Verdict] = {}
        self.labels: dict[str, _Label] = {}

    def label(self, candidates: Sequence[Mapping[str, Any]]) -> Iterator[Keep]:
        """Label candidates, one outcome each, in order."""
        asked = [self._ask(candidate) for candidate in candidates]
        fresh = [one.program for one in asked if one.program not in self.outcomes]
        verdicts = self.suite.judge(fresh, self.config.workers, self.config.retries)
        self.outcomes.update(zip(fresh, verdicts, strict=True))
        self._execute([item for one in asked for item in one.among_reference.items()])
        self._execute([item for one in asked for item in one.among_own.items()])
        judged = self.judge(candidates) if self.judge is not None else [{} for _ in candidates]
        for one, said in zip(asked, judged, strict=True):
            yield Keep((self._row(one, said),))

    def _ask(self, candidate: Mapping[str, Any]) -> _Asked:
        """What has to be run: a job for each function that can be found and has tests, in either company."""
        code = candidate["completion"] if candidate["program"] is None else candidate["program"]
        try:
            # An overload that only one side has goes by another name in each.
            spans = counterparts(self.program["code"], code, self.language)
            bound = bound_names(code, self.language)
        except SourceError:
            return _Asked(candidate, code, None, set(), {}, {})
        one = _Asked(candidate, code, spans, bound, {}, {})
        for name, tests in self.tests.items():
            if tests and name in spans:
                # Without a graft there is no experiment, and no label.
                with contextlib.suppress(SourceError):
                    alone = graft(self.program["code"], code, name, self.language)
                    one.among_reference[name] = self._job(alone, name)
            if tests and self.config.own and (name in spans or name in bound):
                one.among_own[name] = self._job(code, name)
        return one

    def _job(self, code: str, name: str) -> Job:
        calls = [call for call, _, _ in self.tests[name]]
        text = loadable(self.program, code)
        left = name in self.left
        return runs.calls_job(text, name, calls, self.bounds, lang=self.language, left=left)

    def _execute(self, jobs: Sequence[tuple[str, Job]]) -> None:
        """Run what has not been run yet; of a run only the label is kept, not the values."""
        fresh = {key: (name, job) for name, job in jobs if (key := _key(job)) not in self.labels}
        jobs_alone = (job for _, job in fresh.values())
        results = runs.run_all(jobs_alone, self.config.workers, self.config.retries)
        for (key, (name, _)), result in zip(fresh.items(), results, strict=True):
            self.labels[key] = self._label(result, name)

    def _label(self, result: Result, name: str) -> _Label:
        """What one function's run says of it."""
        tests, left = self.tests[name], name in self.left
        if result.status == "infra_error":
            return _Label(None, "infra_error")
        failed = failures(result, [expected for _, expected, _ in tests], self.rules)
        made, total = len(result.outputs), len(tests)
        run = total if len(failed) == total else min(total, made + (made < total))
        by_suite = [index for index in range(total) if tests[index][2]]
        suite = int(not set(failed) & set(by_suite)) if by_suite else None
        if not failed:
            return _Label(1, "passed", suite, run, run)
        if suite == 1 and run < total:
            # Stopped in a made call: those of the suite that were left are not known.
            suite = 1 if all(index < made for index in by_suite) else None
        reason = "failed" if result.status == "ok" else result.status
        call, expected, _ = tests[failed[0]]
        got = _got(result.outputs[failed[0]], left) if failed[0] < made else result.status
        failure = f"{shown_call(name, call)}: expected {told(expected)}, got {got}"
        return _Label(0, reason, suite, run, run - len(failed), failure[:500])

    def _row(self, asked: _Asked, judged: Mapping[str, int | None]) -> StepLabeledCandidate:
        verdict, candidate = self.outcomes[asked.program], asked.candidate
        outcome = None if verdict.passed is None else int(verdict.passed)
        reason = verdict.reason
        if candidate["fault"] == "broken" and outcome == 1:
            # What was left out was not needed; the text as it was written is no program all the same.
            outcome = 0
        if candidate["fault"] and outcome == 0:
            reason = candidate["fault"]
        steps = [self._step(asked, name, verdict, judged.get(name)) for name in self.tests]
        conflict = conflict_of(outcome, [step.label for step in steps])
        if outcome == 1 and self.config.doubtful == "null" and self.config.steps in ("reference", "own"):
            steps = [step if _sure(step) else dataclasses.replace(step, label=None) for step in steps]
        if conflict != "none" and self.config.conflicts == "mask":
            steps = [dataclasses.replace(step, label=None) for step in steps]
        generator = candidate["generator"]
        return StepLabeledCandidate(
            id=candidate["id"],
            problem_id=candidate["problem_id"],
            program_id=self.program["id"],
            prompt=self.prompt,
            completion=candidate["completion"],
            program=candidate["program"],
            outcome=outcome,
            outcome_reason=reason,
            outcome_detail=verdict.detail or None,
            trust=verdict.trust,
            steps=steps,
            conflict=conflict,
            language=self.language,
            source=self.problem["source"],
            license=self.problem["license"],
            generator=generator if isinstance(generator, Generator) else Generator(**generator),
            isolation=verdict.isolation,
            limits=self.limits,
            split=split_of(self.seed, candidate["problem_id"], self.config.test_share),
        )

    def _step(self, asked: _Asked, name: str, verdict: Verdict, judged: int | None) -> Step:
        span = None if asked.spans is None else asked.spans.get(name)
        placed = None if span is None else place(span.start_byte, span.end_byte, asked.candidate["pieces"])
        end = len(asked.candidate["completion"].encode())
        start, stop = placed or (end, end)
        reference = self._found(asked, name, asked.among_reference, verdict)
        own = (
            self._found(asked, name, asked.among_own, verdict) if self.config.own else _Label(None, "not_run")
        )
        counts = {"reference": reference.label, "suite": reference.suite, "own": own.label, "judge": judged}
        return Step(
            name=name,
            start_byte=start,
            end_byte=stop,
            label=counts.get(self.config.steps),
            reference_label=reference.label,
            suite_label=reference.suite,
            own_label=own.label,
            judge_label=judged,
            tests_run=reference.run,
            tests_passed=reference.passed,
            reason=reference.reason,
            own_reason=own.reason,
            first_failure=reference.failure or own.failure,
            mutation_score=self.scores.get(name),
            trust="external" if reference.run or own.run else "none",
        )

    def _found(self, asked: _Asked, name: str, jobs: Mapping[str, Job], verdict: Verdict) -> _Label:
        """The label of a function in one company."""
        if not self.tests[name]:
            return _Label(None, "no_tests")
        if name in jobs:
            return self.labels[_key(jobs[name])]
        if asked.spans is None:
            # That it cannot be taken apart here is our bound; that it is no program is the language's word.
            no_program = verdict.reason == "compile_error" or asked.candidate["fault"] is not None
            return _Label(0, "syntax_error", 0) if no_program else _Label(None, "not_grafted")
        if name in asked.spans or name in asked.bound:
            return _Label(None, "not_grafted")
        return _Label(0, "missing", 0)


def _shown(bounds: Any) -> str:
    return f"{bounds.cpu_s:g} s of processor, {bounds.wall_s:g} s of wall, {bounds.memory_mb} MiB"


def _key(job: Job) -> str:
    """Two jobs with one key give one result: everything else of them is the verifier's own."""
    state = hashlib.blake2b(digest_size=16)
    for part in (job.kind, job.entry, *(text for item in sorted(job.files.items()) for text in item)):
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big") + data)
    return state.hexdigest()


def _sure(step: Step) -> bool:
    """Whether a 0 in a program that passes its suite rests on more than inputs that were made."""
    return step.label != 0 or step.suite_label == 0 or step.reason == "missing"


def _got(value: Any, left: bool) -> str:
    found = runs.outcome_of(value)
    if found is None or isinstance(value, ErrorRecord):
        return f"error {value.type}"
    return told(("left", value) if left and type(value) is list and len(value) == 3 else found)


def conflict_of(outcome: int | None, labels: Sequence[int | None]) -> str:
    """Whether outcome and steps disagree: `o1_z0`, `o0_allz1` or `none` (see the `steps` table).

    Steps without a label do not count, and where no step has one there is no disagreement.
    """
    known = [label for label in labels if label is not None]
    if outcome == 1 and 0 in known:
        return "o1_z0"
    if outcome == 0 and known and all(label == 1 for label in known):
        return "o0_allz1"
    return "none"
