"""The example problems: the file in step with its sources, the suites passed and sharp."""

from __future__ import annotations

import ast
import doctest
import functools
import gc
import itertools
import json
import runpy
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = runpy.run_path(str(EXAMPLES / "make_problems.py"))
ROWS = [json.loads(line) for line in (EXAMPLES / "problems.jsonl").read_text(encoding="utf-8").splitlines()]
KEYS = ["task_id", "prompt", "entry_point", "canonical_solution", "test"]
SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Mutants that behave like the reference: the entry point, and what mutants() says.
EQUIVALENT = {
    # spans that touch leave no gap, joined or not
    ("free_slots", "if merged and start <= merged[-1][1]: => start < merged[-1][1]"),
    # closing an account ignores the amount
    ("replay_ledger", "return verb, words, 0 => 0 -> 1"),
    ("replay_ledger", "return verb, words, 0 => 0 -> -1"),
    # only the order of the priorities counts
    ("evaluate_sheet", 'PRIORITY = {"+": 1, "-": 1, "*": 2} => 2 -> 3'),
    (
        "evaluate_sheet",
        "while position < len(tokens) and PRIORITY.get(tokens[position], 0) >= floor: => 0 -> -1",
    ),
    # the number of legs is only compared
    ("cheapest_trip", "queue: list[tuple[int, int, list[str], bool]] = [(0, 0, [start], False)] => 0 -> 1"),
    ("cheapest_trip", "queue: list[tuple[int, int, list[str], bool]] = [(0, 0, [start], False)] => 0 -> -1"),
    ("cheapest_trip", "heapq.heappush(queue, (price + extra, legs + 1, [*path, port], spent)) => 1 -> 2"),
    # any row will do to compare the others with
    ("sew_quilt", "if len(codes) != len(layout[0]): => 0 -> -1"),
    # no days have no direction
    ("shift_workdays", "direction = 1 if days > 0 else -1 => days >= 0"),
    ("shift_workdays", "direction = 1 if days > 0 else -1 => 0 -> -1"),
    # weights are only compared
    ("plan_jobs", "weights[job] = jobs[job][0] + max(map(weigh, waiting[job]), default=0) => 0 -> 1"),
    ("plan_jobs", "weights[job] = jobs[job][0] + max(map(weigh, waiting[job]), default=0) => 0 -> -1"),
    # a closing brace is never at 0
    ("render_label", 'if char == "}" or end < 0 or "{" in field: => end <= 0'),
    ("render_label", 'if char == "}" or end < 0 or "{" in field: => 0 -> 1'),
}

each_problem = pytest.mark.parametrize("row", ROWS, ids=[row["entry_point"] for row in ROWS])


def functions_of(row: dict[str, str]) -> list[ast.FunctionDef]:
    tree = ast.parse(row["prompt"] + row["canonical_solution"])
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


@functools.cache
def compiled_suite(test: str) -> CodeType:
    return compile(test, "test", "exec")


def load(row: dict[str, str], program: ast.Module | str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": row["entry_point"]}
    exec(compile(program, row["entry_point"], "exec"), namespace)
    exec(compiled_suite(row["test"]), namespace)
    return namespace


def passes(row: dict[str, str], program: ast.Module) -> bool:
    """Run a suite for at most a tenth of a second of this process's own time."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    # Python drops an exception that falls into a callback of the collector or a finalizer: there is no
    # collection meanwhile, and the alarm comes again and again.
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.1, 0.1)
    try:
        namespace = load(row, program)
        namespace["check"](namespace[row["entry_point"]])
    except Exception:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.enable()
    return True


def edits_of(node: ast.AST) -> Iterator[Callable[[Any], str]]:
    """Yield functions that change a copy of a node in one point and say what it is now."""

    def stub(function: Any) -> str:
        function.body = [ast.Return(ast.Constant(None))]
        return f"def {function.name}: return None"

    def negate(branch: Any) -> str:
        branch.test = ast.UnaryOp(ast.Not(), branch.test)
        return ast.unparse(branch.test)

    def drop(leave: Any) -> str:
        said = f"drop {ast.unparse(leave)}"
        leave.value = None
        return said

    def swap(comparison: Any, index: int) -> str:
        comparison.ops[index] = SWAPS[type(comparison.ops[index])]()
        return ast.unparse(comparison)

    def shift(constant: Any, by: int) -> str:
        said = f"{constant.value} -> {constant.value + by}"
        constant.value += by
        return said

    if isinstance(node, ast.FunctionDef):
        yield stub
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield negate
    elif isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield drop
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            if type(operator) in SWAPS:
                yield lambda comparison, index=index: swap(comparison, index)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda constant: shift(constant, 1)
        yield lambda constant: shift(constant, -1)


def mutants(source: str, kind: type[ast.AST] = ast.AST) -> Iterator[tuple[str, ast.Module]]:
    """Yield every program that differs from the source in one point, and what it says there."""
    lines = source.splitlines()
    for position, node in enumerate(ast.walk(ast.parse(source))):
        if not isinstance(node, kind):
            continue
        for edit in edits_of(node):
            mutant = ast.parse(source)
            said = edit(next(itertools.islice(ast.walk(mutant), position, None)))
            yield f"{lines[node.lineno - 1].strip()} => {said}", ast.fix_missing_locations(mutant)


def test_file_is_in_step_with_the_sources() -> None:
    assert (EXAMPLES / "problems.jsonl").read_bytes() == SCRIPT["render"]().encode()


def test_rows_have_the_keys_of_humaneval() -> None:
    assert [row["task_id"] for row in ROWS] == [f"assay/{number}" for number in range(len(ROWS))]
    assert all(list(row) == KEYS for row in ROWS)
    assert len({row["entry_point"] for row in ROWS}) == len(ROWS) >= 12


@each_problem
def test_reference_passes_its_suite(row: dict[str, str]) -> None:
    namespace = load(row, row["prompt"] + row["canonical_solution"])
    namespace["check"](namespace[row["entry_point"]])


@each_problem
def test_entry_point_is_documented_and_its_examples_hold(row: dict[str, str]) -> None:
    namespace = load(row, row["prompt"] + row["canonical_solution"])
    found = doctest.DocTestFinder().find(namespace[row["entry_point"]], row["entry_point"], globs=namespace)
    assert sum(len(test.examples) for test in found) >= 1
    runner = doctest.DocTestRunner(verbose=False)
    for test in found:
        assert runner.run(test).failed == 0


@each_problem
def test_problem_has_helpers_that_are_called(row: dict[str, str]) -> None:
    functions = functions_of(row)
    assert 2 <= len(functions) <= 5
    assert functions[0].name == row["entry_point"]
    tree = ast.parse(row["prompt"] + row["canonical_solution"])
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {function.name for function in functions[1:]} <= used
    assert all(ast.get_docstring(function) for function in functions)


@each_problem
def test_suite_fails_without_any_one_of_the_functions(row: dict[str, str]) -> None:
    source = row["prompt"] + row["canonical_solution"]
    stubs = [(said, program) for said, program in mutants(source, ast.FunctionDef)]
    assert len(stubs) >= len(functions_of(row))
    assert [said for said, program in stubs if passes(row, program)] == []


@each_problem
def test_suite_fails_for_small_mutants(row: dict[str, str]) -> None:
    alike = {said for entry_point, said in EQUIVALENT if entry_point == row["entry_point"]}
    survivors = [
        said for said, program in mutants(row["prompt"] + row["canonical_solution"]) if passes(row, program)
    ]
    assert set(survivors) == alike


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# --- prompt ---\n# --- test ---\n", "expected the sections"),
        ("# --- test ---\n# --- solution ---\n# --- prompt ---\n", "expected the sections"),
        ("# --- prompt ---\n# --- solution ---\n# --- test ---\n", "must begin with a docstring"),
        ('"""assay/x: Title."""\n# --- prompt ---\n# --- solution ---\n# --- test ---\n', "must begin with"),
        (
            '"""assay/1: Title."""\n# --- prompt ---\n# --- solution ---\n# --- test ---\n',
            "exactly one function",
        ),
    ],
)
def test_malformed_problem_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        SCRIPT["render"](tmp_path)


def test_task_ids_are_unique(tmp_path: Path) -> None:
    source = (EXAMPLES / "problems" / "tidy_row.py").read_text(encoding="utf-8")
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(source, encoding="utf-8")
    with pytest.raises(ValueError, match="the same task_id"):
        SCRIPT["render"](tmp_path)
