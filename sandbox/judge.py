"""From what a program did to whether it was right. Decided outside the sandbox, where expectations stay.

In: a `Result` and what was expected of it. Out: a `Judgement`: passed, not passed, or None where the run
is no evidence at all. Wrong: ValueError or TypeError for expectations that make no sense.

A pass is something that was seen, never something that failed to happen: at least one check was executed,
every check was reported, and each was met. Nothing to check, a failure of the machine and a suite that says
nothing of the candidate give None. A limit, a crash, a value that cannot be sent and cut output never pass,
whatever was expected, an error included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox import codec
from sandbox.compare import Rules
from sandbox.job import ErrorRecord, Limits, Result
from sandbox.outputs import MODES, Mode, difference
from sandbox.show import line, show

WALL_PER_CPU_S = 4.0
"""Seconds of wall time that `calibrate` gives for one of processor time: that many programs on one core."""
WALL_SLACK_S = 1.0
"""Seconds of wall time that it adds, for a machine that pauses."""

_EXACT = Rules()
# Errors that say that the work was not done, not what the answer is: they must be expected by name.
_NO_ANSWER = frozenset(
    {
        "MemoryError",
        "RecursionError",
        "SystemExit",
        "KeyboardInterrupt",
        "GeneratorExit",
        "NotImplementedError",
        "NotImplementedException",
        "NoMemoryError",
        "SystemStackError",
        "OutOfMemoryError",
        "StackOverflowError",
    }
)


@dataclass(frozen=True, slots=True)
class Equals:
    """A call returns this value. Raises EncodeError for a value that no program could send."""

    value: Any

    def __post_init__(self) -> None:
        codec.encode(self.value)


@dataclass(frozen=True, slots=True)
class Raises:
    """A call raises an error: of exactly this type's name, or, for None, of any that tells of the answer.

    MemoryError, RecursionError, SystemExit, NotImplementedError and their like in other languages tell only
    that the work was not done; to be accepted they must be named.
    """

    type: str | None = None

    def __post_init__(self) -> None:
        if self.type is not None and (not isinstance(self.type, str) or not self.type):
            raise TypeError(f"Raises needs the name of a type, such as 'ValueError', not {self.type!r}")


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of several accepted answers: values, or further expectations. Raises ValueError for none at all."""

    answers: Sequence[Any]

    def __post_init__(self) -> None:
        if isinstance(self.answers, str | bytes) or not isinstance(self.answers, Sequence):
            raise TypeError(f"AnyOf needs a list of answers, not {type(self.answers).__name__}")
        known = (Equals, Raises, AnyOf)
        answers = tuple(one if isinstance(one, known) else Equals(one) for one in self.answers)
        if not answers:
            raise ValueError("AnyOf needs an answer that is accepted")
        object.__setattr__(self, "answers", answers)


Expectation = Equals | AnyOf | Raises


@dataclass(frozen=True, slots=True)
class Failure:
    """One check that was not met.

    index     of the check
    expected  its expectation, or the accepted outputs
    got       the value, `ErrorRecord` or output; None where nothing was reported
    why       one line for people, bounded
    """

    index: int
    expected: Any
    got: Any
    why: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run says of a program.

    passed    True: right as far as it was checked; False: wrong; None: this is no evidence, leave it out
    checked   checks that were executed
    failures  checks that were not met or not reported
    reason    one line for people, bounded
    It has no truth value, since None and False are not the same: ask for `passed`.
    Raises ValueError for a pass without a check, or with a failure.
    """

    passed: bool | None
    checked: int = 0
    failures: list[Failure] = field(default_factory=list)
    reason: str = ""

    def __post_init__(self) -> None:
        if self.passed and (self.checked < 1 or self.failures):
            raise ValueError("a pass needs a check that was executed, and none that was not met")

    def __bool__(self) -> bool:
        raise TypeError("a Judgement has no truth value: compare its `passed` with True, False or None")


def judge_calls(result: Result, expected: Sequence[Expectation], rules: Rules = _EXACT) -> Judgement:
    """Judge a job of kind "calls" by one expectation a call, in the order of the calls."""
    _refuse_others(expected)
    if not expected:
        return Judgement(None, reason="no expectations: nothing was checked")
    nothing = _no_evidence(result)
    if nothing is not None:
        return nothing
    reported = len(result.outputs)
    if reported > len(expected) or (result.status == "ok" and reported < len(expected)):
        return Judgement(None, reason=f"{reported} calls were made and {len(expected)} outcomes expected")
    failures = []
    for index, (expectation, got) in enumerate(zip(expected, result.outputs, strict=False)):
        why = _unmet(expectation, got, rules)
        if why:
            failures.append(Failure(index, expectation, got, why))
    missing = f"no outcome was reported: {result.status}"
    failures += [Failure(index, expected[index], None, missing) for index in range(reported, len(expected))]
    if result.status != "ok":
        reason = f"{_ended(result)}; {reported} of {len(expected)} outcomes were reported"
        return Judgement(False, reported, failures, reason)
    if failures:
        reason = f"{len(failures)} of {reported} checks failed; check {failures[0].index}: {failures[0].why}"
        return Judgement(False, reported, failures, reason)
    return Judgement(True, reported, reason=f"{reported} checks were met")


def sound_checks(reference: Result, expected: Sequence[Expectation], rules: Rules = _EXACT) -> list[int]:
    """Return the indices of the expectations that the reference's own run meets.

    A check that the reference fails is wrong itself: leave it out before candidates are judged, since
    counted against them it keeps a right program below a full score.
    Raises ValueError where the run is no evidence.
    """
    _refuse_others(expected)
    nothing = _no_evidence(reference)
    if nothing is not None or len(reference.outputs) > len(expected):
        raise ValueError(f"the reference's run says nothing of the checks: {_ended(reference)}")
    pairs = zip(expected, reference.outputs, strict=False)
    return [index for index, (expectation, got) in enumerate(pairs) if not _unmet(expectation, got, rules)]


def judge_output(
    stdout: str,
    expected: str | Sequence[str],
    mode: Mode = "lines",
    *,
    rel_tol: float = 0.0,
    abs_tol: float = 0.0,
    truncated: bool = False,
) -> Judgement:
    """Judge what a script printed by the output that was expected, or by several that are accepted.

    The modes are those of `sandbox.outputs`. In mode "lines" an output of nothing meets an expectation of
    empty lines, and no other. In mode "tokens" the tolerances are those of `Rules`: two tokens that are
    finite numbers are alike when they are close, but two integers only when they are written alike.
    None where nothing is expected (an empty list), or an expected output holds U+FFFD, which any undecodable
    byte becomes. Cut output never passes. Raises TypeError for an output that is no str, ValueError for a
    mode that does not exist or a tolerance that has no meaning.
    """
    accepted = [expected] if isinstance(expected, str) else list(expected)
    for text in (stdout, *accepted):
        if not isinstance(text, str):
            raise TypeError(f"outputs are str, not {type(text).__name__}")
    if mode not in MODES:
        raise ValueError(f"no mode {mode!r}: use {', '.join(MODES)}")
    rules = Rules(rel_tol=rel_tol, abs_tol=abs_tol)
    if rules.tolerant and mode != "tokens":
        raise ValueError(f"a tolerance has a meaning in mode 'tokens' only, not in {mode!r}")
    if not accepted:
        return Judgement(None, reason="no expected output: nothing was checked")
    if any("\ufffd" in text for text in accepted):
        return Judgement(
            None, reason="the expected output holds U+FFFD: it was decoded from bytes that are no UTF-8"
        )
    if truncated:
        reason = "the output was cut"
        return Judgement(False, 1, [Failure(0, expected, stdout, reason)], reason)
    reasons = [difference(stdout, text, mode, rules) for text in accepted]
    if not all(reasons):
        return Judgement(True, 1, reason="the output is as expected")
    why = reasons[0] if len(reasons) == 1 else f"none of {len(reasons)} outputs; the first: {reasons[0]}"
    return Judgement(False, 1, [Failure(0, expected, stdout, why)], why)


def judge_script(
    result: Result,
    expected: str | Sequence[str],
    mode: Mode = "lines",
    *,
    rel_tol: float = 0.0,
    abs_tol: float = 0.0,
) -> Judgement:
    """Judge a job of kind "script": exit status 0, whole output, and `judge_output`. Raises as that does."""
    judged = judge_output(
        result.stdout, expected, mode, rel_tol=rel_tol, abs_tol=abs_tol, truncated=result.truncated
    )
    if judged.passed is None:
        return judged
    nothing = _no_evidence(result)
    if nothing is not None:
        return nothing
    if result.status != "ok":
        return Judgement(False, 1, [Failure(0, expected, result.stdout, _ended(result))], _ended(result))
    return judged


def combine(judgements: Sequence[Judgement]) -> Judgement:
    """Judge a program by several runs, such as one a test input: it passes when it passes all of them.

    One failure fails it; else one run without evidence, or no run at all, leaves it without. Failures keep
    their texts and get the index of their run.
    """
    checked = sum(one.checked for one in judgements)
    failures = [replace(one, index=index) for index, of in enumerate(judgements) for one in of.failures]
    for wanted in (False, None):
        which = [index for index, one in enumerate(judgements) if one.passed is wanted]
        if which:
            reason = f"{len(which)} of {len(judgements)} runs, the first {which[0]}: "
            return Judgement(wanted, checked, failures, reason + judgements[which[0]].reason)
    if not judgements:
        return Judgement(None, reason="no runs: nothing was checked")
    return Judgement(True, checked, reason=f"all of {len(judgements)} runs passed")


def calibrate(results: Sequence[Result], base: Limits, factor: float = 4.0, floor_s: float = 0.5) -> Limits:
    """Return `base` with time limits by what the reference itself took, in runs of the same language.

    cpu_s = min(base.cpu_s, max(floor_s, factor * C))
    wall_s = min(base.wall_s, max(WALL_PER_CPU_S * cpu_s + WALL_SLACK_S, factor * W))
    with C and W the most processor and wall seconds of one run. Raises ValueError where there is no run, for
    one that did not end well, and for a factor below 1 or a floor that is not above 0.
    """
    if not 1 <= factor < math.inf or not 0 < floor_s < math.inf:
        raise ValueError(f"factor must be at least 1 and floor_s above 0, not {factor!r} and {floor_s!r}")
    if not results:
        raise ValueError("limits cannot be calibrated without a run of the reference")
    for index, result in enumerate(results):
        if result.status != "ok":
            raise ValueError(f"run {index} of the reference did not end well: {_ended(result)}")
    cpu_s = min(base.cpu_s, max(floor_s, factor * max(result.cpu_s for result in results)))
    slowest = max(result.wall_s for result in results)
    wall_s = min(base.wall_s, max(WALL_PER_CPU_S * cpu_s + WALL_SLACK_S, factor * slowest))
    return replace(base, cpu_s=cpu_s, wall_s=wall_s)


def _refuse_others(expected: Sequence[Expectation]) -> None:
    for index, one in enumerate(expected):
        if not isinstance(one, Equals | AnyOf | Raises):
            raise TypeError(f"expectation {index} is of type {type(one).__name__}: wrap a value in Equals")


def _no_evidence(result: Result) -> Judgement | None:
    if result.status in ("infra_error", "invalid_suite"):
        return Judgement(None, reason=_ended(result))
    return None


def _ended(result: Result) -> str:
    return f"{result.status}: {line(result.detail)}" if result.detail else result.status


def _unmet(expectation: Expectation, got: Any, rules: Rules) -> str:
    """Why an outcome does not meet its expectation; "" where it does."""
    if isinstance(expectation, AnyOf):
        reasons = [_unmet(one, got, rules) for one in expectation.answers]
        if not all(reasons):
            return ""
        return reasons[0] if len(reasons) == 1 else f"none of {len(reasons)} answers; the first: {reasons[0]}"
    if isinstance(got, ErrorRecord):
        found = f"{line(got.type)}: {line(got.message)}"
        if not got.raised:
            return f"returned what cannot be sent, {found}"
        if isinstance(expectation, Equals):
            return f"raised {found} instead of returning {show(expectation.value)}"
        if got.type == expectation.type or (expectation.type is None and got.type not in _NO_ANSWER):
            return ""
        return f"raised {found} instead of {expectation.type or 'an error that tells of the answer'}"
    if isinstance(expectation, Raises):
        return f"returned {show(got)} instead of raising {expectation.type or 'an error'}"
    if rules.equal(got, expectation.value):
        return ""
    wanted, found = show(expectation.value), show(got)
    if type(got) is not type(expectation.value):
        return f"expected {wanted} ({type(expectation.value).__name__}), got {found} ({type(got).__name__})"
    return f"expected {wanted}, got {found}"
