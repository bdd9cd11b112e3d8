"""Which tests fail on which faulty programs, and a small set of tests that notices as much.

In: results of runs with the outcomes that were expected. Out: indices of tests. A call during which the
run was stopped fails; calls after it were never made and say nothing. Wrong: nothing is raised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from labelers.programs import runs
from sandbox import ErrorRecord, Result, Rules


@dataclasses.dataclass(frozen=True)
class Failed:
    """Indices of the calls that did not come to what was expected; `timeouts`: of these, by time alone."""

    indices: list[int]
    timeouts: list[int]


def failures(result: Result, expected: Sequence[runs.Outcome], rules: Rules = runs.PLAIN) -> list[int]:
    """Indices of the calls that did not come to what was expected.

    A run that was stopped fails the call that it was stopped in; the calls after it were never made
    and fail only where the program did not load.
    """
    return judged(result, expected, rules=rules).indices


def judged(
    result: Result,
    expected: Sequence[runs.Outcome],
    slow: str | None = None,
    unmade: str | None = None,
    rules: Rules = runs.PLAIN,
) -> Failed:
    """What failed, timeouts apart.

    Args:
        slow: type of the error of a call that took too many steps.
        unmade: type of the error of a call that was not made after all.
    """
    wrong, late = [], []
    for index, (value, wanted) in enumerate(zip(result.outputs, expected, strict=False)):
        kind = value.type if isinstance(value, ErrorRecord) and value.raised else None
        if kind is not None and kind == unmade:
            continue
        if not runs.same(runs.outcome_of(value), wanted, rules):
            wrong.append(index)
            if kind is not None and kind == slow:
                late.append(index)
    made = len(result.outputs)
    if made < len(expected):
        not_loaded = made == 0 and result.status in ("exception", "compile_error")
        wrong += range(made, len(expected) if not_loaded else made + 1)
        if result.status in runs.TIMEOUTS:
            late.append(made)
    return Failed(wrong, late)


def greedy_cover(kills: Sequence[Sequence[int]]) -> list[int]:
    """A small set of tests with the same kills as all of them: the greedy set cover.

    Each round takes the test with most mutants not yet killed, the earliest of equals.
    """
    left = {mutant for one in kills for mutant in one}
    chosen: list[int] = []
    while left:
        best = max(range(len(kills)), key=lambda index: (len(left & set(kills[index])), -index))
        chosen.append(best)
        left -= set(kills[best])
    return sorted(chosen)
