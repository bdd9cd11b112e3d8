"""Judging: a pass is something that was seen. Each defect of a known grader has a test here."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import STATUSES, Call, EncodeError, ErrorRecord, Job, Limits, Result, Sandbox
from sandbox.compare import Rules
from sandbox.judge import (
    AnyOf,
    Equals,
    Failure,
    Judgement,
    Raises,
    calibrate,
    combine,
    judge_calls,
    judge_output,
    judge_script,
    sound_checks,
)

NO_EVIDENCE = ("infra_error", "invalid_suite")
TWO = [Equals(1), Equals(2)]


@pytest.fixture(scope="module")
def box() -> Sandbox:
    return Sandbox()


def called(*outputs: object, status: str = "ok", detail: str = "") -> Result:
    return Result(status, outputs=list(outputs), detail=detail)


def printed(text: str, **fields: object) -> Result:
    return Result("ok", stdout=text, exit_code=0, **fields)


# -- calls


def test_right_values_pass_and_are_counted() -> None:
    judged = judge_calls(called(1, 2), TWO)
    assert (judged.passed, judged.checked, judged.failures) == (True, 2, [])


def test_a_wrong_value_fails_and_says_where() -> None:
    judged = judge_calls(called(1, 3), TWO)
    assert judged.passed is False
    assert judged.checked == 2
    assert judged.failures == [Failure(1, Equals(2), 3, "expected 2, got 3")]
    assert "1 of 2 checks failed; check 1: expected 2, got 3" in judged.reason


@pytest.mark.parametrize("status", STATUSES)
def test_nothing_expected_is_never_a_pass(status: str) -> None:
    for result in (called(status=status), called(1, status=status)):
        judged = judge_calls(result, [])
        assert judged.passed is None
        assert judged.checked == 0
        assert "no expectations" in judged.reason


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_no_other_end_of_a_program_passes_though_all_values_are_right(status: str) -> None:
    judged = judge_calls(called(1, 2, status=status, detail="why"), TWO)
    assert judged.passed is (None if status in NO_EVIDENCE else False)
    assert status in judged.reason
    assert "why" in judged.reason


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
@pytest.mark.parametrize("expected", [Raises(), Raises("TimeoutError"), AnyOf([None, Raises()])])
def test_a_program_that_was_stopped_does_not_meet_an_expected_error(status: str, expected: object) -> None:
    judged = judge_calls(called(status=status), [expected])
    assert judged.passed is (None if status in NO_EVIDENCE else False)


def test_checks_that_were_not_reported_are_failures() -> None:
    judged = judge_calls(called(1, status="timeout", detail="wall clock limit of 1 s"), [*TWO, Equals(3)])
    assert judged.passed is False
    assert judged.checked == 1
    assert [failure.index for failure in judged.failures] == [1, 2]
    assert all("timeout" in failure.why for failure in judged.failures)
    assert judged.reason == "timeout: wall clock limit of 1 s; 1 of 3 outcomes were reported"


@pytest.mark.parametrize("outputs", [(), (1,), (1, 2, 3)])
def test_numbers_of_calls_and_expectations_that_differ_are_no_evidence(outputs: tuple[int, ...]) -> None:
    judged = judge_calls(called(*outputs), TWO)
    assert judged.passed is None
    assert f"{len(outputs)} calls were made and 2 outcomes expected" in judged.reason


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (1, True),
        (True, 1),
        (0.3, 0.1 + 0.2),
        ((1, 2), [1, 2]),
        (1, 1.0),
        (None, 0),
        ("", None),
        ([1, 2, 3], [1, 2]),
        ([1, 2], [1, 2, 3]),
        ([], [[]]),
    ],
)
def test_values_are_compared_strictly_unless_rules_say_otherwise(expected: object, got: object) -> None:
    assert judge_calls(called(got), [Equals(expected)]).passed is False


def test_rules_are_what_makes_values_alike() -> None:
    assert judge_calls(called(0.1 + 0.2), [Equals(0.3)], Rules(rel_tol=1e-9)).passed is True
    assert judge_calls(called([1, 2]), [Equals((1, 2.0))], Rules.for_language("javascript")).passed is True


@pytest.mark.parametrize("got", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_answers_only_where_they_are_expected(got: float) -> None:
    assert judge_calls(called(got), [Equals(got)]).passed is True
    assert judge_calls(called(got), [Equals(1e308)], Rules(rel_tol=0.9, abs_tol=1e300)).passed is False


def test_each_of_several_answers_is_accepted_and_no_other() -> None:
    expected = [AnyOf([[0, 1], [1, 0], Raises("LookupError")])]
    assert judge_calls(called([1, 0]), expected).passed is True
    assert judge_calls(called(ErrorRecord("LookupError", "")), expected).passed is True
    judged = judge_calls(called([2, 0]), expected)
    assert judged.passed is False
    assert judged.failures[0].why == "none of 3 answers; the first: expected [0, 1], got [2, 0]"


def test_an_expected_error_is_met_by_its_own_type_only() -> None:
    error = ErrorRecord("ValueError", "whatever")
    assert judge_calls(called(error), [Raises("ValueError")]).passed is True
    assert judge_calls(called(error), [Raises()]).passed is True
    for other in (Raises("KeyError"), Raises("own.ValueError"), Equals(None), Equals("ValueError")):
        assert judge_calls(called(error), [other]).passed is False
    # A class of the program's own that has a builtin's name is told apart by the harness.
    assert judge_calls(called(ErrorRecord("own.ValueError", "")), [Raises("ValueError")]).passed is False


def test_a_value_does_not_stand_for_an_error() -> None:
    judged = judge_calls(called(None), [Raises("ValueError")])
    assert judged.failures[0].why == "returned None instead of raising ValueError"
    assert judge_calls(called("ValueError"), [Raises()]).passed is False


@pytest.mark.parametrize("name", ["MemoryError", "RecursionError", "SystemExit", "NotImplementedError"])
def test_work_that_was_not_done_is_an_expected_error_only_by_name(name: str) -> None:
    assert judge_calls(called(ErrorRecord(name, "")), [Raises()]).passed is False
    assert judge_calls(called(ErrorRecord(name, "")), [Raises(name)]).passed is True


def test_a_value_that_could_not_be_sent_meets_nothing() -> None:
    record = ErrorRecord("Evil", "a value of type Evil, which has no encoding", raised=False)
    for expected in (Raises(), Raises("Evil"), Equals(None)):
        judged = judge_calls(called(record, status="unserializable"), [expected])
        assert judged.passed is False
        assert "cannot be sent" in judged.failures[0].why


@pytest.mark.parametrize("value", [object(), ValueError("x"), ErrorRecord("T", ""), lambda: 1, [object()]])
def test_a_value_that_no_program_could_send_is_refused_as_an_expectation(value: object) -> None:
    with pytest.raises(EncodeError):
        Equals(value)
    with pytest.raises(EncodeError):
        AnyOf([1, value])


def test_expectations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="an answer that is accepted"):
        AnyOf([])
    with pytest.raises(TypeError, match="not str"):
        AnyOf("ab")
    for name in (ValueError, ""):
        with pytest.raises(TypeError, match="the name of a type"):
            Raises(name)
    with pytest.raises(TypeError, match="expectation 1 is of type int: wrap a value in Equals"):
        judge_calls(called(1, 2), [Equals(1), 2])


def test_a_judgement_has_no_truth_value() -> None:
    for passed in (True, False, None):
        with pytest.raises(TypeError, match="passed"):
            bool(Judgement(passed, checked=1))


def test_a_pass_without_a_check_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="a pass needs"):
        Judgement(True)
    with pytest.raises(ValueError, match="a pass needs"):
        Judgement(True, 2, [Failure(0, 1, 2, "")])


statuses = st.sampled_from(STATUSES)
errors = [ErrorRecord("ValueError", ""), ErrorRecord("T", "", raised=False)]
outcomes = st.sampled_from([1, 2, True, None, *errors])
expectations = st.sampled_from([Equals(1), Equals(2), Raises(), Raises("ValueError"), AnyOf([1, None])])


@settings(deadline=None, max_examples=300)
@given(statuses, st.lists(outcomes, max_size=4), st.lists(expectations, max_size=4))
def test_a_pass_means_that_every_check_was_made_and_met(
    status: str, outputs: list[object], expected: list[object]
) -> None:
    judged = judge_calls(called(*outputs, status=status), expected)
    if judged.passed is True:
        assert status == "ok"
        assert judged.checked == len(expected) == len(outputs) > 0
        for expectation, got in zip(expected, outputs, strict=True):
            assert judge_calls(called(got), [expectation]).passed is True
    if judged.passed is False:
        assert status not in NO_EVIDENCE
        assert judged.failures or status != "ok"
    assert judged.checked <= len(expected)


def test_checks_that_the_reference_fails_are_left_out() -> None:
    expected = [Equals(1), Equals(99), Raises("KeyError"), Equals(4)]
    reference = called(1, 2, ErrorRecord("KeyError", ""), 4)
    sound = sound_checks(reference, expected)
    assert sound == [0, 2, 3]
    right = called(*(reference.outputs[index] for index in sound))
    assert judge_calls(right, [expected[index] for index in sound]).passed is True


def test_a_reference_that_did_not_run_makes_no_check_sound() -> None:
    with pytest.raises(ValueError, match="infra_error: no launcher"):
        sound_checks(called(status="infra_error", detail="no launcher"), TWO)
    with pytest.raises(ValueError, match="says nothing"):
        sound_checks(called(1, 2, 3), TWO)
    assert sound_checks(called(1, status="timeout"), TWO) == [0]


@pytest.mark.parametrize(
    ("source", "passed"),
    [
        ("def f(x): return x + 1", True),
        ("def f(x): return x", False),
        ("import sys\nsys.exit(0)", False),
        ("import os\ndef f(x): os._exit(0)", False),
        ("class A:\n    def __eq__(s, o): return True\ndef f(x): return A()", False),
        (
            "class I(int):\n    def __eq__(s, o): return True\ndef f(x): return I(0)",
            False,
        ),
        ("def f(x):\n    while True: pass", False),
        ("def f(x): raise SystemExit(0)", False),
        ("def f(x): return True if x == 0 else x + 1", False),
        ("import os, sys\nprint('PASSED')\ndef f(x): print('ok'); os._exit(0)", False),
        ("def f(x): return", False),
        ("def g(x): return x + 1", False),
        ("def f(x) return", False),
        ("", False),
        ("import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return x", False),
        ("import os\ndef f(x):\n    for d in range(3, 9): os.write(d, b'\\xff')\n    return x + 1", False),
    ],
    ids=[
        "right",
        "wrong",
        "exit at import",
        "exit in call",
        "always equal",
        "int always equal",
        "endless",
        "SystemExit",
        "True for 1",
        "success marker",
        "nothing returned",
        "other name",
        "syntax",
        "empty",
        "exit handler",
        "bytes on every descriptor",
    ],
)
def test_programs_that_fool_graders_are_judged_by_what_they_return(
    box: Sandbox, source: str, passed: bool
) -> None:
    limits = Limits(wall_s=3, cpu_s=1)
    job = Job("calls", {"solution.py": source}, "f", [Call((0,)), Call((4,))], limits=limits)
    result = box.run(job)
    assert judge_calls(result, [Equals(1), Equals(5)]).passed is passed


# -- outputs


@pytest.mark.parametrize("mode", ["exact", "lines", "tokens"])
def test_the_expected_output_is_right_in_every_mode(mode: str) -> None:
    for text in ("1 2\n3\n", "", "\n", "a\u00a0b", "nan inf"):
        assert judge_output(text, text, mode).passed is True


@pytest.mark.parametrize("mode", ["exact", "lines", "tokens"])
@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("1\n", "1\n2\n3\n"),
        ("1\n2\n3\n4\n", "1\n2\n3\n"),
        ("", "\n1\n"),
        ("", "1"),
        ("1", ""),
        ("0\n1\n2", "1\n2"),
        ("1\n3\n2", "1\n2\n3"),
        ("12", "1 2"),
        ("a\u00a0b", "a b"),
        ("1.0", "1"),
        ("True", "1"),
        ("yes", "YES"),
    ],
)
def test_missing_extra_and_other_parts_fail_in_every_mode(mode: str, got: str, expected: str) -> None:
    judged = judge_output(got, expected, mode)
    assert judged.passed is False
    assert judged.checked == 1
    assert judged.failures[0].why


@pytest.mark.parametrize(
    ("got", "expected", "modes"),
    [
        ("1 \n2\t\r\n", "1\n2", {"lines", "tokens"}),
        ("1\n\n\n", "1", {"lines", "tokens"}),
        ("", "\n", {"lines", "tokens"}),
        ("\n \n", "", {"lines", "tokens"}),
        (" 1", "1", {"tokens"}),
        ("1  2", "1 2", {"tokens"}),
        ("1\n2", "1 2", {"tokens"}),
        ("\n1", "1", {"tokens"}),
    ],
)
def test_blanks_count_as_each_mode_says(got: str, expected: str, modes: set[str]) -> None:
    for mode in ("exact", "lines", "tokens"):
        assert judge_output(got, expected, mode).passed is (mode in modes)


def test_the_first_difference_is_said() -> None:
    assert judge_output("1\n2\n", "1\n2\n3\n").reason == "line 3 is missing: expected '3'"
    assert judge_output("1\n2\n3", "1\n2").reason == "line 3 is one too many: '3'"
    assert judge_output("1\nx", "1\n2").reason == "line 2: expected '2', got 'x'"
    assert judge_output("1 x", "1 2", "tokens").reason == "token 2: expected '2', got 'x'"
    assert judge_output("1", "1\n", "exact").reason == "line 2 is missing: expected ''"


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("0.30000000000000004", "0.3"),
        ("3.0000001", "3"),
        ("3", "3.0000001"),
        ("1e3", "1000.0"),
        ("-.5", "-0.5"),
        ("+1.", "1.0"),
    ],
)
def test_numbers_may_be_close_where_a_tolerance_is_given(got: str, expected: str) -> None:
    assert judge_output(got, expected, "tokens").passed is False
    assert judge_output(f"x {got}", f"x {expected}", "tokens", abs_tol=1e-6).passed is True


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("1000000001", "1000000000"),
        ("011", "11"),
        ("nan", "1.0"),
        ("nan", "NaN"),
        ("inf", "1e308"),
        ("inf", "Infinity"),
        ("1e999", "1e998"),
        ("1e999", "inf"),
        ("1_0.0", "10.0"),
        ("\u0661.0", "1.0"),
        ("0x1p0", "1.0"),
        ("1.0f", "1.0"),
        ("1,5", "1.5"),
        ("1.0 1.0", "1.0"),
        ("1.0", "1.0 1.0"),
        ("-1.0", "1.0"),
    ],
)
def test_a_tolerance_is_for_finite_numbers_that_are_no_integers(got: str, expected: str) -> None:
    assert judge_output(got, expected, "tokens", rel_tol=0.1, abs_tol=0.1).passed is False


def test_endless_digits_do_no_harm() -> None:
    digits = "1" * 100_000
    assert judge_output(digits, digits, "tokens", rel_tol=0.1).passed is True
    assert judge_output(digits, f"{digits}.5", "tokens", rel_tol=0.1).passed is False
    assert judge_output(digits, "1", "tokens", rel_tol=0.1).passed is False


@pytest.mark.parametrize("mode", ["exact", "lines", "tokens"])
def test_cut_output_never_passes(mode: str) -> None:
    judged = judge_output("1\n", "1\n", mode, truncated=True)
    assert judged.passed is False
    assert "cut" in judged.reason


def test_one_of_several_outputs_is_enough() -> None:
    assert judge_output("2 1", ["1 2", "2 1"]).passed is True
    judged = judge_output("3", ["1 2", "2 1"])
    assert judged.passed is False
    assert judged.reason.startswith("none of 2 outputs; the first: line 1: expected '1 2'")


def test_no_expected_output_is_no_evidence() -> None:
    assert judge_output("", []).passed is None
    assert judge_output("anything", ()).passed is None


def test_an_expected_output_that_was_not_decoded_is_no_evidence() -> None:
    judged = judge_output("\ufffd", "\ufffd")
    assert judged.passed is None
    assert "U+FFFD" in judged.reason


def test_what_is_no_text_is_refused() -> None:
    for got, expected in ((b"1", "1"), ("1", b"1"), ("1", [b"1"]), ("1", 1), (None, "1")):
        with pytest.raises(TypeError):
            judge_output(got, expected)
    with pytest.raises(ValueError, match="no mode 'line'"):
        judge_output("1", "1", "line")
    with pytest.raises(ValueError, match="in mode 'tokens' only"):
        judge_output("1", "1", "lines", abs_tol=1e-6)
    with pytest.raises(ValueError, match="tolerances"):
        judge_output("1", "1", "tokens", abs_tol=math.nan)


texts = st.text(st.sampled_from("ab1. \n\t"), max_size=12)


@settings(deadline=None, max_examples=300)
@given(texts, texts)
def test_each_mode_accepts_all_that_a_stricter_one_does(got: str, expected: str) -> None:
    passed = [judge_output(got, expected, mode).passed for mode in ("exact", "lines", "tokens")]
    assert sorted(passed) == passed
    assert passed[0] is (got == expected)
    assert passed[2] is (got.split() == expected.split())
    assert judge_output(expected, got, "lines").passed is passed[1]


@settings(deadline=None, max_examples=100)
@given(*[st.lists(st.sampled_from(["a", "b", ""]), max_size=5)] * 2)
def test_no_part_of_an_answer_passes_for_the_whole(lines: list[str], more: list[str]) -> None:
    whole = [*lines, "x", *more]
    for mode in ("exact", "lines", "tokens"):
        assert judge_output("\n".join(lines), "\n".join(whole), mode).passed is False
        assert judge_output("\n".join(whole), "\n".join(lines), mode).passed is False


# -- scripts


def test_a_script_passes_by_its_output() -> None:
    assert judge_script(printed("3\n"), "3").passed is True
    assert judge_script(printed("4\n"), "3").passed is False
    assert judge_script(printed("2.0000001"), "2.0", "tokens", abs_tol=1e-6).passed is True


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_no_other_end_of_a_script_passes_though_its_output_is_right(status: str) -> None:
    judged = judge_script(Result(status, stdout="3\n", detail="why"), "3")
    assert judged.passed is (None if status in NO_EVIDENCE else False)
    assert judged.reason == f"{status}: why"


def test_a_script_whose_output_was_cut_does_not_pass() -> None:
    assert judge_script(printed("3\n", truncated=True), "3").passed is False


def test_a_script_without_an_expected_output_is_not_judged() -> None:
    assert judge_script(Result("timeout"), []).passed is None


@pytest.mark.parametrize(
    ("source", "passed"),
    [
        ("print(sum(map(int, input().split())))", True),
        ("print(3); raise ValueError", False),
        ("print(3); import sys; sys.exit(1)", False),
        ("print(3); import os, sys; sys.stdout.flush(); os._exit(9)", False),
        ("", False),
        ("pass", False),
        ("print('3\\n3')", False),
        ("import sys; sys.stdout.buffer.write(b'3\\xff')", False),
        ("print(3); print('x' * 10**6)", False),
        ("print(3)\nwhile True: pass", False),
    ],
)
def test_a_real_script_is_judged_by_status_and_output(box: Sandbox, source: str, passed: bool) -> None:
    job = Job("script", {"main.py": source}, stdin="1 2\n", limits=Limits(wall_s=3, cpu_s=1))
    assert judge_script(box.run(job), "3").passed is passed


# -- several runs

PASSED, FAILED = Judgement(True, 2, reason="fine"), Judgement(False, 1, [Failure(0, 1, 2, "x")], "wrong")
NOTHING = Judgement(None, reason="infra_error")


@pytest.mark.parametrize(
    ("runs", "passed", "checked"),
    [
        ([], None, 0),
        ([PASSED], True, 2),
        ([PASSED, PASSED], True, 4),
        ([PASSED, FAILED], False, 3),
        ([NOTHING, FAILED], False, 1),
        ([PASSED, NOTHING], None, 2),
        ([NOTHING], None, 0),
    ],
)
def test_runs_pass_together_when_each_does(runs: list[Judgement], passed: bool | None, checked: int) -> None:
    together = combine(runs)
    assert together.passed is passed
    assert together.checked == checked


def test_a_failure_of_one_run_says_which() -> None:
    together = combine([PASSED, FAILED])
    assert [failure.index for failure in together.failures] == [1]
    assert together.reason == "1 of 2 runs, the first 1: wrong"


# -- limits


def ran(cpu_s: float, wall_s: float) -> Result:
    return Result("ok", cpu_s=cpu_s, wall_s=wall_s)


BASE = Limits(wall_s=60, cpu_s=10, memory_mb=128)


@pytest.mark.parametrize(
    ("runs", "cpu_s", "wall_s"),
    [
        ([ran(0.01, 0.02)], 0.5, 3.0),
        ([ran(0.5, 0.6), ran(0.25, 9.0)], 2.0, 36.0),
        ([ran(0.5, 0.6)], 2.0, 9.0),
        ([ran(8.0, 9.0)], 10, 41.0),
        ([ran(8.0, 30.0)], 10, 60),
        ([ran(0.0, 0.0)], 0.5, 3.0),
    ],
    ids=["floor", "waits", "computes", "base processor", "base wall", "nothing taken"],
)
def test_limits_follow_what_the_reference_took(runs: list[Result], cpu_s: float, wall_s: float) -> None:
    limits = calibrate(runs, BASE)
    assert (limits.cpu_s, limits.wall_s) == (cpu_s, wall_s)
    assert dataclasses.replace(limits, cpu_s=BASE.cpu_s, wall_s=BASE.wall_s) == BASE


times = st.floats(0, 100, allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.builds(ran, times, times), min_size=1, max_size=4), times.filter(lambda x: x >= 1))
def test_limits_leave_the_reference_room_and_stay_within_the_base(runs: list[Result], factor: float) -> None:
    limits = calibrate(runs, BASE, factor)
    assert 0 < limits.cpu_s <= BASE.cpu_s
    assert 0 < limits.wall_s <= BASE.wall_s
    for result in runs:
        assert limits.cpu_s >= min(BASE.cpu_s, result.cpu_s)
        assert limits.wall_s >= min(BASE.wall_s, result.wall_s)


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_limits_are_not_made_of_runs_that_did_not_end_well(status: str) -> None:
    with pytest.raises(ValueError, match=f"run 1 of the reference did not end well: {status}"):
        calibrate([ran(0.1, 0.1), Result(status)], BASE)


def test_limits_need_a_run_and_a_factor_that_makes_sense() -> None:
    with pytest.raises(ValueError, match="without a run"):
        calibrate([], BASE)
    for factor, floor_s in ((0.5, 0.5), (math.nan, 0.5), (math.inf, 0.5), (4.0, 0.0), (4.0, math.nan)):
        with pytest.raises(ValueError, match="factor must be"):
            calibrate([ran(0.1, 0.1)], BASE, factor, floor_s)
