"""PID 1 of a worker's pid namespace: forks the process of each job, waits for it, reaps what it leaves.

    server -> PID 1 -> the job's process (makes the job's mounts, gives up all privilege) -> the program

The job's process is the program itself, but for a build, where it stays to send what the compiler left.
In: jobs on the socket that PID 1 shares with the server; it reads nothing of what a job's descriptors
hold, so that nothing of one job can be found in the memory of the next.
Out, on the job's status pipe, which the program never holds: "started", "exit <wait status> <processor s>
<max rss KiB>", or "error <text>" when set-up failed and nothing was run.
A namespace is used again only after a job that ended by itself and left no process behind, and only where
the next program can have the same pid. Otherwise PID 1 ends, and with it all that its namespace may still
hold, and the server makes a new one.
"""

# contextlib and pathlib would cost more to import than the rest of the far side.
# ruff: noqa: PTH123, PTH208, SIM105

from __future__ import annotations

import array
import errno
import fcntl
import os
import stat
import struct
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC  # its own module takes enum along, which is slow to import

from sandbox import codec
from sandbox.inside import harness, kernel, program, root
from sandbox.inside.program import CHANNEL, FIRST_FREE, PAYLOAD, REQUESTS, STATUS, Status

TYPE_CHECKING = False  # importing typing would cost more than the rest of the far side
if TYPE_CHECKING:
    import socket
    from typing import NoReturn

# Flags of a job, and the MiB of its tmpfs.
HEAD = struct.Struct("<BI")
BUILD, EXECUTABLE = 1, 2
# The descriptors that come with it, in order; "requests" where the job has any.
PARTS = ("payload", "status", "channel", "stdin", "out", "err", "requests")
# The same for `once`, which finds the three standard ones in their places, and a pipe on which "g" says that
# the program may begin; -1 where there is none.
ONCE_PARTS = ("payload", "status", "channel", "control", "requests")
# How PID 1 ends: nobody has more jobs; or its namespace must not be used again.
EXIT_OVER, EXIT_RENEW = 0, 1

SIGINT, SIGKILL, SIGTERM = 2, 9, 15  # the signal module takes enum along, which is slow to import
_CHUNK = 1 << 20
_NO_NUMBER = 1024


def serve(link: socket.socket, namespaces: bool, late: list[str], counter: int) -> NoReturn:
    """Be PID 1: make jobs until the other end of the socket is gone or the namespace must be renewed."""
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
        if not namespaces:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            import signal

            # Without a pid namespace PID 1's death takes nobody along.
            signal.signal(signal.SIGTERM, lambda *_: _sweep_and_exit())
        # Signals that have their default action cannot reach PID 1 from inside its namespace.
        interrupt = kernel.set_signal(SIGINT, 0)
        os.setsid()
        while True:
            head, parts = _receive(link)
            if not head:
                os._exit(EXIT_OVER)
            flags, tmpfs_mb = HEAD.unpack(head)
            mounts = root.JobMounts(tmpfs_mb, bool(flags & EXECUTABLE), late) if namespaces else None
            again = _set_back(counter)
            if not _run(flags, mounts, parts, interrupt, namespaces) or not again:
                break
    except BaseException as error:
        del error  # the supervisor sees that the job's status pipe ended without a word
    if not namespaces:
        _sweep_and_exit()
    os._exit(EXIT_RENEW)


def _set_back(counter: int) -> bool:
    """Let the next process be PID 2; return whether that can be done, for the job after this as well."""
    if counter < 0:
        return False
    try:
        return os.pwrite(counter, b"1", 0) > 0
    except OSError:
        return False


def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    """Return one job's head and descriptors, or nothing when the supervisor has closed the socket."""
    size = array.array("i").itemsize * len(PARTS)
    head, ancillary, _, _ = link.recvmsg(HEAD.size, CMSG_SPACE(size), MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for _, _, data in ancillary:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return head, list(numbers)


def once(argv: list[str]) -> NoReturn:
    """Be PID 1 of one job in namespaces of another tool's making; `argv` is the flags and `ONCE_PARTS`."""
    flags, payload, told, channel, control, requests = (int(text) for text in argv)
    if os.read(control, 1) != b"g":
        # The supervisor ended before the tool had tied its own life to it.
        os._exit(1)
    os.close(control)
    kernel.bar_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    interrupt = kernel.set_signal(SIGINT, 0)
    os.setsid()
    rest = [requests] if requests >= 0 else []
    _run(flags, None, [payload, told, channel, 0, 1, 2, *rest], interrupt, namespaces=True)
    os._exit(0)


def _run(
    flags: int, mounts: root.JobMounts | None, parts: list[int], interrupt: int | None, namespaces: bool
) -> bool:
    """Run one job; return whether the namespace is as it was before."""
    payload, told, channel, stdin, out, err, *rest = parts
    status = Status(told)
    try:
        child = os.fork()
    except OSError as error:
        status.say(f"error {error}")
        child = -1
    if child == 0:
        requests = rest[0] if rest else -1
        _place(
            {0: stdin, 1: out, 2: err, CHANNEL: channel, REQUESTS: requests, PAYLOAD: payload, STATUS: told}
        )
        kernel.set_signal(SIGINT, interrupt)
        become_job(Status(STATUS), mounts=mounts, namespaces=namespaces, build=bool(flags & BUILD))
    for number in parts:
        if number != told:
            os.close(number)
    clean = child < 0 or _wait(child, status)
    os.close(told)
    return clean


def _wait(child: int, status: Status) -> bool:
    """Wait for the job's process, tell how it ended; return whether no other process is left."""
    user = system = 0.0
    while True:
        pid, wait_status, usage = os.wait4(-1, 0)
        user += usage.ru_utime
        system += usage.ru_stime
        if pid == child:
            break
    status.say(f"exit {wait_status} {user + system:.6f} {usage.ru_maxrss}")
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    _sweep()
    return False


def _place(places: dict[int, int]) -> None:
    """Move descriptors to their places and close all others; where there is none, /dev/null."""
    above = max(*places.values(), FIRST_FREE) + 1
    null = -1
    lifted = {}
    for place, number in places.items():
        if number < 0 and null < 0:
            null = os.open("/dev/null", os.O_RDWR)
        lifted[place] = fcntl.fcntl(null if number < 0 else number, fcntl.F_DUPFD, above)
    for place, number in lifted.items():
        os.dup2(number, place, inheritable=place < 3)
    # One call where the kernel has it, and PID 1 never holds a number near the end.
    os.closerange(FIRST_FREE, max(_NO_NUMBER, max(lifted.values()) + 1))


def become_job(status: Status, *, mounts: root.JobMounts | None, namespaces: bool, build: bool) -> NoReturn:
    """Give up all privilege and become the job's program. `mounts` is what to mount first, if anything."""
    try:
        if mounts is not None:
            kernel.unshare(kernel.CLONE_NEWNS, "mount")
            root.enter_job(mounts)
        if namespaces:
            kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if namespaces:
            kernel.install_seccomp()
        child = os.fork() if build else 0
    except BaseException as error:
        status.fail("the job's process", error)
    if child == 0:
        try:
            config = program.read_payload()
        except BaseException as error:
            status.fail("reading the job", error)
        program.become(config, status)
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2, REQUESTS):
        os.dup2(null, descriptor)
    try:
        _, wait_status = os.waitpid(child, 0)
        if wait_status == 0:
            _send_built()
    except BaseException as error:
        status.fail("the build", error)
    os._exit(os.waitstatus_to_exitcode(wait_status) & 0xFF)


def _sweep() -> None:
    """Kill every descendant and wait for its end; the job is over only then."""
    if os.getpid() == 1:
        # Atomic, whatever is being forked: only a whole namespace of our own can be killed like this.
        os.kill(-1, SIGKILL)
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            return
    # Round by round until none is left: as subreaper all orphans are children.
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


def _sweep_and_exit() -> NoReturn:
    _sweep()
    os._exit(EXIT_RENEW)


def _children(parent: int) -> list[int]:
    try:
        with open(f"/proc/{parent}/task/{parent}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _send_built() -> None:
    """Send what the build left as BUILT frames, each [path, mode, contents]; the supervisor bounds them."""
    config = program.read_payload()
    channel = harness.Channel(CHANNEL, REQUESTS, config["nonce"])
    for path in config["keep"]:
        for found in _regular_files(f"{config['work']}/{path}", path):
            try:
                built = codec.encode(list(found))
            except codec.EncodeError as error:
                # Of the program's doing, as any other limit on what its compiler makes.
                channel.send(harness.FAILURE, codec.encode(f"{found[0]}: {error}"))
                return
            channel.send(harness.BUILT, built)
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
