"""Suites of assertions: apart from the candidate where that works, beside it and marked where it does not."""

import pytest

from sandbox import Job, Result, Sandbox, judge_suite, kind_for
from sandbox.suites import in_one_process

RIGHT = "def f(x):\n    return x + 1"
ODD = "class Odd:\n    def __init__(self, x): self.x = x\ndef f(x):\n    return Odd(x + 1)"


@pytest.fixture(scope="module")
def box() -> Sandbox:
    return Sandbox()


def suite(source: str, check: str, **options: object) -> Job:
    files = {"solution.py": source, "test.py": f"def check(candidate):\n    {check}\n"}
    return Job("split", files, entry="f", **options)  # type: ignore[arg-type]


def test_a_suite_whose_values_can_travel_is_apart_from_the_candidate(box: Sandbox) -> None:
    kind, result = kind_for(box, suite(RIGHT, "assert candidate(1) == 2"))
    assert (kind, result.trust) == ("split", "split")


@pytest.mark.parametrize(
    ("source", "check"),
    [
        pytest.param(ODD, "assert candidate(1).x == 2", id="result"),
        pytest.param("def f(g):\n    return g(1) + 1", "assert candidate(lambda x: x) == 2", id="argument"),
    ],
)
def test_a_suite_whose_values_cannot_travel_is_in_one_process_and_says_so(
    box: Sandbox, source: str, check: str
) -> None:
    kind, result = kind_for(box, suite(source, check))
    assert (kind, result.trust) == ("unittest", "inproc")


def test_a_reference_that_fails_its_suite_has_no_kind(box: Sandbox) -> None:
    kind, result = kind_for(box, suite(RIGHT, "assert candidate(1) == 3"))
    assert (kind, result.status) == (None, "failed")


def test_a_reference_that_fails_beside_its_suite_too_has_no_kind(box: Sandbox) -> None:
    kind, result = kind_for(box, suite(ODD, "assert candidate(1).x == 3"))
    assert (kind, result.status, result.trust) == (None, "failed", "inproc")


def test_a_candidate_cannot_choose_to_sit_beside_its_tests(box: Sandbox) -> None:
    """The kind is the reference's: an object equal to everything does not travel, and that is a failure."""
    liar = "class Yes:\n    __eq__ = lambda s, o: True\ndef f(x):\n    return Yes()"
    kind, _ = kind_for(box, suite(RIGHT, "assert candidate(1) == 2"))
    assert kind == "split"
    judged = judge_suite(box.run(suite(liar, "assert candidate(1) == 2")))
    assert judged.passed is False
    assert "unserializable" in judged.reason


def test_a_pass_counts_the_calls_that_were_checked(box: Sandbox) -> None:
    judged = judge_suite(box.run(suite(RIGHT, "assert candidate(1) == 2 and candidate(2) == 3")))
    assert (judged.passed, judged.checked) == (True, 2)


def test_a_suite_that_checks_nothing_is_no_evidence(box: Sandbox) -> None:
    assert judge_suite(box.run(suite(RIGHT, "pass"))).passed is None


def test_our_failure_is_no_evidence() -> None:
    assert judge_suite(Result("infra_error")).passed is None


def test_only_the_result_of_a_suite_is_judged_as_one(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="trust"):
        judge_suite(Result("ok", trust="external"))
    with pytest.raises(ValueError, match="'split'"):
        kind_for(box, in_one_process(suite(RIGHT, "pass")))
