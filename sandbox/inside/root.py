"""Namespaces and the small read-only root, made by the launcher before any foreign code exists.

In: the paths that programs need. Out: this process sits in new namespaces, and its root holds those
paths (read-only) and a few devices, and nothing else of the host; each job mounts a bounded tmpfs at /tmp
and a /proc upon it.
Wrong: OSError naming the call; the caller reports it and runs nothing.
"""

# pathlib and contextlib would cost more to import than the rest of the launcher.
# ruff: noqa: PTH123, PTH102, PTH103, PTH112, PTH114, PTH115, PTH120, PTH211, S108

from __future__ import annotations

import ctypes
import errno
import os
import struct

from sandbox.inside import kernel

# The uid a program sees, and the first host uid that a supervisor run by root hands out.
INNER_ID = 65534
FIRST_HOST_ID = 200000
# How many of a small namespace's ids are looked at, from the last one on.
_FEW = 1000
WORK = "/tmp/work"
# Where the tmpfs of a job is made before it is moved to /tmp.
_NEW = "/new"

_BASES = ("/sys", "/mnt", "/run", "/tmp")
DEVICES = ("null", "zero", "full", "random", "urandom")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "shm": "/tmp",
}
_READ_ONLY_ATTRIBUTES = 1 | 2 | 4  # MOUNT_ATTR_RDONLY, NOSUID, NODEV
_SHARED_WITH_MS = 2 | 4 | 8 | 1024 | 2048  # statvfs flags that have the same value as mount flags
_ST_RELATIME, _MS_RELATIME = 4096, 1 << 21


class JobMounts:
    """What the mount namespace of one job gets: a tmpfs of so many MiB, maybe executable."""

    def __init__(self, tmpfs_mb: int, executable: bool, late: list[str]) -> None:
        self.tmpfs_mb = tmpfs_mb
        self.executable = executable
        self.late = late


def host_id() -> int | None:
    """The host's uid and gid that a worker of root hands to its programs; None where there is no root's way.

    That is for an ordinary user, and for a root whose user namespace has no other ids.
    """
    if os.geteuid() != 0:
        return None
    wanted = FIRST_HOST_ID + os.getpid()
    both = [_mapped("uid_map"), _mapped("gid_map")]
    if all(any(first <= wanted < first + count for first, count in one) for one in both):
        return wanted
    # Some namespace with fewer ids, such as a container's: one that is not its root's.
    for first, count in reversed(both[0]):
        last = first + count - 1
        usable = [one for one in range(max(first, 1), last + 1)[-_FEW:] if one != INNER_ID]
        usable = [one for one in usable if any(a <= one < a + n for a, n in both[1])]
        if usable:
            return usable[os.getpid() % len(usable)]
    return None


def is_root_of_host(uid: str) -> bool:
    """Whether an id of this process's user namespace, in digits, may be the host's 0 for all we know."""
    if uid != "0":
        return False
    with open("/proc/self/uid_map", "rb") as file:
        above = {int(words[1]) for line in file if (words := line.split())[0] == b"0"}
    return not above or 0 in above


def _mapped(name: str) -> list[tuple[int, int]]:
    """The (first, count) of ids that exist in this user namespace, in order."""
    with open(f"/proc/self/{name}", "rb") as file:
        return sorted((int(words[0]), int(words[2])) for line in file if (words := line.split()))


def enter_namespaces(as_root: bool) -> None:
    """Unshare everything but the user namespace as root, and everything as an ordinary user.

    Root mounts first, since only it may read a Python in a private home; it leaves uid 0 afterwards.
    """
    flags = kernel.CLONE_ALL_NEW
    # The namespace of control groups comes later, when the worker is in its group.
    flags &= ~(kernel.CLONE_NEWUSER | kernel.CLONE_NEWCGROUP)
    if not as_root:
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER, "user")
        map_ids(uid, gid)
    kernel.unshare(flags, "mount, net, pid, ipc, uts")
    kernel.set_host_name("sandbox")


def map_ids(uid: int, gid: int) -> None:
    """Let `uid` and `gid` appear as INNER_ID in the user namespace this process has just entered."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{INNER_ID} {uid} 1"),
        ("gid_map", f"{INNER_ID} {gid} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def build(binds: list[str]) -> None:
    """Make the new root from `binds` (absolute paths, no symbolic links) and move into it, but for `seal`."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    base = _base(binds)
    kernel.mount("tmpfs", base, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    early = [path for path in binds if not path.startswith("/tmp/")]
    for path in early:
        _bind(path, base)
    for name in ("lib", "lib64", "bin"):
        if os.path.islink(f"/{name}") and not os.path.lexists(f"{base}/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{base}/{name}")
    for name in ("dev", "proc", "tmp", *([_NEW.strip("/")] if late_binds(binds) else [])):
        os.makedirs(f"{base}/{name}", exist_ok=True)
    for name in DEVICES:
        _touch(f"{base}/dev/{name}")
    for name, goal in DEVICE_LINKS.items():
        os.symlink(goal, f"{base}/dev/{name}")
    _read_only(base, early)
    for name in DEVICES:
        kernel.mount(f"/dev/{name}", f"{base}/dev/{name}", flags=kernel.MS_BIND)
    # Each job mounts a writable one of its own over this, which only holds binds from below the host's /tmp.
    kernel.mount("tmpfs", f"{base}/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=755")
    for path in late_binds(binds):
        _bind(path, base)
        _read_only(base + path, [])
    os.chdir(base)
    # Both arguments the same: the old root comes to lie upon the new one, to be taken off by `seal`.
    kernel.pivot_root(".", ".")


def _base(binds: list[str]) -> str:
    for path in _BASES:
        if os.path.isdir(path) and not any(f"{bind}/".startswith(f"{path}/") for bind in binds):
            return path
    raise OSError(errno.ENOENT, f"none of {', '.join(_BASES)} can hold the new root")


def _touch(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _bind(path: str, base: str) -> None:
    target = base + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        _touch(target)
    try:
        kernel.mount(path, target, flags=kernel.MS_BIND)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # In a user namespace a tree with mounts of the host below it can only be taken whole.
        kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)


def _read_only(base: str, binds: list[str]) -> None:
    """Make the root and every bind below it read-only, nosuid and nodev."""
    attributes = ctypes.create_string_buffer(struct.pack("=QQQQ", _READ_ONLY_ATTRIBUTES, 0, 0, 0), 32)
    try:
        kernel.mount_setattr(base, attributes)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    else:
        return
    for target in (*(base + path for path in binds), base):
        held = os.statvfs(target).f_flag
        keep = held & _SHARED_WITH_MS | (_MS_RELATIME if held & _ST_RELATIME else 0)
        flags = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
        kernel.mount("none", target, flags=kernel.MS_BIND | kernel.MS_REMOUNT | flags | keep)


def late_binds(binds: list[str]) -> list[str]:
    """Those that a job's own tmpfs at /tmp would cover."""
    return [path for path in binds if path.startswith("/tmp/")]


def seal() -> None:
    """Give the new pid namespace a /proc of its own, then drop the host's root. Its PID 1 must do this.

    The order counts: the kernel lets an ordinary user mount a /proc only while a whole one is in sight.
    On a host whose own /proc is partly covered it never does; then /proc stays empty.
    """
    _mount_proc()
    kernel.umount(".")
    os.chdir("/")


def _mount_proc() -> None:
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    for options in ("hidepid=2,subset=pid", "hidepid=2", ""):
        try:
            kernel.mount("proc", "/proc", "proc", flags, options)
        except OSError:
            continue
        break


def enter_job(mounts: JobMounts) -> None:
    """Mount what each job has anew: a tmpfs at /tmp with the working folder in it, and a /proc."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | (0 if mounts.executable else kernel.MS_NOEXEC)
    options = f"size={mounts.tmpfs_mb}m,nr_inodes=16384,mode=1777"
    if mounts.late:
        kernel.mount("tmpfs", _NEW, "tmpfs", flags, options)
        for path in mounts.late:
            target = _NEW + path.removeprefix("/tmp")
            if os.path.isdir(path):
                os.makedirs(target, exist_ok=True)
            else:
                _touch(target)
            kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)
        kernel.mount(_NEW, "/tmp", flags=kernel.MS_MOVE)
    else:
        kernel.mount("tmpfs", "/tmp", "tmpfs", flags, options)
    os.mkdir(WORK)
    _mount_proc()


def leave_root(host_id: int) -> None:
    """Become the unprivileged `host_id` for good, inside a user namespace that maps only that."""
    os.setgroups([])
    os.setresgid(host_id, host_id, host_id)
    os.setresuid(host_id, host_id, host_id)
    # The kernel made /proc/self root's when the uid changed; the id maps are written through it.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    kernel.unshare(kernel.CLONE_NEWUSER, "user")
    map_ids(host_id, host_id)
    # A mount namespace that belongs to the new user namespace: jobs' mounts need that.
    kernel.unshare(kernel.CLONE_NEWNS, "mount")
