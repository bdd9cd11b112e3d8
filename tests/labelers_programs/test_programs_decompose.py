"""Which problems become programs, and why others do not."""

from __future__ import annotations

import pytest
from golden import DECOMPOSE, SOLUTION, SUITE, piece_of, problem_of, program_of

from decompose.functions import functions
from labelers.programs import config
from labelers.programs.decompose import decompose
from labelers.programs.reasons import REASONS
from labelers.programs.suites import suites
from schemas.records import ProblemTest
from schemas.stage import Drop

ALONE = """\
def total(prices):
    if any(price < 0 for price in prices):
        raise ValueError("negative")
    return sum(prices) + sum(prices) // 10

class Note:
    def text(self): pass
"""


METHODS = {"total": "self.twice(x) + 2", "twice": "2 * x"}
TRIVIAL = "def total(x):\n    return x + 1\n"


def reason(problem: dict, settings: config.DecomposeConfig = DECOMPOSE) -> str:
    outcome = decompose(problem, settings)
    assert isinstance(outcome, Drop), outcome
    assert outcome.id == problem["id"]
    assert outcome.reason in REASONS
    return outcome.reason


def test_a_reference_made_of_functions_that_passes_becomes_a_program() -> None:
    program = program_of(problem_of())
    assert [one["name"] for one in program["functions"]] == ["total", "subtotal", "add_tax", "Note.text"]
    assert program["code"] == SOLUTION
    assert program["decomposed_by"] == "as-written"
    assert [one.name for one in functions(program["skeleton"])] == [
        one["name"] for one in program["functions"]
    ]
    assert "result" not in program["skeleton"]


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ("reference_fails_suite", problem_of(SOLUTION.replace("// 10", "// 9"))),
        ("reference_fails_suite", problem_of(SOLUTION + "import os\nos._exit(0)\n")),
        ("reference_fails_suite", problem_of(suite="def check(candidate): pass\n")),
        ("reference_fails_suite", problem_of(suite="def check(:\n")),
        ("syntax_error", problem_of(SOLUTION + ")")),
        ("syntax_error", problem_of("\0")),
        ("entry_point_missing", problem_of(entry="other")),
        ("entry_point_missing", problem_of(entry="Note")),
        ("too_few_functions", problem_of(TRIVIAL, "assert total(1) == 2", kind="assert")),
        ("reference_fails_suite", problem_of(ALONE.replace("// 10", "// 9"))),
        ("suite_passes_anything", problem_of(suite="def check(c):\n    c([1])\n    assert True\n")),
        (
            "suite_passes_anything",
            problem_of(suite="try:\n    assert total([1]) == 9\nexcept Exception: pass\n"),
        ),
        ("no_suite", problem_of(suite=None)),
        ("no_suite", problem_of(kind="stdin?")),
        ("no_suite", problem_of(entry_point=None)),
        ("unsupported_language", problem_of(language="Perl", kind="stdin")),
    ],
    ids=range(16),
)
def test_problem_is_dropped_with_its_reason(expected: str, problem: dict) -> None:
    assert reason(problem) == expected


def test_helpers_are_cut_out_of_a_reference_of_one_function() -> None:
    program = program_of(problem_of(ALONE))
    assert program["decomposed_by"] == "extracted-1"
    names = [one["name"] for one in program["functions"] if one["kind"] == "function"]
    assert len(names) >= 2
    assert names[-1] == "total" or "total" in names


def test_no_helper_is_cut_out_where_that_is_not_wanted() -> None:
    settings = config.DecomposeConfig(cpu_s=2, wall_s=20, extract=False)
    assert reason(problem_of(ALONE), settings) == "too_few_functions"


def test_one_function_is_enough_where_one_is_asked_for() -> None:
    settings = config.DecomposeConfig(cpu_s=2, wall_s=20, min_functions=1)
    program = program_of(problem_of(ALONE), settings)
    assert (program["decomposed_by"], program["code"]) == ("as-written", ALONE)


def test_another_published_solution_stands_in_for_one_that_fails() -> None:
    program = program_of(problem_of(SOLUTION.replace("// 10", "// 9"), references=["(", SOLUTION]))
    assert (program["code"], program["decomposed_by"]) == (SOLUTION, "as-written")


def test_no_more_published_solutions_are_tried_than_the_settings_say() -> None:
    problem = problem_of(SOLUTION.replace("// 10", "// 9"), references=["(", SOLUTION])
    assert reason(problem, config.DecomposeConfig(max_references=2)) == "reference_fails_suite"


def test_methods_of_class_solution_are_functions_of_a_program() -> None:
    methods = "".join(f"    def {name}(self, x):\n        return {body}\n" for name, body in METHODS.items())
    call = ProblemTest(kind="call", code=None, stdin=None, stdout=None, args="[3]", expected="8")
    program = program_of(problem_of(f"class Solution:\n{methods}", entry="total", tests=[call]))
    assert [one["name"] for one in program["functions"]] == ["Solution.total", "Solution.twice"]
    assert (program["decomposed_by"], program["suite_kind"]) == ("as-written", "calls")


def test_the_program_says_how_its_suite_runs() -> None:
    assert program_of(problem_of())["suite_kind"] == "split"
    sees = "from solution import Note\n\ndef check(c):\n    assert c([1]) == 1\n    Note().text()\n"
    assert program_of(problem_of(suite=sees))["suite_kind"] == "unittest"


def test_the_drop_tells_which_assertion_failed() -> None:
    outcome = decompose(problem_of(suite="def check(c):\n    assert c([]) == 1, 'empty basket'\n"), DECOMPOSE)
    assert isinstance(outcome, Drop)
    assert "empty basket" in (outcome.detail or "")


def test_too_many_functions_is_a_reason() -> None:
    assert reason(problem_of(), config.DecomposeConfig(max_functions=3)) == "too_many_functions"


def test_a_reference_that_does_not_end_is_dropped() -> None:
    endless = SOLUTION.replace("return result", "while True: pass")
    outcome = decompose(problem_of(endless), config.DecomposeConfig(cpu_s=1, wall_s=10))
    assert isinstance(outcome, Drop)
    assert outcome.reason == "reference_fails_suite"
    assert "limit" in (outcome.detail or "")


def test_a_byte_order_mark_is_taken_off() -> None:
    assert program_of(problem_of("\ufeff" + SOLUTION))["code"] == SOLUTION


def test_assertions_share_a_file_and_checks_stand_alone() -> None:
    kinds = [
        ("assert", "assert 1"),
        ("check", SUITE),
        ("assert", "assert 2"),
        ("stdin", None),
        ("unittest", "x"),
    ]
    tests = [piece_of(kind, code) for kind, code in kinds]
    assert suites(problem_of(tests=tests)) == ["assert 1\nassert 2\n", SUITE, "x"]


def test_every_file_of_a_suite_has_to_pass() -> None:
    codes = ["assert total([10, 20]) == 33", SUITE, "assert add_tax(5) == 7"]
    kinds = ["assert", "check", "unittest"]
    tests = [piece_of(kind, code) for kind, code in zip(kinds, codes, strict=True)]
    outcome = decompose(problem_of(tests=tests), DECOMPOSE)
    assert isinstance(outcome, Drop)
    assert (outcome.detail or "").startswith("golden/0: test 3 of 3: failed")


@pytest.mark.parametrize(
    "setting",
    [{"min_functions": 0}, {"cpu_s": 0.0}, {"memory_mb": 1}, {"workers": 0}, {"wall_s": -1.0}],
    ids=str,
)
def test_a_setting_out_of_range_is_refused_by_name(setting: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        config.DecomposeConfig(**setting)


def test_shares_of_samples_do_not_exceed_the_whole() -> None:
    with pytest.raises(ValueError, match="more than 1"):
        config.SampleConfig(variant_share=0.6, higher_order_share=0.6)
