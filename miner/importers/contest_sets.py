"""Sets of contest problems: APPS, TACO, CodeContests, LiveCodeBench, and lists of verifiable problems.

Each function here reads one row of one format into its problems; what is wrong with a row is a
`BadRow`. Tests are pairs of input and output, or, where a function is named, calls. One row of
CodeContests becomes a problem for each language that it has solutions in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from miner.importers.fields import BadRow, Row, text_field, text_value
from miner.importers.making import (
    Reading,
    bounded,
    call_test,
    check_wanted,
    entry_points,
    identifier,
    iso_date,
    json_value,
    list_value,
    mebibytes,
    named,
    problem,
    python_module,
    python_solutions,
    seconds,
    short_text,
    stdin_test,
)
from miner.importers.packed import unpacked
from schemas.records import Problem, ProblemTest

LANGUAGES = {1: "Python 2", 2: "C++", 3: "Python", 4: "Java"}
"""What CodeContests' numbers of languages mean."""

DIFFICULTIES = (
    *("UNKNOWN_DIFFICULTY", "EASY", "MEDIUM", "HARD", "HARDER", "HARDEST", "EXTERNAL"),
    *"ABCDEFGHIJK",
    "",  # no difficulty has the number 18
    *"LMNOPQRSTUV",
)
"""What CodeContests' numbers of difficulties mean."""

_CODEFORCES = 2
_FENCE = re.compile(r"```[A-Za-z0-9+]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_UNKNOWN = ("UNKNOWN_DIFFICULTY", "None", "null")
_LISTS = {"list", "List", "Sequence", "Iterable", "Tuple", "tuple"}


def apps(row: Row, by: Reading) -> list[Problem]:
    """APPS, and the sets that took over its fields.

    Raises:
        BadRow: see the module.
    """
    name = named(row, "APPS/", ("problem_id", "id"), text_field(row, "question"))
    return [_input_output(row, by, name, "MIT" if "problem_id" in row else None, {})]


def taco(row: Row, by: Reading) -> list[Problem]:
    """TACO: the fields of APPS, with limits and dates.

    Raises:
        BadRow: see the module.
    """
    name = named(row, "", ("name", "url"), text_field(row, "question"))
    more = {
        "time_limit_s": seconds(row.get("time_limit"), "time_limit"),
        "memory_limit_mb": mebibytes(row.get("memory_limit"), "memory_limit"),
        "released": iso_date(row.get("date")),
    }
    published = "Expected Time Complexity" in row
    return [_input_output(row, by, name, "Apache-2.0" if published else None, more)]


def _input_output(row: Row, by: Reading, name: str, license_id: str | None, more: dict[str, Any]) -> Problem:
    tests = json_value(row.get("input_output"), "input_output")
    if tests is None:
        raise BadRow("no_tests", "input_output: empty")
    if not isinstance(tests, dict):
        raise BadRow("bad_field", "input_output: expected an object")
    inputs = list_value(tests.get("inputs"), "input_output.inputs")
    outputs = list_value(tests.get("outputs"), "input_output.outputs")
    if len(inputs) != len(outputs):
        raise BadRow("bad_field", f"input_output: {len(inputs)} inputs, but {len(outputs)} outputs")
    entry_point = None
    if tests.get("fn_name") is not None:
        entry_point = identifier(tests["fn_name"], "input_output.fn_name")
    check_wanted(by, "Python")
    codes = list_value(json_value(row.get("solutions"), "solutions"), "solutions")
    solutions = python_solutions(by, codes, "solutions", entry_point)
    made: list[ProblemTest | None]
    if entry_point is None:
        made = [_lines_test(*pair) for pair in zip(inputs, outputs, strict=True)]
    else:
        results = _unwrapped(outputs, solutions[0], entry_point)
        made = [_listed_call(*pair) for pair in zip(inputs, results, strict=True)]
    return problem(
        by,
        name=name,
        prompt=_with_starter(text_field(row, "question"), row),
        entry_point=entry_point,
        solutions=solutions,
        tests=bounded(by, name, [], [test for test in made if test is not None]),
        difficulty=short_text(row, "difficulty", _UNKNOWN),
        url=short_text(row, "url"),
        license_id=license_id,
        **more,
    )


def _with_starter(statement: str, row: Row) -> str:
    """A statement, with the code that a solution starts from where there is some."""
    starter = short_text(row, "starter_code")
    return statement if starter is None else f"{statement.rstrip()}\n\n{starter}"


def _lines_test(stdin: Any, stdout: Any) -> ProblemTest | None:
    """A test of a program from texts, or from lists of lines."""
    told = []
    for value in (stdin, stdout):
        if isinstance(value, list) and all(isinstance(line, str) for line in value):
            value = "\n".join(value)
        if not _is_text(value):
            return None
        told.append(value)
    return stdin_test(told[0], told[1])


def _is_text(value: Any) -> bool:
    """Whether a value is text that can be stored."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _listed_call(args: Any, expected: Any) -> ProblemTest | None:
    """A call from a list of arguments. JSON cannot hold an object with whole numbers for keys, which is
    what the sets' own evaluators make of one whose keys are digits, so such a call is left out."""
    if isinstance(args, str):
        return _call_of_lines(args, expected)
    if not isinstance(args, list) or any(_has_number_keys(value) for value in (*args, expected)):
        return None
    return call_test(args, expected)


def _has_number_keys(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(re.fullmatch(r"-?\d+", key) for key in value)


def _call_of_lines(args: str, expected: Any) -> ProblemTest | None:
    """A call from arguments that are JSON, one a line."""
    try:
        return call_test([json_value(line, "input") for line in args.split("\n") if line.strip()], expected)
    except BadRow:
        return None


def _unwrapped(outputs: Sequence[Any], solution: str, entry_point: str) -> Sequence[Any]:
    """Results of calls. They are mostly wrapped in a list each, and evaluators take both; a function that
    says that it returns lists, of which none is a list of lists, is taken by its word."""
    if not all(isinstance(one, list) and len(one) == 1 for one in outputs):
        return outputs
    returns = entry_points(python_module(solution, "solutions"))[entry_point].returns
    shape = returns.value if isinstance(returns, ast.Subscript) else returns
    told = shape.id if isinstance(shape, ast.Name) else shape.attr if isinstance(shape, ast.Attribute) else ""
    if told in _LISTS and not any(isinstance(one[0], list) for one in outputs):
        return outputs
    return [one[0] for one in outputs]


def codecontests(row: Row, by: Reading) -> list[Problem]:
    """CodeContests: a problem for each language with correct solutions. Python 2 is left out.

    Raises:
        BadRow: see the module.
    """
    name = text_field(row, "name")
    prompt = text_field(row, "description")
    for field in ("input_file", "output_file"):
        if short_text(row, field) is not None:
            raise BadRow(
                "reads_files", f"{field}: {row[field][:60]!r} takes the place of standard input or output"
            )
    public, private, generated = (
        _pairs(row.get(field), field, "input", "output")
        for field in ("public_tests", "private_tests", "generated_tests")
    )
    first, others = (
        [test for pair in pairs if (test := _lines_test(*pair)) is not None]
        for pairs in (public, [*private, *generated])
    )
    tests = bounded(by, name, first, others)
    return [
        problem(
            by,
            name=name,
            prompt=prompt,
            language=language,
            entry_point=None,
            solutions=solutions,
            tests=tests,
            time_limit_s=_duration(row.get("time_limit")),
            memory_limit_mb=mebibytes(row.get("memory_limit_bytes"), "memory_limit_bytes"),
            difficulty=_difficulty(row),
            url=_codeforces_url(row),
            license_id="CC-BY-4.0",
        )
        for language, solutions in _by_language(row, by)
    ]


def _pairs(value: Any, field: str, *keys: str) -> list[tuple[Any, ...]]:
    """Rows of a list of objects, which some tables keep as an object of lists."""
    if isinstance(value, dict):
        columns = [list_value(value.get(key), f"{field}.{key}") for key in keys]
        if len({len(column) for column in columns}) > 1:
            raise BadRow("bad_field", f"{field}: its lists are not equally long")
        return list(zip(*columns, strict=True))
    found = []
    for number, one in enumerate(list_value(value, field)):
        if not isinstance(one, dict):
            raise BadRow("bad_field", f"{field}[{number}]: expected an object")
        found.append(tuple(one.get(key) for key in keys))
    return found


def _by_language(row: Row, by: Reading) -> list[tuple[str, list[str]]]:
    """(language, solutions) for each language that is read and wanted, in the order of their names.

    Raises:
        BadRow: there is none.
    """
    found: dict[str, list[str]] = {}
    pairs = _pairs(row.get("solutions"), "solutions", "language", "solution")
    names = {str(number): name for number, name in LANGUAGES.items()}
    names |= {"PYTHON": "Python 2", "CPP": "C++", "PYTHON3": "Python", "JAVA": "Java"}
    for language, code in pairs:
        told = names.get(str(language), "")
        if told and _is_text(code):
            found.setdefault(told, []).append(code)
    old = found.pop("Python 2", None)
    wanted = {name: found[name] for name in sorted(found) if name in (by.config.languages or found)}
    if not wanted:
        if found:
            raise BadRow("language_not_wanted", f"solutions: only in {', '.join(sorted(found))}")
        if old:
            raise BadRow("python_2", "solutions: only in Python 2")
        raise BadRow("no_reference", "solutions: none in a language that is read")
    usable: dict[str, list[str]] = {}
    wrong: BadRow | None = None
    for language, codes in wanted.items():
        try:
            if language == "Python":
                usable[language] = python_solutions(by, codes, "solutions", None)
            else:
                usable[language] = list(dict.fromkeys(codes))[: by.config.max_references + 1]
        except BadRow as bad:
            wrong = bad
    if not usable and wrong is not None:
        raise wrong
    return list(usable.items())[: by.config.max_languages]


def _duration(value: Any) -> float | None:
    """Seconds of `{seconds, nanos}`."""
    if not isinstance(value, dict):
        return seconds(value, "time_limit")
    whole, part = (value.get(key) or 0 for key in ("seconds", "nanos"))
    if not isinstance(whole, int | float) or not isinstance(part, int | float):
        raise BadRow("bad_field", "time_limit: expected seconds and nanos")
    return seconds(whole + part / 1e9 if abs(whole) < 1e9 and abs(part) < 1e9 else None, "time_limit")


def _difficulty(row: Row) -> str | None:
    """The rating on Codeforces, which is the better measure where it is known, else the difficulty."""
    rating = row.get("cf_rating")
    if isinstance(rating, int) and 0 < rating < 10_000:
        return f"{rating}"
    told = row.get("difficulty")
    if isinstance(told, int) and 0 < told < len(DIFFICULTIES):
        return DIFFICULTIES[told] or None
    return None if isinstance(told, int) else short_text(row, "difficulty", _UNKNOWN)


def _codeforces_url(row: Row) -> str | None:
    contest, index = row.get("cf_contest_id"), row.get("cf_index")
    if row.get("source") not in (_CODEFORCES, "CODEFORCES") or not isinstance(contest, int) or contest <= 0:
        return None
    if not isinstance(index, str) or not re.fullmatch(r"[A-Za-z0-9]{1,4}", index):
        return None
    return f"https://codeforces.com/problemset/problem/{contest}/{index}"


def livecodebench(row: Row, by: Reading) -> list[Problem]:
    """LiveCodeBench. It publishes no solutions, so `importing.solution_field` names a field that has one.

    Raises:
        BadRow: see the module.
    """
    statement = text_field(row, "question_content")
    name = text_field(row, "question_id")
    codes = _own_solutions(row, by.config.solution_field)
    metadata = json_value(row.get("metadata"), "metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRow("bad_field", "metadata: expected an object")
    entry_point = None
    if metadata.get("func_name") is not None:
        entry_point = identifier(metadata["func_name"], "metadata.func_name")
    check_wanted(by, "Python")
    solutions = python_solutions(by, codes, by.config.solution_field, entry_point)
    public, private = (
        [
            test
            for stdin, stdout, kind in _cases(row, field, by)
            if (test := _case(stdin, stdout, kind, entry_point)) is not None
        ]
        for field in ("public_test_cases", "private_test_cases")
    )
    return [
        problem(
            by,
            name=name,
            prompt=_with_starter(statement, row),
            entry_point=entry_point,
            solutions=solutions,
            tests=bounded(by, name, public, private),
            difficulty=short_text(row, "difficulty"),
            released=iso_date(row.get("contest_date")),
        )
    ]


def _own_solutions(row: Row, field: str) -> list[Any]:
    """Solutions that a user put into a row: one text, or a list of texts."""
    value = row.get(field)
    if value is None or value == "":
        raise BadRow("no_reference", f"{field}: the set publishes no solutions; put one into this field")
    return [value] if isinstance(value, str) else list_value(value, field)


def _cases(row: Row, field: str, by: Reading) -> list[tuple[Any, ...]]:
    value = row.get(field)
    if isinstance(value, str) and value.strip() and not value.lstrip().startswith(("[", "{")):
        value = unpacked(value, by.config.max_row_bytes, field)
    return _pairs(json_value(value, field), field, "input", "output", "testtype")


def _case(stdin: Any, stdout: Any, kind: Any, entry_point: str | None) -> ProblemTest | None:
    if kind == "functional" or (kind is None and entry_point is not None):
        if entry_point is None:
            raise BadRow("bad_field", "metadata: func_name is missing, but tests are calls")
        return _typed_call(stdin, stdout)
    return None if entry_point is not None else _lines_test(stdin, stdout)


def _typed_call(args: Any, expected: Any) -> ProblemTest | None:
    """A call of which arguments, one a line, and result are JSON."""
    if not isinstance(args, str):
        return _listed_call(args, expected)
    try:
        return _call_of_lines(args, json_value(expected, "output"))
    except BadRow:
        return None


def verifiable(row: Row, by: Reading) -> list[Problem]:
    """Verifiable problems in the manner of open-r1: `verification_info` with a language and test cases.

    Raises:
        BadRow: see the module.
    """
    prompt = next(
        (row[one] for one in ("problem_statement", "prompt", "problem", "question") if row.get(one)), None
    )
    prompt = text_value(prompt, "prompt")
    name = named(row, "", ("problem_id", "id", "in_source_id"), prompt)
    info = json_value(row.get("verification_info"), "verification_info")
    if not isinstance(info, dict):
        raise BadRow("bad_field", "verification_info: expected an object")
    language = text_value(info.get("language") or "python", "verification_info.language")
    if language.lower() not in ("python", "python3", "py"):
        raise BadRow("language_not_wanted", f"verification_info.language: {language[:40]!r} is not read")
    check_wanted(by, "Python")
    cases = _pairs(info.get("test_cases"), "verification_info.test_cases", "input", "output", "fn_name")
    called = {one[2] for one in cases if isinstance(one[2], str) and one[2]}
    if len(called) > 1:
        raise BadRow("bad_field", "verification_info.test_cases: they call several functions")
    entry_point = identifier(called.pop(), "fn_name") if called else None
    given = next(
        (row[one] for one in ("gold_standard_solution", "ground_truth_solution") if row.get(one)),
        row.get(by.config.solution_field),
    )
    if given is None or given == "":
        raise BadRow("no_reference", "gold_standard_solution: none is published")
    fenced = _FENCE.search(text_value(given, "gold_standard_solution"))
    code = fenced[1] if fenced else given
    solutions = python_solutions(by, [code], "gold_standard_solution", entry_point)
    make = _lines_test if entry_point is None else _typed_call
    tests = [test for one in cases if (test := make(one[0], one[1])) is not None]
    return [
        problem(
            by,
            name=name,
            prompt=prompt,
            entry_point=entry_point,
            solutions=solutions,
            tests=bounded(by, name, [], tests),
            difficulty=short_text(row, "difficulty"),
        )
    ]
