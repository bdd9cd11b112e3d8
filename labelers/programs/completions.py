"""Completions that a model wrote elsewhere.

In: files of one JSON object a line: `problem` (name or id of the problem), `completion`, `model`, and
optionally `temperature` and `seed`. Out: `Completion`s; `labelers.programs.answers` finds the program in
each. Wrong: `AssayError` that names file, line and field; the files are read whole before anything is
made of them, so that no row is lost half-way.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.errors import AssayError

_MAX_LINE = 8 << 20


@dataclasses.dataclass(frozen=True)
class Completion:
    """One completion: as its file gives it, or as a model was asked for it."""

    problem: str
    text: str
    model: str
    temperature: float | None
    seed: int
    detail: str | None = None
    prompt_version: str | None = None


def read_completions(files: Sequence[str]) -> list[Completion]:
    """All completions of files, in order.

    Raises:
        AssayError: a file is missing or unreadable, or a line is not a completion.
    """
    return [found for file in files for found in _read(Path(file))]


def _read(path: Path) -> Iterator[Completion]:
    try:
        with path.open("rb") as handle:
            number = 0
            while line := handle.readline(_MAX_LINE + 1):
                number += 1
                if len(line) > _MAX_LINE:
                    raise AssayError(f"{path} line {number}: longer than {_MAX_LINE >> 20} MiB")
                if line.strip():
                    yield _parse(line, f"{path} line {number}")
    except OSError as error:
        raise AssayError(f"{path}: completions cannot be read ({error.strerror})") from None


def _parse(line: bytes, where: str) -> Completion:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise AssayError(f"{where}: not JSON; give one object a line") from None
    if not isinstance(row, dict):
        raise AssayError(f"{where}: not a JSON object")
    for name in ("problem", "completion", "model"):
        if not isinstance(row.get(name), str):
            raise AssayError(f"{where}: {name!r} must be text")
    temperature, seed = row.get("temperature"), row.get("seed", 0)
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if temperature is not None and not (number and abs(temperature) < 1e9):
        raise AssayError(f"{where}: 'temperature' must be a number or null")
    if type(seed) is not int or not 0 <= seed < 1 << 63:
        raise AssayError(f"{where}: 'seed' must be a whole number from 0 on")
    try:
        for name in ("problem", "completion", "model"):
            row[name].encode()
    except UnicodeEncodeError:
        raise AssayError(f"{where}: {name!r} holds a lone surrogate, which is not text") from None
    heat = None if temperature is None else float(temperature)
    return Completion(row["problem"], row["completion"], row["model"], heat, seed)


def by_problem(found: Sequence[Completion]) -> dict[str, list[Completion]]:
    """Completions by what they call their problem, in order."""
    grouped: dict[str, list[Completion]] = {}
    for one in found:
        grouped.setdefault(one.problem, []).append(one)
    return grouped


def completions_of(
    program: Mapping[str, Any], grouped: Mapping[str, Sequence[Completion]]
) -> list[Completion]:
    """The completions of one program's problem, by name or id."""
    return [*grouped.get(program["problem"], []), *grouped.get(program["problem_id"], [])]
