"""HumanEval, MBPP, EvalPlus's versions of both, BigCodeBench and KodCode as published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from problem_rows import (
    ADD,
    BODY,
    CHECK,
    PROMPT,
    bigcodebench,
    humaneval,
    humaneval_plus,
    kodcode,
    mbpp,
    mbpp_plus,
    mbpp_plus_on_the_hub,
    mbpp_sanitized,
    read,
)

from miner.importers.fields import BadRow
from miner.importers.formats import choose


def calls(problem: Any) -> list[Any]:
    return [json.loads(test.args) for test in problem.tests if test.kind == "call"]


def bad(form: str, row: dict[str, Any], **settings: Any) -> str:
    with pytest.raises(BadRow) as caught:
        read(form, row, **settings)
    return str(caught.value)


def test_license_is_that_of_the_card_only_for_the_sets_own_names() -> None:
    assert read("humaneval", humaneval())[0].license == "MIT"
    assert read("humaneval", humaneval(task_id="mine/1"))[0].license is None
    assert read("humaneval+", humaneval_plus())[0].license == "Apache-2.0"
    assert read("mbpp", mbpp())[0].license == "CC-BY-4.0"
    assert read("mbpp+", mbpp_plus())[0].license == "Apache-2.0"
    assert read("bigcodebench", bigcodebench())[0].license == "Apache-2.0"
    assert read("kodcode", kodcode())[0].license == "CC-BY-NC-4.0"
    for form, row in (("mbpp", mbpp()), ("mbpp", mbpp_sanitized()), ("mbpp+", mbpp_plus_on_the_hub())):
        assert read(form, row)[0].license is not None
        own = {key: row[key] for key in row if key not in ("challenge_test_list", "source_file")}
        assert read(form, own)[0].license is None
    mine = {key: kodcode()[key] for key in ("question", "solution", "test")}
    assert read("kodcode", mine)[0].license is None


def test_evalplus_inputs_become_calls_whose_result_the_reference_decides() -> None:
    (problem,) = read("humaneval+", humaneval_plus())
    assert calls(problem) == [[1, 2], [3, 4], [-1, 1]]
    assert {test.expected for test in problem.tests} == {None}
    assert problem.solution == PROMPT + BODY


def test_evalplus_floats_may_differ_as_its_evaluator_allows() -> None:
    assert read("humaneval+", humaneval_plus())[0].tolerance == 1e-6
    assert read("humaneval+", humaneval_plus(atol=0.01))[0].tolerance == 0.01
    assert "atol" in bad("humaneval+", humaneval_plus(atol=-1))
    assert "atol" in bad("humaneval+", humaneval_plus(atol=float("nan")))


def test_base_inputs_come_first_and_the_others_are_a_draw_by_seed() -> None:
    row = humaneval_plus(base_input=[[0, 0], [0, 1]], plus_input=[[9, n] for n in range(50)])
    one = calls(read("humaneval+", row, max_tests=12)[0])
    assert one[:2] == [[0, 0], [0, 1]]
    assert len(one) == 12
    assert one[2:] == sorted(one[2:])
    assert one == calls(read("humaneval+", row, max_tests=12)[0])
    assert one != calls(read("humaneval+", row, max_tests=12, seed=1)[0])
    assert calls(read("humaneval+", row, max_tests=1)[0]) == [[0, 0]]


def test_draw_does_not_depend_on_other_rows() -> None:
    rows = [humaneval_plus(n, plus_input=[[9, k] for k in range(50)]) for n in (1, 2)]
    drawn = [calls(read("humaneval+", row, max_tests=12)[0]) for row in rows]
    assert drawn[0] != drawn[1]


def test_inputs_that_json_cannot_hold_are_left_out() -> None:
    row = humaneval_plus(base_input=[[1, 2], [float("nan"), 1], ["\ud800", 1], [float("inf"), 1]])
    assert calls(read("humaneval+", row)[0]) == [[1, 2], [3, 4], [-1, 1]]


def test_problem_without_further_inputs_has_an_object_there() -> None:
    assert calls(read("mbpp+", mbpp_plus(plus_input={}))[0]) == [[1, 2]]


def test_problem_without_any_test_is_dropped() -> None:
    assert "no_tests" in bad("humaneval+", humaneval_plus(base_input=[], plus_input=[]))


def test_humaneval_plus_on_the_hub_keeps_its_check() -> None:
    test = f"def is_floats(x):\n    return isinstance(x, float)\n\n\n{CHECK}"
    row = humaneval(test=test)
    assert choose(row).name == "humaneval+"
    (problem,) = read("humaneval+", row)
    assert [(one.kind, one.code) for one in problem.tests] == [("check", test)]


def test_mbpp_assertions_are_one_suite_with_set_up_and_challenges() -> None:
    (problem,) = read("mbpp", mbpp(test_setup_code="import math"))
    (test,) = problem.tests
    assert test.kind == "assert"
    assert test.code == (
        "import math\nassert add(1, 2) == 3\nassert add(0, 0) == 0\nassert add(-1, 1) == 0\n"
    )
    assert (problem.name, problem.entry_point) == ("MBPP/1", "add")


def test_mbpp_entry_point_is_the_function_that_the_tests_call() -> None:
    row = mbpp(code="def other(x):\n    return x\n" + ADD)
    assert read("mbpp", row)[0].entry_point == "add"
    assert "no_entry_point" in bad("mbpp", mbpp(test_list=["assert nothing(1) == 1"], challenge_test_list=[]))
    assert "no_tests" in bad("mbpp", mbpp(test_list=[], challenge_test_list=[]))


def test_sanitized_mbpp_has_imports_before_its_assertions() -> None:
    (problem,) = read("mbpp", mbpp_sanitized())
    assert problem.tests[0].code == "import math\nassert math.isclose(add(0.1, 0.2), 0.3)\n"
    assert problem.prompt == "Write a function to add two numbers."


def test_mbpp_plus_keeps_assertions_and_calls() -> None:
    (problem,) = read("mbpp+", mbpp_plus())
    assert [test.kind for test in problem.tests] == ["assert", "call", "call"]
    assert problem.solution == f"\n{ADD}"


@pytest.mark.parametrize("argument", ["(1, 2)", "{1, 2}", "1j", "{1: 2}", "set([1])", "[(1, 2)]", "b'x'"])
def test_calls_are_left_out_where_assertions_call_with_what_json_has_not(argument: str) -> None:
    (problem,) = read("mbpp+", mbpp_plus(assertion=f"assert add({argument}, 2) == 3"))
    assert [test.kind for test in problem.tests] == ["assert"]


@pytest.mark.parametrize("argument", ["[1, [2]]", "-1.5", "'x'", "{'a': [None, True]}"])
def test_calls_stay_where_assertions_call_with_json(argument: str) -> None:
    (problem,) = read("mbpp+", mbpp_plus(assertion=f"assert set(add({argument}, 2)) == {{3}}"))
    assert [test.kind for test in problem.tests] == ["assert", "call", "call"]


def test_mbpp_plus_on_the_hub_keeps_its_suite() -> None:
    row = mbpp_plus_on_the_hub()
    assert choose(row).name == "mbpp+"
    (problem,) = read("mbpp+", row)
    assert [(one.kind, one.code) for one in problem.tests] == [("assert", row["test"])]
    assert (problem.name, problem.entry_point) == ("Mbpp/2", "add")


def test_bigcodebench_completes_its_prompt_and_keeps_its_test_cases() -> None:
    row = bigcodebench()
    (problem,) = read("bigcodebench", row)
    assert problem.solution == row["complete_prompt"] + row["canonical_solution"]
    assert [(one.kind, one.code) for one in problem.tests] == [("unittest", row["test"])]
    assert problem.entry_point == "task_func"


def test_suite_without_tests_is_a_reason() -> None:
    assert "no_tests" in bad("bigcodebench", bigcodebench(test="import unittest\n"))
    assert "no_tests" in bad("kodcode", kodcode(test="from solution import add\n"))


def test_kodcode_entry_point_is_told_or_imported() -> None:
    (told,) = read("kodcode", kodcode())
    (imported,) = read("kodcode", kodcode(test_info=None))
    assert told == imported
    assert (told.name, told.entry_point, told.difficulty) == ("KodCode/Prefill_0_I", "add", "easy")
    assert [one.kind for one in told.tests] == ["unittest"]


def test_older_kodcode_names_its_suite_otherwise() -> None:
    old = kodcode()
    old["test_code"] = old.pop("test")
    assert choose(old).name == "kodcode"
    assert read("kodcode", old)[0].tests == read("kodcode", kodcode())[0].tests


def test_kodcode_suite_of_a_class_has_no_entry_point() -> None:
    row = kodcode(
        solution="class Stack:\n    pass\n",
        test="from solution import Stack\ndef test_stack():\n    assert Stack()\n",
        test_info=[],
    )
    assert "no_entry_point" in bad("kodcode", row)


@pytest.mark.parametrize("form", [("mbpp", mbpp, "code"), ("kodcode", kodcode, "solution")])
def test_python_2_is_its_own_reason(form: tuple[str, Any, str]) -> None:
    name, make, field = form
    assert bad(name, make(**{field: "def add(a, b):\n    print a\n"})).startswith("python_2")


def test_program_that_is_too_long_to_parse_is_dropped_unparsed() -> None:
    assert "longer than" in bad("mbpp", mbpp(code=ADD + "#" * (3 << 20)))
