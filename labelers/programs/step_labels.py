"""Labels by execution: an outcome for a candidate, and one label for each function of its program.

In: `Candidate`s of one program with the program, its problem and its function tests. Out: one
`StepLabeledCandidate` each. Wrong: nothing of a candidate's doing raises; where the sandbox itself
fails the label is null with reason `infra_error`, never 0.

* outcome: the problem's suite on the whole candidate, tests and candidate in sandboxes of their own.
* step: the candidate's function in the reference's program (every other function is the reference's)
  on the function's tests; 1 if all pass, 0 if one fails or the run was stopped, null without tests.
  Expected values stay outside and are compared there, types and all.
* A function that the candidate lacks was asked for by its skeleton: 0 with reason `missing` where it
  has tests. A candidate that is no program has none of its functions: `syntax_error`. The span of a
  function that is not there is empty and stands at the end of the completion.
* A function that cannot be put into the reference has no label: `not_grafted`. So it is where what it
  needs is nested too deeply, where the whole would be too large, where the name is bound other than by an
  unconditional definition, and where Python runs a candidate that is too large or too deep to be taken apart.
* A suite that says nothing of a candidate (`invalid_suite`) gives no outcome.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decompose.functions import functions
from decompose.graft import bound_names, graft
from decompose.grammars import SourceError
from labelers.programs import runs
from labelers.programs.config import VerifyConfig
from labelers.programs.decompose import module_functions
from labelers.programs.suites import prompt_of, suites
from labelers.programs.unit_tests import failures
from sandbox import Job, Result
from schemas.ids import split_of
from schemas.records import FunctionSpan, Generator, Step, StepLabeledCandidate
from schemas.stage import Keep

_NO_VERDICT = ("infra_error", "invalid_suite")

# (label, tests run, tests passed, reason) of one function.
_Verdict = tuple[int | None, int, int, str]


class Verifier:
    """Judges candidates of one program; equal executions are made once."""

    def __init__(
        self,
        program: Mapping[str, Any],
        problem: Mapping[str, Any],
        tests: Sequence[Mapping[str, Any]],
        config: VerifyConfig,
        seed: int,
    ) -> None:
        """Prepare for candidates of `program`.

        Raises:
            AssayError: a test is not in the sandbox's encoding.
        """
        self.program, self.problem, self.config, self.seed = program, problem, config, seed
        self.suite = suites(problem)
        self.exports = module_functions(program["functions"])
        self.prompt = prompt_of(problem, program)
        self.tests = {
            span["name"]: [
                (runs.read_call(test["call"]), runs.read_outcome(test["expected"]))
                for test in tests
                if test["function"] == span["name"] and (test["selected"] or config.all_tests)
            ]
            for span in program["functions"]
        }
        self.suite_bounds = runs.limits(config.suite_cpu_s, config.suite_wall_s, config.memory_mb)
        self.bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
        self.outcomes: dict[str, Result] = {}
        self.verdicts: dict[str, _Verdict] = {}

    def label(self, candidates: Sequence[Mapping[str, Any]]) -> Iterator[Keep]:
        """Label candidates, one outcome each, in order."""
        asked = [(candidate, *self._ask(candidate)) for candidate in candidates]
        self._execute([job for _, suite, _, steps in asked for job in (*suite, *steps.values())])
        for candidate, suite, spans, steps in asked:
            yield Keep((self._judge(candidate, suite, spans, steps),))

    def _ask(
        self, candidate: Mapping[str, Any]
    ) -> tuple[list[Job], dict[str, FunctionSpan] | None, dict[str, Job]]:
        """What has to be run: the suite's files, and a job a function that can be found and has tests."""
        code = candidate["completion"]
        suite = runs.split_jobs(
            code, self.suite, self.program["entry_point"], self.exports, self.suite_bounds
        )
        try:
            spans = {span.name: span for span in functions(code)}
        except SourceError:
            return suite, None, {}
        jobs = {}
        for name, tests in self.tests.items():
            if tests and name in spans:
                # Without a graft there is no experiment, and no label.
                with contextlib.suppress(SourceError):
                    alone = graft(self.program["code"], code, name)
                    jobs[name] = runs.calls_job(alone, name, [call for call, _ in tests], self.bounds)
        return suite, spans, jobs

    def _execute(self, jobs: Sequence[Job]) -> None:
        """Run what has not been run yet; of a function's run only the verdict is kept, not the values."""
        done = self.outcomes.keys() | self.verdicts.keys()
        fresh = {key: job for job in jobs if (key := _key(job)) not in done}
        results = runs.run_all(fresh.values(), self.config.workers, self.config.retries)
        for (key, job), result in zip(fresh.items(), results, strict=True):
            if job.kind == "split":
                self.outcomes[key] = result
            else:
                self.verdicts[key] = _verdict(result, [expected for _, expected in self.tests[job.entry]])

    def _judge(
        self,
        candidate: Mapping[str, Any],
        suite: Sequence[Job],
        spans: dict[str, FunctionSpan] | None,
        jobs: Mapping[str, Job],
    ) -> StepLabeledCandidate:
        ran = [self.outcomes[_key(job)] for job in suite]
        # Of a suite's files one that fails decides; without a verdict on one of them it has not passed.
        worst = min(ran, key=lambda one: (one.status == "ok", one.status in _NO_VERDICT))
        outcome = None if worst.status in _NO_VERDICT else int(worst.status == "ok")
        completion = candidate["completion"]
        end = len(completion.encode())
        # That it cannot be taken apart here is our bound; that it is no program is Python's word.
        bound = set() if spans is None else bound_names(completion)
        refused = any(one.status == "compile_error" for one in ran)
        steps = []
        for name, tests in self.tests.items():
            span = None if spans is None else spans.get(name)
            start, stop = (end, end) if span is None else (span.start_byte, span.end_byte)
            if not tests:
                verdict: _Verdict = (None, 0, 0, "no_tests")
            elif spans is None:
                verdict = (0, 0, 0, "syntax_error") if refused else (None, 0, 0, "not_grafted")
            elif span is None:
                verdict = (None, 0, 0, "not_grafted") if name in bound else (0, 0, 0, "missing")
            elif name not in jobs:
                verdict = (None, 0, 0, "not_grafted")
            else:
                verdict = self.verdicts[_key(jobs[name])]
            label, run, passed, reason = verdict
            steps.append(
                Step(
                    name=name,
                    start_byte=start,
                    end_byte=stop,
                    label=label,
                    reference_label=label,
                    own_label=None,
                    judge_label=None,
                    tests_run=run,
                    tests_passed=passed,
                    reason=reason,
                    own_reason="not_run",
                    first_failure=None,
                    mutation_score=None,
                    trust="external" if run else "none",
                )
            )
        generator = candidate["generator"]
        return StepLabeledCandidate(
            id=candidate["id"],
            problem_id=candidate["problem_id"],
            program_id=self.program["id"],
            prompt=self.prompt,
            completion=completion,
            program=candidate["program"],
            outcome=outcome,
            outcome_reason="passed" if worst.status == "ok" else worst.status,
            outcome_detail=worst.detail or None,
            trust=worst.trust,
            steps=steps,
            conflict=conflict_of(outcome, [step.label for step in steps]),
            language=self.program["language"],
            source=self.problem["source"],
            license=self.problem["license"],
            generator=generator if isinstance(generator, Generator) else Generator(**generator),
            isolation=f"{worst.backend}, isolation {worst.isolation}, suite {worst.trust}, steps external",
            limits="",
            split=split_of(self.seed, candidate["problem_id"], self.config.test_share),
        )


def _key(job: Job) -> str:
    """Two jobs with one key give one result: everything else of them is the verifier's own."""
    state = hashlib.blake2b(digest_size=16)
    for part in (job.kind, job.entry, *(text for item in sorted(job.files.items()) for text in item)):
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big") + data)
    return state.hexdigest()


def _verdict(result: Result, expected: Sequence[runs.Outcome]) -> _Verdict:
    """What one function's run says of it."""
    if result.status == "infra_error":
        return None, 0, 0, "infra_error"
    failed = failures(result, expected)
    made = len(result.outputs)
    run = len(expected) if len(failed) == len(expected) else min(len(expected), made + (made < len(expected)))
    if not failed:
        return 1, run, run, "passed"
    reason = "failed" if result.status == "ok" else result.status
    return 0, run, run - len(failed), reason


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
