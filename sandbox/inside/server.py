"""A worker of the sandbox: made once, it then has one job after the other run in namespaces of its own.

    supervisor -> keeper (makes namespaces and root) -> server (holds no privilege on the host)
               -> PID 1 of a pid namespace (`sandbox.inside.init`) -> the program

In: the settings as one encoded dict and four descriptors: the file they came in, a socket on which jobs
arrive, the pipe that keeps the worker alive, and the pipe by which a job is killed.
Out, on the socket: "ready", or "error <text>", once; and "again" after each kill.
For each byte on the kill pipe PID 1 is killed, the kernel kills every process of its namespace with it, and
a new one is made. When the other pipe or the supervisor ends, so do the server and all below it, and the
keeper removes the worker's control group.
"""

# contextlib and pathlib would cost more to import than the rest of the far side.
# ruff: noqa: PTH119, PTH120, PTH208, SIM105

from __future__ import annotations

import fcntl
import gc
import os
import resource
import select
import socket
import sys

from sandbox import codec
from sandbox.inside import harness, init, kernel, root

TYPE_CHECKING = False  # importing typing would cost more than the rest of the far side
if TYPE_CHECKING:
    from typing import Any, NoReturn

SIGKILL, SIGTERM = 9, 15
_KILL_GRACE_S = 0.5
_SOCKET, _CONTROL, _KILLS = 7, 8, 9
_POLLIN = select.POLLIN


def main(encoded: bytes, argv: list[str]) -> NoReturn:
    """Be the keeper, whose child becomes the server."""
    lifted = [fcntl.fcntl(int(text), fcntl.F_DUPFD, 16) for text in argv[1:]]
    for place, number in zip((_SOCKET, _CONTROL, _KILLS), lifted, strict=True):
        os.dup2(number, place, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    for place in range(_SOCKET):
        if place != null:
            os.dup2(null, place, inheritable=place < 3)
    os.closerange(_KILLS + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    link = socket.socket(fileno=_SOCKET)
    group: tuple[int, str] | None = None
    try:
        settings = codec.decode(encoded)
        group = _group(settings["group"])
        namespaces = settings["namespaces"]
        host_id = root.host_id() if namespaces else None
        supervisor = os.pidfd_open(settings["supervisor"])
        counter = _counter() if namespaces else -1
        if namespaces:
            root.enter_namespaces(host_id is not None)
            root.build(settings["binds"])
        alive_r, alive_w = os.pipe()
        child = os.fork()
    except BaseException as error:
        _remove(group, all_of_them=isinstance(error, ProcessLookupError))
        _refuse(link, error)
    if child == 0:
        os.close(alive_w)
        os.close(_CONTROL)
        os.close(supervisor)
        if group is not None:
            os.close(group[0])
        _serve(link, settings, host_id, alive_r, counter)
    link.close()
    os.close(_KILLS)
    os.close(alive_r)
    if counter >= 0:
        os.close(counter)
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
    dead = select.poll()
    dead.register(supervisor, _POLLIN)
    _remove(group, all_of_them=bool(dead.poll(0)))
    os._exit(0)


def _refuse(link: socket.socket, error: BaseException) -> NoReturn:
    text = f"error {type(error).__name__ if not isinstance(error, OSError) else ''} {error}"
    try:
        link.send(text.encode("utf-8", "backslashreplace")[:2000])
    except OSError:
        pass
    os._exit(1)


def _group(folder: str) -> tuple[int, str] | None:
    """Keep the parent of the worker's control group, if it has one, in reach, whatever root comes."""
    if not folder:
        return None
    return os.open(os.path.dirname(folder), os.O_RDONLY), os.path.basename(folder)


def _counter() -> int:
    """A descriptor by which PID 1 sets back the count of its namespace's processes; -1 where there is none.

    So that a program has the same pid whatever ran before it.
    """
    try:
        return os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
    except OSError:
        return -1


def _remove(group: tuple[int, str] | None, all_of_them: bool) -> None:
    """Remove the worker's control group, or all that its supervisor made: it may have died while making one.

    Those of other workers go when these are gone, since a group that holds processes stays.
    """
    if group is None:
        return
    parent, own = group
    made_by = own.rpartition("-")[0] + "-"
    names = [name for name in os.listdir(parent) if name.startswith(made_by)] if all_of_them else [own]
    for name in names:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            continue  # it is gone already, or not this worker's to remove


def _serve(
    link: socket.socket, settings: dict[str, Any], host_id: int | None, alive: int, counter: int
) -> NoReturn:
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
        # Not before the supervisor has put this process into its control group.
        if not link.recv(16):
            os._exit(0)
        if namespaces:
            kernel.unshare(kernel.CLONE_NEWCGROUP, "cgroup")
    except BaseException as error:
        _refuse(link, error)
    poll = select.poll()
    poll.register(_KILLS, _POLLIN)
    late = root.late_binds(settings["binds"])
    child, handle = _new_init(link, namespaces, late, counter, poll)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        kill = handle not in ready and bool(os.read(_KILLS, 1))
        if kill:
            _kill(child, handle, namespaces)
        elif handle not in ready:
            os._exit(0)
        _, wait_status = os.waitpid(child, 0)
        poll.unregister(handle)
        os.close(handle)
        if wait_status == init.EXIT_OVER:
            os._exit(0)
        child, handle = _new_init(link, namespaces, late, counter, poll)
        if kill:
            link.send(b"again")


def _new_init(
    link: socket.socket, namespaces: bool, late: list[str], counter: int, poll: select.poll
) -> tuple[int, int]:
    """Start a PID 1; return its pid and a descriptor of it, which `poll` has too."""
    if namespaces:
        child, handle = kernel.clone(kernel.CLONE_NEWPID)
    else:
        child = os.fork()
        handle = os.pidfd_open(child) if child else -1
    if child == 0:
        os.close(_KILLS)
        init.serve(link, namespaces, late, counter)
    poll.register(handle, _POLLIN)
    return child, handle


def _kill(child: int, handle: int, namespaces: bool) -> None:
    if not namespaces:
        # Without a pid namespace PID 1's death takes nobody along: let it clean up first.
        os.kill(child, SIGTERM)
        ended = select.poll()
        ended.register(handle, _POLLIN)
        ended.poll(_KILL_GRACE_S * 1000)
    os.kill(child, SIGKILL)


def _preload(settings: dict[str, Any]) -> None:
    """Import modules that programs are about to use, from the same folders as they would."""
    before = list(sys.path)
    sys.path[:0] = settings["packages"]
    for name in settings["preload"]:
        try:
            __import__(name)
        except BaseException as error:
            raise ImportError(f"preload: {name}: {type(error).__name__}: {error}") from None
        if len(os.listdir("/proc/self/task")) > 1:
            raise ImportError(f"preload: {name} starts threads, which a fork does not have: leave it out")
    sys.path[:] = before
