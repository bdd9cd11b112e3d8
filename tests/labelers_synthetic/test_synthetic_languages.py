"""Dressed-up programs of every language compile, run, and do what they did."""

from __future__ import annotations

import random
from typing import Any

import pytest
from synthetic_problems import problem_of

from labelers.programs import runs
from labelers.programs.outcomes import Suite
from labelers.synthetic.hacks import hack, plainer
from sandbox import languages
from sandbox.languages.base import ToolchainMissing
from sandbox.names import canonical
from schemas.declare import as_row
from schemas.records import ProblemTest

# Each has `twice`, which doubles a whole number.
PROGRAMS = {
    "Python": "# Doubles.\ndef twice(x):\n    return x * 2\n",
    "JavaScript": "// Doubles.\nfunction twice(x) {\n  return x * 2;\n}\n",
    "TypeScript": "// Doubles.\nfunction twice(x: number): number { return x * 2; }\n",
    "Go": "package main\n\n// Doubles.\nfunc twice(x int) int { return x * 2 }\n",
    "Java": "class Solution {\n  // Doubles.\n  static int twice(int x) {\n    return x * 2;\n  }\n}\n",
    "C": "/* Doubles. */\nint twice(int x)\n{\n    return x * 2;\n}\n",
    "C++": "// Doubles.\nint twice(int x) { return x * 2; }\n",
    "C#": "class Solution {\n  // Doubles.\n  public static int twice(int x) {\n    return x * 2;\n}}\n",
    "Ruby": "# Doubles.\ndef twice(x)\n  x * 2\nend\n",
    "Rust": "// Doubles.\nfn twice(x: i64) -> i64 {\n    x * 2\n}\n",
    "PHP": "<?php\n// Doubles.\nfunction twice($x) {\n    return $x * 2;\n}\n",
}


def suite_of(language: str) -> Suite:
    fields: dict[str, Any] = {"kind": "call", "code": None, "stdin": None, "stdout": None}
    calls = [as_row(ProblemTest(**fields, args=f"[{x}]", expected=str(2 * x))) for x in (0, 3, 7)]
    problem = problem_of(PROGRAMS[language], language=language, entry_point="twice", tests=[])
    return Suite({**problem, "tests": calls}, [], runs.limits(5, 30, 1024), "calls")


@pytest.mark.parametrize("language", PROGRAMS)
def test_dressed_up_program_passes_where_it_passed_and_fails_where_it_failed(language: str) -> None:
    try:
        if language != "Python":
            languages.get(canonical(language)).find()
    except ToolchainMissing:
        pytest.skip(f"no toolchain for {language}")
    code = PROGRAMS[language]
    guarded = hack("dead_guard", code, language, random.Random(0))
    assert guarded is not None
    for name in ("claim", "padding", "praise"):
        guarded = hack(name, guarded, language, random.Random(0))
        assert guarded is not None
    plain = plainer(code, language)
    assert plain is not None
    assert "Doubles" not in plain
    broken = guarded.replace("x * 2", "x * 3")
    assert [one.passed for one in suite_of(language).judge([guarded, plain, broken])] == [True, True, False]
