"""Changed functions, run alone in the sandbox: do they come to the same, in what time and memory.

In: an `Alone`. Out: a `Trial`, or a short code for why it cannot be told. Inputs are made from annotations,
names and literals, the same for both versions. Calls that end in an error of their input's type, or whose
outcome is not the same twice, say nothing. What is counted is the same on every run: lines that are run, and
the peak of memory that Python gives out. Times are not kept: a version is faster or slower when processor
time, measured for both by turns in processes of their own, differs by half and more each time.
Wrong: `SandboxUnavailable` where the machine cannot isolate.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Sequence
from typing import Any

from labelers.programs import runs
from labelers.programs.inputs import Inputs, Literals
from labelers.programs.shapes import Parameter, Shape, python_parameters, union
from sandbox import Call, Job
from schemas.ids import content_id, rng

_CALLS = 120
_LEAST_VALID = 5
_LARGE = 2
"""Calls with large arguments by which time and memory are measured."""
_ROUNDS = 5
_RATIO, _CLEAR = 1.5, 2.0
"""Every round has to show the first ratio, and their median the second, so that a rerun says the same."""
_TICK_S = 0.005
_LEAST_KIB = 64
_MOST_LINES = 200_000
_SIZES = (2_000, 300, 60)
"""Items of a large argument; the most with which both versions come to an end in time."""
_INVALID = frozenset({"TypeError", "AttributeError", "NotImplementedError", "AssertionError"})
_MENDED = frozenset(
    {"IndexError", "KeyError", "ZeroDivisionError", "UnboundLocalError", "NameError", "RecursionError"}
)
"""Errors that nobody means to raise."""

_DRIVER = """

import sys as measured_sys, time as measured_time, tracemalloc as measured_memory, copy as measured_copy
import types as measured_types

class MeasuredTooLong(BaseException): pass

measured_long = 0

def measured_whole(value):
    if isinstance(value, (measured_types.GeneratorType, map, filter, zip)):
        return [one for _, one in zip(range(10000), value)]
    return value

def measured_lines(*args):
    global measured_long
    if measured_long > 3:
        return ["long", 0, None, []]
    count = 0
    def line(frame, event, arg):
        nonlocal count
        count += event == "line"
        if count > MOST:
            raise MeasuredTooLong
        return line
    kind, value = "value", None
    measured_sys.settrace(lambda frame, event, arg: line)
    try:
        value = measured_whole(NAME(*args))
    except MeasuredTooLong:
        kind, measured_long = "long", measured_long + 1
    except Exception as error:
        kind, value = "error", type(error).__name__
    finally:
        measured_sys.settrace(None)
    return [kind, count, value, list(args)]

def measured_peak(*args):
    for _ in range(2):
        given = measured_copy.deepcopy(args)
        measured_memory.start()
        try:
            measured_whole(NAME(*given))
            peak = measured_memory.get_traced_memory()[1]
        finally:
            measured_memory.stop()
    return peak

def measured_time_of(*args):
    count = 1
    began = measured_time.process_time()
    while True:
        copies = [measured_copy.deepcopy(args) for _ in range(count)]
        start = measured_time.process_time()
        for given in copies:
            measured_whole(NAME(*given))
        end = measured_time.process_time()
        if end - start >= 0.02 or count >= 4096 or end - began > 0.05:
            return [end - start, count]
        count *= 4
"""


@dataclasses.dataclass(frozen=True)
class Trial:
    """What running a function of both versions showed.

    Attributes:
        calls: calls that say something.
        differ: those of them that come to something else.
        mended: all that differs is that the old version fails, by no intention, where the new one returns.
        lines: lines run in the calls with the same outcome, by version.
        peak_kib: peak of memory in calls with large arguments and the same outcome; None without any.
        time, memory: which version takes clearly less: `faster`, `slower`, `same`; `less`, `more`, `same`.
    """

    calls: int
    differ: int
    mended: bool
    lines: tuple[int, int]
    peak_kib: tuple[int, int] | None = None
    time: str | None = None
    memory: str | None = None


_TEXT, _NUMBER = Shape("str"), Shape("int")
_BYTES, _NUMBERS, _TEXTS = Shape("bytes"), Shape("list", (_NUMBER,)), Shape("list", (_TEXT,))
_HINTS = (
    (
        "s str string text name names_ line path key prefix suffix word url value_ title msg message sep",
        _TEXT,
    ),
    ("n i j k x y a b count size width height num number length start end limit index depth level", _NUMBER),
    ("items lst list seq sequence values array arr numbers nums xs data elements", _NUMBERS),
    ("lines words names strings args keys paths tokens parts", _TEXTS),
    ("d dct dict mapping options params headers kwargs opts config env", Shape("dict", (_TEXT, _NUMBER))),
    ("b raw buf buffer payload body content_", _BYTES),
)
_BY_NAME = {name: shape for names, shape in _HINTS for name in names.split()}
_ANY = (_TEXT, _NUMBER, _NUMBERS, _TEXTS)


def _guessed(parameter: Parameter) -> Parameter:
    """A parameter with a shape: the declared one, or what its name suggests, or any."""
    if parameter.shape is not None:
        return parameter
    hint = _BY_NAME.get(parameter.name.lower())
    # A name is right more often than not.
    shapes = (hint, hint, hint, *_ANY) if hint is not None else _ANY
    return dataclasses.replace(parameter, shape=union(shapes))


class Trials:
    """Runs functions alone."""

    def __init__(self, time_limit_s: float, seed: int) -> None:
        self.bounds = runs.limits(min(time_limit_s, 10.0), min(time_limit_s, 10.0), 512)
        self.seed = seed

    def run(self, name: str, old: str, new: str, signature: str, literals: Literals) -> Trial | str:
        """Run a function of both versions on the same inputs; or a short code for why nothing can be told.

        Raises:
            SandboxUnavailable: the machine cannot isolate.
        """
        inputs = Inputs(
            [_guessed(one) for one in python_parameters(signature)],
            literals,
            rng(self.seed, "evidence-inputs", content_id(name, old, new)),
            20_000,
        )
        inputs.look()
        calls = [call for _, call in inputs.batch(_CALLS)]
        if not calls:
            return "no_inputs"
        first = self._outputs(name, old, "measured_lines", calls, 1)
        if not any(map(_is_told, first)):
            return "no_valid_inputs"
        again = self._outputs(name, old, "measured_lines", calls, 2)
        other = self._outputs(name, new, "measured_lines", calls, 1)
        told = [
            (call, one, two)
            for call, one, more, two in zip(calls, first, again, other, strict=True)
            if _is_told(one) and _is_told(two) and _is_told(more) and _same(one, more) and _says(one, two)
        ]
        if len(told) < _LEAST_VALID:
            return "no_valid_inputs"
        equal = [(call, one, two) for call, one, two in told if _same(one, two)]
        moved = [(one, two) for _, one, two in told if not _same(one, two)]
        mended = bool(moved) and all(
            one[0] == "error" and one[2] in _MENDED and two[0] == "value" for one, two in moved
        )
        lines = sum(one[1] for _, one, _ in equal), sum(two[1] for _, _, two in equal)
        trial = Trial(len(told), len(moved), mended, lines)
        return self._at_size(trial, name, old, new, [call for call, one, _ in equal if one[0] == "value"])

    def _at_size(self, trial: Trial, name: str, old: str, new: str, calls: Sequence[Call]) -> Trial:
        """Add time and memory, measured with large arguments on which both versions agree."""
        good: list[Call] = []
        for size in _SIZES if calls else ():
            made = [_enlarged(call, size) for call in calls[: 8 * _LARGE]]
            large = [call for call in made if call is not None][: 2 * _LARGE]
            one = self._outputs(name, old, "measured_lines", large, 1)
            two = self._outputs(name, new, "measured_lines", large, 1)
            good = [
                call
                for call, left, right in zip(large, one, two, strict=True)
                if _is_told(left) and _is_told(right) and left[0] == "value" and _same(left, right)
            ][:_LARGE]
            if good or not large:
                break
        if not good:
            return trial
        peaks = [_total(self._outputs(name, code, "measured_peak", good, 1)) for code in (old, new)]
        if None in peaks:
            return trial
        kib = tuple(-(-int(one or 0) // 1024) for one in peaks)
        memory = "same"
        if abs(kib[0] - kib[1]) >= _LEAST_KIB * len(good) and max(kib) >= _RATIO * min(kib):
            memory = "less" if kib[1] < kib[0] else "more"
        return dataclasses.replace(
            trial, peak_kib=(kib[0], kib[1]), memory=memory, time=self._time(name, old, new, good)
        )

    def _time(self, name: str, old: str, new: str, calls: Sequence[Call]) -> str | None:
        """Which version takes clearly less processor time; None where it cannot be measured."""
        ratios = []
        for number in range(_ROUNDS):
            spent = {}
            # By turns, and each first as often as the other.
            for code in (old, new) if number % 2 == 0 else (new, old):
                seconds = 0.0
                for value in self._outputs(name, code, "measured_time_of", calls, 1):
                    if not _is_time(value):
                        return None
                    # Clocks of some machines move in steps of milliseconds.
                    seconds += max(value[0], _TICK_S) / value[1]
                spent[code] = seconds
            if old == new or not all(spent.values()):
                return None
            ratios.append(spent[old] / spent[new])
            if 1 / _RATIO < ratios[-1] < _RATIO:
                return "same"
        if min(ratios) >= _RATIO and statistics.median(ratios) >= _CLEAR:
            return "faster"
        if max(ratios) <= 1 / _RATIO and statistics.median(ratios) <= 1 / _CLEAR:
            return "slower"
        return "same"

    def _outputs(self, name: str, code: str, how: str, calls: Sequence[Call], hash_seed: int) -> list[Any]:
        driver = _DRIVER.replace("NAME", name).replace("MOST", str(_MOST_LINES))
        job: Job = runs.calls_job(code + driver, how, calls, self.bounds, hash_seed)
        found = list(runs.run_one(job).outputs)
        return found + [None] * (len(calls) - len(found))


def _is_told(output: Any) -> bool:
    """Whether an output is one of `measured_lines` on a call that ended: hostile code may give anything."""
    return (
        type(output) is list
        and len(output) == 4
        and (output[0] == "value" or (output[0] == "error" and type(output[2]) is str))
        and type(output[1]) is int
        and 0 <= output[1] <= 10 * _MOST_LINES
    )


def _is_time(output: Any) -> bool:
    """Whether an output is one of `measured_time_of`."""
    if type(output) is not list or [type(one) for one in output] != [float, int]:
        return False
    return bool(0 <= output[0] < math.inf and 0 < output[1] < 1 << 30)


def _same(one: list[Any], other: list[Any]) -> bool:
    try:
        same: bool = one[0] == other[0] and runs.PLAIN.equal([one[2], one[3]], [other[2], other[3]])
    except RecursionError:
        return False
    return same


def _says(one: list[Any], two: list[Any]) -> bool:
    """Whether a call tells something of either version: an input that one refuses by its type does not."""
    return not any(side[0] == "error" and side[2] in _INVALID for side in (one, two))


def _enlarged(call: Call, size: int) -> Call | None:
    """A call with its lists, texts and bytes repeated; None where it has none."""
    args, grown = [], False
    for value in call.args:
        if type(value) in (list, str, bytes) and value:
            value = value * max(1, size // len(value))
            grown = True
        args.append(value)
    return Call(tuple(args), call.kwargs) if grown and len(json.dumps(args, default=str)) < 200_000 else None


def _total(outputs: Sequence[Any]) -> int | None:
    return sum(outputs) if all(type(one) is int and one >= 0 for one in outputs) else None
