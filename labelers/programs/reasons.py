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
    "syntax_error": "the reference is not a program that can be taken apart",
    "too_few_functions": "the reference has fewer module-level functions than a decomposed program needs",
    "too_many_functions": "the reference has more functions than a program may have",
    "unsupported_language": "programs of this language cannot be taken apart and run",
}
"""Reason code of a dropped row -> what it says."""

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
