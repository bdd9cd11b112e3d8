"""Why the stages of programs drop rows, and what the reasons of labels mean, for people."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "entry_point_missing": "the reference does not define the function that the suite calls",
    "infra_error": "the sandbox itself failed, so nothing is known about the program",
    "no_suite": "the problem has no test that calls a function",
    "problem_missing": "the row's problem is not in the part beside it",
    "program_missing": "the row's program is not in the part beside it",
    "reference_fails_suite": "the reference does not pass the problem's own suite",
    "reference_unrecordable": "the reference could not be run with its calls recorded",
    "suite_passes_anything": "the suite passes on a program whose functions do nothing as well",
    "syntax_error": "the reference is not a program that can be taken apart",
    "too_few_functions": "the reference has fewer module-level functions than a decomposed program needs",
    "too_many_functions": "the reference has more functions than a program may have",
    "unsupported_language": "programs of this language cannot be taken apart and run",
}
"""Reason code of a dropped row -> what it says."""

SUITE_REASONS: dict[str, str] = {
    "method": "methods and operators are not called from outside, but for methods of a class Solution",
    "never_called": "no call of it was recorded, and no type says what it takes",
    "reads_clock": "it, or a function that it calls, asks for the time or the date",
    "no_mutants": "no fault can be put into it",
    "mutates_arguments": "the call changes its arguments in place",
    "stopped": "the call ends or exhausts the process: exit, memory, recursion, time",
    "slow": "the call runs more statements than `tests.max_steps`",
    "unstable": "two runs in fresh processes, or the suite, come to something else",
    "unencodable": "arguments or result have no encoding, or a large one",
    "invalid_input": "a made input on which the reference raises what it does not mean to",
    "needs_outside": "the call looks for files or a network, which are not there",
    "passes_on_stub": "the call comes to the same when the function does nothing",
    "kills_nothing": "no mutant comes to something else",
    "beyond_max_tests": "there are more tests than `tests.max_tests`",
    "suite_too_slow": "a file or input of the suite took too long while calls were recorded",
    "call_tests_stopped": "the calls of the suite were stopped while calls were recorded",
    "program_not_a_function": "a program that reads its input cannot be run as a function",
    "program_behaves_otherwise": "a program that reads its input writes something else as a function",
}
"""Why a call became no test, or a function has none -> what it says."""

STEP_REASONS: dict[str, str] = {
    "passed": "every test of the function passes",
    "failed": "a test of the function gives another value or error than the reference",
    "no_tests": "no valid test of the function exists, so it has no label",
    "missing": "the candidate does not define the function that its skeleton asks for",
    "not_grafted": "the function cannot be put into the reference's program, so it has no label",
    "syntax_error": "the candidate is not a program, so none of its functions can be found",
    "infra_error": "the sandbox itself failed, so there is no verdict",
}
"""Reason of a step's label -> what it says; any other reason is the sandbox's status."""
