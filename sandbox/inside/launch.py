"""The launcher, and PID 1 of a job. It runs alone in a bare interpreter, before any foreign code.

    supervisor -> launcher (makes namespaces and root) -> PID 1 (drops all privilege) -> the program

In: the job as one encoded dict, and five descriptors: the file it came in, the status pipe, the result
channel, the control pipe, the request pipe (or -1).
Out, on the status pipe, which the program never holds: "started", "exit <wait status>",
"usage <user s> <system s> <max rss KiB>", or "error <text>" when set-up failed and nothing was run.
When anything comes over the control pipe, or its other end closes since the supervisor died, PID 1 is
killed, and the kernel kills every process of its namespace with it.
"""

# pathlib and contextlib would cost more to import than the rest of the launcher.
# ruff: noqa: PTH123, SIM105

from __future__ import annotations

import fcntl
import os
import resource
import select

from sandbox import codec
from sandbox.inside import harness, kernel, root

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from typing import Any, NoReturn

_KILL_GRACE_S = 0.5
SIGINT, SIGKILL, SIGTERM = 2, 9, 15  # the signal module takes enum along, which is slow to import
# Where the five descriptors are put first of all; a job keeps CHANNEL and REQUESTS only.
PAYLOAD, STATUS, CHANNEL, CONTROL, REQUESTS = range(3, 8)
_FIRST_FREE = 8
# The size of a bare interpreter's address space, for a host that lets no /proc be mounted.
_USUAL_PAGES = 8192


class _Status:
    """One line a write: shorter than PIPE_BUF, so that lines of two writers cannot mix."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def say(self, text: str) -> None:
        line = text.replace("\n", " ").encode("utf-8", "backslashreplace")[:2000]
        # The supervisor may be gone; the control pipe tells the launcher so.
        try:
            os.write(self.descriptor, line + b"\n")
        except OSError:
            pass

    def fail(self, what: str, error: BaseException) -> NoReturn:
        self.say(f"error {what}: {error}")
        os._exit(1)


def main(encoded: bytes, argv: list[str]) -> NoReturn:
    _place([int(text) for text in argv])
    status = _Status(STATUS)
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
        if _hung_up(CONTROL):
            os._exit(0)
        config = codec.decode(encoded)
        isolated = config["isolation"] == "namespaces"
        as_root = isolated and os.geteuid() == 0
        # Counted against the program's limit, since they share its uid: PID 1, and a launcher not root.
        config["own_processes"] = 1 if as_root else 2
        if isolated:
            root.enter_namespaces(as_root)
            root.build(config["binds"], config["limits"]["tmpfs_mb"])
        alive_r, alive_w = os.pipe()
        host_id = root.FIRST_HOST_ID + os.getpid() if as_root else None
        child = os.fork()
    except BaseException as error:
        status.fail("set-up", error)
    if child == 0:
        try:
            os.close(alive_w)
            os.close(CONTROL)
            _be_init(config, status, host_id, alive_r)
        except BaseException as error:
            status.fail("PID 1", error)
    _watch(child, status, keep=alive_w, isolated=isolated)


def _place(descriptors: list[int]) -> None:
    """Move the descriptors to PAYLOAD.. and close all others; -1, one that is not there, is /dev/null."""
    above = max(*descriptors, _FIRST_FREE)
    lifted = [-1 if number < 0 else fcntl.fcntl(number, fcntl.F_DUPFD, above + 1) for number in descriptors]
    null = os.open("/dev/null", os.O_RDWR)
    for place, number in enumerate(lifted, PAYLOAD):
        os.dup2(null if number < 0 else number, place, inheritable=False)
    os.closerange(_FIRST_FREE, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _watch(child: int, status: _Status, keep: int, isolated: bool) -> NoReturn:
    """Wait for PID 1 or for the control pipe to close; report what the whole tree used."""
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2, PAYLOAD, CHANNEL, REQUESTS):
        os.dup2(null, descriptor)
    os.set_inheritable(keep, False)
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(CONTROL, select.POLLIN)
    if not any(descriptor == handle for descriptor, _ in poll.poll()):
        if not isolated:
            # Without a pid namespace PID 1's death takes nobody along: let it clean up first.
            os.kill(child, SIGTERM)
            poll.unregister(CONTROL)
            poll.poll(_KILL_GRACE_S * 1000)
        os.kill(child, SIGKILL)
    _, wait_status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(wait_status):
        status.say(f"killed {os.WTERMSIG(wait_status)}")
    status.say(f"usage {usage.ru_utime:.6f} {usage.ru_stime:.6f} {usage.ru_maxrss}")
    os._exit(0)


def _be_init(config: dict[str, Any], status: _Status, host_id: int | None, alive: int) -> NoReturn:
    isolated = config["isolation"] == "namespaces"
    if isolated:
        root.seal()
        if host_id is not None:
            root.leave_root(host_id)
        kernel.drop_capabilities()
    else:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    # Set after the uid changed, which would clear it; then make sure that the launcher still lives.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
    if _hung_up(alive):
        os._exit(1)
    os.close(alive)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if isolated:
        kernel.install_seccomp()
    # Signals that have their default action cannot reach PID 1 from inside its namespace.
    interrupt = kernel.set_signal(SIGINT, 0)
    os.setsid()
    program = os.fork()
    if program == 0:
        kernel.set_signal(SIGINT, interrupt)
        _be_program(config, status)
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2, PAYLOAD, CHANNEL, REQUESTS):
        os.dup2(null, descriptor)
    if not isolated:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit())
    while True:
        pid, wait_status = os.waitpid(-1, 0)
        if pid == program:
            break
    status.say(f"exit {wait_status}")
    if isolated:
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


def _be_program(config: dict[str, Any], status: _Status) -> NoReturn:
    """Close every descriptor but the program's own, take on the limits, hand over to the harness."""
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        os.setsid()
        work = root.WORK if config["isolation"] == "namespaces" else config["work"]
        os.chdir(work)
        os.environ.clear()
        os.umask(0o022)
        harness.write_files(work, config["files"])
        os.closerange(CONTROL, REQUESTS if config["requests"] else _FIRST_FREE)
        os.closerange(_FIRST_FREE, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        _set_limits(config)
        status.say("started")
    except BaseException as error:
        status.fail("the program's set-up", error)
    os.close(PAYLOAD)
    os.close(STATUS)
    harness.main(config, work, CHANNEL, REQUESTS)


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
    ):
        which = getattr(resource, f"RLIMIT_{name}", None)
        # Without a user namespace the kernel counts every process of the uid, on the whole machine.
        if which is not None and not (name == "NPROC" and config["isolation"] != "namespaces"):
            _, ceiling = resource.getrlimit(which)
            if ceiling != resource.RLIM_INFINITY:
                soft, hard = min(soft, ceiling), min(hard, ceiling)
            resource.setrlimit(which, (soft, hard))
