"""Bounds what a process tree takes together, where a control group can be written.

In: the pid of a worker and a bound in MiB. Out: a bound that the kernel itself keeps for all processes
of the tree and everything that they write to a tmpfs; kills for want of memory. Wrong: OSError saying what
was refused. Where no group can be made (an ordinary user has often none) `usable()` is None, `why_not()`
says why, and the caller must watch the tree itself.

Version 1 of control groups is used below the group of this process in the hierarchy of memory. Version 2
lets a group that holds processes have no bounded groups below it, but for the root: elsewhere ours is made
beside the group of this process, and only where that one sets no bound on memory or processor time that we
would get out of.

A group is named after the process that made it, by pid and start time, so that `sweep` can tell those
that a killed process left behind. A process of another pid namespace looks gone: sweep takes its empty
groups, never one that holds a process. Nothing here may be reached by a program under test: its root has
no control group file system, and the descriptor that a `Group` may hold is closed on exec.
"""

# A launcher may load this into a bare interpreter: pathlib and contextlib would cost more than the rest.
# ruff: noqa: PTH102, PTH106, PTH110, PTH112, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import errno
import itertools
import os
import time

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from typing import NoReturn

CLOSE_S = 2.0
"""Seconds that `Group.close` waits for the processes of a group to be gone."""

_MIB = 1 << 20
_PREFIX = "assay"
_BOUNDS = ("memory.max", "memory.high", "memory.swap.max", "cpu.max")
_numbers = itertools.count()
# root -> the place, or why there is none; found once a process.
_found: dict[str, _Place | str] = {}


class _Place:
    """The folder in which groups are made, and the version of control groups that it has."""

    def __init__(self, version: int, folder: str) -> None:
        self.version = version
        self.folder = folder

    def describe(self) -> str:
        return f"cgroup v{self.version} bounds memory, in {self.folder}"


def usable(root: str = "/") -> str | None:
    """Return one line on the control groups that are used, or None where none can be.

    In version 2 this turns the memory controller on for the groups below, where it is off. `root` is the
    folder below which /proc/self and the mount points are looked up.
    """
    place = _look(root)
    return None if isinstance(place, str) else place.describe()


def why_not(root: str = "/") -> str:
    """Return what stands against control groups here; "" where nothing does."""
    place = _look(root)
    return place if isinstance(place, str) else ""


def sweep(root: str = "/") -> int:
    """Remove groups whose process is gone, as far as they are empty; return how many."""
    place = _look(root)
    if isinstance(place, str):
        return 0
    removed = 0
    for name in os.listdir(place.folder):
        if _orphaned(name):
            try:
                os.rmdir(os.path.join(place.folder, name))
            except OSError:
                continue  # it holds processes still, or another sweep was faster
            removed += 1
    return removed


class Group:
    """One control group, made empty and without a bound."""

    def __init__(self, root: str = "/") -> None:
        """Make the group. Raises OSError where none can be made."""
        place = _look(root)
        if isinstance(place, str):
            raise OSError(errno.EOPNOTSUPP, f"no control group can be made: {place}")
        self.version = place.version
        while True:
            self.name = _new_name()
            self.folder = os.path.join(place.folder, self.name)
            try:
                os.mkdir(self.folder)
            except FileExistsError:
                continue  # a process keeps pid and start time when it executes another program
            break

    def add(self, pid: int) -> None:
        """Move a process, and all that it will start, into the group; what it takes already is not counted.

        Raises ProcessLookupError for a process that is gone, OSError where it may not be moved.
        """
        self._set("cgroup.procs", str(pid))

    def limit(self, mebibytes: int) -> None:
        """Bound memory and swap together. Raises OSError where the group takes more already (version 1).

        In version 2 the kernel kills processes of such a group instead. Raises ValueError for no MiB at all.
        """
        if mebibytes < 1:
            raise ValueError(f"a group cannot be bounded to {mebibytes} MiB")
        wanted = str(mebibytes * _MIB)
        if self.version == 2:
            self._set("memory.max", wanted)
            if self._has("memory.swap.max"):
                self._set("memory.swap.max", "0")
            return
        names = ["memory.limit_in_bytes"]
        if self._has("memory.memsw.limit_in_bytes"):
            names.append("memory.memsw.limit_in_bytes")
        # The bound with swap may never be the lower one, not even between the two writes.
        if mebibytes * _MIB > int(self._get("memory.limit_in_bytes")):
            names.reverse()
        for name in names:
            self._set(name, wanted)

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed for want of memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        return _field(self._get(name), "oom_kill", os.path.join(self.folder, name))

    def close(self) -> bool:
        """Remove the group, waiting up to `CLOSE_S` for its processes to end; return whether it is gone.

        It kills nobody. A group that stays is left to `sweep`.
        """
        end = time.monotonic() + CLOSE_S
        pause = 0.001
        while not _removed(self.folder):
            now = time.monotonic()
            if now >= end:
                return False
            time.sleep(min(pause, end - now))
            pause = min(2 * pause, 0.05)
        return True

    def _has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.folder, name))

    def _get(self, name: str) -> str:
        return _read(os.path.join(self.folder, name))

    def _set(self, name: str, text: str) -> None:
        _write(os.path.join(self.folder, name), text)


def _look(root: str) -> _Place | str:
    if root not in _found:
        try:
            _found[root] = _find(root)
        except OSError as error:
            _found[root] = f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)
    return _found[root]


def _find(root: str) -> _Place | str:
    """Return the first place where a group can really be made, or why none of them is one."""
    groups = _own_groups(_read(os.path.join(root, "proc/self/cgroup")))
    mounts = _mounts(_read(os.path.join(root, "proc/self/mountinfo")))
    reasons = []
    for version, controller, place_of in ((2, "", _place_of_2), (1, "memory", _place_of_1)):
        found = _folder(root, groups, mounts, controller)
        if found is None:
            reasons.append(f"cgroup v{version}: the group of this process is not mounted")
            continue
        place = place_of(*found)
        if isinstance(place, _Place):
            return place
        reasons.append(f"cgroup v{version}: {place}")
    return "; ".join(reasons)


def _place_of_1(_: str, own: str) -> _Place | str:
    return _try(own, "memory.limit_in_bytes") or _Place(1, own)


def _place_of_2(top: str, own: str) -> _Place | str:
    problem = _host(own)
    if not problem:
        return _Place(2, own)
    if own == top:
        return problem
    bounds = [name for name in _BOUNDS if _words(os.path.join(own, name))[:1] not in ([], ["max"])]
    if bounds:
        return f"{problem}; and a group beside it would get out of its {', '.join(bounds)}"
    above = os.path.dirname(own)
    beside = _host(above)
    return f"{problem}; {beside}" if beside else _Place(2, above)


def _host(folder: str) -> str:
    """Make `folder` (version 2) a place for groups with bounds; return what stands against it, or ""."""
    if "memory" not in _words(os.path.join(folder, "cgroup.controllers")):
        return f"{folder} has no memory controller"
    # Whoever moves a process must be able to write where it comes from and goes to meet.
    for path in (folder, os.path.join(folder, "cgroup.procs")):
        if not os.access(path, os.W_OK):
            return f"{path} cannot be written"
    control = os.path.join(folder, "cgroup.subtree_control")
    if "memory" not in _words(control):
        try:
            _write(control, "+memory")
        except OSError as error:
            if error.errno == errno.EBUSY:
                return f"{folder} holds processes, so that the kernel lets it have no bounded groups below"
            return f"{control} cannot be written: {error.strerror}"
    return _try(folder, "memory.max")


def _try(folder: str, wanted: str) -> str:
    """Make a group in `folder` and remove it; return what stands against it, or "".

    A group with files of which none is `wanted` is of no use.
    """
    if not os.access(folder, os.W_OK):
        return f"{folder} cannot be written"
    probe = os.path.join(folder, _new_name())
    try:
        os.mkdir(probe)
    except OSError as error:
        return f"no group can be made in {folder}: {error.strerror}"
    files = os.listdir(probe)
    try:
        os.rmdir(probe)
    except OSError as error:
        return f"{probe} cannot be removed: {error.strerror}"
    return f"groups in {folder} have no {wanted}" if files and wanted not in files else ""


def _own_groups(text: str) -> dict[str, str]:
    """Controller -> path of the group of this process; "" stands for version 2."""
    groups = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            groups[name] = path
    return groups


def _mounts(text: str) -> list[tuple[str, str, str]]:
    """(controllers separated by commas, "" for version 2; root of the mount; mount point) of each mount."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            mount_root, point = before.split(" ")[3:5]
            mounts.append(("" if kind == "cgroup2" else options, _unescaped(mount_root), _unescaped(point)))
    return mounts


def _unescaped(path: str) -> str:
    for code in ("040", "011", "012", "134"):
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path


def _folder(
    root: str, groups: dict[str, str], mounts: list[tuple[str, str, str]], controller: str
) -> tuple[str, str] | None:
    """(mount point, folder of the own group) in the hierarchy of `controller`; None where not mounted."""
    own = groups.get(controller)
    if own is None or "/.." in own:
        return None
    for options, mount_root, point in mounts:
        if controller not in options.split(",") and not (controller == options == ""):
            continue
        below = os.path.relpath(own, mount_root)
        if below.startswith(".."):
            continue
        top = os.path.join(root, point.lstrip("/"))
        folder = os.path.normpath(os.path.join(top, below))
        if os.path.isdir(folder):
            return os.path.normpath(top), folder
    return None


def _words(path: str) -> list[str]:
    try:
        return _read(path).split()
    except FileNotFoundError:
        return []


def _new_name() -> str:
    pid, start = _identity("self")
    return f"{_PREFIX}-{pid}-{start}-{next(_numbers)}"


def _identity(pid: str) -> tuple[int, int]:
    """(pid, start time in ticks since the machine started) of a process. Raises OSError where it is gone."""
    line = _read(f"/proc/{pid}/stat")
    # The name stands in parentheses and may hold anything.
    fields = line.rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(errno.ESRCH, f"process {pid} has ended")
    return int(line.split(" ", 1)[0]), int(fields[19])


def _orphaned(name: str) -> bool:
    parts = name.split("-")
    if len(parts) != 4 or parts[0] != _PREFIX or not all(part.isdecimal() for part in parts[1:]):
        return False
    try:
        return _identity(parts[1]) != (int(parts[1]), int(parts[2]))
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False  # it is there, and hidden from this user


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _field(text: str, name: str, path: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    raise OSError(errno.ENODATA, f"{path} has no line {name!r}")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    # Without O_CREAT: a file that the kernel did not make is no control.
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError as error:
        _refused(path, text, error)


def _refused(path: str, text: str, error: OSError) -> NoReturn:
    raise OSError(error.errno, f"{path}: {error.strerror}, writing {text}") from None
