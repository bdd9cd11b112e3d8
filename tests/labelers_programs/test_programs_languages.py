"""The whole way in each language: taken apart, tested, and a known fault found where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden import VERIFY, candidate_of, problem_of, program_of

from labelers.programs import config
from labelers.programs.step_labels import Verifier
from labelers.programs.unit_tests import harvest
from sandbox import languages
from sandbox.languages.base import ToolchainMissing
from sandbox.names import canonical
from schemas.declare import as_row
from schemas.records import FunctionTest, ProblemTest
from schemas.stage import Keep

TESTS = config.TestsConfig(max_mutants=6, max_compiled_mutants=3, generated=16, rounds=1)

# Each has `weight` (twice an even number, else the number) and `total` (the sum of all weights, 2 once more).
PROGRAMS = {
    "JavaScript": """\
function weight(x) {
  return x % 2 === 0 ? x * 2 : x;
}

function total(xs) {
  return xs.reduce((sum, x) => sum + weight(x), 0) + xs.filter((x) => x === 2).length;
}
""",
    "TypeScript": """\
function weight(x: number): number {
  return x % 2 === 0 ? x * 2 : x;
}

function total(xs: number[]): number {
  return xs.reduce((sum, x) => sum + weight(x), 0) + xs.filter((x) => x === 2).length;
}
""",
    "Go": """\
package main

func weight(x int) int {
	if x%2 == 0 {
		return x * 2
	}
	return x
}

func total(xs []int) int {
	sum := 0
	for _, x := range xs {
		sum += weight(x)
		if x == 2 {
			sum++
		}
	}
	return sum
}
""",
    "Java": """\
class Solution {
    static int weight(int x) {
        return x % 2 == 0 ? x * 2 : x;
    }

    static int total(int[] xs) {
        int sum = 0;
        for (int x : xs) {
            sum += weight(x);
            if (x == 2) sum += 1;
        }
        return sum;
    }
}
""",
    "C++": """\
#include <vector>

int weight(int x) {
    return x % 2 == 0 ? x * 2 : x;
}

int total(std::vector<int> xs) {
    int sum = 0;
    for (int x : xs) {
        sum += weight(x);
        if (x == 2) sum += 1;
    }
    return sum;
}
""",
    "C": """\
int weight(int x) {
    return x % 2 == 0 ? x * 2 : x;
}

int total(int a, int b) {
    return weight(a) + weight(b) + (a == 2) + (b == 2);
}
""",
    "C#": """\
public class Solution {
    public static int weight(int x) {
        return x % 2 == 0 ? x * 2 : x;
    }

    public static int total(int[] xs) {
        int sum = 0;
        foreach (int x in xs) {
            sum += weight(x);
            if (x == 2) sum += 1;
        }
        return sum;
    }
}
""",
    "Ruby": """\
def weight(x)
  x % 2 == 0 ? x * 2 : x
end

def total(xs)
  xs.sum { |x| weight(x) } + xs.count(2)
end
""",
    "Rust": """\
fn weight(x: i64) -> i64 {
    if x % 2 == 0 { x * 2 } else { x }
}

fn total(xs: Vec<i64>) -> i64 {
    let mut sum = 0;
    for x in &xs {
        sum += weight(*x);
        if *x == 2 { sum += 1; }
    }
    sum
}
""",
    "PHP": """\
<?php
function weight($x) {
    return $x % 2 == 0 ? $x * 2 : $x;
}

function total($xs) {
    $sum = 0;
    foreach ($xs as $x) {
        $sum += weight($x);
        if ($x == 2) $sum += 1;
    }
    return $sum;
}
""",
}


def _installed(language: str) -> bool:
    try:
        languages.get(canonical(language)).find()
    except ToolchainMissing:
        return False
    return True


def _calls(language: str) -> list[ProblemTest]:
    given = [([1, 2], 6), ([4, 3], 11), ([7, 7], 14), ([2, 2], 10)]
    return [
        ProblemTest(
            kind="call",
            code=None,
            stdin=None,
            stdout=None,
            args=json.dumps(xs if language == "C" else [xs]),
            expected=json.dumps(value),
        )
        for xs, value in given
    ]


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_fault_is_found_in_the_function_that_has_it(language: str) -> None:
    if not _installed(language):
        pytest.skip(f"no toolchain for {language}")
    code = PROGRAMS[language]
    problem = problem_of(code, entry="total", language=language, tests=_calls(language))
    program = program_of(problem)
    outcome, _ = harvest(program, problem, TESTS, 0)
    assert isinstance(outcome, Keep), outcome
    tests = [as_row(record) for record in outcome.records if isinstance(record, FunctionTest)]
    names = {span["name"].rpartition(".")[2]: span["name"] for span in program["functions"]}
    assert {test["function"] for test in tests} == set(names.values())
    faulty = code.replace("x * 2", "x * 3")
    broken = code.replace("weight(", "weight((", 1)
    verifier = Verifier(program, problem, tests, VERIFY, 0)
    rows: Any = [
        keep.records[0]
        for keep in verifier.label([candidate_of(program, one) for one in (code, faulty, broken)])
    ]
    labels = [{step.name: (step.reference_label, step.own_label) for step in row.steps} for row in rows]
    assert [row.outcome for row in rows] == [1, 0, 0]
    assert labels[0] == dict.fromkeys(names.values(), (1, 1))
    assert labels[1] == {names["weight"]: (0, 0), names["total"]: (1, 0)}
    assert {label for pair in labels[2].values() for label in pair} == {0}
    data = rows[1].completion.encode()
    for step in rows[1].steps:
        assert step.name.rpartition(".")[2] in data[step.start_byte : step.end_byte].decode()
