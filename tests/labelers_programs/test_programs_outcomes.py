"""Whole programs under a problem's suite, for every kind of test."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from golden import SOLUTION, piece_of, problem_of

from labelers.programs import runs
from labelers.programs.outcomes import Suite
from schemas.records import ProblemTest

BOUNDS = runs.limits(1, 10, 512)


def stdin_of(given: str, printed: str) -> ProblemTest:
    return ProblemTest(kind="stdin", code=None, stdin=given, stdout=printed, args=None, expected=None)


def call_of(args: Any, expected: Any = ...) -> ProblemTest:
    wanted = None if expected is ... else json.dumps(expected)
    return ProblemTest(
        kind="call", code=None, stdin=None, stdout=None, args=json.dumps(args), expected=wanted
    )


def arranged(problem: dict, exports: tuple[str, ...] = ()) -> tuple[Suite, Any]:
    suite = Suite(problem, exports, BOUNDS)
    return suite, suite.arrange(problem["solution"])


DOUBLE = "def twice(x):\n    return 2 * x\n\nprint(twice(int(input())))\n"
READS = [stdin_of("2\n", "4\n"), stdin_of("-1", "-2")]


def test_a_program_that_reads_its_input_is_judged_by_what_it_prints() -> None:
    suite, verdict = arranged(problem_of(DOUBLE, tests=READS, entry_point=None))
    assert (verdict.passed, verdict.trust, suite.kind) == (True, "external", "script")
    wrong, crash = suite.judge([DOUBLE.replace("2 *", "3 *"), DOUBLE.replace("input()", "'x'")])
    assert (wrong.passed, wrong.reason) == (False, "failed")
    assert "test 1 of 2" in wrong.detail
    assert (crash.passed, crash.reason) == (False, "exception")


def test_each_input_has_to_be_met() -> None:
    suite, _ = arranged(problem_of(DOUBLE, tests=READS, entry_point=None))
    (verdict,) = suite.judge(["print(abs(2 * int(input())))"])
    assert verdict.passed is False
    assert "test 2 of 2" in verdict.detail


def test_calls_are_compared_with_what_was_told() -> None:
    code = "def f(x):\n    return x / 2\n"
    problem = problem_of(code, entry="f", tests=[call_of([3], 1.5), call_of([4], 2)])
    suite, verdict = arranged(problem)
    assert (verdict.passed, verdict.trust, suite.kind) == (True, "external", "calls")
    (wrong,) = suite.judge(["def f(x):\n    return x // 2\n"])
    assert (wrong.passed, wrong.reason) == (False, "failed")
    assert wrong.detail.startswith("f(3): ")


def test_where_nothing_is_told_the_reference_decides() -> None:
    code = "def f(x):\n    return [x] if x else sum([x, 'a'])\n"
    suite, verdict = arranged(problem_of(code, entry="f", tests=[call_of([3]), call_of([0])]))
    assert verdict.passed
    right, wrong, other = suite.judge([code, "def f(x): return [x, x]\n", "def f(x): return [x]\n"])
    assert (right.passed, wrong.passed, other.passed) == (True, False, False)


def test_numbers_are_equal_up_to_the_tolerance() -> None:
    code = "def f(x):\n    return x * 0.1\n"
    problem = problem_of(code, entry="f", tests=[call_of([3], 0.3)])
    assert not arranged(problem)[1].passed
    assert arranged({**problem, "tolerance": 1e-6})[1].passed


def test_a_suite_that_looks_at_its_arguments_gets_them_changed() -> None:
    code = "def f(xs):\n    xs.sort()\n"
    suite_text = "def check(c):\n    xs = [2, 1]\n    c(xs)\n    assert xs == [1, 2]\n"
    suite, verdict = arranged(problem_of(code, suite_text, entry="f"))
    assert (verdict.passed, verdict.trust, suite.kind) == (True, "split", "split-in-place")
    assert [one.passed for one in suite.judge(["def f(xs):\n    sorted(xs)\n"])] == [False]


CLASS = "class P:\n    def __init__(self, x):\n        self.x = x\n\ndef f(x):\n    return P(x)\n"


def test_values_that_cannot_travel_put_the_suite_into_one_process() -> None:
    suite, verdict = arranged(problem_of(CLASS, "def check(c):\n    assert c(3).x == 3\n", entry="f"))
    assert (verdict.passed, verdict.trust, suite.kind) == (True, "inproc", "unittest")


def test_the_kind_that_was_found_is_used_again() -> None:
    problem = problem_of(CLASS, "def check(c):\n    assert c(3).x == 3\n", entry="f")
    suite = Suite(problem, (), BOUNDS, "unittest+calls")
    assert [one.passed for one in suite.judge([CLASS, CLASS.replace("= x", "= 1")])] == [True, False]


@pytest.mark.parametrize(
    "suite_text",
    ["def check(c): pass\n", "import unittest\n", "def check(c):\n    assert P is not None\n"],
)
def test_a_suite_that_never_calls_the_program_does_not_pass_in_one_process_either(suite_text: str) -> None:
    _, verdict = arranged(problem_of(CLASS, suite_text, entry="f"))
    assert verdict.passed is not True


def test_calls_that_cannot_be_read_leave_a_suite_without_a_test() -> None:
    broken = [
        ProblemTest(kind="call", code=None, stdin=None, stdout=None, args=text, expected=None)
        for text in ("[", "3", "[" * 100_000)
    ]
    _, verdict = arranged(problem_of("def f(x): return x\n", entry="f", tests=broken))
    assert (verdict.passed, verdict.reason) == (None, "invalid_suite")


def test_several_kinds_of_tests_have_to_pass_together() -> None:
    tests = [piece_of("assert", "assert total([10, 20]) == 33"), call_of([[100]], 110)]
    suite, verdict = arranged(problem_of(SOLUTION, tests=tests))
    assert (verdict.passed, verdict.trust, suite.kind) == (True, "split", "split+calls")
    other = SOLUTION.replace("// 10", "// 10 if amount < 100 else 0")
    (found,) = suite.judge([other])
    assert (found.passed, found.reason) == (False, "failed")
    assert found.detail.startswith("test 2 of 2: total([100]): ")


def test_limits_of_the_problem_raise_those_of_the_settings() -> None:
    problem = {**problem_of(), "time_limit_s": 3.0, "memory_limit_mb": 1024}
    bounds = Suite(problem, (), BOUNDS).bounds
    assert (bounds.cpu_s, bounds.wall_s, bounds.memory_mb) == (3.0, 30.0, 1024)
    assert Suite({**problem, "time_limit_s": 0.1}, (), BOUNDS).bounds.cpu_s == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_other_languages_are_judged_by_calls_and_by_input() -> None:
    code = "function twice(x) { return 2 * x }\n"
    problem = problem_of(code, entry="twice", language="JavaScript", tests=[call_of([2], 4), call_of([0.5])])
    suite, verdict = arranged(problem)
    assert verdict.passed, verdict
    assert [one.passed for one in suite.judge([code.replace("2 *", "3 *"), "not a program"])] == [
        False,
        False,
    ]
    reads = "console.log(2 * Number(require('fs').readFileSync(0)))\n"
    problem = problem_of(reads, language="JavaScript", tests=READS, entry_point=None)
    assert arranged(problem)[1].passed


def test_equal_programs_are_run_once_and_answered_in_order() -> None:
    suite, _ = arranged(problem_of(DOUBLE, tests=READS, entry_point=None))
    wrong = DOUBLE.replace("2 *", "3 *")
    assert [one.passed for one in suite.judge([wrong, DOUBLE, wrong])] == [False, True, False]
