"""A warm worker as the supervisor sees it: started once, given one job after another, closed.

In: `Settings`. Out: `Server`, whose `start` begins a job with the descriptors it is given. Wrong:
`SandboxUnavailable` where the namespaces cannot be made, `SandboxError` where a module to be loaded ahead
cannot be, OSError when a server that had worked is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox import codec, farside
from sandbox.cgroups import Group, usable
from sandbox.inside import init as far
from sandbox.inside.taken import children
from sandbox.job import Limits, SandboxError, SandboxUnavailable

# How long a server may take to be ready: modules that are loaded ahead may be large.
START_S = 60.0
# What the interpreter itself and the processes' shared pages may add to a tree's resident memory.
MEMORY_SLACK_MB = 48
_GRACE_S = 4.0
# A process with threads cannot be forked soundly: numerical libraries start them when they are loaded.
_ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "VECLIB_MAXIMUM")
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What one server is made for; a job runs on one whose settings are the job's.

    namespaces  isolate; without, a server only saves the start of an interpreter
    binds       paths of the host that programs see, read-only
    packages    folders that Python programs import from
    preload     modules that are imported once, before the first job
    hash_seed   PYTHONHASHSEED of the server and all that is forked from it
    """

    namespaces: bool
    binds: tuple[str, ...]
    packages: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    hash_seed: int = 0


class Server:
    """One keeper and its server. Not to be used by two threads at once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._owner = os.getpid()
        self.broken = False
        self._group = Group() if settings.namespaces and usable() else None
        self._bounded_to = 0
        self._kills_before = 0
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        alive_r, self._control = os.pipe()
        kills_r, self._kills = os.pipe()
        self._killing = False
        config = {
            "namespaces": settings.namespaces,
            "binds": list(settings.binds),
            "packages": list(settings.packages),
            "preload": list(settings.preload),
            "supervisor": os.getpid(),
            "group": self._group.folder if self._group is not None else "",
        }
        payload = memory_file(farside.bundle() + codec.encode(config))
        try:
            self.process = subprocess.Popen(
                farside.server_command([payload, theirs.fileno(), alive_r, kills_r]),
                # Each further arena of malloc would take 64 MiB of a program's address space.
                env={"PYTHONHASHSEED": str(settings.hash_seed), "MALLOC_ARENA_MAX": "1", **_ONE_THREAD},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[payload, theirs.fileno(), alive_r, kills_r],
                start_new_session=True,
            )
        except BaseException:
            link.close()
            os.close(self._control)
            os.close(self._kills)
            if self._group is not None:
                self._group.close()
            raise
        finally:
            theirs.close()
            os.close(alive_r)
            os.close(kills_r)
            os.close(payload)
        self._link = link
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise
        finally:
            assert self.process.stderr is not None  # noqa: S101 - for the type checker
            self.process.stderr.close()
        # The keeper has one child, the server; what it forks is the tree of a job.
        self.root_pid = children(self.process.pid)[0]
        try:
            if self._group is not None:
                self._group.add(self.root_pid)
            self._link.send(b"go")
        except BaseException:
            self.close()
            raise

    def _await_ready(self) -> None:
        self._link.settimeout(START_S)
        try:
            word = self._link.recv(4096).decode("utf-8", "replace")
        except TimeoutError:
            raise SandboxError(f"a worker of the sandbox was not ready within {START_S:g} s") from None
        except OSError as error:
            word = f"error {error}"
        if word == "ready":
            return
        reason = word.removeprefix("error").strip()
        if not reason:
            reason = self._last_words() or "the worker ended without a word"
        if "preload:" in reason:
            raise SandboxError(reason[reason.index("preload:") :])
        raise SandboxUnavailable(reason)

    def _last_words(self) -> str:
        stream = self.process.stderr
        if stream is None or not select.select([stream], [], [], 1.0)[0]:
            return ""
        return os.read(stream.fileno(), 4096).decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]

    def alive(self) -> bool:
        """Whether it can take a job: nobody has killed it, and it has nothing left to say."""
        if self.broken or self.process.poll() is not None:
            return False
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        return not poll.poll(0)

    def start(self, flags: int, limits: Limits, parts: Mapping[str, int]) -> None:
        """Begin a job whose descriptors are `parts`; raises OSError where the server is gone."""
        if self._killing:
            raise OSError("killed before it began")
        self._bound(limits.memory_mb + MEMORY_SLACK_MB)
        numbers = [parts[name] for name in far.PARTS if name in parts]
        try:
            socket.send_fds(self._link, [far.HEAD.pack(flags, limits.tmpfs_mb)], numbers)
        except OSError:
            self.broken = True
            raise

    def starved(self) -> bool:
        """Whether the kernel has killed a process of this job because its control group was full."""
        if self._group is None:
            return False
        try:
            return self._group.oom_kills() > self._kills_before
        except OSError:
            return False

    def _bound(self, mebibytes: int) -> None:
        """Set the control group's bound for the next job, where there is a group."""
        if self._group is None:
            return
        self._kills_before = self._group.oom_kills()
        if mebibytes != self._bounded_to:
            self._group.limit(mebibytes)
            self._bounded_to = mebibytes

    def kill(self) -> None:
        """Have every process of the job killed, from outside its namespaces."""
        if not self._killing and not self.broken:
            self._killing = True
            try:
                os.write(self._kills, b"x")
            except OSError:
                self.broken = True

    def settle(self) -> None:
        """Wait until a kill is done, so that it cannot meet the next job."""
        if not self._killing:
            return
        self._killing = False
        try:
            self._link.settimeout(_GRACE_S)
            if self._link.recv(16) != b"again":
                self.broken = True
        except OSError:
            self.abandon()

    def abandon(self) -> None:
        """Kill the server and all below it at once: it did not do as it was told."""
        self.broken = True
        for pid in children(self.process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)

    def close(self) -> None:
        """End the server and wait for the keeper, which waits for all that was below it."""
        if self._owner != os.getpid():
            self.forget()
            return
        self.broken = True
        if self._control >= 0:
            with contextlib.suppress(OSError):
                # A word as well as the end: a fork of this process may hold the pipe open.
                os.write(self._control, b"x")
        self._let_go()
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.abandon()
            time.sleep(0.1)
            self.process.kill()
            self.process.wait()
        if self._group is not None:
            self._group.close()
            self._group = None

    def forget(self) -> None:
        """Let go of it in a fork of the process that it serves."""
        self.broken = True
        self._let_go()
        self.process.returncode = 0

    def _let_go(self) -> None:
        self._link.close()
        if self._control >= 0:
            os.close(self._control)
            os.close(self._kills)
            self._control = self._kills = -1


def memory_file(*parts: bytes) -> int:
    """An unnamed file that holds `parts`, at its beginning, and that nobody can change."""
    number = os.memfd_create("job", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for data in parts:
            view = memoryview(data)
            while view:
                view = view[os.write(number, view) :]
        os.lseek(number, 0, os.SEEK_SET)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(number, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(number)
        raise
    return number
