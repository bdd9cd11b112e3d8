"""What the reference makes of calls, and which of them can be tests of a function.

In: calls of one function of a program, each with where it comes from. Out: `Observed` calls, and a count of
the others by reason. A call can be a test if
* it runs to its end, in the process and the number of steps that it may take (Python);
* it leaves its arguments as they were (Python; elsewhere it cannot touch those of the caller);
* two runs in fresh processes, with other hash seeds and the calls in opposite orders, come to the same,
  and to what was recorded, where it was;
* it comes to a value that has an encoding, or to an error that is meant: one that the program raises by
  name, or that the suite has shown; not one of files or the network, unless the program raises it.
Wrong: nothing of the program's doing raises; `InfraError` where the sandbox fails.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from decompose.grammars import SourceError
from decompose.python import parse_python
from labelers.programs import runs
from labelers.programs.config import TestsConfig
from labelers.programs.coverage import Counted, counted
from labelers.programs.harvest import HARVESTED, Runner
from sandbox import Call, EncodeError, ErrorRecord, Job, encode

# Any two that differ from each other and from the seed under which calls are recorded.
_HASH_SEEDS = (1, 2)
# Calls that may end the process before the others of the batch are given up.
_MAX_STOPS = 3
# What all tests of a function may take, and one call of its suite, in calls as long as a made one may be.
_CALLS_OF_MOST_STEPS = 50


@dataclasses.dataclass(frozen=True)
class Given:
    """A call and its source; `recorded` is what it came to in the suite, None where it was not made there."""

    call: Call
    source: str
    recorded: runs.Outcome | None = None


@dataclasses.dataclass(frozen=True)
class Observed:
    """A call with what the reference comes to, the steps that it takes and the statements that it runs."""

    call: Call
    source: str
    expected: runs.Outcome
    steps: int = 0
    statements: frozenset[int] = frozenset()


class Observer:
    """Runs calls of one function of the reference."""

    def __init__(
        self, code: str, name: str, language: str, config: TestsConfig, run: Runner, dropped: Counter[str]
    ) -> None:
        """Prepare; `dropped` counts, by reason, the calls that cannot be tests."""
        self.code, self.name, self.language = code, name, language
        self.config, self.run, self.dropped = config, run, dropped
        # Half of what a test may take, so that no machine makes one of them late.
        self.bounds = runs.limits(config.cpu_s / 2, config.wall_s, config.memory_mb)
        self.probe_bounds = runs.limits(config.cpu_s, config.wall_s, config.memory_mb)
        self.budget = config.max_steps * _CALLS_OF_MOST_STEPS
        python = language == "Python"
        # What stands in the suite may take longer than what is made up.
        self.counted = counted(code, name, self.budget, self.budget) if python else None
        self.quick = counted(code, name, config.max_steps, self.budget) if python else None
        self.changing = False
        # Whether what a call leaves of its arguments is part of what it comes to; the first batch tells.
        self.left: bool | None = None if python else False
        self.raised = raised_names(code) if language == "Python" else frozenset[str]()
        self.meant = self.raised

    def observe(self, given: Sequence[Given]) -> list[Observed]:
        """The calls that can be tests: those of the suite first, else in their order."""
        if self.counted is None or self.quick is None:
            probed = [(one, 0, frozenset[int]()) for one in given]
        else:
            known = [one for one in given if one.source == HARVESTED]
            made = [one for one in given if one.source != HARVESTED]
            probed = self._probe(known, self.counted) + self._probe(made, self.quick)
            if self.left is None:
                self.left = self.changing
        calls = [one.call for one, _, _ in probed]
        first = self._outputs(lambda some: self._job(some, _HASH_SEEDS[0]), calls)
        ended = [index for index, value in enumerate(first) if value is not _STOPPED]
        self.dropped["stopped"] += len(calls) - len(ended)
        again = self._again([calls[index] for index in ended])
        found = []
        for index, other in zip(ended, again, strict=True):
            one, steps, statements = probed[index]
            expected = self._valid(one, first[index], other)
            if expected is not None:
                found.append(Observed(one.call, one.source, expected, steps, statements))
        return found

    def _job(self, calls: Sequence[Call], hash_seed: int) -> Job:
        left = bool(self.left)
        return runs.calls_job(self.code, self.name, calls, self.bounds, hash_seed, self.language, left)

    def _outputs(self, job: Callable[[Sequence[Call]], Job], calls: Sequence[Call]) -> list[Any]:
        """What each call comes to, `_STOPPED` for those that end the process."""
        outputs: list[Any] = []
        for _ in range(_MAX_STOPS):
            if len(outputs) == len(calls):
                return outputs
            (result,) = self.run([job(calls[len(outputs) :])])
            outputs += result.outputs
            if len(outputs) < len(calls):
                if not result.outputs and result.status in ("exception", "compile_error"):
                    break
                outputs.append(_STOPPED)
        return outputs + [_STOPPED] * (len(calls) - len(outputs))

    def _again(self, calls: Sequence[Call]) -> list[Any]:
        """What each call comes to in another order, in a process with another hash seed."""
        if not calls:
            return []
        order = elsewhere(range(len(calls)))
        (result,) = self.run([self._job([calls[index] for index in order], _HASH_SEEDS[1])])
        values = dict(zip(order, result.outputs, strict=False))
        return [values.get(index, _STOPPED) for index in range(len(calls))]

    def _probe(self, given: Sequence[Given], program: Counted) -> list[tuple[Given, int, frozenset[int]]]:
        """The calls that end in time and whose arguments can be told, with steps and statements run."""

        def job(calls: Sequence[Call]) -> Job:
            return runs.calls_job(program.code, program.probe, calls, self.probe_bounds, _HASH_SEEDS[0])

        outputs = self._outputs(job, [one.call for one in given])
        found, changing = [], False
        for one, value in zip(given, outputs, strict=True):
            if value is _STOPPED:
                self.dropped["stopped"] += 1
                continue
            if isinstance(value, ErrorRecord) and value.raised and value.type == program.unmade:
                self.dropped["slow"] += 1
                continue
            told = _told(value)
            changed = told is not None and not _same_arguments(one.call, told[0], told[1])
            if told is None or (changed and self.left is False):
                self.dropped["mutates_arguments"] += 1
                continue
            changing |= changed
            steps = told[3]
            most = self.budget if one.source == HARVESTED else min(self.budget, self.config.max_steps)
            if steps > most:
                self.dropped["slow"] += 1
                continue
            self.budget -= steps
            found.append((one, steps, frozenset(told[2])))
        self.changing |= changing
        return found

    def _valid(self, one: Given, value: Any, other: Any) -> runs.Outcome | None:
        """What the call comes to, if that makes a test of it."""
        if isinstance(value, ErrorRecord) and not value.raised:
            self.dropped["unencodable"] += 1
            return None
        expected = runs.outcome_of(value)
        if expected is None:
            self.dropped["stopped"] += 1
            return None
        if other is _STOPPED or not runs.same(runs.outcome_of(other), expected):
            self.dropped["unstable"] += 1
            return None
        if self.left and expected[0] == "value":
            expected = ("left", expected[1])
        if one.recorded is not None and not runs.same(one.recorded, runs.returned(expected)):
            self.dropped["unstable"] += 1
            return None
        if expected[0] == "error" and one.source != HARVESTED and not self._is_meant(expected[1]):
            self.dropped["invalid_input"] += 1
            return None
        if expected[0] == "error" and expected[1] in _OUTSIDE and expected[1] not in self.raised:
            self.dropped["needs_outside"] += 1
            return None
        # What came back alone may be a level too deep, or too large, to be put in a column.
        try:
            size = len(runs.to_text(expected))
        except EncodeError:
            size = self.config.max_call_bytes + 1
        if size > self.config.max_call_bytes:
            self.dropped["unencodable"] += 1
            return None
        return expected

    def show(self, kinds: Iterable[str]) -> None:
        """Errors that the suite has shown are meant."""
        self.meant |= frozenset(kinds)

    def _is_meant(self, kind: str) -> bool:
        return kind in self.meant or kind.removeprefix("own.") in self.meant


_STOPPED = object()
# What a program meets that looks for files or a network, of which the sandbox has none.
_OUTSIDE = frozenset(
    (
        *("OSError", "gaierror", "herror", "URLError", "HTTPError", "timeout", "TimeoutError", "SSLError"),
        *("ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"),
        *("FileNotFoundError", "PermissionError", "NotADirectoryError", "IsADirectoryError", "EOFError"),
    )
)


def _told(value: Any) -> tuple[Any, Any, list[int], int] | None:
    """What a probe says; None where the arguments have no encoding any more."""
    if type(value) is not list or len(value) != 4:
        return None
    args, kwargs, statements, steps = value
    if (
        type(statements) is not list
        or type(steps) is not int
        or any(type(one) is not int for one in statements)
    ):
        return None
    return args, kwargs, statements, steps


def _same_arguments(call: Call, args: Any, kwargs: Any) -> bool:
    try:
        return encode([args, kwargs]) == encode([tuple(call.args), dict(call.kwargs)])
    except EncodeError:
        return False


def elsewhere(order: Sequence[int]) -> list[int]:
    """The opposite order, nothing in its old place: a function that counts its calls shows."""
    made = list(reversed(order))
    middle = len(made) // 2
    if len(made) % 2 and middle:
        made[middle - 1], made[middle] = made[middle], made[middle - 1]
    return made


def raised_names(code: str) -> frozenset[str]:
    """Names of the errors that a program raises by name."""
    try:
        tree = parse_python(code.removeprefix("\ufeff"))
    except SourceError:
        return frozenset()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            named = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(named, ast.Name):
                found.add(named.id)
            elif isinstance(named, ast.Attribute):
                found.add(named.attr)
    return frozenset(found)
