"""Suites of assertions: which kind of job suits one, and what its result says of a candidate.

In: a suite with its reference, as a job of kind "split"; the result of a candidate's job. Out: the kind, a
`Judgement`. Wrong: ValueError for a job or result of another kind.

A suite runs split, the tests in one sandbox and the candidate in another, wherever what they exchange can
travel by value. Whether it can is decided once, on the reference: a candidate that returned something odd
could otherwise choose to sit beside its tests. Results of a suite in one process say trust "inproc"; a
candidate may have told itself that it passed, so that nothing should be trained on them.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

from sandbox.job import Job, Kind, Result
from sandbox.judge import Judgement

_CANNOT_TRAVEL = ("unserializable", "invalid_suite")


class Runner(Protocol):
    def run(self, job: Job) -> Result: ...


def kind_for(sandbox: Runner, reference: Job) -> tuple[Kind | None, Result]:
    """Return the kind in which the reference passes its own suite, and the result that decided it.

    "split" where that works, "unittest" where a value cannot travel and one process works, None where the
    reference does not pass, or where the sandbox failed (the result's status says which).
    """
    if reference.kind != "split":
        raise ValueError(f"a suite is judged as a job of kind 'split', not {reference.kind!r}")
    result = sandbox.run(reference)
    if result.status == "ok":
        return "split", result
    if result.status not in _CANNOT_TRAVEL:
        return None, result
    together = sandbox.run(in_one_process(reference))
    return ("unittest", together) if together.status == "ok" else (None, together)


def in_one_process(job: Job) -> Job:
    """The same suite with tests and candidate in one process: its results say trust "inproc"."""
    return dataclasses.replace(job, kind="unittest", exports=(), in_place=False)


def judge_suite(result: Result) -> Judgement:
    """What a suite's result says of the candidate.

    passed is None where it says nothing: the sandbox failed, or the suite is invalid. A suite in one process
    cannot count what it checked; it counts as one check.
    """
    said = f"{result.status}: {result.detail}" if result.detail else result.status
    if result.status in ("infra_error", "invalid_suite"):
        return Judgement(None, reason=said)
    if result.trust not in ("split", "inproc"):
        raise ValueError(f"the result of a suite says trust 'split' or 'inproc', not {result.trust!r}")
    checked = result.candidate_calls if result.trust == "split" else 1
    if result.status != "ok":
        return Judgement(False, checked, reason=said)
    if not checked:
        return Judgement(None, reason="the suite ended without calling the candidate")
    return Judgement(True, checked)
