"""Which recorded calls become tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from golden import TESTS, harvested, problem_of, program_of, rows_of
from hypothesis import given
from hypothesis import strategies as st

from decompose.functions import functions
from labelers.programs import config, runs
from labelers.programs.reasons import SUITE_REASONS
from labelers.programs.unit_tests import HARVESTED, callable_from_outside, failures, greedy_cover, harvest
from sandbox import Call, ErrorRecord, Result
from schemas.declare import as_row
from schemas.errors import AssayError
from schemas.records import FunctionSuite, FunctionTest
from schemas.stage import Drop, Keep


def spans_of(code: str) -> list[dict[str, Any]]:
    return [as_row(span) for span in functions(code)]


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    problem = problem_of()
    return harvested(problem, program_of(problem))


def calls(tests: list[dict[str, Any]], function: str) -> list[tuple[Any, Any]]:
    return [
        (runs.read_call(test["call"]).args, runs.read_outcome(test["expected"]))
        for test in tests
        if test["function"] == function and test["source"] == HARVESTED
    ]


def test_calls_of_inner_functions_become_tests_too(golden: list[dict[str, Any]]) -> None:
    assert calls(golden, "add_tax") == [
        ((30,), ("value", 33)),
        ((0,), ("value", 0)),
        ((100,), ("value", 110)),
    ]


def test_a_raised_error_is_an_expected_outcome(golden: list[dict[str, Any]]) -> None:
    assert (([-1],), ("error", "ValueError")) in calls(golden, "subtotal")


def test_every_test_kills_a_mutant_and_selected_ones_kill_as_many(golden: list[dict[str, Any]]) -> None:
    for name in ("total", "subtotal", "add_tax"):
        tests = [test for test in golden if test["function"] == name]
        assert all(test["kills"] for test in tests)
        every = {kill for test in tests for kill in test["kills"]}
        assert {kill for test in tests if test["selected"] for kill in test["kills"]} == every
        assert max(every) <= TESTS.max_mutants
        assert 0 in every


def test_methods_have_no_tests(golden: list[dict[str, Any]]) -> None:
    assert calls(golden, "Note.text") == []


def test_the_same_program_gives_the_same_tests_with_more_workers(golden: list[dict[str, Any]]) -> None:
    problem = problem_of()
    again = harvested(problem, program_of(problem), dataclasses.replace(TESTS, workers=3))
    assert again == golden


UNFIT = """\
import datetime
import random
import sys
import urllib.request

seen = 0

def entry(n):
    changed([n]), of_today(n), talks(n), lazy(n)
    try:
        leaves(n)
    except SystemExit:
        pass
    for hopeless in (deep, fetched):
        try:
            hopeless(n)
        except (RecursionError, OSError):
            pass
    return [drawn(n), hashed(n), counted(n), nothing(n), refuses(n), opaque(n), fit(n), Box().get(n)]

class Box:
    def get(self, n):
        return n

def drawn(n):
    return random.random() + n

def hashed(n):
    return list({"a" + str(n), "b", "c", "d", "e", "f"})

def counted(n):
    global seen
    seen += 1
    return seen + n

def changed(xs):
    xs.append(print)
    return len(xs)

def nothing(n):
    n + 1

def refuses(n):
    if len(str(n)) == 0:
        raise ValueError

def opaque(n):
    return lambda: n

def lazy(n):
    yield n

def constant_time(n):
    return n

def today():
    return str(datetime.date.today())

def of_today(n):
    return today() + str(n)

def leaves(n):
    sys.exit(n + 1)

def deep(n):
    return deep(n + 1)

def fetched(n):
    return urllib.request.urlopen(f"http://192.0.2.1/{n}").read()

def talks(n):
    print("x" * 3_000_000)
    return n + 1

def fit(n):
    return n * 2
"""


@pytest.fixture(scope="module")
def unfit() -> dict[str, dict[str, Any]]:
    suite = "def check(candidate):\n    for n in range(3):\n        assert len(candidate(n)) == 8\n"
    problem = problem_of(UNFIT, suite, entry="entry")
    # The suite cannot travel with a lambda in the answer, so the program is put together by hand.
    program = program_of(problem_of(UNFIT.replace("opaque(n), ", ""), suite.replace("8", "7"), entry="entry"))
    return rows_of(problem, {**program, "code": UNFIT, "functions": spans_of(UNFIT)})[1]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("drawn", "unstable"),
        ("hashed", "unstable"),
        ("counted", "unstable"),
        ("changed", "mutates_arguments"),
        ("nothing", "kills_nothing"),
        ("refuses", "passes_on_stub"),
        ("opaque", "unencodable"),
        ("lazy", "unencodable"),
        ("constant_time", "never_called"),
        ("today", "reads_clock"),
        ("of_today", "reads_clock"),
        ("fetched", "needs_outside"),
        ("leaves", "stopped"),
        ("deep", "stopped"),
        ("Box.get", "method"),
    ],
)
def test_a_function_without_fit_calls_has_a_reason(
    unfit: dict[str, dict[str, Any]], function: str, reason: str
) -> None:
    row = unfit[function]
    assert row["reason"] == reason
    assert (row["tests"], row["selected"], row["mutation_score"], row["coverage"]) == (0, 0, None, None)


def test_unfit_functions_cost_the_others_nothing(unfit: dict[str, dict[str, Any]]) -> None:
    assert unfit["fit"]["reason"] is None
    assert unfit["fit"]["mutation_score"] == 1.0
    assert unfit["talks"]["reason"] is None
    dropped = {one["reason"]: one["count"] for one in unfit["changed"]["dropped"]}
    assert dropped["mutates_arguments"] >= 3


def test_every_reason_is_told(unfit: dict[str, dict[str, Any]]) -> None:
    told = {one["reason"] for row in unfit.values() for one in row["dropped"]}
    assert told | {row["reason"] for row in unfit.values()} <= {None, *SUITE_REASONS}


@pytest.mark.parametrize("suite", ["def check(c):\n    pass\n", "def check(c):\n    assert True\n"])
def test_a_suite_that_calls_nothing_leaves_untyped_functions_without_tests(suite: str) -> None:
    code = "def f(a):\n    return a + 1\n\ndef g(a: int) -> int:\n    return a * 2\n"
    program = {**program_of(problem_of()), "code": code, "functions": spans_of(code), "entry_point": "f"}
    tests, rows = rows_of(problem_of(code, suite, "f"), program)
    assert (rows["f"]["reason"], rows["g"]["reason"]) == ("never_called", None)
    assert {(test["function"], test["source"]) for test in tests} <= {("g", "generated"), ("g", "mutated")}


def test_proposed_calls_are_observed_and_keep_their_source() -> None:
    problem = problem_of()
    program = program_of(problem)
    given = {
        "add_tax": [("some-model", Call((7070,))), ("some-model", Call(("text",))), ("some-model", Call(()))],
        "unknown": [("some-model", Call(()))],
    }
    tests, rows = rows_of(problem, program, proposed=given)
    found = [(test["function"], test["shown"]) for test in tests if test["source"] == "some-model"]
    assert found == [("add_tax", "add_tax(7070) -> 7777")]
    assert {one["reason"]: one["count"] for one in rows["add_tax"]["dropped"]}["invalid_input"] >= 2


@pytest.mark.parametrize(
    ("name", "kind", "callable_"),
    [
        ("f", "function", True),
        ("Solution.f", "method", True),
        ("Solution::f", "method", True),
        ("empty?", "function", True),
        ("$f", "function", True),
        ("Other.f", "method", False),
        ("Solution.inner.f", "method", False),
        ("Solution.f", "constructor", False),
        ("operator+", "function", False),
        ("space::f", "function", False),
        ("#f", "method", False),
        ("", "function", False),
    ],
)
def test_what_can_be_called_from_outside(name: str, kind: str, callable_: bool) -> None:
    assert callable_from_outside({"name": name, "kind": kind}) is callable_


def test_a_boundary_that_the_suite_misses_is_found() -> None:
    code = "def f(n):\n    if n < 4711:\n        return 1\n    return 2\n\ndef g(n):\n    return n\n"
    suite = "def check(c):\n    assert c(1) == 1 and c(5000) == 2\n"
    problem = problem_of(code, suite, "f")
    rows = rows_of(problem, program_of(problem), config.TestsConfig(generated=20))[1]
    assert rows["f"]["mutation_score"] == 1.0
    assert rows["f"]["coverage"] == 1.0
    assert rows["f"]["selected"] <= 4


def test_without_made_inputs_there_are_recorded_ones_alone() -> None:
    problem = problem_of()
    settings = dataclasses.replace(TESTS, generated=0)
    tests, rows = rows_of(problem, program_of(problem), settings)
    assert {test["source"] for test in tests} == {HARVESTED}
    assert rows["Note.text"]["reason"] == "method"


def test_a_method_of_solution_is_tested_by_the_calls_of_the_suite() -> None:
    code = "class Solution:\n    def f(self, xs):\n        return sum(xs) if xs else -1\n"
    test = {"kind": "call", "code": None, "stdin": None, "stdout": None, "args": "[[1, 2]]", "expected": "3"}
    problem = {**problem_of(code, None, "f"), "tests": [test, {**test, "args": "[[]]", "expected": None}]}
    program = {**program_of(problem_of()), "code": code, "functions": spans_of(code), "entry_point": "f"}
    tests, rows = rows_of(problem, program)
    assert rows["Solution.f"]["reason"] is None
    assert "Solution.f([1, 2]) -> 3" in [test["shown"] for test in tests]


def test_no_more_tests_are_kept_than_asked_for_and_those_that_count_first() -> None:
    problem = problem_of()
    program = program_of(problem)
    few, rows = rows_of(problem, program, dataclasses.replace(TESTS, max_tests=3))
    many, all_rows = rows_of(problem, program, TESTS)
    assert len(few) < len(many)
    for name, row in rows.items():
        assert row["tests"] <= 3
        if all_rows[name]["selected"] <= 3:
            assert row["mutation_score"] == all_rows[name]["mutation_score"]


def test_a_mutant_that_does_not_end_is_killed_and_counted_apart() -> None:
    code = "def entry(n):\n    return down(n)\n\n"
    code += "def down(n):\n    while n > 0:\n        n -= 1\n    return n + 7\n"
    problem = problem_of(code, "def check(c):\n    assert c(2) == 7\n", entry="entry")
    outcome, counts = harvest(
        program_of(problem), problem, config.TestsConfig(max_mutants=4, cpu_s=1, wall_s=10), 0
    )
    assert counts.killed_by_timeout_only >= 1
    assert counts.killed >= counts.killed_by_timeout_only
    assert isinstance(outcome, Keep)
    late = [one for one in outcome.records if isinstance(one, FunctionSuite) and one.function == "down"]
    assert any(fate.timeout and fate.killed for fate in late[0].mutants)
    assert any(one.timeouts for one in outcome.records if isinstance(one, FunctionTest))


def test_a_reference_that_cannot_be_recorded_is_dropped() -> None:
    problem = problem_of()
    program = {**program_of(problem), "code": "raise OSError\n"}
    outcome, _ = harvest(program, problem, TESTS, 0)
    assert isinstance(outcome, Drop)
    assert outcome.reason == "reference_unrecordable"


@given(st.lists(st.lists(st.integers(0, 12), unique=True), max_size=10))
def test_the_cover_kills_what_all_kill_and_each_round_adds(kills: list[list[int]]) -> None:
    chosen = greedy_cover(kills)
    assert chosen == sorted(set(chosen))
    assert {m for i in chosen for m in kills[i]} == {m for one in kills for m in one}
    assert len(chosen) <= len({m for one in kills for m in one})


VALUE = ("value", 1)


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (Result("ok", outputs=[1, 1, 1]), []),
        (Result("ok", outputs=[1, 2, 1]), [1]),
        (Result("ok", outputs=[1, True, 1.0]), [1]),
        (Result("ok", outputs=[1, "1", 1]), [1]),
        (Result("ok", outputs=[1, ErrorRecord("ValueError", ""), 1]), [1]),
        (Result("unserializable", outputs=[1, ErrorRecord("function", "", raised=False), 1]), [1]),
        (Result("cpu_limit", outputs=[1]), [1]),
        (Result("timeout", outputs=[]), [0]),
        (Result("exit", outputs=[1, 2]), [1, 2]),
        (Result("exception", outputs=[]), [0, 1, 2]),
        (Result("compile_error", outputs=[]), [0, 1, 2]),
    ],
    ids=range(11),
)
def test_calls_after_the_one_that_stopped_the_run_say_nothing(result: Result, failed: list[int]) -> None:
    assert failures(result, [VALUE] * 3) == failed


@pytest.mark.parametrize(
    ("value", "expected", "passes"),
    [
        (1, ("value", 1), True),
        (True, ("value", 1), False),
        ([1], ("value", (1,)), False),
        (float("nan"), ("value", float("nan")), True),
        (ErrorRecord("KeyError", "a"), ("error", "KeyError"), True),
        (ErrorRecord("KeyError", "a"), ("error", "LookupError"), False),
        ("KeyError", ("error", "KeyError"), False),
        (ErrorRecord("KeyError", "a"), ("value", "KeyError"), False),
        (ErrorRecord("RecursionError", ""), ("error", "RecursionError"), False),
    ],
    ids=range(9),
)
def test_outcomes_are_compared_with_their_types(value: Any, expected: Any, passes: bool) -> None:
    assert runs.same(runs.outcome_of(value), expected) is passes


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_calls_and_outcomes_survive_their_text(value: Any) -> None:
    call = Call((value, 1), {"key": value})
    back = runs.read_call(runs.call_text(call))
    assert (back.args, back.kwargs) == (call.args, call.kwargs)
    assert runs.read_outcome(runs.to_text(("value", value))) == ("value", value)


@pytest.mark.parametrize(
    "text", ["", "!", "ä", runs.to_text(1), runs.to_text((1, 2)), runs.to_text(("error", 1))]
)
def test_text_that_is_no_call_or_outcome_is_refused(text: str) -> None:
    with pytest.raises(AssayError):
        runs.read_call(text)
    with pytest.raises(AssayError):
        runs.read_outcome(text)


def test_a_result_nested_as_deeply_as_can_be_costs_only_its_own_call() -> None:
    solution = """
def f(n):
    return g(n)


def g(n):
    made = []
    for _ in range(n):
        made = [made]
    return made
"""
    problem = problem_of(
        solution,
        "def check(candidate):\n    for n in (1, 2, 98, 99):\n"
        "        assert candidate(n) != 0\n        assert len(candidate(n)) < 2\n",
        "f",
    )
    kept = calls(harvested(problem, program_of(problem)), "g")
    assert [args for args, _ in kept] == [(1,), (2,), (98,)]
