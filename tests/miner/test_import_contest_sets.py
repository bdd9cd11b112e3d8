"""APPS, TACO, CodeContests, LiveCodeBench and verifiable problems as published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from problem_rows import (
    ADD,
    SUM,
    SUM_CPP,
    apps,
    called,
    codecontests,
    livecodebench,
    pack,
    read,
    taco,
    verifiable,
)

from miner.importers.fields import BadRow

METHOD = "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b\n"


def bad(form: str, row: dict[str, Any], **settings: Any) -> str:
    with pytest.raises(BadRow) as caught:
        read(form, row, **settings)
    return str(caught.value)


def pairs(problem: Any) -> list[Any]:
    return [(test.stdin, test.stdout) for test in problem.tests]


def results(problem: Any) -> list[Any]:
    return [(json.loads(test.args), json.loads(test.expected)) for test in problem.tests]


def functional(*outputs: Any, solution: str = ADD, inputs: Any = None) -> dict[str, Any]:
    given = inputs or [[1, n] for n in range(len(outputs))]
    return apps(input_output=called("add", given, list(outputs)), solutions=json.dumps([solution]))


def test_apps_program_reads_its_input() -> None:
    (problem,) = read("apps", apps())
    assert pairs(problem) == [("1 2\n", "3\n"), ("3 4", "7")]
    assert (problem.name, problem.entry_point, problem.difficulty) == ("APPS/0", None, "interview")
    assert problem.url == "https://example.org/problem"
    assert problem.solution == SUM
    assert len(problem.references) == 1
    assert problem.license == "MIT"


def test_row_with_the_fields_of_apps_but_without_its_ids_has_no_license() -> None:
    row = apps()
    del row["problem_id"]
    assert read("apps", row)[0].license is None


def test_references_are_bounded_different_and_parse() -> None:
    codes = ["print 1", SUM, SUM, *(f"{SUM}#{n}" for n in range(9))]
    (problem,) = read("apps", apps(solutions=json.dumps(codes)), max_references=2)
    assert [problem.solution, *problem.references] == [SUM, f"{SUM}#0", f"{SUM}#1"]


def test_row_without_solutions_is_told_as_such() -> None:
    assert "no_reference" in bad("apps", apps(solutions=""))
    assert "no_reference" in bad("apps", apps(solutions="[]"))


def test_row_of_python_2_alone_is_told_as_such() -> None:
    assert "python_2" in bad("apps", apps(solutions=json.dumps(["print 1", "print 2"])))


def test_named_function_is_called_with_a_list_of_arguments() -> None:
    (problem,) = read("apps", functional(1, 2))
    assert problem.entry_point == "add"
    assert results(problem) == [([1, 0], 1), ([1, 1], 2)]


def test_wrapped_results_are_unwrapped_when_all_are() -> None:
    assert results(read("apps", functional([1], [2]))[0]) == [([1, 0], 1), ([1, 1], 2)]
    assert results(read("apps", functional([[1]], [[2, 3]]))[0]) == [([1, 0], [1]), ([1, 1], [2, 3])]
    assert results(read("apps", functional([1], [2, 3]))[0]) == [([1, 0], [1]), ([1, 1], [2, 3])]


@pytest.mark.parametrize("told", ["list", "List[int]", "typing.List[int]"])
def test_results_stay_lists_of_one_where_the_function_says_that_it_returns_lists(told: str) -> None:
    solution = f"import typing\nfrom typing import List\ndef add(a, b) -> {told}:\n    return [a + b]\n"
    assert results(read("apps", functional([1], [2], solution=solution))[0]) == [([1, 0], [1]), ([1, 1], [2])]


def test_method_of_class_solution_is_an_entry_point() -> None:
    row = functional(1, 2, solution=METHOD)
    row["starter_code"] = "class Solution:\n    def add(self, a: int, b: int) -> int:\n"
    (problem,) = read("apps", row)
    assert problem.entry_point == "add"
    assert problem.prompt.endswith(row["starter_code"])
    assert problem.prompt.startswith(row["question"])


def test_solution_without_the_named_function_is_passed_over() -> None:
    row = functional(1, 2)
    row["solutions"] = json.dumps([SUM, ADD])
    assert read("apps", row)[0].solution == ADD
    row["solutions"] = json.dumps([SUM])
    assert "no_entry_point" in bad("apps", row)


def test_huge_whole_numbers_are_kept_exactly_and_those_beyond_reading_cost_their_test_only() -> None:
    big = 10**300 + 1
    row = functional(big, 2)
    row["input_output"] = row["input_output"].replace(": [[1, 0]", ": [[" + "9" * 5000 + ", 0]")
    assert results(read("apps", row)[0]) == [([1, 1], 2)]
    assert results(read("apps", functional(big))[0]) == [([1, 0], big)]


def test_objects_whose_keys_are_numbers_are_no_json_so_such_calls_are_left_out() -> None:
    row = functional(1, 2, inputs=[[{"1": 2}, 0], [1, 1]])
    assert results(read("apps", row)[0]) == [([1, 1], 2)]


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("{", "bad_field: input_output: not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "expected an object"),
        ("", "no_tests"),
        ('{"inputs": [], "outputs": []}', "no_tests"),
        ('{"inputs": ["1"], "outputs": []}', "1 inputs, but 0 outputs"),
        ('{"inputs": [1], "outputs": [2]}', "no_tests"),
        ('{"inputs": {}, "outputs": {}}', "input_output.inputs: expected a list"),
        ('{"fn_name": "a b", "inputs": [[1]], "outputs": [2]}', "no name of a function"),
        ('{"fn_name": "f", "inputs": [[NaN]], "outputs": [1]}', "no_entry_point"),
    ],
)
def test_input_output_that_is_not_as_published(tests: str, reason: str) -> None:
    assert reason in bad("apps", apps(input_output=tests))


def test_taco_has_limits_and_a_date() -> None:
    (problem,) = read("taco", taco())
    assert (problem.time_limit_s, problem.memory_limit_mb, problem.released) == (2.0, 256, "2019-12-31")
    assert (problem.name, problem.difficulty, problem.license) == ("Sum 0", "EASY", "Apache-2.0")


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("2 sec", 2.0),
        ("500 ms", 0.5),
        (None, None),
        ("None", None),
        ("", None),
        ("soon", None),
        ("1e9 s", None),
    ],
)
def test_time_limits(told: Any, meant: float | None) -> None:
    assert read("taco", taco(time_limit=told))[0].time_limit_s == meant


@pytest.mark.parametrize(
    ("told", "meant"),
    [("64 MB", 64), ("1.5 gigabytes", 1536), ("100 KB", 1), (None, None), ("None", None), ("-5 MB", None)],
)
def test_memory_limits(told: Any, meant: int | None) -> None:
    assert read("taco", taco(memory_limit=told))[0].memory_limit_mb == meant


def test_what_taco_does_not_know_is_null() -> None:
    (problem,) = read("taco", taco(difficulty="UNKNOWN_DIFFICULTY", date="", url=None, name=None))
    assert (problem.difficulty, problem.released, problem.url) == (None, None, None)
    assert problem.name == read("taco", taco(name=None, url=None))[0].name != ""


def test_codecontests_becomes_a_problem_a_language_without_python_2() -> None:
    cpp, python = read("codecontests", codecontests())
    assert (cpp.language, python.language) == ("C++", "Python")
    assert cpp.solution == SUM_CPP
    assert (python.solution, python.references) == (SUM, [f"{SUM}#"])
    assert cpp.tests == python.tests
    assert pairs(cpp) == [("1 2\n", "3\n"), ("3 4\n", "7\n"), ("5 6\n", "11\n")]
    assert cpp.id != python.id


def test_codecontests_limits_rating_and_url() -> None:
    problem = read("codecontests", codecontests())[0]
    assert (problem.time_limit_s, problem.memory_limit_mb) == (1.5, 256)
    assert (problem.difficulty, problem.license) == ("800", "CC-BY-4.0")
    assert problem.url == "https://codeforces.com/problemset/problem/1000/A"
    other = read("codecontests", codecontests(cf_rating=0, source=6, time_limit=None, memory_limit_bytes=0))[
        0
    ]
    assert (other.difficulty, other.url, other.time_limit_s, other.memory_limit_mb) == ("A", None, None, None)


@pytest.mark.parametrize(
    ("number", "letter"), [(1, "EASY"), (6, "EXTERNAL"), (17, "K"), (19, "L"), (29, "V")]
)
def test_codecontests_difficulty_has_a_gap(number: int, letter: str) -> None:
    assert read("codecontests", codecontests(cf_rating=0, difficulty=number))[0].difficulty == letter
    assert read("codecontests", codecontests(cf_rating=0, difficulty=18))[0].difficulty is None


def test_codecontests_rows_of_objects_are_read_like_objects_of_lists() -> None:
    row = codecontests()
    listed = dict(row)
    for field in ("public_tests", "private_tests", "generated_tests", "solutions"):
        keys = list(row[field])
        listed[field] = [dict(zip(keys, one, strict=True)) for one in zip(*row[field].values(), strict=True)]
    assert read("codecontests", listed) == read("codecontests", row)


def test_codecontests_languages_are_chosen_and_bounded() -> None:
    assert [one.language for one in read("codecontests", codecontests(), max_languages=1)] == ["C++"]
    assert [one.language for one in read("codecontests", codecontests(), languages=("Python",))] == ["Python"]
    assert "only in C++, Python" in bad("codecontests", codecontests(), languages=("Java",))
    old = codecontests(solutions={"language": [1], "solution": ["print 1"]})
    assert "python_2" in bad("codecontests", old)
    assert "no_reference" in bad("codecontests", codecontests(solutions={"language": [], "solution": []}))


def test_one_bad_solution_costs_no_other() -> None:
    row = codecontests(solutions={"language": [2, 2, 3], "solution": ["\ud800", SUM_CPP, "print 1"]})
    (problem,) = read("codecontests", row)
    assert (problem.language, problem.solution) == ("C++", SUM_CPP)


def test_program_that_reads_a_file_is_dropped() -> None:
    assert "reads_files" in bad("codecontests", codecontests(input_file="input.txt"))


def test_public_tests_come_first_and_the_others_are_a_draw() -> None:
    many = {"input": [f"{n} 0\n" for n in range(90)], "output": [f"{n}\n" for n in range(90)]}
    problem = read("codecontests", codecontests(generated_tests=many), max_tests=10)[0]
    assert pairs(problem)[0] == ("1 2\n", "3\n")
    assert len(problem.tests) == 10
    assert pairs(problem) != pairs(
        read("codecontests", codecontests(generated_tests=many), max_tests=10, seed=1)[0]
    )


def test_livecodebench_reads_public_and_packed_private_tests() -> None:
    (problem,) = read("livecodebench", livecodebench())
    assert pairs(problem) == [("1 2\n", "3\n"), ("3 4\n", "7\n")]
    assert (problem.name, problem.released, problem.difficulty) == ("0_A", "2023-08-21", "easy")
    assert problem.license is None


def test_livecodebench_private_tests_may_be_plain() -> None:
    plain = json.dumps([{"input": "3 4\n", "output": "7\n", "testtype": "stdin"}])
    assert read("livecodebench", livecodebench(private_test_cases=plain)) == read(
        "livecodebench", livecodebench()
    )


def test_livecodebench_functions_take_one_argument_a_line() -> None:
    case = {"input": '[1, 2]\n{"a": "b"}', "output": "3.5", "testtype": "functional"}
    row = livecodebench(
        public_test_cases=json.dumps([case]),
        private_test_cases=pack("[]"),
        metadata='{"func_name": "add"}',
        starter_code="class Solution:\n",
        solution=METHOD,
    )
    (problem,) = read("livecodebench", row)
    assert results(problem) == [([[1, 2], {"a": "b"}], 3.5)]
    assert problem.entry_point == "add"
    assert "func_name is missing" in bad("livecodebench", {**row, "metadata": "{}"})


def test_livecodebench_without_a_solution_is_dropped_and_a_user_may_give_one() -> None:
    row = livecodebench()
    del row["solution"]
    assert "no_reference" in bad("livecodebench", row)
    assert read("livecodebench", {**row, "code": SUM}, solution_field="code")[0].solution == SUM
    several = {**row, "code_list": ["print 1", SUM]}
    assert read("livecodebench", several, solution_field="code_list")[0].solution == SUM


def test_verifiable_solution_is_taken_out_of_its_fence() -> None:
    (problem,) = read("verifiable", verifiable())
    assert (problem.name, problem.solution) == ("vfc_0", SUM)
    assert pairs(problem) == [("1 2\n", "3\n")]
    text = json.dumps(verifiable()["verification_info"])
    assert read("verifiable", verifiable(verification_info=text)) == [problem]


def test_verifiable_functions_are_called() -> None:
    case = {"fn_name": "add", "input": "1\n2", "output": "3", "type": "function_call"}
    info = {"language": "python", "test_cases": [case]}
    (problem,) = read("verifiable", verifiable(verification_info=info, gold_standard_solution=ADD))
    assert (problem.entry_point, results(problem)) == ("add", [([1, 2], 3)])


def test_verifiable_problem_in_another_language_or_without_solution_is_dropped() -> None:
    info = {"language": "cpp", "test_cases": []}
    assert "language_not_wanted" in bad("verifiable", verifiable(verification_info=info))
    assert "no_reference" in bad("verifiable", verifiable(gold_standard_solution=None))
