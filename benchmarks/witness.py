"""Whether a bug changes what a function returns, decided by running it and not by any test.

In: a program with its problem, and bugs of its functions. Out: a `Witness` a bug: the first input found on
which the reference returns and the bug does not return the same. The search runs in a sandbox
(`witness_inside`), since nothing is known of the programs. It makes inputs of its own; it sees neither tests
nor mutants.
Wrong: a search that is stopped (time, memory) leaves the bug at which it stopped without a witness.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planted import Bug

from sandbox import Job, Limits, Sandbox

_INSIDE = Path(__file__).with_name("witness_inside.py")


@dataclass(frozen=True)
class Bounds:
    """How far inputs are looked for.

    Attributes:
        made: inputs made up for the entry point.
        most_inputs: distinct inputs kept of each function.
        direct: inputs made up for a function itself.
        look_s: seconds of processor time in which the entry point runs.
        bug_s: seconds of processor time a bug.
    """

    made: int = 2000
    most_inputs: int = 3000
    direct: int = 1500
    look_s: float = 2.0
    bug_s: float = 1.5


@dataclass(frozen=True)
class Witness:
    """What was found of a bug.

    Attributes:
        level: where the input comes from: `suite`, `entry` (the function is given it while the entry point
            runs on valid inputs), `direct` (made up for the function itself) or `hand`; None without one.
        how: what the bug does there: `value`, `error` or `no end`; else why there is no witness: `equal` on
            all inputs, `gave up`, `stopped`, or the error that the program raises when it is loaded.
        call: the input.
        wanted: what the reference returns.
        got: what the bug returns.
        tried: inputs that were tried.
    """

    level: str | None
    how: str
    call: str = ""
    wanted: str = ""
    got: str = ""
    tried: int = 0


def suite_of(problem: Mapping[str, Any]) -> list[str] | None:
    """The suite as Python source; None for one that is not."""
    tests = problem["tests"]
    if not tests or any(test["kind"] not in ("check", "assert") or not test["code"] for test in tests):
        return None
    return [test["code"] for test in tests]


def search(
    box: Sandbox,
    program: Mapping[str, Any],
    problem: Mapping[str, Any],
    bugs: Sequence[Bug],
    seed: int,
    bounds: Bounds | None = None,
) -> list[Witness]:
    """A witness a bug of one program, in order."""
    bounds = bounds or Bounds()
    suite = suite_of(problem)
    if suite is None or not problem["entry_point"]:
        return [Witness(None, "no suite") for _ in bugs]
    found: list[Witness] = []
    while len(found) < len(bugs):
        left = bugs[len(found) :]
        told = _run(box, program["code"], problem["entry_point"], suite, left, seed, bounds)
        found += told
        if len(told) < len(left):
            found.append(Witness(None, "stopped"))
    return found


def _run(
    box: Sandbox, code: str, entry: str, suite: list[str], bugs: Sequence[Bug], seed: int, bounds: Bounds
) -> list[Witness]:
    task = {
        "program": code,
        "entry": entry,
        "suite": suite,
        "seed": seed,
        "bugs": [{"id": at, "function": bug.function, "code": bug.code} for at, bug in enumerate(bugs)],
        **vars(bounds),
    }
    seconds = 30 + 2 * bounds.look_s + len(bugs) * (bounds.bug_s + 1)
    limits = Limits(cpu_s=seconds, wall_s=4 * seconds, memory_mb=1024, output_kb=8192)
    files = {"main.py": _INSIDE.read_text(), "task.json": json.dumps(task)}
    result = box.run(Job("script", files, limits=limits))
    found = []
    for line in result.stdout.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            break
        found.append(Witness(**{key: value for key, value in told.items() if key != "bug"}))
    if not found and result.status != "ok":
        # For a person: of all bugs of this program nothing is known.
        return [Witness(None, f"{result.status} {result.stderr.strip()[-200:]}") for _ in bugs]
    return found
