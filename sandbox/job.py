"""What goes into the sandbox and what comes out: plain records, checked when they are made.

In: a `Job` (a kind, source files, calls or input, `Limits`). Out: a `Result` whose `status` names the
one thing that happened. Wrong: a value out of range raises ValueError at construction; a language or
kind that is not supported raises `SandboxError` when the job is run, never a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sandbox.names import FILES, script_file, solution_file

Kind = Literal["calls", "script", "split", "unittest"]
Status = Literal[
    "ok",
    "exception",
    "exit",
    "timeout",
    "cpu_limit",
    "memory_limit",
    "output_limit",
    "proc_limit",
    "signal",
    "unserializable",
    "compile_error",
    "failed",
    "invalid_suite",
    "infra_error",
]
Trust = Literal["external", "split", "inproc"]

KINDS: tuple[str, ...] = get_args(Kind)
STATUSES: tuple[str, ...] = get_args(Status)

# Bytes of a file's name and of its path below the working folder; the kernel's own bounds are 255 and 4095.
_MAX_NAME, _MAX_PATH = 255, 2048
# Bytes of all files together: half of what can be sent to the program's side.
_MAX_FILES = 32 << 20


class SandboxError(Exception):
    """The caller's or the machine's fault, never a verdict: a bad job, a language without a toolchain."""


class SandboxUnavailable(SandboxError):
    """The isolation that was asked for cannot be had here; the message says what lacks and what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one job. For kind "split" each of its two processes gets them whole; its wall clock runs only
    while it, and not the other, has something to do.

    wall_s       seconds of wall time from the moment the program starts (set-up is not counted), less the
                 time in which it was ready to run while other programs had the processors
    cpu_s        seconds of processor time of all processes together, looked at every 50 ms; behind that the
                 kernel bounds each process, in whole seconds rounded up
    memory_mb    MiB of address space a process may take, and of resident memory the whole tree may
    processes    processes and threads alive at once, the program itself included
    file_mb      MiB of the largest file that may be written
    tmpfs_mb     MiB of the only writable file system
    output_kb    KiB kept of each of stdout and stderr; the rest is drained and dropped
    result_kb    KiB of values that may come back in all
    open_files   descriptors a process may hold
    """

    wall_s: float = 5.0
    cpu_s: float = 5.0
    memory_mb: int = 512
    processes: int = 16
    file_mb: int = 16
    tmpfs_mb: int = 64
    output_kb: int = 256
    result_kb: int = 16384
    open_files: int = 64

    def __post_init__(self) -> None:
        for name in ("wall_s", "cpu_s"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise ValueError(f"Limits.{name} must be a number of seconds, not {type(seconds).__name__}")
            if not math.isfinite(seconds) or not 0 < seconds <= 86400:
                raise ValueError(f"Limits.{name} must lie in (0, 86400] seconds, not {seconds!r}")
        for name, low, high in (
            ("memory_mb", 16, 1 << 20),
            ("processes", 1, 4096),
            ("file_mb", 1, 1 << 16),
            ("tmpfs_mb", 1, 1 << 16),
            ("output_kb", 1, 1 << 20),
            ("result_kb", 1, 1 << 20),
            ("open_files", 16, 65536),
        ):
            number = getattr(self, name)
            if type(number) is not int or not low <= number <= high:
                raise ValueError(f"Limits.{name} must be an int in [{low}, {high}], not {number!r}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the entry function. Both fields must hold values that `codec.encode` takes."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error in place of a value: the exception's type name and its message (cut to 1,000 characters).

    `raised` is False where the call did return, but a value that the codec refuses.
    """

    type: str
    message: str
    raised: bool = True


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One distinct call of a recorded function: its arguments as they were before the call.

    value     what it returned (None where `error` is set)
    error     what it raised, or None
    mutated   the call changed its arguments in place
    depth     recorded calls that were open around it: 0 when it came from outside
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    value: Any = None
    error: ErrorRecord | None = None
    mutated: bool = False
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One program to run.

    kind "calls"     imports files["solution.py"] and calls its module-level function `entry` once a `Call`,
                     each with freshly decoded arguments.
    kind "script"    runs files[entry] ("main.py" where entry is empty) as __main__ with `stdin`.
    kind "split"     files["test.py"] runs in one sandbox, files["solution.py"] in another; the test code
                     reaches the function `entry` (and those named in `exports`) through by-value proxies.
    kind "unittest"  both files in one process, for trusted references only: nothing hides the tests.

    Kinds "calls" and "script" are for all languages, each with its own file names (`sandbox.names.FILES`:
    solution.go, Main.java); the other two are for Python.

    A suite (test.py) that defines `check` has `check(candidate)` called; otherwise its unittest.TestCase
    classes and `test_*` functions run; otherwise its module-level assertions are the suite. It finds the
    candidate as `candidate`, under its own name, and in a module called `solution`.

    files         name -> text; names are relative paths below the working folder; 32 MiB together
    record        functions of solution.py whose calls are recorded (kinds "calls" and "unittest")
    record_max    distinct calls kept for each recorded function
    record_bytes  bytes a recorded call may take in encoded form; larger ones are counted as skipped
    exports       further functions of solution.py that a split suite may call by name
    in_place      split: arguments (lists, dicts, sets, bytearrays) that the candidate changes in place are
                  changed for the suite as well. Off, a candidate cannot touch what the suite holds
    argv          script: its command line after the program's name
    lang          one of `sandbox.names.LANGUAGES`
    hash_seed     Python: PYTHONHASHSEED of the run; None draws one at random
    """

    kind: Kind
    files: Mapping[str, str]
    entry: str = ""
    calls: Sequence[Call] = ()
    stdin: str = ""
    lang: str = "python"
    limits: Limits = field(default_factory=Limits)
    record: Sequence[str] = ()
    record_max: int = 200
    record_bytes: int = 65536
    exports: Sequence[str] = ()
    in_place: bool = False
    argv: Sequence[str] = ()
    hash_seed: int | None = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Job.kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if type(self.lang) is not str or self.lang not in FILES:
            raise ValueError(f"Job.lang must be one of {', '.join(FILES)}, not {self.lang!r}")
        for name, kind in (("stdin", str), ("entry", str), ("limits", Limits)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(
                    f"Job.{name} must be {kind.__name__}, not {type(getattr(self, name)).__name__}"
                )
        if not all(isinstance(call, Call) for call in self.calls):
            raise ValueError("Job.calls must hold Call(args, kwargs), one for each call")
        if isinstance(self.argv, str) or not all(
            isinstance(one, str) and "\0" not in one for one in self.argv
        ):
            raise ValueError("Job.argv must be a sequence of str without NUL")
        if self.lang != "python" and self.kind not in ("calls", "script"):
            raise ValueError(f"Job.kind {self.kind!r} is for Python only: use 'calls' or 'script'")
        if self.lang != "python" and (self.record or self.exports or self.in_place):
            raise ValueError("Job.record, exports and in_place are for Python only")
        for name, text in self.files.items():
            if type(text) is not str:
                raise ValueError(f"Job.files[{name!r}] must be str, not {type(text).__name__}")
            parts = name.split("/")
            if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
                raise ValueError(f"Job.files: {name!r} is not a relative path without '.' and '..'")
            try:
                sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
            except UnicodeEncodeError:
                raise ValueError(f"Job.files: {name!r} has a character that no file name can have") from None
            if max(sizes) > _MAX_NAME or sum(sizes) + len(sizes) > _MAX_PATH:
                raise ValueError(f"Job.files: {name[:80]!r}... is longer than a file name can be")
            for count in range(1, len(parts)):
                if (folder := "/".join(parts[:count])) in self.files:
                    raise ValueError(f"Job.files: {folder!r} is a file, and the folder of {name!r}")
        size = sum(
            len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            for text in self.files.values()
        )
        if size > _MAX_FILES:
            raise ValueError(f"Job.files: {size} bytes are more than {_MAX_FILES}")
        wanted = {
            "calls": (solution_file(self.lang),),
            "script": (self.entry or script_file(self.lang),),
            "split": ("solution.py", "test.py"),
            "unittest": ("solution.py", "test.py"),
        }[self.kind]
        for name in wanted:
            if name not in self.files:
                raise ValueError(f"Job.files lacks {name!r}, which kind {self.kind!r} needs")
        if self.kind != "script":
            for name in (self.entry, *self.record, *self.exports):
                if not _is_name(name, self.lang):
                    raise ValueError(f"{name!r} is not the name of a module-level function")
        if self.hash_seed is not None and not 0 <= self.hash_seed < 1 << 32:
            raise ValueError("Job.hash_seed must lie in [0, 2**32) or be None")
        if self.in_place and self.kind != "split":
            raise ValueError("Job.in_place needs kind 'split'")
        if self.record and self.kind not in ("calls", "unittest"):
            raise ValueError("Job.record needs kind 'calls' or 'unittest'")
        if self.record_max < 1 or self.record_bytes < 1:
            raise ValueError("Job.record_max and Job.record_bytes must be positive")


def _is_name(name: str, lang: str) -> bool:
    """Whether a function can have this name: an identifier, with the marks that some languages add."""
    if lang == "ruby" and name[-1:] in ("?", "!"):
        name = name[:-1]
    elif lang in ("javascript", "typescript"):
        name = name.replace("$", "_")
    return name.isidentifier()


@dataclass(slots=True)
class Result:
    """What happened.

    status is exactly one of
      ok              calls: the module loaded and each call returned a value or raised (see `outputs`);
                      script: exit status 0; split and unittest: the suite ended normally and, for split,
                      called the candidate at least once
      exception       an exception nobody caught: loading solution.py, a script, or a candidate's
                      exception that came out of the suite; also an `entry` that solution.py lacks
      exit            the program left early (sys.exit, os._exit), or a script with a status other than 0
      timeout         the wall clock ran out
      cpu_limit       the processor time ran out
      memory_limit    MemoryError nobody caught (outside a call or in one), or the tree's memory ran out
      output_limit    a script wrote more than `output_kb`, or more than `result_kb` of values came back
      proc_limit      a fork or thread was refused because `processes` were alive, and that ended the work
      signal          killed by a signal that no limit explains (detail names it)
      unserializable  a value that the codec refuses, or bytes on the result channel that are no frame
      compile_error   the program's text is not valid in its language
      failed          split and unittest: the suite raised, AssertionError or other: the candidate is wrong
      invalid_suite   the suite says nothing of the candidate: it did not load, or never called it
      infra_error     our failure (set-up, a dead launcher): no evidence about the program at all

    outputs          calls: one entry a finished call, in order: the value or an `ErrorRecord`; shorter than
                     `Job.calls` where the program was stopped
    stdout, stderr   text of the program (the candidate's for split), undecodable bytes replaced by U+FFFD
    truncated        more than `output_kb` was written to stdout or stderr and dropped
    wall_s, cpu_s    seconds; cpu_s is the whole tree's
    max_rss          KiB, largest resident set of one process of the tree; of a tree that took all it
                     may, that bound
    backend          what ran it: "zygote", "nsrun", "plain" or another backend's name
    isolation        what held: "namespaces", "container", "remote" (known to the server only) or "none"
    trust            "external": expected values never entered; "split": tests in another sandbox;
                     "inproc": tests and candidate shared a process
    detail           one line for people
    exit_code        exit status of the program, None where a signal or a limit ended it
    candidate_calls  split: calls that the supervisor relayed
    recorded         distinct recorded calls, in order of completion
    record_skipped   calls that could not be recorded: unencodable or too large
    """

    status: Status
    outputs: list[Any] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    max_rss: int = 0
    backend: str = ""
    isolation: str = ""
    trust: Trust = "external"
    detail: str = ""
    exit_code: int | None = None
    candidate_calls: int = 0
    recorded: list[RecordedCall] = field(default_factory=list)
    record_skipped: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of isolation as measured on this machine: does it hold, and by what evidence."""

    name: str
    holds: bool
    detail: str
