"""A worker of the sandbox: made once, it then makes one job after the other in fresh namespaces.

    supervisor -> keeper (makes namespaces and root) -> server (PID 1 of a pid namespace, holds no privilege
    on the host) -> PID 1 of each job -> the program

In: the settings as one encoded dict and three descriptors: the file they came in, a socket on which jobs
arrive, and the control pipe. A job is one message, `HEAD` and the descriptors named in `PARTS`; the server
reads nothing of what they hold, so that nothing of one job can be found in the memory of the next.
Out: "ready", or "error <text>" once on the socket; then what PID 1 of each job says on the job's own status
pipe, and after it "killed <signal>" and "usage <user s> <system s> <max rss KiB>".
When a job's control pipe ends, its PID 1 is killed, and the kernel kills every process of its namespace.
When the server's own control pipe or the supervisor ends, so do the server and all below it, and the keeper
removes the control group.
Wrong: a job that cannot be made is told on its status pipe as "error"; the server goes on.
"""

# contextlib and pathlib would cost more to import than the rest of the far side.
# ruff: noqa: PTH119, PTH120, SIM105

from __future__ import annotations

import array
import fcntl
import gc
import os
import resource
import select
import socket
import struct
import sys

from sandbox import codec
from sandbox.inside import harness, init, kernel, root
from sandbox.inside.program import CHANNEL, FIRST_FREE, PAYLOAD, REQUESTS, STATUS, Status

TYPE_CHECKING = False  # importing typing would cost more than the rest of the far side
if TYPE_CHECKING:
    from typing import Any, NoReturn

# Flags of a job, and the MiB of its tmpfs.
HEAD = struct.Struct("<BI")
BUILD, EXECUTABLE, HAS_REQUESTS = 1, 2, 4
# The descriptors that come with it, in order; "requests" only where HAS_REQUESTS is set.
PARTS = ("payload", "status", "channel", "control", "stdin", "out", "err", "requests")
# The same for `once`, which finds the three standard ones in their places; -1 where there is none.
ONCE_PARTS = ("payload", "status", "channel", "control", "requests")

SIGKILL, SIGTERM = 9, 15
_KILL_GRACE_S = 0.5
_SOCKET, _CONTROL = 7, 8
_POLLIN = select.POLLIN


def main(encoded: bytes, argv: list[str]) -> NoReturn:
    """Be the keeper, whose child becomes the server."""
    _, channel, control = (int(text) for text in argv)
    lifted = [fcntl.fcntl(number, fcntl.F_DUPFD, 16) for number in (channel, control)]
    for place, number in zip((_SOCKET, _CONTROL), lifted, strict=True):
        os.dup2(number, place, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    for place in range(_SOCKET):
        if place != null:
            os.dup2(null, place, inheritable=place < 3)
    os.closerange(_CONTROL + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    link = socket.socket(fileno=_SOCKET)
    try:
        settings = codec.decode(encoded)
        namespaces = settings["namespaces"]
        as_root = namespaces and os.geteuid() == 0
        supervisor = os.pidfd_open(settings["supervisor"])
        groups = _groups(settings["groups"])
        if namespaces:
            root.enter_namespaces(as_root)
            root.build(settings["binds"])
        host_id = root.FIRST_HOST_ID + os.getpid() if as_root else None
        alive_r, alive_w = os.pipe()
        child = os.fork()
    except BaseException as error:
        _refuse(link, error)
    if child == 0:
        os.close(alive_w)
        os.close(_CONTROL)
        os.close(supervisor)
        _serve(link, settings, host_id, alive_r)
    link.close()
    os.close(alive_r)
    handle = os.pidfd_open(child)
    poll = select.poll()
    for descriptor in (handle, _CONTROL, supervisor):
        poll.register(descriptor, _POLLIN)
    if all(descriptor != handle for descriptor, _ in poll.poll()):
        if not namespaces:
            # Without a pid namespace the jobs would live on: let each be cleaned up.
            os.kill(child, SIGTERM)
            poll.unregister(_CONTROL)
            poll.unregister(supervisor)
            poll.poll(4 * _KILL_GRACE_S * 1000)
        os.kill(child, SIGKILL)
    os.waitpid(child, 0)
    for parent, name in groups:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            pass  # the supervisor has removed it
    os._exit(0)


def _refuse(link: socket.socket, error: BaseException) -> NoReturn:
    text = f"error {type(error).__name__ if not isinstance(error, OSError) else ''} {error}"
    try:
        link.send(text.encode("utf-8", "backslashreplace")[:2000])
    except OSError:
        pass
    os._exit(1)


def _groups(folders: list[str]) -> list[tuple[int, str]]:
    """Keep the parents of the worker's control groups in reach, whatever root comes."""
    return [(os.open(os.path.dirname(folder), os.O_RDONLY), os.path.basename(folder)) for folder in folders]


def _serve(link: socket.socket, settings: dict[str, Any], host_id: int | None, alive: int) -> NoReturn:
    """Be the server: make jobs until the other end of the socket is gone."""
    namespaces = settings["namespaces"]
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
        if namespaces:
            root.seal()
            if host_id is not None:
                root.leave_root(host_id)
                # The change of uid has cleared it.
                kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        poll = select.poll()
        poll.register(alive, _POLLIN)
        if poll.poll(0):
            os._exit(1)
        os.close(alive)
        if namespaces:
            kernel.bar_capabilities()
            kernel.prepare_seccomp()
        _preload(settings)
        harness.warm_up()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        os.setsid()
        # Neither kept pages nor objects of this process change while jobs are forked from it.
        gc.collect()
        gc.freeze()
        gc.disable()
        link.send(b"ready")
    except BaseException as error:
        _refuse(link, error)
    late = root.late_binds(settings["binds"])
    while True:
        head, parts = _receive(link)
        if not head:
            os._exit(0)
        flags, tmpfs_mb = HEAD.unpack(head)
        mounts = root.JobMounts(tmpfs_mb, bool(flags & EXECUTABLE), late) if namespaces else None
        _run(flags, mounts, parts)


def _preload(settings: dict[str, Any]) -> None:
    """Import modules that programs are about to use, from the same folders as they would."""
    before = list(sys.path)
    sys.path[:0] = settings["packages"]
    for name in settings["preload"]:
        try:
            __import__(name)
        except BaseException as error:
            raise ImportError(f"preload: {name}: {type(error).__name__}: {error}") from None
    sys.path[:] = before


def _receive(link: socket.socket) -> tuple[bytes, list[int]]:
    """Return one job's head and descriptors, or nothing when the supervisor has closed the socket."""
    size = array.array("i").itemsize * len(PARTS)
    head, ancillary, _, _ = link.recvmsg(HEAD.size, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for _, _, data in ancillary:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return head, list(numbers)


def _run(flags: int, mounts: root.JobMounts | None, parts: list[int]) -> None:
    payload, told, channel, control, stdin, out, err, *rest = parts
    status = Status(told)
    try:
        if mounts is None:
            child = os.fork()
            handle = os.pidfd_open(child) if child else -1
        else:
            child, handle = kernel.clone(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)
        if child == 0:
            places = {
                0: stdin,
                1: out,
                2: err,
                CHANNEL: channel,
                REQUESTS: rest[0] if rest else -1,
                PAYLOAD: payload,
                STATUS: told,
            }
            _place(places)
            init.main(Status(STATUS), mounts=mounts, namespaces=mounts is not None, build=bool(flags & BUILD))
    except OSError as error:
        status.say(f"error {error}")
        for number in parts:
            os.close(number)
        return
    for number in parts:
        if number not in (told, control):
            os.close(number)
    poll = select.poll()
    poll.register(handle, _POLLIN)
    poll.register(control, _POLLIN)
    if not any(number == handle for number, _ in poll.poll()):
        if mounts is None:
            # Without a pid namespace PID 1's death takes nobody along: let it clean up first.
            os.kill(child, SIGTERM)
            poll.unregister(control)
            poll.poll(_KILL_GRACE_S * 1000)
        os.kill(child, SIGKILL)
    _, wait_status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(wait_status):
        status.say(f"killed {os.WTERMSIG(wait_status)}")
    status.say(f"usage {usage.ru_utime:.6f} {usage.ru_stime:.6f} {usage.ru_maxrss}")
    for number in (handle, told, control):
        os.close(number)


def _place(places: dict[int, int]) -> None:
    """Move descriptors to their places and close all others; where there is none, /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    above = max(*places.values(), null, FIRST_FREE) + 1
    lifted = {
        place: fcntl.fcntl(null if number < 0 else number, fcntl.F_DUPFD, above)
        for place, number in places.items()
    }
    for place, number in lifted.items():
        os.dup2(number, place, inheritable=place < 3)
    os.closerange(FIRST_FREE, max(lifted.values()) + 1)


def once(argv: list[str]) -> NoReturn:
    """Be PID 1 of one job in namespaces of another tool's making; `argv` is the flags and `ONCE_PARTS`."""
    flags, *numbers = (int(text) for text in argv)
    payload, told, channel, control, requests = numbers
    poll = select.poll()
    poll.register(control, _POLLIN)
    if poll.poll(0):
        # The supervisor ended before the tool had tied its own life to it.
        os._exit(1)
    _place({0: 0, 1: 1, 2: 2, CHANNEL: channel, REQUESTS: requests, PAYLOAD: payload, STATUS: told})
    kernel.bar_capabilities()
    init.main(Status(STATUS), mounts=None, namespaces=True, build=bool(flags & BUILD))
