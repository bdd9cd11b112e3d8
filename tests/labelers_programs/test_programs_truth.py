"""One known bug in one known function of an example program: its label is 0, and all others are 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden import candidate_of, harvested, problem_of, program_of

from labelers.programs import config
from labelers.programs.step_labels import Verifier
from schemas.records import StepLabeledCandidate

PROBLEMS = Path(__file__).parents[2] / "examples" / "problems.jsonl"
FEWER = config.TestsConfig(max_mutants=12, generated=30, rounds=2)
ENTRY, FUNCTIONS = "stock_report", ("stock_report", "parse_event", "add_lot", "take_oldest")
# function, what stands there once, the bug, whether the suite notices it
BUGS = {
    "accumulator overwritten": ("take_oldest", "cost += held * price", "cost = held * price", True),
    "one lot too few": ("take_oldest", "lots[index + 1 :]", "lots[index + 2 :]", True),
    "wrong variable": ("take_oldest", "count -= held", "count -= price", True),
    "wrong comparison": ("add_lot", "lots[-1][1] == price", "lots[-1][1] >= price", True),
    "forgets what was there": ("add_lot", "lots[-1][0] + count", "count", True),
    "swapped result": ("parse_event", "int(count), int(price)\n", "int(price), int(count)\n", True),
    "starts again": ("stock_report", "profits.setdefault(product, 0)", "profits[product] = 0", True),
    "shown by no suite": ("take_oldest", "held > count:", "held > count or held == 977:", False),
}


@pytest.fixture(scope="module")
def labelled() -> dict[str, StepLabeledCandidate]:
    rows = map(json.loads, PROBLEMS.read_text(encoding="utf-8").splitlines())
    row = next(row for row in rows if row["entry_point"] == ENTRY)
    problem = problem_of(row["prompt"] + row["canonical_solution"], row["test"], ENTRY)
    program = program_of(problem)
    verifier = Verifier(program, problem, harvested(problem, program, FEWER), config.VerifyConfig(), 0)
    codes = []
    for _, old, new, _ in BUGS.values():
        assert program["code"].count(old) == 1, old
        codes.append(program["code"].replace(old, new))
    found = [outcome.records[0] for outcome in verifier.label([candidate_of(program, one) for one in codes])]
    return dict(zip(BUGS, found, strict=True))


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug[3]])
def test_only_the_function_with_the_bug_gets_0(labelled: dict[str, StepLabeledCandidate], name: str) -> None:
    function = BUGS[name][0]
    labels = {step.name: step.reference_label for step in labelled[name].steps}
    assert labels == {one: int(one != function) for one in FUNCTIONS}
    assert labelled[name].outcome == 0
    assert labelled[name].conflict == "none"


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug[3]])
def test_beside_its_own_functions_those_that_do_not_call_it_keep_1(
    labelled: dict[str, StepLabeledCandidate], name: str
) -> None:
    function = BUGS[name][0]
    labels = {step.name: step.own_label for step in labelled[name].steps if step.name != ENTRY}
    # None of them calls another, and the entry point calls all.
    assert labels == {one: int(one != function) for one in FUNCTIONS if one != ENTRY}


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug[3]])
def test_the_first_failure_is_a_call_of_the_function_with_the_bug(
    labelled: dict[str, StepLabeledCandidate], name: str
) -> None:
    (step,) = [step for step in labelled[name].steps if step.name == BUGS[name][0]]
    assert step.first_failure is not None
    assert step.first_failure.startswith(f"{BUGS[name][0]}(")
    assert step.tests_passed < step.tests_run


def test_a_bug_that_no_test_meets_leaves_every_label_1(labelled: dict[str, StepLabeledCandidate]) -> None:
    found = labelled["shown by no suite"]
    assert {step.reference_label for step in found.steps} == {1}
    assert (found.outcome, found.conflict) == (1, "none")
