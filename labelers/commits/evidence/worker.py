"""The process that reads versions of files: `python -m labelers.commits.evidence.worker FOLDER SECONDS`.

In (standard input): frames of JSON, each a version with the tasks to do: `text`, `language`, `path`, `tasks`,
and `other` where a task is about two versions. Out (standard output): for each task a frame, in order:
`{"good": {...}}`, or `{"bad": reason}`. A frame is four bytes of length, big end first, and that many bytes.
Tasks: `syntax`, `complexity`, `security`, `alone`. A text that is made to take for ever costs this process,
which is killed and started anew, and no other. FOLDER is an empty folder of its own; bandit reads files
alone, so that a version is put there under a fixed name. Memory is bounded; nothing of a text is run, and
nothing of it names a file or an option.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

MEMORY = 2 << 30
"""Bytes of address space that this process may take."""
_MOST_FUNCTIONS = 20_000
_MOST_FINDINGS = 5_000
NAMES = {
    "C": "version.c",
    "C#": "version.cs",
    "C++": "version.cpp",
    "Go": "version.go",
    "Java": "version.java",
    "JavaScript": "version.js",
    "Kotlin": "version.kt",
    "PHP": "version.php",
    "Python": "version.py",
    "Ruby": "version.rb",
    "Rust": "version.rs",
    "Scala": "version.scala",
    "Swift": "version.swift",
    "TypeScript": "version.ts",
}
"""Languages that lizard reads, with a name by whose ending it tells them."""


def _syntax(asked: dict[str, Any], _: Path) -> dict[str, Any]:
    from labelers.commits.evidence import rules
    from labelers.commits.evidence.syntax import outline

    found = outline(asked["text"], asked["language"], asked["path"])
    return {
        "errors": found.errors,
        "tokens": found.tokens,
        "code_lines": found.code_lines,
        "comment_lines": found.comment_lines,
        "nesting": found.nesting,
        "duplicates": found.duplicates,
        "program": found.program,
        "found": {kind: dict(counts) for kind, counts in rules.find(found, asked["language"]).items()},
    }


def _complexity(asked: dict[str, Any], _: Path) -> dict[str, Any]:
    """Of each function: first and last line, cyclomatic complexity, lines of code, parameters."""
    import lizard

    name = NAMES[asked["language"]]
    if asked["path"].lower().endswith(".tsx"):
        name = "version.tsx"
    read = lizard.analyze_file.analyze_source_code(name, asked["text"])
    return {
        "functions": [
            [one.start_line, one.end_line, one.cyclomatic_complexity, one.nloc, one.parameter_count]
            for one in read.function_list[:_MOST_FUNCTIONS]
        ]
    }


@functools.cache
def _bandit() -> tuple[Any, Any]:
    from bandit.core import config, manager

    logging.getLogger("bandit").setLevel(logging.CRITICAL)
    return config.BanditConfig(), manager.BanditManager


def _security(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Findings of bandit; comments that switch it off are not heeded."""
    place = folder / NAMES["Python"]
    place.write_text(asked["text"], "utf-8", newline="")
    config, manager = _bandit()
    made = manager(config, "file", ignore_nosec=True)
    made.discover_files([str(place)])
    made.run_tests()
    if made.skipped:
        raise ValueError("syntax")
    issues = made.get_issue_list()[:_MOST_FINDINGS]
    return {"findings": [[one.test_id, one.severity, one.confidence] for one in issues]}


def _alone(asked: dict[str, Any], _: Path) -> dict[str, Any]:
    """Changed functions of two versions that can be run alone."""
    from labelers.commits.evidence.alone import alone

    return {"functions": [dataclasses.asdict(one) for one in alone(asked["text"], asked["other"])]}


TASKS: dict[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "syntax": _syntax,
    "complexity": _complexity,
    "security": _security,
    "alone": _alone,
}


def _done(task: str, asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    from decompose.grammars import SourceError

    try:
        return {"good": TASKS[task](asked, folder)}
    except SourceError:
        return {"bad": "no_text"}
    except MemoryError:
        return {"bad": "memory"}
    except RecursionError:
        return {"bad": "too_deep"}
    except Exception as error:
        # The tools were not made for hostile text: whatever they raise says no more than that they failed.
        return {"bad": "syntax" if str(error) == "syntax" else "failed"}


def read_frame(source: IO[bytes], most: int) -> bytes | None:
    """The next frame; None at the end, or for one that is longer than `most` or cut."""
    head = source.read(4)
    size = int.from_bytes(head, "big")
    if len(head) < 4 or size > most:
        return None
    data = source.read(size)
    return data if len(data) == size else None


def write_frame(sink: IO[bytes], data: bytes) -> None:
    """Write a frame."""
    sink.write(len(data).to_bytes(4, "big") + data)
    sink.flush()


def main(folder: Path, time_limit_s: int) -> None:
    """Do tasks until there are none; the kernel ends this process in a task that takes too long."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What the tools print is not an answer.
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")
    while (data := read_frame(sys.stdin.buffer, 1 << 28)) is not None:
        asked = json.loads(data)
        for task in asked["tasks"]:
            # Whoever asked may be gone by then.
            signal.alarm(time_limit_s)
            answer = _done(task, asked, folder)
            signal.alarm(0)
            write_frame(answers, json.dumps(answer).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
