"""PID 1 of a job: makes the job's own file systems, gives up all privilege, starts the program, reaps.

In: a process that was just made, in a new pid and mount namespace (or none, for backend "plain"), with
the job's descriptors in their places (`sandbox.inside.program`).
Out, on the status pipe, which the program never holds: "started", "exit <wait status>", or "error <text>"
when set-up failed and nothing was run; for a build, the files that it left, as frames on the channel.
When this process ends the kernel kills every other one of its namespace.
"""

# pathlib and contextlib would cost more to import than the rest of the far side.
# ruff: noqa: PTH123, PTH208, SIM105

from __future__ import annotations

import errno
import os
import stat

from sandbox import codec
from sandbox.inside import harness, kernel, program, root
from sandbox.inside.program import CHANNEL, PAYLOAD, REQUESTS, Status

TYPE_CHECKING = False  # importing typing would cost more than the rest of the far side
if TYPE_CHECKING:
    from typing import NoReturn

SIGINT, SIGKILL, SIGTERM = 2, 9, 15  # the signal module takes enum along, which is slow to import
_CHUNK = 1 << 20


def main(status: Status, *, mounts: root.JobMounts | None, namespaces: bool, build: bool) -> NoReturn:
    """Be PID 1. `mounts` is what to mount first; None where that has been done, or cannot be."""
    try:
        if mounts is not None:
            root.enter_job(mounts)
        if namespaces:
            kernel.drop_capabilities()
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if namespaces:
            kernel.install_seccomp()
        # Signals that have their default action cannot reach PID 1 from inside its namespace.
        interrupt = kernel.set_signal(SIGINT, 0)
        os.setsid()
        child = os.fork()
    except BaseException as error:
        status.fail("PID 1", error)
    if child == 0:
        kernel.set_signal(SIGINT, interrupt)
        try:
            _, config = program.read_payload()
        except BaseException as error:
            status.fail("reading the job", error)
        program.become(config, status)
    try:
        _watch(child, status, namespaces, build)
    except BaseException as error:
        status.fail("PID 1", error)


def _watch(child: int, status: Status, namespaces: bool, build: bool) -> NoReturn:
    # What the program holds of these must be the last: their ends tell the supervisor that it is gone.
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2, REQUESTS):
        os.dup2(null, descriptor)
    if not namespaces:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit())
    if not build:
        os.dup2(null, CHANNEL)
        os.dup2(null, PAYLOAD)
    while True:
        pid, wait_status = os.waitpid(-1, 0)
        if pid == child:
            break
    if build and wait_status == 0:
        _send_built()
    status.say(f"exit {wait_status}")
    if namespaces:
        os._exit(0)
    _sweep_and_exit()


def _sweep_and_exit() -> NoReturn:
    """Kill every descendant, round by round until none is left: as subreaper all orphans are children."""
    for _ in range(1000):
        children = _children(os.getpid())
        if not children:
            break
        for pid in children:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            pass
    os._exit(0)


def _children(parent: int) -> list[int]:
    try:
        with open(f"/proc/{parent}/task/{parent}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _send_built() -> None:
    """Send what the build left as BUILT frames, each [path, mode, contents]; the supervisor bounds them."""
    _, config = program.read_payload()
    channel = harness.Channel(CHANNEL, REQUESTS, config["nonce"])
    for path in config["keep"]:
        for found in _regular_files(f"{config['work']}/{path}", path):
            channel.send(harness.BUILT, codec.encode(list(found)))
    channel.send(harness.DONE, codec.encode(0))


def _regular_files(full: str, path: str) -> list[tuple[str, int, bytes]]:
    """The regular files at or below `full`. A link would lead out of the folder, so none is followed."""
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return []
        raise
    try:
        info = os.fstat(descriptor)
        if stat.S_ISDIR(info.st_mode):
            names = sorted(os.listdir(descriptor))
            return [found for name in names for found in _regular_files(f"{full}/{name}", f"{path}/{name}")]
        if not stat.S_ISREG(info.st_mode):
            return []
        parts = []
        while part := os.read(descriptor, _CHUNK):
            parts.append(part)
        return [(path, stat.S_IMODE(info.st_mode), b"".join(parts))]
    finally:
        os.close(descriptor)
