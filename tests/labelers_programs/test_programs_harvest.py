"""What is recorded while a suite of each kind runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from golden import piece_of, problem_of

from labelers.programs import config, runs
from labelers.programs.harvest import Harvest, as_function, call_tests, record
from sandbox import Job, Result
from schemas.records import ProblemTest
from schemas.stage import Drop

SETTINGS = config.TestsConfig(max_calls=5, suite_cpu_s=1, suite_wall_s=10)


def run(jobs: Sequence[Job]) -> Iterable[Result]:
    return runs.run_all(jobs, 2)


def other(kind: str, **fields: str | None) -> ProblemTest:
    given: dict[str, Any] = {"code": None, "stdin": None, "stdout": None, "args": None, "expected": None}
    return ProblemTest(**{**given, "kind": kind, **fields})


def recorded(code: str, tests: list[ProblemTest], entry: str | None, names: Sequence[str]) -> Harvest | Drop:
    problem = problem_of(code, None, entry or "", tests=tests)
    program = {"id": "p", "code": code, "entry_point": entry, "language": "Python"}
    return record(program, problem, names, SETTINGS, run)


def calls(code: str, tests: list[ProblemTest], entry: str | None, names: Sequence[str]) -> dict[str, Any]:
    found = recorded(code, tests, entry, names)
    assert isinstance(found, Harvest), found
    return {name: [(call.args, call.value) for call in some.values()] for name, some in found.calls.items()}


PAIR = "def outer(n):\n    return inner(n) + 1\n\ndef inner(n):\n    return n * 2\n"


def test_call_tests_record_the_functions_below_the_entry_point() -> None:
    tests = [other("call", args="[2]"), other("call", args="[3]", expected="7")]
    assert calls(PAIR, tests, "outer", ["outer", "inner"]) == {
        "inner": [((2,), 4), ((3,), 6)],
        "outer": [((2,), 5), ((3,), 7)],
    }


@pytest.mark.parametrize("args", ["", "{", '{"a": 1}', "3", None, "[" * 3000 + "]" * 3000])
def test_a_call_test_without_a_list_of_arguments_is_no_call(args: str | None) -> None:
    problem = problem_of(tests=[other("call", args=args), other("call", args="[1]")])
    assert [call.args for call in call_tests(problem)] == [(1,)]


SCRIPT = """\
import sys

MOD = 10

def double(n, mod=MOD):
    return 2 * n % mod

class Counter:
    pass

read = sys.stdin.readline
total = 0

def shown(n):
    return str(n)

for line in sys.stdin:
    total += double(int(line))
if __name__ == "__main__":
    print(shown(total))
    exit()
print("never")
"""


def stdin(given: str, wanted: str) -> ProblemTest:
    return other("stdin", stdin=given, stdout=wanted)


def test_a_program_that_reads_its_input_is_run_as_a_function() -> None:
    found = calls(SCRIPT, [stdin("1\n7\n", "6\n"), stdin("2\n", "4\n")], None, ["double", "shown"])
    assert found == {"double": [((1,), 2), ((7,), 4), ((2,), 4)], "shown": [((6,), "6"), ((4,), "4")]}


@pytest.mark.parametrize(
    ("code", "wanted", "reason"),
    [
        (SCRIPT, "7\n", "program_behaves_otherwise"),
        ("def f(x=base):\n    return x\nbase = int(input())\nprint(f())\n", "1", "program_behaves_otherwise"),
        (
            "import os\ndef f(x):\n    return x\nprint(f(os.read(0, 5)))\n",
            "b'1'",
            "program_behaves_otherwise",
        ),
        ("def f(x):\n    return x\nwhile True: f(1)\n", "1", "suite_too_slow"),
        ("def watched_main():\n    return 1\nprint(watched_main())\n", "1", "program_not_a_function"),
    ],
    ids=range(5),
)
def test_a_program_that_cannot_be_run_as_a_function_gives_no_calls(
    code: str, wanted: str, reason: str
) -> None:
    found = recorded(code, [stdin("1\n", wanted)], None, ["f"] if "def f" in code else [])
    assert isinstance(found, Harvest)
    assert not any(found.calls.values())
    assert found.failed == {reason: 1}


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    n = int(input())\nexcept ValueError as e:\n    n = 0\nprint(n)\n",
        "n, *rest = map(int, input().split())\nif (m := n) > 1: print(m)\ndel rest\n",
        "import sys as s, os.path\nwith open('/dev/null') as f: pass\nfor i in range(2): k = i\nprint(k)\n",
        "from math import *\n'text'\nprint([x for x in range(3)])\n",
        "match input():\n    case [a, *b]: pass\n    case {'k': 1, **c}: pass\n    case d: print(d)\n",
        "\ufefffrom __future__ import annotations\nprint(1)\n",
        "",
    ],
    ids=range(7),
)
def test_what_becomes_a_function_compiles_and_binds_the_same_names(code: str) -> None:
    text = as_function(code)
    assert text is not None
    compile(text, "solution.py", "exec")
    scope: dict[str, Any] = {}
    exec(text.replace("input()", "'3 4'"), scope)
    scope.pop("watched_main")()
    plain: dict[str, Any] = {}
    exec(code.removeprefix("\ufeff").replace("input()", "'3 4'"), plain)
    assert set(scope) == set(plain)


def test_a_text_that_does_not_parse_does_not_become_a_function() -> None:
    assert as_function("print(") is None


def test_calls_that_differ_from_run_to_run_are_not_recorded() -> None:
    code = "import os\ndef f(n):\n    return n\n"
    suite = "import os\ndef check(c):\n    c(os.urandom(4).hex())\n    c('same')\n"
    assert calls(code, [piece_of("check", suite)], "f", ["f"]) == {"f": [(("same",), "same")]}


def test_a_suite_that_draws_its_inputs_is_recorded() -> None:
    code = "def f(n):\n    return n\n"
    suite = "import random\ndef check(c):\n    for _ in range(3):\n        c(random.random())\n"
    found = calls(code, [piece_of("check", suite)], "f", ["f"])
    assert len(found["f"]) == 3


def test_a_suite_that_takes_too_long_gives_nothing_and_is_counted() -> None:
    suite = "def check(c):\n    c(1)\n    while True: pass\n"
    found = recorded("def f(n):\n    return n\n", [piece_of("check", suite)], "f", ["f"])
    assert isinstance(found, Harvest)
    assert (found.calls, found.failed) == ({}, {"suite_too_slow": 1})


def test_no_more_calls_are_kept_than_asked_for() -> None:
    suites = [f"def check(c):\n    for n in range(9):\n        c({n} + n)\n" for n in (0, 50)]
    found = calls("def f(n):\n    return n\n", [piece_of("check", one) for one in suites], "f", ["f"])
    assert len(found["f"]) == SETTINGS.max_calls
