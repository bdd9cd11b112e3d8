"""Bubblewrap: each job is a process of its own in namespaces and a root that `bwrap` makes.

In: the paths that programs see and the environment of their PID 1, which is our own `sandbox.inside.init`.
Out: `Bwrap.worker`, one job's `Worker`, to be used once and as a context manager. Wrong: `SandboxUnavailable`
where bwrap is missing or too old, or where a path cannot be reached by the ordinary user that it runs as.

What bwrap cannot do, and our own namespaces can: forbid the execution of files in /tmp, bound the number of
files there but by the memory that they take, and hide PID 1 in /proc.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from sandbox import codec, farside
from sandbox.cgroups import Group, sweep, usable
from sandbox.inside import init as far
from sandbox.inside import root
from sandbox.inside.taken import children
from sandbox.job import Limits, SandboxUnavailable
from sandbox.server import MEMORY_SLACK_MB, memory_file

PACKAGE = "bubblewrap"
_NEEDED = ("--as-pid-1", "--size", "--perms", "--remount-ro", "--clearenv", "--cap-drop")
_LINKS = ("lib", "lib64", "bin")
_KILL_GRACE_S = 0.5
_GRACE_S = 4.0
# One slot is as many ids as there may be processes, so that no two supervisors' jobs share an id of the host.
_IDS_EACH = 1 << 22
_SLOTS = 1000


class Bwrap:
    """The tool as found on this machine. Any number of threads may ask for workers."""

    def __init__(self) -> None:
        self._path, self._options = _found()
        self._lock = threading.Lock()
        self._slots: set[int] = set()
        self._reaches: dict[tuple[str, ...], _Reach | None] = {}
        # Nobody removes the control groups of a supervisor that was killed.
        sweep()

    def worker(self, binds: Sequence[str], hash_seed: int | None = 0) -> BwrapWorker:
        """Return what can begin one job whose programs see `binds`; None draws a hash seed."""
        reach = self._reach(tuple(binds)) if os.geteuid() == 0 else None
        return BwrapWorker(self, binds, "random" if hash_seed is None else str(hash_seed), reach)

    def close(self) -> None:
        """Let go of the mount namespaces that were made."""
        with self._lock:
            reaches, self._reaches = list(self._reaches.values()), {}
        for reach in reaches:
            if reach is not None:
                reach.close()

    def arguments(self, binds: Sequence[str], seed: str, tmpfs_mb: int) -> list[str]:
        """The command line of bwrap, up to what is run inside."""
        made = [self._path, "--unshare-all", "--unshare-user", *self._options]
        # Not --new-session: PID 1 makes a session of its own, which the leader of one may not.
        made += ["--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
        made += ["--uid", str(root.INNER_ID), "--gid", str(root.INNER_ID), "--hostname", "sandbox"]
        made += ["--clearenv", "--setenv", "PYTHONHASHSEED", seed, "--setenv", "MALLOC_ARENA_MAX", "1"]
        upon_tmp = root.late_binds(list(binds))
        for path in binds:
            if path not in upon_tmp:
                made += ["--ro-bind", path, path]
        for name in _LINKS:
            link = Path("/", name)
            if link.is_symlink() and str(link) not in binds:
                made += ["--symlink", str(link.readlink()), str(link)]
        for name in root.DEVICES:
            made += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
        for name, goal in root.DEVICE_LINKS.items():
            made += ["--symlink", goal, f"/dev/{name}"]
        made += ["--proc", "/proc", "--perms", "1777", "--size", str(tmpfs_mb << 20), "--tmpfs", "/tmp"]  # noqa: S108
        for path in upon_tmp:
            made += ["--ro-bind", path, path]
        return [*made, "--dir", root.WORK, "--remount-ro", "/", "--chdir", "/", "--"]

    def _reach(self, binds: tuple[str, ...]) -> _Reach | None:
        with self._lock:
            if binds not in self._reaches:
                covered = private_folders((*binds, self._path))
                self._reaches[binds] = _Reach(covered) if covered else None
            return self._reaches[binds]

    def take_id(self) -> tuple[int, int]:
        """Return a free slot and the host's id for one job: the kernel counts its processes by that."""
        with self._lock:
            slot = next((one for one in range(_SLOTS) if one not in self._slots), None)
            if slot is None:
                raise OSError(f"{_SLOTS} jobs under bwrap at once are the most")
            self._slots.add(slot)
        return slot, root.FIRST_HOST_ID + _IDS_EACH * (1 + slot) + os.getpid()

    def free_id(self, slot: int) -> None:
        with self._lock:
            self._slots.discard(slot)


class BwrapWorker:
    """One job. A context manager; at its end nothing of the job is left."""

    def __init__(self, tool: Bwrap, binds: Sequence[str], seed: str, reach: _Reach | None) -> None:
        self._tool = tool
        self._binds = binds
        self._seed = seed
        self._reach = reach
        self._process: subprocess.Popen[bytes] | None = None
        self._handle = -1
        self._watcher: threading.Thread | None = None
        self._slot = -1
        # A word on it, or its end, tells the watcher to kill the job.
        self._control = -1
        self._group: Group | None = None

    @property
    def root_pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def __enter__(self) -> BwrapWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watcher is not None:
            self._watcher.join(_GRACE_S)
            if self._watcher.is_alive():
                self.abandon()
                self._watcher.join()
        self.kill()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._group is not None:
            self._group.close()
            self._group = None
        if self._slot >= 0:
            self._tool.free_id(self._slot)
            self._slot = -1

    def start(self, flags: int, limits: Limits, parts: Mapping[str, int]) -> None:
        """Begin the job whose descriptors are `parts`. Raises OSError where bwrap cannot be started."""
        if usable():
            self._group = Group()
            self._group.limit(limits.memory_mb + MEMORY_SLACK_MB)
        waits, go = os.pipe()
        boot = memory_file(farside.once_bundle())
        ends, self._control = os.pipe()
        held = [waits, go, boot, ends, os.dup(parts["status"])]
        numbers = [waits if name == "control" else parts.get(name, -1) for name in far.ONCE_PARTS]
        try:
            inside = farside.once_command(boot, flags, numbers)
            command = [*self._tool.arguments(self._binds, self._seed, limits.tmpfs_mb), *inside]
            passed = [number for number in (boot, *numbers) if number >= 0]
            options: dict[str, Any] = {}
            if os.geteuid() == 0:
                # The kernel holds nobody to a number of processes whose id on the host is 0.
                self._slot, host_id = self._tool.take_id()
                if self._reach is None:
                    options = {"user": host_id, "group": host_id, "extra_groups": []}
                else:
                    command = [*self._reach.enter(host_id), *command]
                    passed.append(self._reach.descriptor)
            self._process = subprocess.Popen(
                command,
                # bwrap's own environment could be read from inside.
                env={},
                stdin=parts["stdin"],
                stdout=parts["out"],
                stderr=parts["err"],
                pass_fds=passed,
                start_new_session=True,
                **options,
            )
            self._handle = os.pidfd_open(self._process.pid)
            self._bound()
            watcher = threading.Thread(target=self._watch, args=tuple(held[3:]), daemon=True)
            watcher.start()
            self._watcher = watcher
            del held[3:]
            os.write(go, b"g")
        except RuntimeError as error:
            raise OSError(f"no thread could be started: {error}") from None
        finally:
            for number in held:
                os.close(number)
            if self._watcher is None and self._process is not None:
                self.abandon()
                self._process.wait()

    def _bound(self) -> None:
        """Move what there is so far into the control group, where there is one; what follows is in it."""
        if self._group is not None:
            # PID 1, which bwrap may have made already, waits for a word and has no child before.
            self._group.add(self.root_pid)
            for pid in children(self.root_pid):
                with contextlib.suppress(ProcessLookupError):
                    self._group.add(pid)

    def kill(self) -> None:
        """Have PID 1 killed, and with it all of its namespace."""
        if self._control >= 0:
            with contextlib.suppress(OSError):
                # A word as well as the end: a fork of this process may hold the pipe open.
                os.write(self._control, b"x")
            os.close(self._control)
            self._control = -1

    def starved(self) -> bool:
        """Whether the kernel has killed a process of this job because its control group was full."""
        try:
            return self._group is not None and self._group.oom_kills() > 0
        except OSError:
            return False

    def settle(self) -> None:
        """Nothing to wait for: another job is another process."""

    def abandon(self) -> None:
        """Kill PID 1, and with it all of its namespace, and bwrap."""
        self._kill_inside()
        self._kill_outside()

    def _kill_inside(self) -> None:
        for pid in children(self.root_pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _kill_outside(self) -> None:
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        elif self._process is not None:
            self._process.kill()

    def _watch(self, control: int, told: int) -> None:
        """Kill the job when its control pipe ends; say how it ended, and let its status pipe end."""
        process = self._process
        assert process is not None  # noqa: S101 - for the type checker
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        poll.register(control, select.POLLIN)
        if not any(number == self._handle for number, _ in poll.poll()):
            # PID 1 first: what it and its children took is known only to one who waits for it.
            self._kill_inside()
            poll.unregister(control)
            if not poll.poll(_KILL_GRACE_S * 1000):
                self._kill_outside()
        # What the job took, PID 1 has told.
        process.wait()
        os.close(control)
        os.close(told)


class _Reach:
    """A mount namespace in which the folders below a private home of root can be reached by anybody."""

    def __init__(self, covered: Mapping[str, Sequence[str]]) -> None:
        tool = shutil.which("nsenter")
        if tool is None:
            raise SandboxUnavailable(
                f"{_unreachable(covered)}: install util-linux, whose nsenter is needed here"
            )
        self._tool = tool
        given = memory_file(codec.encode({folder: list(paths) for folder, paths in covered.items()}))
        boot = memory_file(farside.reach_bundle())
        try:
            helper = subprocess.Popen(
                farside.reach_command(boot, given),
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[boot, given],
            )
        finally:
            os.close(given)
            os.close(boot)
        with helper:
            assert isinstance(helper.stdout, io.BufferedReader)  # noqa: S101 - for the type checker
            word = helper.stdout.read1(4096).decode("utf-8", "replace").strip()
            if word != "ready":
                reason = word.rsplit("\n", 1)[-1].removeprefix("error ")
                raise SandboxUnavailable(f"{_unreachable(covered)}, and no way round it: {reason}")
            self.descriptor = os.open(f"/proc/{helper.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def enter(self, host_id: int) -> list[str]:
        """The command line's beginning that runs the rest there, as that user."""
        place = f"--mount=/proc/self/fd/{self.descriptor}"
        return [self._tool, place, "--setuid", str(host_id), "--setgid", str(host_id), "--"]

    def close(self) -> None:
        os.close(self.descriptor)


def _unreachable(covered: Mapping[str, Sequence[str]]) -> str:
    path = next(iter(covered.values()))[0]
    return f"bwrap runs as an ordinary user, who cannot reach {path} below the private {next(iter(covered))}"


def private_folders(binds: Iterable[str]) -> dict[str, list[str]]:
    """Return each outermost folder that others than its owner may not pass, and the binds below it.

    Raises SandboxUnavailable for a bind that others may not read itself.
    """
    covered: dict[str, list[str]] = {}
    for path in binds:
        info = Path(path).stat()
        needed = 0o5 if stat.S_ISDIR(info.st_mode) else 0o4
        if info.st_mode & needed != needed:
            raise SandboxUnavailable(
                f"bwrap runs as an ordinary user, who may not read {path}: "
                f"chmod o+r{'x' if needed & 1 else ''} {path}, or use backend 'auto'"
            )
        for folder in reversed(Path(path).parents):
            if not folder.stat().st_mode & 0o1:
                covered.setdefault(str(folder), []).append(path)
                break
    return covered


def _found() -> tuple[str, tuple[str, ...]]:
    """Return the path of bwrap and the options that only some versions have."""
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxUnavailable(
            f"backend 'bwrap' needs bubblewrap: apt-get install {PACKAGE} (or dnf, apk, pacman likewise)"
        )
    said = ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([path, "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
    missing = [option for option in _NEEDED if option not in said]
    if missing:
        raise SandboxUnavailable(f"{path} is too old: it lacks {', '.join(missing)}; bubblewrap 0.8 has them")
    return os.path.realpath(path), ("--disable-userns",) if "--disable-userns" in said else ()
