"""Other programs that read a version of a file, started so that a hostile text costs no more than its answer.

In: texts with their languages. Out: what each tool says of them, or a short code for why it says nothing:
`timeout`, `crashed`, `too_much`, `syntax`, `failed`, `no_text`, `memory`, `too_deep`. A tool gets a list of
fixed arguments, texts in files of fixed names in a folder of its own, an environment without settings, no
configuration of any user or project, and bounds of time, memory and output. Comments that switch findings
off are not heeded. Wrong: `AssayError` where a tool is not installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import json
import re
import resource
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from labelers.commits.evidence.worker import MEMORY, read_frame, write_frame
from schemas.errors import AssayError

_MOST_OUTPUT = 16 << 20
_MOST_ANSWER = 8 << 20
# Names that no program imports.
_PLACES = ("version_one_of_two.py", "version_two_of_two.py")
_SWITCHES = re.compile(r"(?i)#(?=[^\S\n]*(?:///[^\S\n]*script|ty[^\S\n]*:[^\S\n]*ignore))")
"""Comments that tell ty what to leave out: settings of a script and `ty: ignore`."""
_IMPORTS = frozenset({"unresolved-import", "import-not-found"})
LINT_GROUPS = ("F", "E", "PLE", "PLW", "B", "SIM", "C4", "UP", "PERF", "S")
"""Groups of ruff's rules that are counted; of E the ones about statements and faults, none about layout."""
_SELECTED = ",".join(("F", "E4", "E7", "E9", *LINT_GROUPS[2:]))
# What says more of a project's habits, or of its being read alone, than of the code.
_IGNORED = "S101,E402,PLW2901,PLW0603"
_RUFF = (
    *("check", "--isolated", "--no-cache", "--ignore-noqa", "--no-fix", "--exit-zero", "--quiet"),
    *("--output-format=json", "--no-respect-gitignore", "--target-version=py313"),
    *(f"--select={_SELECTED}", f"--ignore={_IGNORED}"),
)
_TY = (
    *("check", "--output-format=gitlab", "--no-progress", "--exit-zero", "--project=."),
    *("--python-version=3.13", "--python-platform=linux"),
    "--config=analysis.respect-type-ignore-comments=false",
)

Answer = dict[str, Any] | str
"""What a tool found, or why nothing."""


@functools.cache
def version(tool: str) -> str:
    """Name and version of a tool, as measures say it."""
    return f"{tool} {metadata.version(tool)}"


class Reader:
    """A process that reads versions; started when first needed, and again when it was lost."""

    def __init__(self, folder: Path, time_limit_s: float) -> None:
        self.folder, self.time_limit_s = folder, time_limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, text: str, language: str, path: str, tasks: Sequence[str], other: str = "") -> None:
        """Hand over a version; `answers` has to be called next."""
        # The ending tells dialects apart, and is all that is told of a path.
        ending = ".tsx" if path.lower().endswith(".tsx") else ""
        self._asked: dict[str, Any] = {"text": text, "other": other, "language": language}
        self._asked |= {"path": f"version{ending}", "tasks": list(tasks)}
        self._send()

    def _send(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = self._started()
        # Surrogates of a text are JSON escapes, so that any text can be sent.
        if (pipe := self._process.stdin) is not None:
            with contextlib.suppress(OSError):
                write_frame(pipe, json.dumps(self._asked).encode())

    def answers(self) -> dict[str, Answer]:
        """The answers to what was asked, by task."""
        found: dict[str, Answer] = {}
        tasks = list(self._asked["tasks"])
        while len(found) < len(tasks):
            data, why = self._answer()
            if data is not None:
                told = json.loads(data)
                found[tasks[len(found)]] = told["good"] if "good" in told else str(told["bad"])
                continue
            found[tasks[len(found)]] = why
            self._asked["tasks"] = tasks[len(found) :]
            if self._asked["tasks"]:
                self._send()
        return found

    def _answer(self) -> tuple[bytes | None, str]:
        """The next frame, or why there is none; the process is gone then."""
        process = self._process
        if process is None or process.stdout is None:
            return None, "crashed"
        timer, late = _stopper(process, self.time_limit_s)
        try:
            data = read_frame(process.stdout, _MOST_ANSWER)
        finally:
            timer.cancel()
        if data is None:
            self.close()
        return data, "timeout" if late.is_set() else "crashed"

    def _started(self) -> subprocess.Popen[bytes]:
        root = Path(__file__).resolve().parents[3]
        # More than the limit: it is for one whose parent is gone.
        seconds = str(int(self.time_limit_s) + 5)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "labelers.commits.evidence.worker", str(self.folder), seconds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env={**_environment(self.folder), "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"},
        )

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


def _stopper(process: subprocess.Popen[bytes], seconds: float) -> tuple[threading.Timer, threading.Event]:
    """A timer, already running, that kills a process, and what tells that it did."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    return timer, late


def _environment(folder: Path) -> dict[str, str]:
    """What a tool sees of the environment: no settings, and a home without any."""
    home = str(folder)
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR")
    return {
        **dict.fromkeys(names, home),
        "PATH": "",
        "LC_ALL": "C.UTF-8",
        "RAYON_NUM_THREADS": "2",
        "TY_MAX_PARALLELISM": "2",
    }


@dataclasses.dataclass
class _Run:
    """A tool that is at work on one or two texts."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path
    timer: threading.Timer
    late: threading.Event

    def ended(self) -> tuple[Any, str]:
        """What it wrote, read as JSON; or why there is nothing."""
        try:
            code = self.process.wait()
        finally:
            self.timer.cancel()
        if self.late.is_set():
            return None, "timeout"
        if code < 0 or code > 1:
            return None, "crashed"
        if self.output.stat().st_size >= _MOST_OUTPUT:
            return None, "too_much"
        try:
            return json.loads(self.output.read_bytes()), ""
        except ValueError:
            return None, "failed"


class Linters:
    """ruff and ty on one or two versions of Python at once."""

    def __init__(self, folder: Path, time_limit_s: float) -> None:
        self.folder, self.time_limit_s = folder, time_limit_s
        self._runs: tuple[_Run, _Run] | None = None
        self._count = 0

    def start(self, texts: Sequence[str]) -> None:
        """Begin; `answers` has to be called next.

        Raises:
            AssayError: ruff or ty is not installed.
        """
        self._count = len(texts)
        lint, types = self.folder / "lint", self.folder / "types"
        places = _PLACES[: len(texts)]
        for folder in (lint, types):
            folder.mkdir(exist_ok=True)
        for place, text in zip(places, texts, strict=True):
            (lint / place).write_bytes(text.encode("utf-8", "replace"))
            (types / place).write_bytes(_SWITCHES.sub("# -", text).encode("utf-8", "replace"))
        ruff = self._run(
            "ruff",
            [*_RUFF, *places],
            lint,
        )
        ty = self._run(
            "ty",
            [*_TY, *places],
            types,
        )
        self._runs = ruff, ty

    def _run(self, tool: str, arguments: list[str], folder: Path) -> _Run:
        output = self.folder / f"{tool}.json"
        with output.open("wb") as sink:
            process = subprocess.Popen(
                [binary(tool), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=_environment(self.folder),
            )
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(process.pid, resource.RLIMIT_AS, (2 * MEMORY, 2 * MEMORY))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_MOST_OUTPUT, _MOST_OUTPUT))
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        timer, late = _stopper(process, self.time_limit_s)
        return _Run(tool, process, output, timer, late)

    def answers(self) -> list[dict[str, Answer]]:
        """For each text what `lint` and `types` say."""
        if self._runs is None:
            return []
        lint, types = (run.ended() for run in self._runs)
        self._runs = None
        told = _by_place(*lint, self._count, _lint), _by_place(*types, self._count, _types)
        return [{"lint": one, "types": other} for one, other in zip(*told, strict=True)]

    def close(self) -> None:
        """End what is still at work."""
        for run in self._runs or ():
            run.process.kill()
            run.process.wait()
            run.timer.cancel()
        self._runs = None


def _by_place(told: Any, why: str, count: int, code: Callable[[Any], tuple[str, str | None]]) -> list[Answer]:
    """Findings by code, for each text."""
    if why:
        return [why] * count
    found: list[Counter[str]] = [Counter() for _ in range(count)]
    try:
        for one in told:
            path, name = code(one)
            if name is not None:
                found[_PLACES.index(Path(path).name)][name] += 1
    except (TypeError, KeyError, ValueError, IndexError):
        return ["failed"] * count
    return ["syntax" if "invalid-syntax" in one else dict(sorted(one.items())) for one in found]


def _lint(one: Any) -> tuple[str, str | None]:
    return one["filename"], one["code"] or "invalid-syntax"


def _types(one: Any) -> tuple[str, str | None]:
    name = one["check_name"]
    counts = one["severity"] in ("major", "critical", "blocker") and name not in _IMPORTS
    return one["location"]["path"], name if counts else None


@functools.cache
def binary(tool: str) -> str:
    """Where a tool's program is.

    Raises:
        AssayError: it is not installed.
    """
    try:
        return str(getattr(importlib.import_module(tool), f"find_{tool}_bin")())
    except (ImportError, FileNotFoundError):
        raise AssayError(f"{tool} is not installed; run: pip install {tool}") from None


def group_of(code: str) -> str:
    """The group of one of ruff's codes: its letters, with the digit of `C4`."""
    return "C4" if code.startswith("C4") else code.rstrip("0123456789")
