"""A format of our own: one JSON object a line, with the columns of a problem under their own names.

`name`, `prompt`, `language`, `entry_point`, `solution`, `references`, `tests`, `tolerance`,
`time_limit_s`, `memory_limit_mb`, `license`, `difficulty`, `released` and `url`, of which `prompt`,
`solution` and `tests` must be there. A test is an object with `kind`:

    {"kind": "stdin", "stdin": "1 2\\n", "stdout": "3\\n"}
    {"kind": "call", "args": [1, 2], "expected": 3}          without `expected` the solution decides
    {"kind": "check", "code": "def check(candidate): ..."}
    {"kind": "assert", "code": "assert add(1, 2) == 3"}
    {"kind": "unittest", "code": "class TestAdd(unittest.TestCase): ..."}

Suites of source are for Python. A problem of `stdin` tests alone has no entry point, any other has one.
"""

from __future__ import annotations

from typing import Any

from miner.config import LANGUAGES
from miner.importers.fields import BadRow, Row, optional_text, text_field, text_value
from miner.importers.making import (
    Reading,
    bounded,
    call_test,
    check_wanted,
    code_test,
    functions,
    identifier,
    iso_date,
    list_value,
    mebibytes,
    named,
    problem,
    python_module,
    python_solutions,
    seconds,
    short_text,
    stdin_test,
    tolerance_of,
)
from miner.spdx import normalize
from schemas.records import Problem, ProblemTest

SOURCES = ("check", "assert", "unittest")


def plain(row: Row, by: Reading) -> list[Problem]:
    """One row of the format.

    Raises:
        BadRow: a field is missing or not what it should be.
    """
    prompt = text_field(row, "prompt")
    language = text_value(row.get("language") or "Python", "language")
    if language not in LANGUAGES:
        raise BadRow("bad_field", f"language: {language[:40]!r} is none of {', '.join(LANGUAGES)}")
    check_wanted(by, language)
    tests = [_test(one, number) for number, one in enumerate(list_value(row.get("tests"), "tests"))]
    entry_point = _entry_point(row, tests)
    codes = [text_field(row, "solution")]
    codes += [text_value(code, "references") for code in list_value(row.get("references"), "references")]
    if language == "Python":
        python_solutions(by, codes[:1], "solution", entry_point)
        codes = python_solutions(by, codes, "solution", entry_point)
    elif any(test.kind in SOURCES for test in tests):
        raise BadRow("bad_field", f"tests: suites of source are for Python, not for {language}")
    name = named(row, "", ("name",), prompt)
    sources = [test for test in tests if test.kind in SOURCES]
    others = [test for test in tests if test.kind not in SOURCES]
    return [
        problem(
            by,
            name=name,
            prompt=prompt,
            language=language,
            entry_point=entry_point,
            solutions=list(dict.fromkeys(codes))[: by.config.max_references + 1],
            tests=sources + bounded(by, name, [], others),
            tolerance=tolerance_of(row.get("tolerance"), "tolerance"),
            time_limit_s=seconds(row.get("time_limit_s"), "time_limit_s"),
            memory_limit_mb=_memory(row.get("memory_limit_mb")),
            license_id=_license(row),
            difficulty=short_text(row, "difficulty"),
            released=_released(row),
            url=optional_text(row, "url"),
        )
    ]


def _entry_point(row: Row, tests: list[ProblemTest]) -> str | None:
    whole = bool(tests) and all(test.kind == "stdin" for test in tests)
    given = row.get("entry_point")
    if whole and given is not None:
        raise BadRow("bad_field", "entry_point: a program that reads its input has none; leave it out")
    if whole or (given is None and not tests):
        return None
    if any(test.kind == "stdin" for test in tests):
        raise BadRow("bad_field", "tests: either all are of kind stdin or none is")
    if given is None:
        raise BadRow("bad_field", "entry_point: missing, but tests call a function")
    return identifier(given, "entry_point")


def _test(value: Any, number: int) -> ProblemTest:
    where = f"tests[{number}]"
    if not isinstance(value, dict):
        raise BadRow("bad_field", f"{where}: expected an object")
    kind = value.get("kind")
    if kind == "stdin":
        stdin = text_value(value.get("stdin", ""), f"{where}.stdin", empty=True)
        return stdin_test(stdin, text_value(value.get("stdout"), f"{where}.stdout", empty=True))
    if kind == "call":
        args = value.get("args")
        if not isinstance(args, list):
            raise BadRow("bad_field", f"{where}.args: expected the list of a call's arguments")
        test = call_test(args, value["expected"]) if "expected" in value else call_test(args)
        if test is None:
            raise BadRow("bad_field", f"{where}: holds what JSON cannot, such as NaN")
        return test
    if kind in SOURCES:
        code = text_value(value.get("code"), f"{where}.code")
        suite = python_module(code, f"{where}.code")
        if kind == "check" and "check" not in functions(suite):
            raise BadRow("bad_field", f"{where}.code: defines no function check")
        return code_test(kind, code)
    raise BadRow("bad_field", f"{where}.kind: expected one of stdin, call, {', '.join(SOURCES)}")


def _memory(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 31:
        raise BadRow("bad_field", "memory_limit_mb: expected a whole number of MiB above 0")
    return mebibytes(value << 20, "memory_limit_mb") or value


def _license(row: Row) -> str | None:
    told = optional_text(row, "license")
    if not told:
        return None
    if (found := normalize(told)) is None:
        raise BadRow("bad_field", f"license: {told[:40]!r} is no SPDX id")
    return found


def _released(row: Row) -> str | None:
    told = optional_text(row, "released")
    if not told:
        return None
    if (found := iso_date(told)) is None:
        raise BadRow("bad_field", f"released: {told[:40]!r} is no date; give one such as 2021-06-30")
    return found
