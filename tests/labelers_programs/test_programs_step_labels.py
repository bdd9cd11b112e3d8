"""Candidates whose labels are known by hand."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import resource
from collections.abc import Iterator
from typing import Any

import pytest
from golden import SOLUTION, SUITE, VERIFY, candidate_of, harvested, problem_of, program_of

from decompose.functions import functions
from labelers.programs import config, runs
from labelers.programs.reasons import STEP_REASONS
from labelers.programs.step_labels import Verifier, conflict_of
from labelers.programs.suites import prompt_of
from sandbox import STATUSES, Call
from schemas.declare import validate
from schemas.ids import split_of
from schemas.records import ProblemTest, StepLabeledCandidate

CUT = SOLUTION.index("def add_tax")
CANDIDATES = {
    "reference": SOLUTION,
    # Two faults that cancel: one too many, one too few.
    "compensating": SOLUTION.replace("return result", "return result + 1").replace(
        "return amount + amount // 10", "amount -= 1\n    return amount + amount // 10"
    ),
    "wrong helper": SOLUTION.replace("// 10", "// 5"),
    "wrong entry": SOLUTION.replace("add_tax(subtotal(prices))", "subtotal(prices)"),
    # Every function is right; what the module does after them is not.
    "broken outside": SOLUTION + "\nadd_tax = abs\n",
    "leaves": SOLUTION + "\nraise SystemExit(0)\n",
    "inlined": SOLUTION.replace("add_tax(subtotal(prices))", "int(subtotal(prices) * 1.1 + 1e-9)").replace(
        "def add_tax", "def tax_added"
    ),
    "no program": SOLUTION.replace("def add_tax(amount):", "def add_tax(amount:"),
    "assigned": SOLUTION.replace("def add_tax", "def added") + "\n\nadd_tax = added\n",
    "too deep": SOLUTION + f"\nNUMBER = {' + '.join(['1'] * 900)}\n",
    "endless": SOLUTION.replace("    result = 0\n", "    while True: pass\n"),
    "exits": SOLUTION.replace("    result = 0\n", "    import os; os._exit(0)\n"),
    "equal to all": SOLUTION.replace("    result = 0\n", "    return Equal()\n")
    + "\nclass Equal:\n    def __eq__(self, other): return True\n    def __add__(self, other): return self\n"
    + "    def __floordiv__(self, other): return self\n",
    "own helper": "from functools import reduce as fold\n"
    + SOLUTION.replace("amount + amount // 10", "fold(int.__add__, [amount, tenth(amount)])")
    + "\ndef tenth(amount):\n    return amount // 10\n",
    "deep helper": "TEN = " + "+".join(["1"] * 400) + "\n" + SOLUTION.replace("// 10", "// (TEN // 40)"),
    "moved": "# A comment: ä\n" + SOLUTION[CUT:] + SOLUTION[:CUT],
}  # fmt: skip


@pytest.fixture(scope="module")
def labelled() -> dict[str, StepLabeledCandidate]:
    problem = problem_of()
    program = program_of(problem)
    verifier = Verifier(program, problem, harvested(problem, program), VERIFY, 0)
    candidates = [candidate_of(program, completion) for completion in CANDIDATES.values()]
    found = [outcome.records[0] for outcome in verifier.label(candidates)]
    return dict(zip(CANDIDATES, found, strict=True))


ALL = {"total": 1, "subtotal": 1, "add_tax": 1, "Note.text": None}


@pytest.mark.parametrize(
    ("name", "outcome", "labels", "conflict"),
    [
        ("reference", 1, {}, "none"),
        ("compensating", 1, {"subtotal": 0, "add_tax": 0}, "o1_z0"),
        ("wrong helper", 0, {"add_tax": 0}, "none"),
        ("wrong entry", 0, {"total": 0}, "none"),
        ("broken outside", 0, {}, "o0_allz1"),
        ("leaves", 0, {}, "o0_allz1"),
        ("inlined", 1, {"add_tax": 0}, "o1_z0"),
        ("no program", 0, {"total": 0, "subtotal": 0, "add_tax": 0}, "none"),
        ("assigned", 1, {"add_tax": None}, "none"),
        ("too deep", 1, {"total": None, "subtotal": None, "add_tax": None}, "none"),
        ("endless", 0, {"subtotal": 0}, "none"),
        ("exits", 0, {"subtotal": 0}, "none"),
        ("equal to all", 0, {"subtotal": 0}, "none"),
        ("own helper", 1, {}, "none"),
        ("deep helper", 1, {"add_tax": None}, "none"),
        ("moved", 1, {}, "none"),
    ],
    ids=list(CANDIDATES),
)
def test_labels_of(
    labelled: dict[str, StepLabeledCandidate], name: str, outcome: int, labels: dict[str, int], conflict: str
) -> None:
    found = labelled[name]
    assert {step.name: step.label for step in found.steps} == {**ALL, **labels}
    assert (found.outcome, found.conflict) == (outcome, conflict)


@pytest.mark.parametrize(
    ("name", "outcome", "function", "step"),
    [
        ("reference", "passed", "total", "passed"),
        ("reference", "passed", "Note.text", "no_tests"),
        ("wrong helper", "failed", "add_tax", "failed"),
        ("leaves", "exit", "total", "passed"),
        ("inlined", "passed", "add_tax", "missing"),
        ("deep helper", "passed", "add_tax", "not_grafted"),
        ("no program", "compile_error", "total", "syntax_error"),
        ("too deep", "passed", "total", "not_grafted"),
        ("assigned", "passed", "add_tax", "not_grafted"),
        ("endless", "cpu_limit", "subtotal", "cpu_limit"),
        ("exits", "exit", "subtotal", "exit"),
        ("equal to all", "unserializable", "subtotal", "unserializable"),
    ],
)
def test_reasons_of(
    labelled: dict[str, StepLabeledCandidate], name: str, outcome: str, function: str, step: str
) -> None:
    found = labelled[name]
    assert found.outcome_reason == outcome
    assert {one.name: one.reason for one in found.steps}[function] == step


def test_every_reason_is_a_known_one(labelled: dict[str, StepLabeledCandidate]) -> None:
    for found in labelled.values():
        assert found.outcome_reason in {"passed", *STATUSES}
        assert {step.reason for step in found.steps} <= {*STEP_REASONS, *STATUSES}


def test_every_row_fits_its_record(labelled: dict[str, StepLabeledCandidate]) -> None:
    for found in labelled.values():
        validate(StepLabeledCandidate, found)


@pytest.mark.parametrize("name", [name for name in CANDIDATES if name not in ("no program", "too deep")])
def test_spans_slice_the_completion_to_the_function(
    labelled: dict[str, StepLabeledCandidate], name: str
) -> None:
    found = labelled[name]
    data = found.completion.encode()
    for step in found.steps:
        text = data[step.start_byte : step.end_byte].decode()
        if step.reason == "missing" or (name == "assigned" and step.name == "add_tax"):
            assert text == ""
        else:
            (span,) = functions(text)
            assert span.name == step.name.rpartition(".")[2]
            assert (span.start_byte, span.end_byte) == (0, len(text.encode()))


def test_tests_are_counted_up_to_the_one_that_stopped_the_run(
    labelled: dict[str, StepLabeledCandidate],
) -> None:
    def counts(name: str, function: str) -> tuple[int, int]:
        (step,) = (one for one in labelled[name].steps if one.name == function)
        return step.tests_run, step.tests_passed

    run, passed = counts("reference", "subtotal")
    assert run == passed > 0
    assert counts("endless", "subtotal") == (1, 0)
    assert counts("inlined", "add_tax") == (0, 0)
    assert counts("reference", "Note.text") == (0, 0)


def test_all_candidates_of_a_problem_share_a_split_that_the_seed_gives(
    labelled: dict[str, StepLabeledCandidate],
) -> None:
    splits = {found.split for found in labelled.values()}
    assert splits == {split_of(0, labelled["reference"].problem_id, VERIFY.test_share)}


def test_the_row_says_what_isolated_it(labelled: dict[str, StepLabeledCandidate]) -> None:
    found = labelled["reference"]
    assert (found.isolation, found.trust) == ("zygote, isolation namespaces", "split")
    assert {step.name: step.trust for step in found.steps} == {
        **dict.fromkeys(ALL, "external"),
        "Note.text": "none",
    }
    assert found.limits.startswith("suite 1 s of processor, 10 s of wall, 512 MiB; ")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("reference", {}),
        ("compensating", {"subtotal": 0, "add_tax": 0}),
        ("wrong helper", {"total": 0, "add_tax": 0}),
        ("broken outside", {"total": 0, "add_tax": 0}),
        ("leaves", {"total": 0, "subtotal": 0, "add_tax": 0}),
        ("inlined", {"add_tax": 0}),
        ("assigned", {}),
        ("own helper", {}),
        ("deep helper", {}),
    ],
)
def test_labels_beside_its_own_functions_of(
    labelled: dict[str, StepLabeledCandidate], name: str, labels: dict[str, int]
) -> None:
    assert {step.name: step.own_label for step in labelled[name].steps} == {**ALL, **labels}


def test_the_first_failing_call_is_told(labelled: dict[str, StepLabeledCandidate]) -> None:
    told = {step.name: step.first_failure for step in labelled["wrong helper"].steps}
    assert told["subtotal"] is None
    assert re.fullmatch(r"add_tax\(-?\d+\): expected -?\d+, got -?\d+", told["add_tax"] or "")
    stopped = {step.name: step.first_failure for step in labelled["endless"].steps}
    assert (stopped["subtotal"] or "").endswith("got cpu_limit")


def relabelled(**settings: Any) -> StepLabeledCandidate:
    """The candidate in which two faults cancel, under other settings."""
    problem = problem_of()
    program = program_of(problem)
    changed = dataclasses.replace(VERIFY, **settings)
    tests = harvested(problem, program)
    judge = [{"total": 0, "subtotal": 1}]
    verifier = Verifier(program, problem, tests, changed, 0, {"total": 0.5}, lambda _: judge)
    (outcome,) = verifier.label([candidate_of(program, CANDIDATES["compensating"])])
    found: Any = outcome.records[0]
    return found


@pytest.mark.parametrize(
    ("settings", "labels", "conflict"),
    [
        ({"steps": "own"}, {"total": 1, "subtotal": 0, "add_tax": 0, "Note.text": None}, "o1_z0"),
        ({"steps": "judge", "judge": True}, {"total": 0, "subtotal": 1}, "o1_z0"),
        ({"steps": "none"}, {}, "none"),
        ({"conflicts": "mask"}, {}, "o1_z0"),
    ],
    ids=str,
)
def test_which_label_counts_is_a_setting(
    settings: dict[str, Any], labels: dict[str, int | None], conflict: str
) -> None:
    found = relabelled(**settings)
    assert {step.name: step.label for step in found.steps} == {**dict.fromkeys(ALL), **labels}
    assert found.conflict == conflict


def test_masked_rows_keep_what_was_executed() -> None:
    found = relabelled(conflicts="mask")
    assert {step.name: step.reference_label for step in found.steps} == {**ALL, "subtotal": 0, "add_tax": 0}


def test_outcome_alone_runs_no_function() -> None:
    found = relabelled(steps="none")
    assert {step.tests_run for step in found.steps} == {0}
    assert found.outcome == 1


def test_the_score_of_the_tests_stands_beside_the_label() -> None:
    assert {step.name: step.mutation_score for step in relabelled().steps}["total"] == 0.5


def test_equal_executions_are_made_once() -> None:
    problem = problem_of()
    program = program_of(problem)
    tests = harvested(problem, program)
    verifier = Verifier(program, problem, tests, VERIFY, 0)
    candidate = candidate_of(program, CANDIDATES["wrong helper"])
    (first,) = verifier.label([candidate])
    results = list(verifier.outcomes.values())
    (second,) = verifier.label([candidate_of(program, CANDIDATES["wrong helper"])])
    assert first == second
    assert len(results) == 1
    assert next(iter(verifier.outcomes.values())) is results[0]
    # Three functions beside the reference's others and beside its own; the wrong one's two runs are equal.
    assert len(verifier.labels) == 5


def test_the_prompt_holds_statement_and_skeleton(labelled: dict[str, StepLabeledCandidate]) -> None:
    prompt = labelled["reference"].prompt
    assert prompt.startswith("Write `total`.\n\n")
    assert prompt.endswith('class Note:\n    def text(self):\n        pass\n```\n')  # fmt: skip
    assert "result" not in prompt


def test_a_skeleton_with_a_fence_is_fenced_by_a_longer_one() -> None:
    program = {"skeleton": "'''\n````\n'''\n", "language": "Python"}
    assert "\n`````python\n'''\n````\n'''\n`````\n" in prompt_of(problem_of(), program)


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """A machine on which nothing can be started."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_failure_of_the_sandbox_is_never_a_zero() -> None:
    problem = problem_of()
    program = program_of(problem)
    verifier = Verifier(program, problem, harvested(problem, program), VERIFY, 0)
    with no_descriptors():
        (outcome,) = verifier.label([candidate_of(program, SOLUTION)])
    found: Any = outcome.records[0]
    assert (found.outcome, found.outcome_reason, found.conflict) == (None, "infra_error", "none")
    assert {step.label for step in found.steps} == {None}
    assert {step.reason for step in found.steps} == {"infra_error", "no_tests"}


def test_a_suite_that_never_asks_gives_no_outcome() -> None:
    problem = problem_of()
    program = program_of(problem)
    silent = {**problem, "tests": [{**problem["tests"][0], "code": "def check(candidate): pass\n"}]}
    (outcome,) = Verifier(program, silent, [], VERIFY, 0).label([candidate_of(program, SOLUTION)])
    found: Any = outcome.records[0]
    assert (found.outcome, found.outcome_reason) == (None, "invalid_suite")


def test_a_file_of_the_suite_that_fails_decides() -> None:
    problem = problem_of()
    program = program_of(problem)
    codes = ["def check(candidate): pass\n", SUITE, "assert total([]) == 1\n"]
    several = {**problem, "tests": [{**problem["tests"][0], "code": code} for code in codes]}
    (outcome,) = Verifier(program, several, [], VERIFY, 0).label([candidate_of(program, SOLUTION)])
    found: Any = outcome.records[0]
    assert (found.outcome, found.outcome_reason) == (0, "failed")


@pytest.mark.parametrize(
    ("outcome", "labels", "conflict"),
    [
        (1, [1, 0], "o1_z0"),
        (1, [1, None], "none"),
        (0, [1, 1], "o0_allz1"),
        (0, [1, None], "o0_allz1"),
        (0, [1, 0], "none"),
        (0, [None], "none"),
        (1, [], "none"),
        (None, [0], "none"),
        (None, [1], "none"),
    ],
)
def test_conflict(outcome: int | None, labels: list[int | None], conflict: str) -> None:
    assert conflict_of(outcome, labels) == conflict


@pytest.mark.parametrize("every", [True, False])
def test_selected_tests_alone_are_used_when_asked_for(every: bool) -> None:
    problem = problem_of()
    program = program_of(problem)
    tests = [{**test, "selected": test["function"] == "add_tax"} for test in harvested(problem, program)]
    settings = config.VerifyConfig(all_tests=every, cpu_s=1)
    (outcome,) = Verifier(program, problem, tests, settings, 0).label([candidate_of(program, SOLUTION)])
    found: Any = outcome.records[0]
    used = len(tests) if every else sum(test["selected"] for test in tests)
    assert sum(step.tests_run for step in found.steps) == used


READS = """\
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


def lcm(a, b):
    return a // gcd(a, b) * b


for _ in range(int(input())):
    a, b = map(int, input().split())
    print(lcm(a, b))
"""


def test_functions_of_a_program_that_reads_its_input_are_labelled() -> None:
    inputs = [("1\n4 6\n", "12\n"), ("2\n7 5\n9 6\n", "35\n18\n")]
    tests = [
        ProblemTest(kind="stdin", code=None, stdin=given, stdout=printed, args=None, expected=None)
        for given, printed in inputs
    ]
    problem = problem_of(READS, tests=tests, entry_point=None)
    program = program_of(problem)
    verifier = Verifier(program, problem, harvested(problem, program), VERIFY, 0)
    faulty = READS.replace("a // gcd", "b // gcd")
    unread = READS.replace("int(input())", "3 * int(input())")
    found: Any = [
        outcome.records[0]
        for outcome in verifier.label([candidate_of(program, code) for code in (READS, faulty, unread)])
    ]
    assert [row.outcome for row in found] == [1, 0, 0]
    assert [[step.label for step in row.steps] for row in found] == [[1, 1], [1, 0], [1, 1]]
    assert found[2].conflict == "o0_allz1"


SORTS = """\
def ranked(scores):
    order(scores)
    return scores[0], len(scores)


def order(scores):
    scores.sort(reverse=True)
    return None
"""


def test_functions_that_change_their_arguments_are_labelled_by_what_they_leave() -> None:
    suite = "def check(c):\n    assert c([1, 3, 2]) == (3, 3)\n    assert c([5, 4, 9]) == (9, 3)\n"
    problem = problem_of(SORTS, suite, entry="ranked")
    program = program_of(problem)
    tests = harvested(problem, program)
    assert {test["function"] for test in tests} == {"ranked", "order"}
    verifier = Verifier(program, problem, tests, VERIFY, 0)
    unsorted = SORTS.replace("scores.sort(reverse=True)", "sorted(scores, reverse=True)")
    upward = SORTS.replace("scores.sort(reverse=True)", "scores.sort()")
    found: Any = [
        keep.records[0]
        for keep in verifier.label([candidate_of(program, one) for one in (SORTS, unsorted, upward)])
    ]
    labels = [{step.name: (step.reference_label, step.own_label) for step in row.steps} for row in found]
    assert labels[0] == {"ranked": (1, 1), "order": (1, 1)}
    assert labels[1] == labels[2] == {"ranked": (1, 0), "order": (0, 0)}
    told = {step.name: step.first_failure for step in found[2].steps}["order"]
    assert " and leaves [" in told


LATE = SOLUTION.replace("amount // 10", "(amount // 10 if amount < 777 else 0)")


@pytest.mark.parametrize(("doubtful", "label"), [("null", None), ("keep", 0)])
def test_a_zero_of_made_inputs_alone_is_in_doubt_where_the_suite_passes(
    doubtful: str, label: int | None
) -> None:
    problem = problem_of()
    program = program_of(problem)
    changed = dataclasses.replace(VERIFY, doubtful=doubtful)
    call, expected = runs.call_text(Call((1000,))), runs.to_text(("value", 1100))
    made = {
        "function": "add_tax",
        "call": call,
        "expected": expected,
        "source": "mutated",
        "selected": True,
    }
    verifier = Verifier(program, problem, [*harvested(problem, program), made], changed, 0)
    (outcome,) = verifier.label([candidate_of(program, LATE)])
    found: Any = outcome.records[0]
    (step,) = (one for one in found.steps if one.name == "add_tax")
    assert (found.outcome, found.conflict) == (1, "o1_z0")
    assert (step.reference_label, step.suite_label, step.label) == (0, 1, label)


def test_numbers_are_equal_as_a_suite_has_them_equal() -> None:
    problem = problem_of()
    program = program_of(problem)
    verifier = Verifier(program, problem, harvested(problem, program), VERIFY, 0)
    floats = SOLUTION.replace("amount + amount // 10", "float(amount + amount // 10)")
    (outcome,) = verifier.label([candidate_of(program, floats)])
    found: Any = outcome.records[0]
    assert {step.name: step.label for step in found.steps} == ALL
