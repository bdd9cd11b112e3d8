"""The last steps before foreign code: files, fences, limits, descriptors, then the harness or a command.

In: the job's decoded configuration and the fixed descriptors below. Out: nothing; this process becomes
the program. Wrong: whatever fails before the program began is told on the status pipe as "error", and
"started" is the last thing written there otherwise.
"""

# pathlib and contextlib would cost more to import than the rest of the far side.
# ruff: noqa: PTH123, S606, SIM105

from __future__ import annotations

import os
import resource

from sandbox import codec
from sandbox.inside import harness, kernel, landlock

TYPE_CHECKING = False  # importing typing would cost more than the rest of the far side
if TYPE_CHECKING:
    from typing import Any, NoReturn

# Where the descriptors of a job are put first of all; a program keeps CHANNEL and REQUESTS at most.
CHANNEL, REQUESTS, PAYLOAD, STATUS = range(3, 7)
FIRST_FREE = 7
_NOT_EVERYWHERE = ("CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING")
# The size of a bare interpreter's address space, for a host that lets no /proc be mounted.
_USUAL_PAGES = 8192


class Status:
    """One line a write: shorter than PIPE_BUF, so that lines of several writers cannot mix."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def say(self, text: str) -> None:
        line = text.replace("\n", " ").encode("utf-8", "backslashreplace")[:2000]
        # The supervisor may be gone; the end of the control pipe tells that.
        try:
            os.write(self.descriptor, line + b"\n")
        except OSError:
            pass

    def fail(self, what: str, error: BaseException) -> NoReturn:
        self.say(f"error {what}: {error}")
        os._exit(1)


def read_payload() -> dict[str, Any]:
    """Return the configuration in the job's sealed file, which may stand behind a bundle of modules."""
    size = os.fstat(PAYLOAD).st_size
    skip = 4 + int.from_bytes(os.pread(PAYLOAD, 4, 0), "little")
    parts = []
    at = skip
    while at < size:
        parts.append(os.pread(PAYLOAD, size - at, at))
        at += len(parts[-1])
    config: dict[str, Any] = codec.decode(b"".join(parts))
    return config


def become(config: dict[str, Any], status: Status) -> NoReturn:
    """Turn this process into the program of the job."""
    command = config["command"]
    try:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        os.setsid()
        work = config["work"]
        os.chdir(work)
        os.environ.clear()
        os.umask(0o022)
        harness.write_files(work, config["files"])
        if command is not None:
            for path, data in command["extra"].items():
                _write(path, data)
        _offer_to_the_killer()
        if config["namespaces"]:
            landlock.fence(["/tmp"])  # noqa: S108 - the job's own tmpfs
        keep = {CHANNEL: command is None or command["channel"], REQUESTS: config["requests"]}
        keep[PAYLOAD] = command is not None and command["payload"]
        for descriptor in (CHANNEL, REQUESTS, PAYLOAD):
            if not keep[descriptor]:
                os.close(descriptor)
            elif command is not None:
                os.set_inheritable(descriptor, True)
        os.set_inheritable(STATUS, False)
        _set_limits(config)
        status.say("started")
    except BaseException as error:
        status.fail("the program's set-up", error)
    if command is None:
        os.close(STATUS)
        harness.main(config, work, CHANNEL, REQUESTS)
    try:
        # Signals that this interpreter ignores would stay ignored.
        kernel.set_signal(kernel.SIGPIPE, 0)
        kernel.set_signal(kernel.SIGXFSZ, 0)
        os.execve(command["argv"][0], command["argv"], command["env"])
    except BaseException as error:
        status.fail(f"starting {command['argv'][0]}", error)


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _offer_to_the_killer() -> None:
    """Let the kernel choose the program, not those who watch it, when the group's memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(b"1000")
    except OSError:
        pass  # no /proc here; then the largest process goes, which is the program as well


def _set_limits(config: dict[str, Any]) -> None:
    limits = config["limits"]
    mib = 1 << 20
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[0])
    except OSError:
        pages = _USUAL_PAGES
    # The interpreter's own size is not the program's doing.
    space = limits["memory_mb"] * mib + pages * resource.getpagesize()
    # What a native program's stack may take is also what the C library sets aside for each thread's.
    space += config["stack_mb"] * mib * limits["processes"]
    tasks = limits["processes"] + config["own_processes"]
    seconds = -int(-limits["cpu_s"] // 1)
    for name, soft, hard in (
        ("AS", space, space),
        ("CPU", seconds, seconds + 1),
        ("FSIZE", limits["file_mb"] * mib, limits["file_mb"] * mib),
        ("NOFILE", limits["open_files"], limits["open_files"]),
        ("NPROC", tasks, tasks),
        # One byte: no core file fits, and unlike zero it keeps a core handler of the host from starting.
        ("CORE", 1, 1),
        ("MEMLOCK", 0, 0),
        ("MSGQUEUE", 0, 0),
        ("SIGPENDING", 256, 256),
        ("STACK", config["stack_mb"] * mib, config["stack_mb"] * mib),
    ):
        which = getattr(resource, f"RLIMIT_{name}", None)
        # Without a user namespace the kernel counts every process of the uid, on the whole machine.
        if which is None or (name == "NPROC" and not config["namespaces"]):
            continue
        if (name == "AS" and not config["address_space"]) or (name == "STACK" and not config["stack_mb"]):
            continue
        _, ceiling = resource.getrlimit(which)
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        try:
            resource.setrlimit(which, (soft, hard))
        except ValueError:
            # gVisor, in a container, has neither these limits nor what they bound.
            if config["namespaces"] or name not in _NOT_EVERYWHERE:
                raise
