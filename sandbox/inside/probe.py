"""What the doctor has run inside the sandbox: a program that tries to get out, and one that takes too much.

In, on the command line: "probe", a file of the host, a TCP port and the name of an abstract unix socket of
the supervisor, and the name that a process left behind is to have; or "crowd" alone. Out, of the first, on
standard output: one JSON object of what was found, and of what was tried with the kernel's refusal ("" where
there was none). It runs as a program like any other, so it imports nothing of ours. Wrong: an exception.
Nothing that it tries does harm where nothing holds it back.
"""

# pathlib would cost more to import than the rest.
# ruff: noqa: PTH108, PTH115, PTH120, PTH123, PTH208, S108, SIM115

from __future__ import annotations

import ctypes
import errno
import functools
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False  # importing typing would cost more than the rest
if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
_PR_SET_NAME, _PR_GET_SECCOMP, _PR_CAPBSET_READ, _PR_GET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 15, 21, 23, 39, 47
_AMBIENT_IS_SET = 1
_PTRACE_ATTACH, _NO_SUCH_PROCESS = 16, 1 << 30
_LANDLOCK_CREATE_RULESET, _NO_SUCH_CALL = 444, 1000
_FOREVER_S = 600

_libc = ctypes.CDLL(None, use_errno=True)


def tried(action: Callable[..., object], *arguments: object) -> str:
    """Return the name of the error that the kernel refused with; "" where it did not."""
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except MemoryError:
        return "ENOMEM"
    return ""


def called(function: str, *arguments: object) -> str:
    """The same for a function of the C library."""
    ctypes.set_errno(0)
    if getattr(_libc, function)(*arguments) >= 0:
        return ""
    return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))


def text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""


def create(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(path)


def make_device(path: str) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 3))
    os.unlink(path)


def look(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        file.read(1)


def connect(family: int, address: tuple[str, int] | bytes) -> None:
    with socket.socket(family) as one:
        one.settimeout(1)
        one.connect(address)


def namespace(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{name}")
    except OSError:
        return ""


def mounts() -> list[list[str]]:
    """The place and the options of each mount; of three places where there is no /proc to list them."""
    listed = [line.split()[4:6] for line in text("/proc/self/mountinfo").splitlines()]
    if listed:
        return listed
    flags = ((os.ST_RDONLY, "ro"), (os.ST_NOSUID, "nosuid"), (os.ST_NODEV, "nodev"))
    return [
        [path, ",".join(name for flag, name in flags if os.statvfs(path).f_flag & flag)]
        for path in ("/", os.path.dirname(os.__file__), "/tmp")
    ]


def capabilities() -> int:
    """The number of capabilities held in all five sets together; -1 where the kernel does not say."""
    header, sets = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    if _libc.capget(header, sets) < 0:
        return -1
    held: int = sum(number.bit_count() for number in struct.unpack("=6I", sets.raw))
    for number in range(64):
        held += int(_libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1)
        held += int(_libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_IS_SET, number, 0, 0) == 1)
    return held


def leave_behind(name: str) -> None:
    """Start a process that lives on with that name, in a session of its own, as a daemon does."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
            sleep()
        os._exit(0)
    os.wait()


def sleep() -> None:
    os.closerange(0, 64)
    time.sleep(_FOREVER_S)
    os._exit(0)


def fill() -> None:
    files = []
    for number in range(128):
        path = f"/tmp/fill{number}"
        files.append(open(path, "xb", buffering=0))
        os.unlink(path)
        files[-1].write(bytes(1 << 18))


def lengthen() -> None:
    with open("/tmp/long", "xb") as file:
        os.unlink("/tmp/long")
        file.truncate(1 << 30)


def take_descriptors(opened: list[int]) -> None:
    while len(opened) < 4096:
        opened.append(os.open("/dev/null", os.O_RDONLY))


def take_processes(forked: list[int]) -> None:
    while len(forked) < 64:
        pid = os.fork()
        if pid == 0:
            sleep()
        forked.append(pid)


def probe(file: str, port: str, name: str, marker: str) -> dict[str, object]:
    entries = os.listdir("/proc")
    found: dict[str, object] = {
        "descriptors": [number for number in range(1024) if not tried(os.fstat, number)],
        "namespaces": {one: namespace(one) for one in NAMESPACES},
        "pid": os.getpid(),
        "parent": os.getppid(),
        "processes": sorted(int(one) for one in entries if one.isdigit()),
        "proc": sorted(one for one in entries if not one.isdigit()),
        "uid": os.getuid(),
        "uid_map": text("/proc/self/uid_map").split(),
        "setuid": tried(os.setuid, 0),
        "capabilities": capabilities(),
        "device": tried(make_device, "/tmp/device"),
        "no_new_privs": _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
        "seccomp": _libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0),
        "calls": {
            "mount": called("mount", b"none", b"/no/such/place", b"tmpfs", 0, None),
            "ptrace": called("ptrace", _PTRACE_ATTACH, _NO_SUCH_PROCESS, None, None),
            "unshare": called("unshare", 0),
            "personality": called("personality", ctypes.c_ulong(0xFFFFFFFF)),
            "unknown": called("syscall", _NO_SUCH_CALL, 0, 0, 0),
            "IP socket": called("socket", int(socket.AF_INET), int(socket.SOCK_STREAM), 0),
        },
        "files": [
            path for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", file) if not tried(look, path)
        ],
        "created": {
            place: tried(create, f"{place}.{marker}")
            for place in ("/probe", "/dev/probe", "/proc/probe", os.__file__)
        },
        "mounts": mounts(),
        "network": tried(connect, socket.AF_INET, ("127.0.0.1", int(port))),
        "unix": tried(connect, socket.AF_UNIX, b"\0" + name.encode()),
        "environ": sorted(os.environ),
        "signals": {
            str(number): tried(os.kill, 1, number) for number in (1, 2, 9, 15, 19) if os.getpid() == 2
        },
        "limits_of_1": tried(resource.prlimit, 1, resource.RLIMIT_CPU),
        "files_of_1": [path for path in ("/proc/1/environ", "/proc/1/mem") if not tried(look, path)],
        "landlock": _libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1),
        "fenced": tried(functools.partial(os.open, "/dev/urandom", os.O_WRONLY)),
        "score": text("/proc/self/oom_score_adj").strip(),
        "limits": {one: resource.getrlimit(getattr(resource, f"RLIMIT_{one}"))[0] for one in ("CPU", "CORE")},
    }
    leave_behind(marker)
    opened: list[int] = []
    forked: list[int] = []
    found["refused"] = {
        "memory": tried(lambda: mmap.mmap(-1, 1 << 30).close()),
        "a file": tried(lengthen),
        "descriptors": tried(take_descriptors, opened),
        "processes": tried(take_processes, forked),
    }
    for number in opened:
        os.close(number)
    for pid in forked:
        os.kill(pid, signal.SIGKILL)
    found["tmp"] = tried(fill)
    return found


def crowd() -> None:
    """Take by several processes what one alone may not."""
    for _ in range(6):
        if os.fork() == 0:
            held = b"x" * (16 << 20)
            time.sleep(_FOREVER_S)
            del held
    time.sleep(_FOREVER_S)


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        print(json.dumps(probe(*sys.argv[2:])))
    else:
        crowd()
