"""What the readers of formats share: a row's fields become a `Problem`, or a `BadRow` says why not.

Programs are parsed where they are Python, never run. Nothing here trusts a row: text must be storable,
JSON inside of text is read with its depth and numbers bounded, and a test that cannot be kept as JSON
(a number that is none, half of a surrogate pair) is left out without costing the others.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime
import json
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from miner.config import ImportConfig
from miner.importers.fields import BadRow, Row, text_value
from schemas.ids import content_id, digest_json, rng
from schemas.records import Problem, ProblemTest

MAX_PROGRAM_CHARS = 2 << 20
"""A longer Python program is not parsed: its tree takes a hundred times its size."""

_MAX_DIGITS = 4300
_PYTHON_2 = "Missing parentheses in call to"
_ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a row is read with.

    Attributes:
        source: file or dataset that it comes from.
        config: settings.
        seed: root of the draws of tests.
    """

    source: str
    config: ImportConfig
    seed: int = 0


def python_module(code: str, field: str) -> ast.Module:
    """A Python program's tree.

    Raises:
        BadRow: it does not parse.
    """
    if len(code) > MAX_PROGRAM_CHARS:
        raise BadRow("bad_program", f"{field}: longer than {MAX_PROGRAM_CHARS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Python runs files that begin with a byte order mark.
            return ast.parse(code.removeprefix("\ufeff"))
    except SyntaxError as error:
        reason = "python_2" if str(error.msg).startswith(_PYTHON_2) else "bad_program"
        raise BadRow(reason, f"{field}: {error.msg} in line {error.lineno} of the program") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadRow("bad_program", f"{field}: cannot be parsed ({type(error).__name__})") from None


def functions(module: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """A module's functions at its top level, by name."""
    return {
        node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def entry_points(module: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """What calls can reach: functions at the top level, and methods of a class `Solution` behind them."""
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name == "Solution":
            found |= {
                one.name: one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found | functions(module)


def identifier(value: Any, field: str) -> str:
    """A field that names a function.

    Raises:
        BadRow: it is no name.
    """
    name = text_value(value, field)
    if not name.isidentifier():
        raise BadRow("bad_field", f"{field}: {name[:60]!r} is no name of a function")
    return name


def python_solutions(by: Reading, codes: Iterable[Any], field: str, entry_point: str | None) -> list[str]:
    """Of published Python programs the first that parse, and define `entry_point` where there is one:
    one solution and its references, all different.

    Raises:
        BadRow: there is none; tells what is wrong with the first.
    """
    found: list[str] = []
    wrong: BadRow | None = None
    for number, code in enumerate(codes):
        try:
            text = text_value(code, f"{field}[{number}]")
            module = python_module(text, f"{field}[{number}]")
            if entry_point is not None and entry_point not in entry_points(module):
                raise BadRow("no_entry_point", f"{field}[{number}]: defines no function {entry_point}")
        except BadRow as bad:
            wrong = wrong or bad
            continue
        if text not in found:
            found.append(text)
        if len(found) > by.config.max_references:
            break
    if not found:
        raise wrong or BadRow("no_reference", f"{field}: none is published")
    return found


def check_wanted(by: Reading, language: str) -> None:
    """Refuse a row whose only language is not among those wanted.

    Raises:
        BadRow: it is not.
    """
    if by.config.languages and language not in by.config.languages:
        raise BadRow("language_not_wanted", f"the solution is in {language}")


def json_value(value: Any, field: str) -> Any:
    """A field that some publish as JSON text and others as the value itself; null for empty text.

    Integers of more digits than Python reads become objects that no test can hold.

    Raises:
        BadRow: it is text that is not JSON.
    """
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(
            value, parse_int=lambda digits: int(digits) if len(digits) <= _MAX_DIGITS else object()
        )
    except json.JSONDecodeError as error:
        raise BadRow("bad_field", f"{field}: not JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError):
        raise BadRow("bad_field", f"{field}: not JSON that can be read: nested too deep") from None


def list_value(value: Any, field: str) -> list[Any]:
    """A field that must be a list, empty where it is null.

    Raises:
        BadRow: it is none.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRow("bad_field", f"{field}: expected a list")
    return value


def json_text(value: Any) -> str | None:
    """A value as JSON text that can be stored, or None for one that JSON has no text for."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):  # UnicodeEncodeError is a ValueError
        return None
    return text


def code_test(kind: str, code: str) -> ProblemTest:
    """A test that is source: kind `check`, `assert` or `unittest`."""
    return ProblemTest(kind=kind, code=code, stdin=None, stdout=None, args=None, expected=None)


def stdin_test(stdin: str, stdout: str) -> ProblemTest:
    """A test of a program."""
    return ProblemTest(kind="stdin", code=None, stdin=stdin, stdout=stdout, args=None, expected=None)


def call_test(args: Sequence[Any], expected: Any = _ABSENT) -> ProblemTest | None:
    """A test that is one call; without `expected` the reference decides. None when JSON cannot hold it."""
    told = json_text(list(args))
    wanted = None if expected is _ABSENT else json_text(expected)
    if told is None or (wanted is None and expected is not _ABSENT):
        return None
    return ProblemTest(kind="call", code=None, stdin=None, stdout=None, args=told, expected=wanted)


def bounded(by: Reading, name: str, first: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """At most `max_tests` tests: those that come first, then a draw of the others, in their order."""
    kept = list(first[: by.config.max_tests])
    room = by.config.max_tests - len(kept)
    if room >= len(others):
        return [*kept, *others]
    drawn = rng(by.seed, "problem tests", content_id(by.source, name)).sample(range(len(others)), room)
    return [*kept, *(others[at] for at in sorted(drawn))]


def seconds(value: Any, field: str) -> float | None:
    """A time limit: a number of seconds, or text such as `2.0 seconds`; None when not told or none."""
    found = _quantity(value, field, {"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1, "ms": 0.001})
    return found if found is not None and 0 < found <= 86400 else None


def mebibytes(value: Any, field: str) -> int | None:
    """A memory limit: a number of bytes, or text such as `256.0 megabytes`; None when not told or none."""
    units: dict[str, float] = {"byte": 1, "bytes": 1, "b": 1}
    for power, names in enumerate(
        ("kb kib kilobyte kilobytes", "mb mib megabyte megabytes", "gb gib gigabyte gigabytes")
    ):
        units |= dict.fromkeys(names.split(), 1 << 10 * (power + 1))
    found = _quantity(value, field, units)
    return max(1, int(found) >> 20) if found is not None and 0 < found < 1 << 50 else None


def _quantity(value: Any, field: str, units: dict[str, float]) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e18 and math.isfinite(value) else None
    match = re.match(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*([A-Za-z]*)", text_value(value, field, empty=True))
    if match is None or match[2].lower() not in units:
        return None
    return float(match[1]) * units[match[2].lower()]


def tolerance_of(value: Any, field: str) -> float:
    """A difference that is allowed; 0 when not told.

    Raises:
        BadRow: it is no number of at least 0.
    """
    if value is None:
        return 0.0
    # A whole number may be larger than any float, so that it is compared before it becomes one.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e300:
        raise BadRow("bad_field", f"{field}: expected a number of at least 0")
    return float(value)


def iso_date(value: Any) -> str | None:
    """The date of an ISO date or time as YYYY-MM-DD; None when it is none."""
    try:
        return datetime.datetime.fromisoformat(value.strip()).date().isoformat()
    except (AttributeError, ValueError, TypeError):
        return None


def short_text(row: Row, field: str, unless: Sequence[str] = ()) -> str | None:
    """A field that may tell something: text or a whole number; None when it is missing, null or empty, or
    says by one of the words of `unless` that nothing is known.

    Raises:
        BadRow: it is neither.
    """
    value = row.get(field)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        value = str(value)
    if value is None or not text_value(value, field, empty=True).strip():
        return None
    return None if value in unless else str(value)


def named(row: Row, prefix: str, fields: Sequence[str], told: str) -> str:
    """A problem's name: what the first field that tells says, or a digest of what the problem tells.

    Raises:
        BadRow: a field is neither text nor a number.
    """
    for field in fields:
        if (name := short_text(row, field)) is not None:
            return f"{prefix}{name}"
    return f"{prefix}{content_id(told)[:16]}"


def problem(
    by: Reading,
    *,
    name: str,
    prompt: str,
    entry_point: str | None,
    solutions: Sequence[str],
    tests: Sequence[ProblemTest],
    language: str = "Python",
    license_id: str | None = None,
    tolerance: float = 0.0,
    time_limit_s: float | None = None,
    memory_limit_mb: int | None = None,
    difficulty: str | None = None,
    released: str | None = None,
    url: str | None = None,
) -> Problem:
    """The record. `solutions` is the reference and its alternatives.

    Raises:
        BadRow: there is no test.
    """
    if not tests:
        raise BadRow("no_tests", "no test of it can be kept")
    return Problem(
        id=content_id(
            by.source,
            name,
            language,
            prompt,
            solutions[0],
            digest_json([dataclasses.asdict(test) for test in tests]),
        ),
        name=name,
        prompt=prompt,
        language=language,
        entry_point=entry_point,
        solution=solutions[0],
        references=list(solutions[1:]),
        tests=list(tests),
        tolerance=tolerance,
        time_limit_s=time_limit_s,
        memory_limit_mb=memory_limit_mb,
        source=by.source,
        license=by.config.license or license_id,
        difficulty=difficulty,
        released=released,
        url=url,
    )
