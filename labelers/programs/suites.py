"""A problem's suite as text that the sandbox runs, and the statement that a candidate answers.

In: a `Problem` or `Program` row as a mapping. Out: test files, each to be run by itself; all must pass.
Wrong: nothing; a problem whose tests call no function has no suite.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_INSTRUCTION = (
    "Complete this program. Write the body of every function in place of `pass`; "
    "keep names, signatures and docstrings."
)


def suites(problem: Mapping[str, Any]) -> list[str]:
    """The files of a problem's suite that call its entry point.

    Assertions share one file, in order. Each `check` and each unittest file stands alone, since two
    may define the same names. Tests by standard input call nothing and are left out.
    """
    asserts = [test["code"] for test in problem["tests"] if test["kind"] == "assert" and test["code"]]
    others = [
        test["code"] for test in problem["tests"] if test["kind"] in ("check", "unittest") and test["code"]
    ]
    return (["\n".join(asserts) + "\n"] if asserts else []) + others


def prompt_of(problem: Mapping[str, Any], program: Mapping[str, Any]) -> str:
    """The statement of a problem with the skeleton of its program, as shown to a model."""
    statement, skeleton = problem["prompt"], program["skeleton"]
    longest = max((len(run) for run in re.findall("`{3,}", statement + skeleton)), default=2)
    fence = "`" * (longest + 1)
    language = program["language"].lower()
    return f"{statement.rstrip()}\n\n{_INSTRUCTION}\n\n{fence}{language}\n{skeleton.rstrip()}\n{fence}\n"
