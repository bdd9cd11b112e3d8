"""Problem sets in the format of HumanEval: one JSON object a line.

Fields: `task_id`, `prompt` (the program up to the body of the entry point), `entry_point`,
`canonical_solution` (the rest of the program) and `test` (source that defines `check(candidate)`).
Other fields are ignored. Programs are parsed, never run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from miner.config import ImportConfig
from miner.importers.fields import BadRow, Row, text_field
from miner.importers.lines import import_unit, plan_file, unique_slugs
from schemas.errors import AssayError
from schemas.ids import content_id
from schemas.records import Problem, ProblemTest
from schemas.stage import Outcome, Unit


def _functions(source: str, field: str) -> set[str]:
    """Names of a module's functions at its top level."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source)
    except SyntaxError as error:
        raise BadRow("bad_program", f"{field}: {error.msg} in line {error.lineno} of the program") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadRow("bad_program", f"{field}: cannot be parsed ({type(error).__name__})") from None
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def parse_problem(row: Row, source: str, license_id: str | None = None) -> Problem:
    """A problem from one row.

    Raises:
        BadRow: a field is missing or mistyped, the solution or suite does not parse, or the entry point
            or `check` is not defined.
    """
    name = text_field(row, "task_id")
    prompt = text_field(row, "prompt")
    entry_point = text_field(row, "entry_point")
    completion = text_field(row, "canonical_solution")
    test = text_field(row, "test")
    if not entry_point.isidentifier():
        raise BadRow("bad_field", f"entry_point: {entry_point[:60]!r} is no name of a function")
    solution = prompt + completion
    if entry_point not in _functions(solution, "canonical_solution"):
        raise BadRow("no_entry_point", f"entry_point: the solution defines no function {entry_point}")
    if "check" not in _functions(test, "test"):
        raise BadRow("bad_field", "test: defines no function check")
    return Problem(
        id=content_id(source, name, prompt, solution, "check", test),
        name=name,
        prompt=prompt,
        language="Python",
        entry_point=entry_point,
        solution=solution,
        references=[],
        tests=[ProblemTest(kind="check", code=test, stdin=None, stdout=None, args=None, expected=None)],
        tolerance=0.0,
        time_limit_s=None,
        memory_limit_mb=None,
        source=source,
        license=license_id,
        difficulty=None,
        released=None,
        url=None,
    )


def plan_problems(config: ImportConfig, files: Sequence[Path], limit: int | None = None) -> list[Unit]:
    """Plan the import of problem files, in the order given; `limit` bounds all rows together.

    Of several good rows with one `task_id` in a file, the first counts.

    Raises:
        AssayError: no file, a file twice, or one that cannot be read or holds no good row.
    """
    if not files:
        raise AssayError("import: no file; give a .jsonl or .jsonl.gz file of problems")
    units: list[Unit] = []
    paths = [Path(path) for path in files]
    for path, slug in zip(paths, unique_slugs(paths), strict=True):
        left = None if limit is None else limit - sum(unit.rows for unit in units)
        if left is not None and left <= 0:
            break
        units += plan_file(config, path, slug, lambda row: parse_problem(row, "").name, left)
    return units


def import_problems(config: ImportConfig, unit: Unit) -> Iterator[Outcome]:
    """One outcome for every row of a unit: a `Keep` with its `Problem`, or a `Drop`."""
    license_id = config.license or None
    return import_unit(config, unit, lambda row, source: parse_problem(row, source, license_id))
