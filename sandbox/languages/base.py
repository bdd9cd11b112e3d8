"""What the sandbox must know of a language to build and run a program of it.

In: a `Job` of the language. Out: a `Plan`: files, the command that builds them (if any), what to keep of
the build, and the command that runs it. Nothing is run here: both commands run inside the sandbox.
Wrong: `ToolchainMissing`, which names the Debian packages; a program that cannot be built is no error of
the planner, its compiler says so.

The program that answers a job of kind "calls" keeps this contract, whatever its language:
* Its calls are the file `CALLS`: the job's nonce (8 bytes), the number of calls (u32 little-endian), then
  for each call a length (u32 little-endian) and that many bytes: `codec.encode((list(args), dict(kwargs)))`.
  It reads the file before any code of the solution runs, and then removes it.
* It writes frames (`sandbox.frames`) to the descriptor `RESULTS`, which the solution should not inherit
  by name: READY when the solution is loaded and has the function, then OUTPUT for each call in order, then
  DONE with `codec.encode(0)`, flushed, and exit status 0. Instead of READY, or later, FAILURE may come with
  `codec.encode([category, type, message, cause])`: category "load" (an exception while loading),
  "missing" (no such function), "compile", "exit" or "harness"; cause "" or "memory" or "processes".
* An OUTPUT is one byte and an encoding: b"v" and the value; b"e" and `[type, message, cause]` for an error
  that the call raised; b"u" and `[type, message, ""]` for a value that has no encoding.
* Standard output and error belong to the program.
The names of frame kinds are those of `sandbox.inside.harness`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.job import Job, Limits, SandboxError

WORK = "/tmp/work"  # noqa: S108 - a folder inside the sandbox
CALLS = "/tmp/calls.bin"  # noqa: S108
RESULTS = 3
HARNESS = Path(__file__).parent / "harness"

# What a compiler may use; its result is cached, so the price is paid once a program.
BUILD_LIMITS = Limits(
    wall_s=120.0,
    cpu_s=60.0,
    memory_mb=3072,
    processes=128,
    file_mb=256,
    tmpfs_mb=1024,
    output_kb=64,
    result_kb=1 << 18,
    open_files=1024,
)


class ToolchainMissing(SandboxError):
    """The language has no toolchain on this machine; the message names the packages to install."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command: absolute path and arguments, and its whole environment besides HOME, PATH and LANG."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one job is built and run.

    files   path below `WORK` -> contents, there before the first command starts
    build   compiles them in a sandbox of its own; None where there is nothing to compile
    keep    paths below `WORK`, files or folders, that the build leaves for the run; only these are there
            beside `data` when the program runs
    run     the program; `argv` of a script is appended by the planner
    data    path below `WORK` -> contents, there when the program runs but not part of what is built (other
            files of the job that a program may read)
    """

    files: Mapping[str, bytes]
    run: Step
    build: Step | None = None
    keep: Sequence[str] = ()
    data: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The programs of a language on this machine.

    tools    name -> absolute path, symbolic links resolved
    binds    further absolute paths that must be visible, read-only, beside those of the system
    version  one line; part of the key of what is cached
    """

    tools: Mapping[str, str]
    binds: Sequence[str] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Language:
    """A language as the sandbox sees it.

    name           its name in `Job.lang`
    title          as people write it
    packages       Debian packages that bring its toolchain
    find           locates the toolchain; raises ToolchainMissing
    plan           makes the plan of a job of kind "script" or "calls"
    tasks          threads that the runtime keeps beside the program's own; added to `Limits.processes`
    address_space  whether RLIMIT_AS may bound it: runtimes that reserve space ahead cannot live with that
    overhead_mb    resident MiB that an empty program of the runtime takes; added to `Limits.memory_mb`
    stack_mb       MiB that the stack may take, within the job's memory; 0 leaves it at what the host has
    kinds          kinds of job that it can do
    """

    name: str
    title: str
    packages: tuple[str, ...]
    find: Callable[[], Toolchain]
    plan: Callable[[Job, Toolchain], Plan]
    tasks: int = 0
    address_space: bool = True
    overhead_mb: int = 0
    stack_mb: int = 0
    kinds: tuple[str, ...] = ("script", "calls")


def locate(title: str, packages: Sequence[str], *names: str) -> dict[str, str]:
    """Return name -> absolute path of each program. Raises ToolchainMissing for one that is not there."""
    found = {}
    for name in names:
        path = shutil.which(name)
        if path is None:
            raise ToolchainMissing(
                f"{title}: no {name!r} on this machine; install it with: apt-get install {' '.join(packages)}"
            )
        found[name] = os.path.realpath(path)
    return found


@functools.cache
def ask(*argv: str) -> str:
    """Return the first line that a trusted tool of the host prints; "" where it fails or takes over 20 s."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
            env={
                "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "HOME": os.environ.get("HOME", "/"),
                "LANG": "C.UTF-8",
            },
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip().split("\n", 1)[0] if done.returncode == 0 else ""


def build_key(lang: str, toolchain: Toolchain, plan: Plan) -> str:
    """Return the SHA-256, in hex, of all that a build depends on."""
    digest = hashlib.sha256()
    parts: list[bytes] = [lang.encode(), toolchain.version.encode()]
    if plan.build is not None:
        parts += [*(os.fsencode(part) for part in plan.build.argv)]
        parts += [f"{name}={value}".encode() for name, value in sorted(plan.build.env.items())]
    parts += [os.fsencode(path) for path in plan.keep]
    for name in sorted(plan.files):
        parts += [os.fsencode(name), plan.files[name]]
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
