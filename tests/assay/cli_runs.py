"""Real repositories and problem files for the command line's tests, and a way to run it."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SUBJECTS = (
    "Fix crash when the list of items is empty",
    "Speed up the lookup by keeping a cache",
    "Refactor the helper and rename its argument",
    "Fix memory leak in the pool of buffers",
    "Escape untrusted input to prevent SQL injection",
    "Flip the order of two statements",
    "wip",
)

PROBLEM = {
    "task_id": "tiny/0",
    "prompt": 'def total(rows):\n    """Sum of the weights of all rows."""\n',
    "entry_point": "total",
    "canonical_solution": (
        "    return sum(weight(row) for row in rows)\n\n\n"
        "def weight(row):\n"
        '    """Twice the row, and one more when it is odd."""\n'
        "    if row % 2 == 1:\n"
        "        return row * 2 + 1\n"
        "    return row * 2\n"
    ),
    "test": (
        "def check(candidate):\n"
        "    assert candidate([]) == 0\n"
        "    assert candidate([1]) == 3\n"
        "    assert candidate([2, 3]) == 11\n"
        "    assert candidate([4, 4, 5]) == 27\n"
    ),
}


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a run of the command line gave."""

    code: int
    out: str
    err: str


def eval_models() -> Any:
    """The module that makes small models, which the tests of the trainers have too."""
    path = Path(__file__).parents[1] / "trainers" / "eval_models.py"
    spec = importlib.util.spec_from_file_location("eval_models_here", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(*args: object) -> list[str]:
    """The command line as an argument list."""
    return [sys.executable, "-m", "assay", *map(str, args)]


def assay(*args: object, cwd: Path | None = None) -> Ran:
    """Run the command line to its end."""
    done = subprocess.run(command(*args), capture_output=True, text=True, cwd=cwd, timeout=240)
    return Ran(done.returncode, done.stdout, done.stderr)


def git(*args: object, stdin: bytes | None = None) -> None:
    """Run git as nobody in particular."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    subprocess.run(["git", *map(str, args)], check=True, capture_output=True, input=stdin, env=environment)


def make_repo(path: Path, commits: int) -> Path:
    """A bare repository with one edit a commit over a handful of Python files."""
    git("init", "--quiet", "--bare", "--initial-branch=main", path)
    stream = []
    for n in range(commits):
        file, subject = f"src/module{n % 5}.py", SUBJECTS[n % len(SUBJECTS)]
        message = f"{subject} ({n})\n" if subject != "wip" else "wip\n"
        lines = [f"def function_{k}(x):\n    return x + {n * 31 + k}\n\n\n" for k in range(12)]
        body = f"import os\n\n\nclass Thing{n % 5}:\n    pass\n\n\n" + "".join(lines)
        stream += [
            "commit refs/heads/main\n",
            f"author A <a@example.org> {1500000000 + n * 3600} +0000\n",
            f"committer A <a@example.org> {1500000000 + n * 3600} +0000\n",
            f"data {len(message)}\n{message}",
            f"M 100644 inline {file}\ndata {len(body)}\n{body}\n",
        ]
    git("-C", path, "fast-import", "--quiet", stdin="".join(stream).encode())
    return path
