"""Completions that a model wrote elsewhere become candidates.

In: files of one JSON object a line: `problem` (name or id of the problem), `completion`, `model`, and
optionally `temperature` and `seed`. Out: whole programs, ready to be judged. A completion may be a
program, an answer with a program in a fenced block, or the rest of a program that begins with the
problem's prompt. What is none of these stays as it is: it is judged, and fails.
Wrong: `AssayError` that names file, line and field; the files are read whole before anything is made
of them, so that no row is lost half-way.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from decompose.functions import functions
from decompose.grammars import SourceError
from schemas.errors import AssayError

_MAX_LINE = 8 << 20
_FENCE = re.compile(r"[ \t]*(`{3,})([^`\n]*)\n?")
# An answer has a few blocks; the longest are the programs.
_MAX_BLOCKS = 8


@dataclasses.dataclass(frozen=True)
class Completion:
    """One completion as its file gives it."""

    problem: str
    text: str
    model: str
    temperature: float | None
    seed: int


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


def assemble(completion: str, prompt: str, entry_point: str) -> str:
    """The program that a completion is, or the completion itself where it is none.

    Args:
        prompt: the problem's prompt, which the completion may go on from.
        entry_point: function that the program must define.
    """
    blocks = sorted(fenced_blocks(completion), key=len, reverse=True)[:_MAX_BLOCKS]
    for text in (completion, *blocks, prompt + completion, *(prompt + block for block in blocks)):
        if _defines(text, entry_point):
            return text
    return blocks[0] if blocks else completion


def fenced_blocks(text: str) -> list[str]:
    """What stands between fences of three or more backticks, in order; one left open goes to the end."""
    blocks: list[str] = []
    block: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, block = match[1], []
        elif match and len(match[1]) >= len(fence) and not match[2].strip():
            blocks.append("".join(block))
            fence = ""
        elif fence:
            block.append(line)
    if fence:
        blocks.append("".join(block))
    return blocks


def _defines(code: str, name: str) -> bool:
    try:
        return any(span.name == name for span in functions(code))
    except SourceError:
        return False


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
