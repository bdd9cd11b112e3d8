"""Completions that a model wrote elsewhere.

In: files of one JSON object a line: `problem` (name or id of the problem), `completion`, `model`, and
optionally `temperature` and `seed`. Out: `Completion`s; `labelers.programs.answers` finds the program in
each. Wrong: a line that is no completion is left out, and `check` tells which and why; a file that cannot
be read, or holds none, is an `AssayError`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
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
        AssayError: a file is missing or unreadable, or holds no completion.
    """
    return [one for file in files for one in _read(Path(file)) if isinstance(one, Completion)]


def check(files: Sequence[str], known: Collection[str]) -> dict[str, Any]:
    """What of files of completions is of no use, with a line that says so; the line is null where all is.

    Args:
        known: names and ids of the problems of the run.

    Raises:
        AssayError: as for `read_completions`.
    """
    read = [one for file in files for one in _read(Path(file))]
    bad = [one for one in read if isinstance(one, str)]
    lost = [one.problem for one in read if isinstance(one, Completion) and one.problem not in known]
    told = []
    if bad:
        told.append(f"{len(bad):,} lines are no completions ({bad[0]}{', ...' if len(bad) > 1 else ''})")
    if lost:
        told.append(f"{len(lost):,} completions name no problem of this run, such as {lost[0][:80]!r}")
    line = f"sample: of {len(read):,} lines of completions {'; '.join(told)}" if told else None
    return {"completions_refused": len(bad), "completions_of_no_problem": len(lost), "line": line}


def _read(path: Path) -> list[Completion | str]:
    """A file's completions, and for each line that is none what is wrong with it."""
    found: list[Completion | str] = []
    try:
        with path.open("rb") as handle:
            number = 0
            while line := handle.readline(_MAX_LINE + 1):
                number += 1
                if len(line) > _MAX_LINE:
                    found.append(f"{path} line {number}: longer than {_MAX_LINE >> 20} MiB")
                    while line and not line.endswith(b"\n"):
                        line = handle.readline(_MAX_LINE + 1)
                elif line.strip():
                    found.append(_parsed(line, f"{path} line {number}"))
    except OSError as error:
        raise AssayError(f"{path}: completions cannot be read ({error.strerror})") from None
    if found and all(isinstance(one, str) for one in found):
        raise AssayError(str(found[0]))
    return found


def _parsed(line: bytes, where: str) -> Completion | str:
    try:
        return _parse(line, where)
    except AssayError as error:
        return str(error)


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
