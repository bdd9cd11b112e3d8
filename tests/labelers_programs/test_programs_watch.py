"""Calls of functions that programs in other languages than Python tell of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from decompose.functions import functions
from labelers.programs import config, runs
from labelers.programs.harvest import watch
from labelers.programs.watch import watched
from sandbox import Job, Result
from schemas.declare import as_row

SETTINGS = config.TestsConfig(max_calls=3)

PROGRAMS = {
    "JavaScript": """\
function f(xs) { xs.push(9); return xs.map(x => g(x)); }
function g(x) { if (x < 0) throw new Error("negative"); return x + 1; }
const h = x => x;
module.exports = { f };
""",
    "TypeScript": """\
export function f(xs: number[]): number[] { xs.push(9); return xs.map(x => g(x)); }
function g(x: number): number { if (x < 0) throw new Error("negative"); return x + 1; }
""",
    "Ruby": """\
def f(xs)
  xs << 9
  xs.map { |x| g(x) }
end

def g(x)
  raise "negative" if x < 0
  x + 1
end
""",
    "PHP": """\
<?php
function f($xs) { $xs[] = 9; return array_map(fn($x) => g($x), $xs); }
function g($x) { if ($x < 0) throw new Exception("negative"); return $x + 1; }
function &h(array &$xs) { return $xs; }
?>
""",
}


def run(jobs: Sequence[Job]) -> Iterable[Result]:
    return runs.run_all(jobs, 2)


def calls(code: str, language: str, args: list[str], entry: str = "f") -> dict[str, list[tuple[Any, ...]]]:
    spans = [as_row(span) for span in functions(code, language)]
    program = {"code": code, "functions": spans, "entry_point": entry, "language": language}
    problem = {"tests": [{"kind": "call", "args": one, "expected": None} for one in args]}
    return {
        name: [call.args for call in some] for name, some in watch(program, problem, SETTINGS, run).items()
    }


@pytest.mark.parametrize("language", PROGRAMS)
def test_functions_tell_of_their_calls_as_they_were_before(language: str) -> None:
    found = calls(PROGRAMS[language], language, ["[[1, 2]]", "[[2, -4]]", "[[5]]"])
    assert found["f"] == [([1, 2],), ([5],)]
    # No more than asked for, none twice, and none of a call that raised.
    assert found["g"] == [(1,), (2,), (9,)]
    assert set(found) == {"f", "g"}


@pytest.mark.parametrize(
    ("code", "entry", "language"),
    [
        ("const f = x => x;\n", "f", "JavaScript"),
        ("function f(x) { return x } // watched\n", "f", "JavaScript"),
        ("function f(x) { return x }\n", "f); process.exit(", "JavaScript"),
        ("fn f(x: i32) -> i32 { x }\n", "f", "Rust"),
    ],
    ids=["no declaration", "the name is taken", "no name", "another language"],
)
def test_what_cannot_be_watched_is_left_alone(code: str, entry: str, language: str) -> None:
    spans = [as_row(span) for span in functions(code, language)]
    assert watched(code, spans, entry, language) is None


def test_a_program_that_ends_the_process_tells_what_it_told_before() -> None:
    code = "function f(n) { if (n > 1) process.exit(0); return g(n); }\nfunction g(n) { return n; }\n"
    assert calls(code, "JavaScript", ["[1]", "[2]", "[0]"]) == {"g": [(1,)], "f": [(1,)]}


def test_without_calls_in_the_suite_nothing_is_run() -> None:
    assert calls(PROGRAMS["Ruby"], "Ruby", []) == {}
