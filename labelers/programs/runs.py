"""How the stages of programs use the sandbox: one a process, failures of its own tried again.

In: jobs. Out: results in the order of the jobs, whatever the number of workers; equal jobs run once.
Also the text form of calls and outcomes in the `tests` table: base64 of the sandbox's tagged encoding
of (args, kwargs), and of ("value", value) or ("error", exception type).
Wrong: `SandboxUnavailable` where the machine cannot isolate; `AssayError` for text that is no encoding.
"""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sandbox import Call, DecodeError, ErrorRecord, Job, Limits, Result, Rules, Sandbox, decode, encode
from sandbox.names import canonical, solution_file
from schemas.errors import AssayError

Outcome = tuple[str, Any]
"""("value", what was returned), ("error", name of the exception's type), or ("left", [what was returned, list
of arguments, keyword arguments]), the arguments as the call left them."""

# An error of the machine's limits says nothing of a function's meaning.
_OF_LIMITS = frozenset({"MemoryError", "RecursionError", "SystemExit", "KeyboardInterrupt", "GeneratorExit"})

TIMEOUTS = frozenset({"timeout", "cpu_limit"})
"""Statuses of a program that did not end in time."""


@functools.cache
def _sandbox(workers: int) -> Sandbox:
    return Sandbox(workers=workers)


def limits(cpu_s: float, wall_s: float, memory_mb: int) -> Limits:
    """Bounds of one run; everything else is the sandbox's default."""
    return Limits(cpu_s=cpu_s, wall_s=wall_s, memory_mb=memory_mb)


def run_all(jobs: Iterable[Job], workers: int = 1, retries: int = 1) -> Iterator[Result]:
    """Run jobs and yield their results in order; a failure of the sandbox itself is tried again."""
    sandbox = _sandbox(workers)
    waiting: list[Job] = []

    def noted() -> Iterator[Job]:
        for job in jobs:
            waiting.append(job)
            yield job

    for result in sandbox.map(noted()):
        job = waiting.pop(0)
        last = result
        for _ in range(retries):
            if last.status != "infra_error":
                break
            last = sandbox.run(job)
        yield last


def run_one(job: Job, retries: int = 1) -> Result:
    """Run one job; a failure of the sandbox itself is tried again."""
    return next(run_all([job], 1, retries))


def entry_of(function: str) -> str:
    """The name by which the sandbox calls a function: a method of class Solution goes by its own."""
    return function.removeprefix("Solution.").removeprefix("Solution::")


def calls_job(
    code: str,
    function: str,
    calls: Sequence[Call],
    bounds: Limits,
    hash_seed: int = 0,
    lang: str = "Python",
    left: bool = False,
) -> Job:
    """A job that makes calls of one function.

    Args:
        function: qualified name: of a function outside of classes, or of a method of class Solution.
        lang: the program's language, as the `language` column spells it.
        left: each call comes to [value, args, kwargs], the arguments as it left them; Python only.
    """
    name = canonical(lang)
    if left:
        code, function = with_left(code, function)
    return Job(
        "calls",
        {solution_file(name): code},
        entry_of(function),
        calls,
        lang=name,
        limits=bounds,
        hash_seed=hash_seed if name == "python" else 0,
    )


def with_left(code: str, function: str) -> tuple[str, str]:
    """A Python program with a function behind it that also tells what a call left of its arguments."""
    name = "left_of_call"
    while name in code:
        name += "_"
    called = entry_of(function)
    target = called if called == function else f"Solution().{called}"
    body = f"    return [{target}(*args, **kwargs), list(args), kwargs]\n"
    return f"{code}\n\n\ndef {name}(*args, **kwargs):\n{body}", name


def outcome_of(value: Any) -> Outcome | None:
    """What an output of a run says of the function; None where it says nothing that can be compared."""
    if not isinstance(value, ErrorRecord):
        return ("value", value)
    if not value.raised or value.type in _OF_LIMITS:
        return None
    return ("error", value.type)


PLAIN = Rules(numeric=True)
"""How values of unit tests are compared: as a suite's `==` does, so that 4 and 4.0 are equal."""


def same(found: Outcome | None, expected: Outcome, rules: Rules = PLAIN) -> bool:
    """Whether an outcome is the expected one; errors are equal when their types are.

    What is expected of arguments too is found as the value of a job that tells them.
    """
    if found is None or found[0] != ("value" if expected[0] == "left" else expected[0]):
        return False
    if expected[0] == "error":
        return bool(found[1] == expected[1])
    try:
        return rules.equal(found[1], expected[1])
    except RecursionError:
        return False


def returned(outcome: Outcome) -> Outcome:
    """An outcome without what the call left of its arguments."""
    return ("value", outcome[1][0]) if outcome[0] == "left" else outcome


def to_text(value: Any) -> str:
    """A value in the sandbox's tagged encoding, as base64.

    Raises:
        EncodeError: the value has no encoding.
    """
    return base64.b64encode(encode(value)).decode("ascii")


def call_text(call: Call) -> str:
    """The `call` column: a call's arguments."""
    return to_text((tuple(call.args), dict(call.kwargs)))


def _from_text(text: str, what: str) -> tuple[Any, Any]:
    try:
        value = decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise AssayError(
            f"tests: {what} is not in the sandbox's encoding ({error}); make them again"
        ) from None
    if type(value) is not tuple or len(value) != 2:
        raise AssayError(f"tests: {what} does not hold two values; run the tests stage again")
    return value


def read_call(text: str) -> Call:
    """The call of a `call` column.

    Raises:
        AssayError: the text is not one that `call_text` gives.
    """
    args, kwargs = _from_text(text, "a call")
    if type(args) is not tuple or type(kwargs) is not dict or any(type(key) is not str for key in kwargs):
        raise AssayError("tests: a call does not hold arguments; run the tests stage again")
    return Call(args, kwargs)


def _is_left(value: Any) -> bool:
    if type(value) is not list or len(value) != 3:
        return False
    named = type(value[2]) is dict and all(type(key) is str for key in value[2])
    return type(value[1]) is list and named


def read_outcome(text: str) -> Outcome:
    """The outcome of an `expected` column.

    Raises:
        AssayError: the text is not the encoding of an outcome.
    """
    kind, value = _from_text(text, "an expected value")
    good = {"value": True, "error": type(value) is str, "left": _is_left(value)}
    if type(kind) is not str or not good.get(kind, False):
        raise AssayError("tests: an expected value is of an unknown kind; run the tests stage again")
    return kind, value
