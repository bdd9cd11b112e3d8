"""Programs that count their own steps."""

from __future__ import annotations

from typing import Any

import pytest

from labelers.programs import runs
from labelers.programs.coverage import Counted, counted
from sandbox import Call, ErrorRecord

BOUNDS = runs.limits(2, 20, 256)


def made(code: str, function: str, most: int = 1000, in_all: int | None = None) -> Counted:
    program = counted(code, function, most, in_all)
    assert program is not None
    return program


def outputs(code: str, entry: str, calls: list[Call]) -> list[Any]:
    return runs.run_one(runs.calls_job(code, entry, calls, BOUNDS)).outputs


VARIED = '''\
"""Of a module."""
from __future__ import annotations
import contextlib

def other(n):
    for _ in range(n):
        pass
    return n

@contextlib.contextmanager
def opened(n):
    yield n

def f(n: int) -> object:
    """Of a function."""
    total = 0
    def inner(k):
        nonlocal total
        total += k
        return total
    class Local:
        value = 3
        def __twice(self): return 2 * n
        def get(self): return self.__twice()
    with opened(n) as k:
        try:
            if n < 0: raise ValueError("negative")
            elif n == 0: return "zero"
            elif n == 1:
                return [x for x in range(3)]
            else: total = other(n)
        except ValueError as error:
            return str(error)
        finally:
            k = (lambda z: z + 1)(k)
    while total < 9:
        total += 1
        if total == 8: break
    else:
        total = -1
    match n:
        case 5: return Local().get()
        case _: pass
    return (inner(k), total, f"{n!r:>4}")
'''


def test_a_program_that_counts_comes_to_the_same() -> None:
    calls = [Call((n,)) for n in (-1, 0, 1, 2, 5, 9, "text")]
    program = made(VARIED, "f")
    assert outputs(program.code, program.call, calls) == outputs(VARIED, "f", calls)


def test_a_probe_tells_of_arguments_statements_and_steps() -> None:
    code = "def f(xs, *, add=1):\n    xs.append(add)\n    if add > 1:\n        return 1\n    return 2\n"
    program = made(code, "f")
    calls = [Call(([1],)), Call(([1],), {"add": 2}), Call(("text",))]
    assert outputs(program.code, program.probe, calls) == [
        [([1, 1],), {}, [1, 2, 3], 3],
        [([1, 2],), {"add": 2}, [1, 2, 4], 3],
        [("text",), {}, [1], 1],
    ]
    assert program.statements == 4


def test_steps_of_other_functions_count_and_their_statements_do_not() -> None:
    code = "def f(n):\n    return g(n)\n\ndef g(n):\n    for _ in range(n):\n        n\n    return n\n"
    program = made(code, "f")
    assert outputs(program.code, program.probe, [Call((5,))]) == [[(5,), {}, [1], 8]]


def test_a_method_of_solution_is_counted() -> None:
    code = "class Solution:\n    def f(self, n):\n        n += 1\n        return n\n"
    program = made(code, "Solution.f")
    assert outputs(program.code, program.call, [Call((1,))]) == [2]
    assert outputs(program.code, program.probe, [Call((1,))]) == [[(1,), {}, [1, 2], 2]]


LOOPS = {
    "plain": "def f(n):\n    while n: n += 0\n    return n\n",
    "catches": "def f(n):\n    while n:\n        try: n += 0\n        except Exception: pass\n",
    "elsewhere": "def f(n):\n    return g(n)\n\ndef g(n):\n    for _ in iter(int, 1):\n        n += 0\n",
    "gives up": "def f(n):\n    try:\n        while n: n += 0\n    except BaseException: return 1\n",
}


@pytest.mark.parametrize("code", LOOPS.values(), ids=LOOPS)
def test_a_call_that_does_not_end_is_stopped_and_later_ones_are_not_made(code: str) -> None:
    program = made(code, "f", most=50)
    kinds = [
        one.type if isinstance(one, ErrorRecord) else one
        for one in outputs(program.code, program.call, [Call((1,))] * 5)
    ]
    assert kinds == [program.slow] * 3 + [program.unmade] * 2


def test_a_probe_makes_no_call_after_so_many_steps_in_all() -> None:
    program = made("def f(n):\n    for _ in range(n):\n        n\n", "f", most=100, in_all=120)
    found = outputs(program.code, program.probe, [Call((90,)), Call((90,)), Call((1,))])
    assert [one[3] for one in found[:2]] == [91, 91]
    assert isinstance(found[2], ErrorRecord)
    assert found[2].type == program.unmade


def test_names_of_the_program_are_not_taken() -> None:
    code = "steps_of = 7\nsteps_of__ = 8\n\ndef f(n):\n    return steps_of + steps_of__ + n\n"
    program = made(code, "f")
    assert outputs(program.code, program.call, [Call((1,))]) == [16]


def test_a_long_chain_of_branches_is_counted() -> None:
    branches = "".join(f"    elif n == {k}:\n        return {k + 1}\n" for k in range(1500))
    code = f"def f(n):\n    if n < 0:\n        return 0\n{branches}"
    program = counted(code, "f", 100)
    if program is not None:
        assert outputs(program.code, program.call, [Call((700,))]) == [701]


@pytest.mark.parametrize(
    "code",
    [
        "def f(",
        "x = 1\n",
        "def f():\n    return " + "+".join("x" * 20_000) + "\n",
        "def f():\n    return '\ud800'\n",
    ],
    ids=["no program", "no function", "long sum", "no text"],
)
def test_a_program_that_cannot_be_written_anew_is_none(code: str) -> None:
    assert counted(code, "f", 100) is None
