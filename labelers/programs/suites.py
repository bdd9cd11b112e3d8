"""A problem's source suite as files that the sandbox runs, and the statement that a candidate answers.

In: a `Problem` or `Program` row as a mapping. Out: test files, each to be run by itself; all must pass.
Wrong: nothing; a problem whose tests are no source has no files (see `labelers.programs.outcomes`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from decompose.source import filler
from labelers.prompts import render

PROMPT = "complete"
"""Template of what a model is shown."""


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
    statement, skeleton = problem["prompt"].rstrip(), program["skeleton"].rstrip()
    longest = max((len(run) for run in re.findall("`{3,}", statement + skeleton)), default=2)
    language = program["language"]
    return (
        render(
            PROMPT,
            statement=statement,
            skeleton=skeleton,
            language=language.lower(),
            filler=filler(language),
            docs="docstrings" if language == "Python" else "comments",
            fence="`" * (longest + 1),
        )
        + "\n"
    )
