"""Which problems become programs, and why others do not."""

from __future__ import annotations

import pytest
from golden import DECOMPOSE, SOLUTION, SUITE, problem_of, program_of

from decompose.functions import functions
from labelers.programs import config
from labelers.programs.decompose import decompose
from labelers.programs.reasons import REASONS
from labelers.programs.suites import suites
from schemas.records import ProblemTest
from schemas.stage import Drop


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
        ("too_few_functions", problem_of("def total(x): return x\nclass A:\n    def m(self): pass\n")),
        ("no_suite", problem_of(suite=None)),
        ("no_suite", problem_of(kind="stdin")),
        ("unsupported_language", problem_of(language="Java")),
    ],
    ids=range(12),
)
def test_problem_is_dropped_with_its_reason(expected: str, problem: dict) -> None:
    assert reason(problem) == expected


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
    tests = [test_of(kind, code) for kind, code in kinds]
    assert suites(problem_of(tests=tests)) == ["assert 1\nassert 2\n", SUITE, "x"]


def test_every_file_of_a_suite_has_to_pass() -> None:
    codes = ["assert total([10, 20]) == 33", SUITE, "assert add_tax(5) == 7"]
    kinds = ["assert", "check", "unittest"]
    tests = [test_of(kind, code) for kind, code in zip(kinds, codes, strict=True)]
    outcome = decompose(problem_of(tests=tests), DECOMPOSE)
    assert isinstance(outcome, Drop)
    assert (outcome.detail or "").startswith("file 3 of 3: failed")


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
