"""Answers of a policy, run on the tests of their problems.

In: `Asked` problems and answers as a model wrote them. Out: a `Verdict` an answer: the program in it is found
and judged as `assay verify` does it, by the same functions. Wrong: a problem whose own solution does not pass
here is told, since no answer could be trusted to fail for a fault of its own; a machine that cannot isolate
is an `AssayError`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from assay.passing_problems import Asked
from assay.recipe import Recipe
from schemas.errors import AssayError
from schemas.ids import digest_json

if TYPE_CHECKING:
    from labelers.programs.answers import Found
    from labelers.programs.outcomes import Suite

_STOPS = re.compile(r"\n(?:class|def|#|if|print|@|```|<)")
"""Where a text that goes on from the head of a function has left it (Chen et al. 2021, section 3.2, and what
newer models write there)."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What came of an answer; see the columns of `PassSample`."""

    program: str | None
    fault: str | None
    passed: bool | None
    reason: str
    detail: str | None
    trust: str
    isolation: str


class Judge:
    """Runs answers, with the bounds of `verify`.

    Attributes:
        key: changes with whatever a verdict depends on beside the problem and the answer.
    """

    def __init__(self, recipe: Recipe, workers: int) -> None:
        from assay.stages import code_digest
        from labelers.programs import runs

        config = recipe.verify
        self._workers, self._retries = workers, config.retries
        self._bounds = runs.limits(config.suite_cpu_s, config.suite_wall_s, config.memory_mb)
        code = code_digest(("labelers.programs", "decompose", "sandbox"), ())
        self.key = digest_json({"bounds": dataclasses.asdict(self._bounds), "code": code})
        self._suites: dict[str, Suite] = {}

    def check(self, asked: Asked) -> tuple[str, str] | None:
        """Prepare a problem's tests, once; (reason, detail) where its own solution does not pass them here.

        Raises:
            AssayError: the machine cannot isolate.
        """
        if asked.problem["id"] in self._suites:
            return None
        from labelers.programs.outcomes import Suite
        from sandbox import SandboxError

        try:
            with _isolated():
                suite = Suite(asked.problem, asked.exports, self._bounds, asked.kind or "split")
                if asked.kind is None:
                    verdict = suite.arrange(asked.code, self._workers)
                else:
                    suite.settle(asked.code, self._workers)
                    (verdict,) = suite.judge([asked.code], self._workers, self._retries)
        except SandboxError as error:
            return "not_runnable", str(error)
        if not verdict.passed:
            return "reference_fails", f"{verdict.reason}: {verdict.detail}"
        self._suites[asked.problem["id"]] = suite
        return None

    def judge(self, asked: Asked, answers: Sequence[str], chat: bool) -> list[Verdict]:
        """Judge answers to a problem that was checked.

        Raises:
            AssayError: the machine cannot isolate.
        """
        suite = self._suites.get(asked.problem["id"])
        if suite is None:
            raise AssayError(f"{asked.name}: judged before its tests were checked")
        found = [program_of(answer, asked, chat) for answer in answers]
        with _isolated():
            verdicts = suite.judge([one.program for one in found], self._workers, self._retries)
        made = []
        for answer, one, verdict in zip(answers, found, verdicts, strict=True):
            # What was left out of a broken answer was not needed; as it was written it is no program.
            passed = False if one.fault == "broken" and verdict.passed else verdict.passed
            reason = one.fault if one.fault is not None and passed is False else verdict.reason
            program = None if one.program == answer else one.program
            detail = verdict.detail or None
            made.append(Verdict(program, one.fault, passed, reason, detail, verdict.trust, verdict.isolation))
        return made


@contextlib.contextmanager
def _isolated() -> Iterator[None]:
    from sandbox import SandboxUnavailable

    try:
        yield
    except SandboxUnavailable as error:
        raise AssayError(f"answers cannot be run here: {error}") from None


def program_of(answer: str, asked: Asked, chat: bool) -> Found:
    """The program in an answer.

    A model that goes on from the head of a function is cut where it has left it. For a problem without a
    function to call, it is the last fenced block in the language, else the whole text.
    """
    from labelers.programs import answers

    statement = str(asked.problem["prompt"])
    if not chat and asked.entry and not asked.skeleton and re.search(_head(asked.entry), statement):
        stop = _STOPS.search(answer)
        answer = answer[: stop.start() + 1] if stop else answer
    if asked.wanted:
        language = asked.problem["language"]
        return answers.find(answer, answers.Asked(language, asked.wanted, asked.skeleton, statement))
    return answers.script(answer, asked.problem["language"])


def _head(entry: str) -> str:
    return rf"\bdef\s+{re.escape(entry)}\s*\("
