"""Which calls of a reference can be tests, whatever its language."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decompose.functions import functions
from labelers.programs import config, runs
from labelers.programs.declared import parameters_of
from labelers.programs.harvest import HARVESTED
from labelers.programs.inputs import GENERATED, Inputs, Literals
from labelers.programs.observe import Given, Observed, Observer, elsewhere, raised_names
from sandbox import Call, Job, Result

SETTINGS = config.TestsConfig(cpu_s=2, wall_s=20, max_steps=200, max_call_bytes=400)


def run(jobs: Sequence[Job]) -> Iterable[Result]:
    return runs.run_all(jobs, 2)


def observed(
    code: str, given: list[Given], name: str = "f", language: str = "Python"
) -> tuple[list[Observed], dict[str, int]]:
    dropped: Counter[str] = Counter()
    found = Observer(code, name, language, SETTINGS, run, dropped).observe(given)
    return found, {reason: count for reason, count in dropped.items() if count}


def made(*args: Any) -> list[Given]:
    return [Given(Call((one,)), GENERATED) for one in args]


TYPED = {
    "TypeScript": "function f(n: number, xs: string[]): string { return xs.join('-') + n; }\n",
    "Go": "package main\nfunc f(n int, xs []string) int { if n > 2 { return len(xs) }; return n }\n",
    "PHP": "<?php\nfunction f(int $n, ?string $s) { return $n . ($s ?? 'none'); }\n",
    "C": "int f(const int *xs, int n, const char *s) { int t = 0; while (n--) t += xs[n]; return t + *s; }\n",
}


@pytest.mark.parametrize("language", TYPED)
def test_inputs_of_declared_types_are_answered(language: str) -> None:
    code = TYPED[language]
    (span,) = functions(code, language)
    inputs = Inputs(
        parameters_of(span.signature, language, span.name) or (), Literals(), random.Random(0), 400
    )
    inputs.look()
    drawn = inputs.batch(12)
    assert len(drawn) == 12
    found, dropped = observed(code, [Given(call, source) for source, call in drawn], language=language)
    assert len(found) >= 10
    assert len(found) + sum(dropped.values()) == 12
    assert all(one.expected[0] == "value" for one in found)


def test_a_call_that_ends_the_process_costs_only_itself() -> None:
    code = "import os\ndef f(n):\n    if n == 2: os._exit(0)\n    return n + 1\n"
    found, dropped = observed(code, made(1, 2, 3))
    assert [one.call.args for one in found] == [(1,), (3,)]
    assert dropped == {"stopped": 1}


def test_errors_count_where_they_are_meant() -> None:
    code = "def f(n):\n    if n == 1: raise LookupError(n)\n    return 10 // n + len(n * '')\n"
    given_ = [*made(1, 0, "text", 5), Given(Call((None,)), HARVESTED, ("error", "TypeError"))]
    found, dropped = observed(code, given_)
    assert [one.expected for one in found] == [
        ("error", "TypeError"),
        ("error", "LookupError"),
        ("value", 2),
    ]
    assert dropped == {"invalid_input": 2}


def test_a_recorded_call_that_comes_to_something_else_alone_is_unstable() -> None:
    found, dropped = observed("def f(n):\n    return n\n", [Given(Call((1,)), HARVESTED, ("value", 2))])
    assert (found, dropped) == ([], {"unstable": 1})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("n.append(lambda: 1)\n    return 1", "mutates_arguments"),
        ("return (k for k in n)", "unencodable"),
        ("return 'x' * 1000", "unencodable"),
        ("return [k for _ in range(300) for k in [print()]]", "unencodable"),
        ("for _ in range(300): pass\n    return 1", "slow"),
        ("while True: pass", "slow"),
        ("return id(object) + hash('a')", "unstable"),
        ("return f(n)", "slow"),
        ("return bytearray(1 << 40)", "stopped"),
        ("raise SystemExit", "stopped"),
        ("return open('/etc/passwd').read()", "invalid_input"),
    ],
)
def test_an_unfit_call_is_counted(body: str, reason: str) -> None:
    found, dropped = observed(f"def f(n):\n    {body}\n", made([1]))
    assert (found, dropped) == ([], {reason: 1})


def test_steps_and_statements_are_told() -> None:
    found, _ = observed("def f(n):\n    for _ in range(n):\n        n\n    return n\n", made(3))
    assert (found[0].steps, sorted(found[0].statements)) == (5, [1, 2, 3])


@given(st.integers(0, 40))
def test_in_another_order_nothing_keeps_its_place(count: int) -> None:
    order = elsewhere(range(count))
    assert sorted(order) == list(range(count))
    if count > 1:
        assert all(index != value for index, value in enumerate(order))


def test_errors_raised_by_name_are_found() -> None:
    code = "def f():\n    raise A\n    raise B('x') from None\n    raise x.C()\n    raise\n    raise [1][0]\n"
    assert raised_names(code) == {"A", "B", "C"}
    assert raised_names("raise (") == frozenset()


def test_what_a_call_leaves_of_its_arguments_is_part_of_what_it_comes_to() -> None:
    found, dropped = observed("def f(n):\n    n.append(1)\n    return 7\n", made([1], [2, 2]))
    assert not dropped
    assert [one.expected for one in found] == [("left", [7, [[1, 1]], {}]), ("left", [7, [[2, 2, 1]], {}])]


def test_a_call_that_leaves_them_alone_is_seen_to_do_so_where_another_does_not() -> None:
    found, _ = observed("def f(n):\n    if n[0]: n.append(1)\n    return n[0]\n", made([0], [5]))
    assert [one.expected for one in found] == [("left", [0, [[0]], {}]), ("left", [5, [[5, 1]], {}])]
