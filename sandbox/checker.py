"""Programs that decide whether an output is right, for problems with more than one right answer.

In: a `Checker` (the problem's own program), the test's input, what the candidate printed, and the answer of
the reference. Out: a `Judgement`. Wrong: ValueError for a checker that cannot be one, `SandboxError` where
its language cannot be run here.

A checker is trusted to mean well, not to be right: it runs in the sandbox like any program, and a crash of
it, or a limit that it meets, says nothing of the candidate. What the candidate printed reaches it as data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sandbox.job import Call, ErrorRecord, Job, Limits, Result
from sandbox.judge import Failure, Judgement
from sandbox.show import line, show

Style = Literal["program", "function"]

INPUT, OUTPUT, ANSWER = "input.txt", "output.txt", "answer.txt"
ACCEPTED = 0

# Language -> what the runtime says, on a line of its own, of an error that nobody caught, where its exit
# status is one that a checker uses as well.
_CRASHES = {
    "javascript": r"Node\.js v\d",
    "typescript": r"Node\.js v\d",
    "go": r"(?:panic|fatal error): ",
    "java": r'Exception in thread "',
    "ruby": r".+:\d+:in .*\(\w[\w:]*\)$",
    "csharp": r"(?:Unhandled Exception|\[ERROR\] FATAL UNHANDLED EXCEPTION):",
}


class Runner(Protocol):
    """What is needed of a `Sandbox`."""

    def run(self, job: Job) -> Result: ...


@dataclass(frozen=True, slots=True)
class Checker:
    """A checker program.

    style "program"   runs files[entry] (the language's main file where entry is empty) with the arguments
                      input.txt output.txt answer.txt, files of its folder. As in testlib, exit status 0
                      accepts the output, and one of `rejects` (1: wrong answer, 2: presentation error)
                      rejects it; every other end of the program is a failure of the checker
    style "function"  Python: calls the function `entry` ("check") of solution.py with the three texts;
                      exactly True accepts, exactly False rejects
    limits            of the checker; `limits.file_mb` also bounds each of the three texts
    """

    files: Mapping[str, str]
    entry: str = ""
    lang: str = "python"
    style: Style = "program"
    limits: Limits = field(default_factory=Limits)
    rejects: tuple[int, ...] = (1, 2)

    def __post_init__(self) -> None:
        if self.style not in ("program", "function"):
            raise ValueError(f"no style {self.style!r} of a checker: use 'program' or 'function'")
        if self.style == "function" and self.lang != "python":
            raise ValueError(f"a checker of style 'function' is a Python function, not one of {self.lang}")
        for name in (INPUT, OUTPUT, ANSWER):
            if name in self.files:
                raise ValueError(f"the checker's own files may not hold {name!r}, which it is given")
        if ACCEPTED in self.rejects:
            raise ValueError("exit status 0 accepts an output, so it cannot be one that rejects")
        # A checker that makes no job is told now, not at the first output.
        _job(self, "", "", "")


def check_with(sandbox: Runner, checker: Checker, input: str, output: str, answer: str) -> Judgement:  # noqa: A002
    """Let the checker decide on `output`, which a candidate printed when it was given `input`.

    None where the checker crashed, met a limit, or answered something that is no verdict, and where a text
    is larger than the checker may read.
    """
    bound = checker.limits.file_mb << 20
    for name, text in ((INPUT, input), (OUTPUT, output), (ANSWER, answer)):
        if len(text) > bound or len(text.encode("utf-8", "surrogatepass")) > bound:
            return Judgement(None, reason=f"{name} is larger than the checker's {checker.limits.file_mb} MiB")
    result = sandbox.run(_job(checker, input, output, answer))
    accepted, reason = _of_function(result) if checker.style == "function" else _of_program(checker, result)
    if accepted is None:
        return Judgement(None, reason=f"the checker gave no verdict: {reason}")
    if accepted:
        return Judgement(True, 1, reason=reason)
    return Judgement(False, 1, [Failure(0, answer, output, reason)], reason)


def _job(checker: Checker, given: str, output: str, answer: str) -> Job:
    if checker.style == "function":
        calls = [Call((given, output, answer))]
        return Job("calls", checker.files, checker.entry or "check", calls, limits=checker.limits)
    return Job(
        "script",
        {**checker.files, INPUT: given, OUTPUT: output, ANSWER: answer},
        checker.entry,
        lang=checker.lang,
        argv=(INPUT, OUTPUT, ANSWER),
        limits=checker.limits,
    )


def _of_program(checker: Checker, result: Result) -> tuple[bool | None, str]:
    said = line(result.stderr)
    if result.status == "ok":
        return True, f"the checker accepted it: {said}" if said else "the checker accepted it"
    if result.status != "exit" or result.exit_code not in checker.rejects:
        return None, f"{result.status}: {line(result.detail)}"
    crash = _CRASHES.get(checker.lang)
    if crash is not None and re.search(f"^{crash}", result.stderr, re.MULTILINE):
        return None, f"it crashed with exit status {result.exit_code}: {said}"
    return False, f"the checker rejected it ({result.exit_code}): {said}"


def _of_function(result: Result) -> tuple[bool | None, str]:
    if result.status != "ok":
        return None, f"{result.status}: {line(result.detail)}"
    verdict = result.outputs[0]
    if isinstance(verdict, ErrorRecord):
        return None, f"it raised {line(verdict.type)}: {line(verdict.message)}"
    if verdict is True or verdict is False:
        return verdict, "the checker accepted it" if verdict else "the checker rejected it"
    return None, f"it returned {show(verdict)}, not True or False"
