"""The format of our own."""

from __future__ import annotations

from typing import Any

import pytest
from problem_rows import ADD, SUM, SUM_CPP, plain, read

from miner.importers.fields import BadRow
from schemas.records import Problem

PROGRAM = {"entry_point": None, "tests": [{"kind": "stdin", "stdin": "1 2\n", "stdout": "3\n"}]}


def one(**change: Any) -> Problem:
    (problem,) = read("plain", plain(**change))
    return problem


def bad(**change: Any) -> str:
    with pytest.raises(BadRow) as caught:
        read("plain", plain(**change))
    return str(caught.value)


def test_all_columns_are_taken_as_they_are() -> None:
    found = one(
        language="Python",
        references=[f"{ADD}\n", ADD],
        tolerance=0.5,
        time_limit_s=2,
        memory_limit_mb=64,
        license="mit",
        difficulty="easy",
        released="2024-02-29T10:00:00Z",
        url="https://example.org",
    )
    assert found.references == [f"{ADD}\n"]
    assert (found.tolerance, found.time_limit_s, found.memory_limit_mb) == (0.5, 2.0, 64)
    assert (found.license, found.difficulty, found.released) == ("MIT", "easy", "2024-02-29")
    assert found.url == "https://example.org"


def test_what_is_left_out_is_not_known() -> None:
    (found,) = read("plain", {"prompt": "p", "solution": SUM, "tests": PROGRAM["tests"]})
    assert (found.language, found.entry_point, found.license, found.url) == ("Python", None, None, None)
    assert found.name != ""


def test_result_that_is_null_is_not_one_that_is_left_out() -> None:
    null, absent = one(
        tests=[{"kind": "call", "args": [], "expected": None}, {"kind": "call", "args": []}]
    ).tests
    assert (null.expected, absent.expected) == ("null", None)


def test_tests_of_source_stay_whole_and_come_first() -> None:
    check = {"kind": "check", "code": "def check(candidate):\n    assert candidate(1, 2) == 3\n"}
    calls = [{"kind": "call", "args": [n, n], "expected": 2 * n} for n in range(9)]
    found = one(tests=[*calls, check])
    assert [test.kind for test in found.tests] == ["check", *["call"] * 9]


def test_solution_that_lacks_the_entry_point_is_not_replaced_by_a_reference() -> None:
    assert "no_entry_point" in bad(solution=SUM, references=[ADD])


def test_program_in_another_language_is_not_parsed() -> None:
    found = one(language="C++", solution=SUM_CPP, **PROGRAM)
    assert (found.language, found.solution) == ("C++", SUM_CPP)
    called = one(language="Go", solution="func add(a, b int) int { return a + b }")
    assert called.entry_point == "add"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tests": []}, "no_tests"),
        ({"tests": "x"}, "tests: expected a list"),
        ({"tests": [1]}, "tests[0]: expected an object"),
        ({"tests": [{"kind": "x"}]}, "tests[0].kind: expected one of"),
        ({"tests": [{"kind": ["x"]}]}, "tests[0].kind: expected one of"),
        ({"tests": [{"kind": "call", "args": 1}]}, "tests[0].args"),
        ({"tests": [{"kind": "call", "args": [float("inf")]}]}, "such as NaN"),
        ({"tests": [{"kind": "check", "code": "x = 1"}]}, "defines no function check"),
        ({"tests": [{"kind": "assert", "code": "assert ("}]}, "bad_program: tests[0].code"),
        ({"tests": [{"kind": "stdin", "stdin": ""}], "entry_point": None}, "tests[0].stdout"),
        ({"tests": PROGRAM["tests"]}, "entry_point: a program that reads its input has none"),
        ({"tests": [*PROGRAM["tests"], {"kind": "call", "args": []}]}, "either all are of kind stdin"),
        ({"entry_point": None}, "entry_point: missing"),
        ({"entry_point": "sub"}, "no_entry_point"),
        ({"language": "Cobol"}, "language: 'Cobol' is none of"),
        ({"language": "C++", "tests": [{"kind": "assert", "code": "assert 1"}]}, "are for Python"),
        ({"license": "my own"}, "license: 'my own' is no SPDX id"),
        ({"released": "soon"}, "released"),
        ({"tolerance": -1}, "tolerance"),
        ({"tolerance": 10**400}, "tolerance"),
        ({"memory_limit_mb": 0.5}, "memory_limit_mb"),
        ({"memory_limit_mb": 1 << 40}, "memory_limit_mb"),
        ({"references": [1]}, "references"),
        ({"solution": "def add(:"}, "bad_program"),
    ],
)
def test_what_is_not_as_described_is_told(change: dict[str, Any], why: str) -> None:
    assert why in bad(**change)
