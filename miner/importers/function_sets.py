"""Sets whose problems are functions: HumanEval, MBPP, both with EvalPlus's tests, BigCodeBench, KodCode.

Each function here reads one row of one format into its problems; what is wrong with a row is a
`BadRow`. A suite that is source stays source (`check`, `assert`, `unittest`); inputs without results
become calls whose result the reference decides.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from miner.importers.fields import BadRow, Row, text_field, text_value
from miner.importers.making import (
    Reading,
    bounded,
    call_test,
    check_wanted,
    code_test,
    functions,
    identifier,
    list_value,
    named,
    problem,
    python_module,
    python_solutions,
    short_text,
    tolerance_of,
)
from schemas.records import Problem, ProblemTest

EVALPLUS_TOLERANCE = 1e-6
"""What EvalPlus allows floats where a row's `atol` is 0."""


def humaneval(row: Row, by: Reading) -> list[Problem]:
    """HumanEval, and the sets that took over its fields.

    Raises:
        BadRow: see the module.
    """
    name = text_field(row, "task_id")
    solution, entry_point = _completed(row, by, "prompt")
    test = text_field(row, "test")
    _require_check(test)
    return [
        problem(
            by,
            name=name,
            prompt=row["prompt"],
            entry_point=entry_point,
            solutions=[solution],
            tests=[code_test("check", test)],
            license_id="MIT" if name.startswith("HumanEval/") else None,
        )
    ]


def _completed(row: Row, by: Reading, prompt_field: str) -> tuple[str, str]:
    """(program, entry point) of a prompt and the solution that completes it."""
    prompt = text_field(row, prompt_field)
    entry_point = identifier(row.get("entry_point"), "entry_point")
    solution = prompt + text_field(row, "canonical_solution")
    check_wanted(by, "Python")
    if entry_point not in functions(python_module(solution, "canonical_solution")):
        raise BadRow("no_entry_point", f"entry_point: the solution defines no function {entry_point}")
    return solution, entry_point


def _require_check(test: str) -> None:
    if "check" not in functions(python_module(test, "test")):
        raise BadRow("bad_field", "test: defines no function check")


def humaneval_plus(row: Row, by: Reading) -> list[Problem]:
    """HumanEval+, as EvalPlus releases it (inputs) and as it stands on the Hub (a `check` with results).

    Raises:
        BadRow: see the module.
    """
    name = text_field(row, "task_id")
    solution, entry_point = _completed(row, by, "prompt")
    tests: list[ProblemTest] = []
    if short_text(row, "test") is not None:
        _require_check(row["test"])
        tests.append(code_test("check", row["test"]))
    return [
        problem(
            by,
            name=name,
            prompt=row["prompt"],
            entry_point=entry_point,
            solutions=[solution],
            tests=tests + _calls(row, by, name),
            tolerance=_tolerance(row),
            license_id="Apache-2.0" if name.startswith("HumanEval/") else None,
        )
    ]


def _calls(row: Row, by: Reading, name: str) -> list[ProblemTest]:
    """Calls with a row's base inputs, and with a draw of the others."""
    groups = []
    for field in ("base_input", "plus_input"):
        # A problem without further inputs has an object without fields there.
        found = list_value(row.get(field) or None, field)
        for number, args in enumerate(found):
            if not isinstance(args, list):
                raise BadRow("bad_field", f"{field}[{number}]: expected the list of a call's arguments")
        groups.append([test for args in found if (test := call_test(args)) is not None])
    return bounded(by, name, *groups)


def _tolerance(row: Row) -> float:
    told = tolerance_of(row.get("atol"), "atol")
    return EVALPLUS_TOLERANCE if told == 0 and "base_input" in row else told


def mbpp(row: Row, by: Reading) -> list[Problem]:
    """MBPP, full (`text`) and sanitized (`prompt`): its assertions, challenge ones too, are one suite.

    Raises:
        BadRow: see the module.
    """
    parts = [text_value(row.get("test_setup_code") or "", "test_setup_code", empty=True)]
    parts += _texts(row, "test_imports")
    asserts = _texts(row, "test_list") + _texts(row, "challenge_test_list")
    suite = "\n".join([part for part in parts if part.strip()] + asserts) + "\n"
    return [_mbpp(row, by, "MBPP/", "code", suite, "\n".join(asserts), "CC-BY-4.0")]


def _texts(row: Row, field: str) -> list[str]:
    found = list_value(row.get(field), field)
    return [text_value(one, f"{field}[{at}]") for at, one in enumerate(found)]


def _mbpp(
    row: Row, by: Reading, prefix: str, code_field: str, suite: str, asserts: str, license_id: str
) -> Problem:
    prompt = text_field(row, "text" if "text" in row else "prompt")
    code = text_field(row, code_field)
    if not asserts.strip():
        raise BadRow("no_tests", "test_list: empty")
    check_wanted(by, "Python")
    defined = functions(python_module(code, code_field))
    python_module(suite, "test_list")
    called = [name for name, _ in _called(asserts) if name in defined]
    if not called:
        raise BadRow("no_entry_point", "test_list: the tests call no function that the solution defines")
    return problem(
        by,
        name=named(row, prefix, ("task_id",), prompt),
        prompt=prompt,
        entry_point=called[0],
        solutions=[code],
        tests=[code_test("assert", suite)],
        license_id=license_id if "challenge_test_list" in row or "source_file" in row else None,
    )


def _called(source: str) -> list[tuple[str, ast.Call]]:
    """Names that assertions call, with the calls, in the order in which they stand."""
    calls = [
        (node.func.id, node)
        for node in ast.walk(python_module(source, "test_list"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return sorted(calls, key=lambda call: (call[1].lineno, call[1].col_offset))


def mbpp_plus(row: Row, by: Reading) -> list[Problem]:
    """MBPP+, as EvalPlus releases it (inputs and assertions) and as it stands on the Hub (one suite).

    Where the assertions call with what JSON does not have, such as tuples, the inputs of the release are
    not what the function takes (EvalPlus restores them by task), so the assertions alone are kept.

    Raises:
        BadRow: see the module.
    """
    if "code" in row:
        suite = text_field(row, "test")
        asserts = "\n".join(_texts(row, "test_list"))
        return [_mbpp(row, by, "Mbpp/", "code", suite, asserts, "Apache-2.0")]
    name = text_field(row, "task_id")
    entry_point = identifier(row.get("entry_point"), "entry_point")
    check_wanted(by, "Python")
    solutions = python_solutions(by, [row.get("canonical_solution")], "canonical_solution", entry_point)
    tests: list[ProblemTest] = []
    plain = True
    if short_text(row, "assertion") is not None:
        own = [call for called, call in _called(row["assertion"]) if called == entry_point]
        plain = all(_is_json(part) for call in own for part in (*call.args, *call.keywords))
        tests.append(code_test("assert", row["assertion"]))
    return [
        problem(
            by,
            name=name,
            prompt=text_field(row, "prompt"),
            entry_point=entry_point,
            solutions=solutions,
            tests=tests + (_calls(row, by, name) if plain else []),
            tolerance=_tolerance(row),
            license_id="Apache-2.0" if name.startswith("Mbpp/") else None,
        )
    ]


def _is_json(argument: ast.AST) -> bool:
    """Whether an argument as written is a value that JSON has."""
    for node in ast.walk(argument):
        if isinstance(node, ast.Dict) and not all(
            isinstance(key, ast.Constant) and isinstance(key.value, str) for key in node.keys
        ):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, complex | bytes):
            return False
        if isinstance(node, ast.Tuple | ast.Set | ast.Call | ast.Lambda | ast.SetComp | ast.GeneratorExp):
            return False
    return True


def bigcodebench(row: Row, by: Reading) -> list[Problem]:
    """BigCodeBench and its hard subset: the prompt with its docstring, and a suite of `unittest`.

    Raises:
        BadRow: see the module.
    """
    name = text_field(row, "task_id")
    solution, entry_point = _completed(row, by, "complete_prompt")
    test = text_field(row, "test")
    _require_tests(python_module(test, "test"))
    return [
        problem(
            by,
            name=name,
            prompt=row["complete_prompt"],
            entry_point=entry_point,
            solutions=[solution],
            tests=[code_test("unittest", test)],
            license_id="Apache-2.0" if name.startswith("BigCodeBench/") else None,
        )
    ]


def _require_tests(suite: ast.Module) -> None:
    """Refuse a suite that defines neither a class, such as a `TestCase`, nor a function `test_...`."""
    if any(isinstance(node, ast.ClassDef) for node in suite.body):
        return
    if not any(name.startswith("test_") for name in functions(suite)):
        raise BadRow("no_tests", "test: defines no test")


def kodcode(row: Row, by: Reading) -> list[Problem]:
    """KodCode: a suite in the manner of pytest that imports from `solution`. Older dumps call it `test_code`.

    Raises:
        BadRow: see the module.
    """
    prompt = text_field(row, "question")
    test = text_field(row, "test" if row.get("test") is not None else "test_code")
    check_wanted(by, "Python")
    (solution,) = python_solutions(by, [row.get("solution")], "solution", None)
    suite = python_module(test, "test")
    _require_tests(suite)
    defined = functions(python_module(solution, "solution"))
    wanted = [*_told_functions(row), *_imported(suite)]
    entry_point = next((name for name in wanted if name in defined), None)
    if entry_point is None:
        raise BadRow("no_entry_point", "test: imports no function that the solution defines")
    published = "gpt_pass_percentage" in row and "subset" in row
    return [
        problem(
            by,
            name=named(row, "KodCode/", ("question_id",), prompt),
            prompt=prompt,
            entry_point=entry_point,
            solutions=[solution],
            tests=[code_test("unittest", test)],
            difficulty=short_text(row, "gpt_difficulty"),
            license_id="CC-BY-NC-4.0" if published else None,
        )
    ]


def _told_functions(row: Row) -> list[str]:
    told: list[str] = []
    for number, one in enumerate(list_value(row.get("test_info"), "test_info")):
        if not isinstance(one, dict):
            raise BadRow("bad_field", f"test_info[{number}]: expected an object")
        name: Any = one.get("function_name")
        if isinstance(name, str):
            told.append(name)
    return told


def _imported(suite: ast.Module) -> Sequence[str]:
    """Names that a suite imports from the module `solution`, in order."""
    return [
        alias.name
        for node in ast.walk(suite)
        if isinstance(node, ast.ImportFrom) and node.module == "solution"
        for alias in node.names
    ]
