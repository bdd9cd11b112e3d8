"""Says which layers of isolation hold on this machine, by trying to get through each from inside.

In: a function that runs a job in namespaces. Out: a `Layer` for each of `FENCES`, or one line on what is
missing and what to do. Wrong: nothing is raised; a machine that cannot isolate has layers that do not hold,
with the reason. A fence that is `required` and does not hold means that no job is run.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import cgroups, languages
from sandbox.inside import probe, root
from sandbox.inside.taken import can_look, children
from sandbox.job import Job, Layer, Limits, Result, SandboxError
from sandbox.names import LANGUAGES

Run = Callable[[Job], Result]

_PROBE = Path(__file__).parent / "inside" / "probe.py"


@dataclass(frozen=True, slots=True)
class Fence:
    """One layer as data.

    stops     what it keeps from happening
    tried     what the doctor does to see whether it holds
    required  whether a job is refused where it does not hold; the others stand behind one that is
    """

    name: str
    stops: str
    tried: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Tools:
    """What a language has on this machine.

    version   one line; "" where something is missing
    packages  Debian packages that bring it
    problem   what is missing and what to do; "" where nothing is
    """

    lang: str
    title: str
    version: str
    packages: tuple[str, ...]
    problem: str = ""


FENCES = (
    Fence("isolated run", "all that follows", "run a script and wait for its report"),
    Fence(
        "user namespace",
        "rights over anything outside",
        "compare with the host's",
    ),
    Fence("mnt namespace", "mounts that others would see", "compare with the host's"),
    Fence(
        "pid namespace",
        "seeing and signalling processes of others",
        "compare with the host's; look for other processes",
    ),
    Fence("net namespace", "the network, loopback too", "compare with the host's"),
    Fence("ipc namespace", "shared memory and queues of others", "compare with the host's"),
    Fence("uts namespace", "changing the host's name", "compare with the host's"),
    Fence("cgroup namespace", "learning the host's control groups", "compare with the host's"),
    Fence("unprivileged uid", "acting as root, inside or outside", "call setuid(0); read the map of uids"),
    Fence(
        "no capabilities",
        "what only privileged processes may do",
        "read all five sets; make a device file",
    ),
    Fence("no_new_privs", "gaining rights from setuid programs", "ask the kernel"),
    Fence(
        "seccomp filter",
        "calls that reach rarely used parts of the kernel",
        "ask the kernel; call mount, ptrace, unshare, personality, a call that is not known, an IP socket",
    ),
    Fence(
        "host files hidden",
        "reading the host's files",
        "open /etc/passwd, /etc/shadow, /etc/hostname and a file of this process",
    ),
    Fence(
        "read-only root",
        "changing what later programs see",
        "create files beside the interpreter, in /, /dev and /proc; read the table of mounts",
    ),
    Fence("setuid ignored", "setuid programs and device files", "read the table of mounts"),
    Fence("bounded /tmp", "filling the host's memory with files", "write until it is full"),
    Fence(
        "network unreachable",
        "talking to anybody",
        "connect to a TCP port and an abstract unix socket of this process",
    ),
    Fence("empty environment", "reading keys and tokens", "read all variables"),
    Fence(
        "PID 1 out of reach",
        "faking how the program ended",
        "signal it, read its memory and environment, ask for its limits",
    ),
    Fence(
        "closed descriptors", "using files and sockets of the supervisor", "look at each number up to 1,024"
    ),
    Fence(
        "resource limits",
        "taking the machine's memory, processes, disk or descriptors",
        "allocate, fork, write and open until refused",
    ),
    Fence("ends with its job", "living on as a daemon", "leave one behind and look for it"),
    Fence(
        "memory of the tree",
        "many processes that take together what one may not",
        "have six processes take three times the memory allowed",
    ),
    Fence(
        "Landlock",
        "files and signals, once more, should a mount let something through",
        "write to a device that the mounts let a program write to",
        required=False,
    ),
    Fence(
        "control group",
        "overshooting the memory of the tree between two looks",
        "look for the worker's group",
        required=False,
    ),
    Fence(
        "private /proc",
        "reading about the machine and PID 1",
        "list /proc",
        required=False,
    ),
    Fence(
        "first to be killed",
        "the kernel choosing somebody else when memory runs out",
        "read the score",
        required=False,
    ),
)

_HINTS = (
    (
        "unshare(user)",
        "allow user namespaces: sysctl user.max_user_namespaces=10000, and where they exist "
        "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "unshare(mount",
        "run as an ordinary user, or give root CAP_SYS_ADMIN (in Docker: --cap-add SYS_ADMIN "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined)",
    ),
    ("seccomp", "use x86-64 or aarch64 and a kernel with seccomp filters"),
)
_ADVICE = {
    "memory of the tree": "use a kernel with CONFIG_PROC_CHILDREN, as those of all distributions are",
    "Landlock": "optional: Linux 5.19 or later, with landlock among those in /sys/kernel/security/lsm",
    "control group": "optional: run as root, or as a service with Delegate=yes (systemd-run --user --scope)",
    "private /proc": "optional: Linux 5.8 or later; inside a container, one whose own /proc has no covers",
    "first to be killed": "optional: needs a /proc",
}
# Settings that keep an ordinary user from making namespaces, with the value that does.
_SETTINGS = (
    ("user/max_user_namespaces", "0", "10000"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
)

# The limits of the probe: small, so that running into them costs nothing.
_PROBE_LIMITS = Limits(
    wall_s=20, cpu_s=20, memory_mb=64, processes=3, file_mb=1, tmpfs_mb=1, output_kb=64, open_files=16
)
_CROWD_LIMITS = Limits(wall_s=20, cpu_s=20, memory_mb=32, processes=8)
# A port to try where this process can listen on none.
_DISCARD = 9
# Seconds that the kernel is given to end what a job has left.
_GONE_S = 2.0


def problem(run: Run) -> str:
    """Return "" where each required fence holds, else one line on what is missing and what to do.

    The memory of the tree is not tried, only whether it can be looked at: trying takes longer.
    """
    made = _first(run)
    made.append(
        Layer("memory of the tree", can_look(), "this kernel does not list the children of a process")
    )
    missing = lacking(made)
    if not missing:
        return ""
    return (
        f"no isolated run is possible here: {missing[0].name}: {missing[0].detail}; "
        f"{advice(missing[0])}; backend='plain' runs without isolation"
    )


def layers(run: Run) -> list[Layer]:
    """Try every fence. One that could not be tried, since nothing can be run, is left out."""
    made = _first(run)
    if made[0].holds:
        made += [_memory_of_the_tree(run), control_group()]
    order = [fence.name for fence in FENCES]
    return sorted(made, key=lambda layer: order.index(layer.name))


def lacking(found: Sequence[Layer]) -> list[Layer]:
    """The layers that a job is refused for."""
    needed = {fence.name for fence in FENCES if fence.required}
    return [layer for layer in found if not layer.holds and layer.name in needed]


def advice(layer: Layer) -> str:
    """What a person can do about a layer that does not hold."""
    if layer.name == "isolated run":
        found = next((hint for word, hint in _HINTS if word in layer.detail), "")
        return _blocked_by() or found or "docs/sandbox.md says what a host must allow"
    return _ADVICE.get(
        layer.name, "run nothing untrusted here: this is a defect of the sandbox or the kernel"
    )


def _blocked_by() -> str:
    """The command that lifts a restriction of this host on namespaces; "" where none is in force."""
    for name, blocking, wanted in _SETTINGS:
        try:
            value = Path(f"/proc/sys/{name}").read_text().strip()
        except OSError:
            continue
        if value == blocking and (os.geteuid() != 0 or name.startswith("user/")):
            return f"this host does not let you make namespaces: sysctl {name.replace('/', '.')}={wanted}"
    if os.geteuid() == 0 and root.host_id() is None:
        return "root here is that of a user namespace without other ids: run as another user"
    return ""


def toolchains() -> list[Tools]:
    """Look for the programs of every language. A toolchain that prepares itself once does so now."""
    made = [Tools("python", "Python", f"{platform.python_implementation()} {platform.python_version()}", ())]
    for name in LANGUAGES:
        if name == "python":
            continue
        language = languages.get(name)
        try:
            version, problem = _told_version(language.find().version), ""
        except SandboxError as error:
            version, problem = "", str(error)
        made.append(Tools(name, language.title, version, language.packages, problem))
    return made


def _told_version(version: str) -> str:
    """A toolchain's version without the folders that make it a key."""
    return " ".join(word for word in version.split() if not word.startswith("/"))


def _first(run: Run) -> list[Layer]:
    """The layers that one probe tells of; only "isolated run" where it could not be run."""
    marker = f"probe-{secrets.token_hex(4)}"
    with _bait(marker) as (path, port):
        result = run(_job(("probe", path, str(port), marker, marker), _PROBE_LIMITS))
    if result.status != "ok":
        words = result.stderr.strip().rsplit("\n", 1)[-1]
        return [Layer("isolated run", False, result.detail or f"{result.status}: {words}")]
    left = _lasting(marker)
    ended = Layer("ends with its job", not left, f"process {left[0]} lives on" if left else "gone with PID 1")
    ran = Layer("isolated run", True, f"{result.wall_s * 1000:.0f} ms")
    return [ran, *_judge(json.loads(result.stdout)), ended]


@contextlib.contextmanager
def _bait(name: str) -> Iterator[tuple[str, int]]:
    """A file, a TCP port and an abstract unix socket to try; each as far as this process may have one."""
    path, port = "/etc/passwd", _DISCARD
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path = stack.enter_context(tempfile.NamedTemporaryFile()).name
        with contextlib.suppress(OSError):
            tcp = stack.enter_context(socket.socket())
            tcp.bind(("127.0.0.1", 0))
            tcp.listen()
            port = tcp.getsockname()[1]
        with contextlib.suppress(OSError):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(b"\0" + name.encode())
            unix.listen()
        yield path, port


def _lasting(name: str) -> list[int]:
    """The processes of that name that are still there after the kernel had time to end them."""
    end = time.monotonic() + _GONE_S
    while True:
        left = [pid for pid in _below(os.getpid()) if _name_of(pid) == name]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.01)


def _job(argv: tuple[str, ...], limits: Limits) -> Job:
    return Job("script", {"main.py": _PROBE.read_text(encoding="utf-8")}, argv=argv, limits=limits)


def _judge(found: dict[str, Any]) -> list[Layer]:
    calls, created, refused = found["calls"], found["created"], found["refused"]
    seccomp = found["seccomp"] == 2 and calls == {
        **dict.fromkeys(("mount", "ptrace", "unshare", "personality"), "EPERM"),
        "unknown": "ENOSYS",
        "IP socket": "EAFNOSUPPORT",
    }
    loose = [point for point, options in found["mounts"] if not _is_tight(point, options.split(","))]
    changeable = [
        point
        for point, options in found["mounts"]
        if "ro" not in options.split(",") and not _may_change(point)
    ]
    outside = (found["uid_map"] or ["", "unknown"])[1]
    # The report came, so that PID 1 has lived through those that were not refused.
    signals = "refused" if all(found["signals"].values()) else "ignored"
    numbers, proc = found["descriptors"], found["proc"]
    return [
        *(_namespace(name, found) for name in probe.NAMESPACES),
        Layer(
            "unprivileged uid",
            found["uid"] != 0 and not root.is_root_of_host(outside) and bool(found["setuid"]),
            f"uid {found['uid']} inside, {outside} outside; setuid(0): {found['setuid'] or 'done'}",
        ),
        Layer(
            "no capabilities",
            found["capabilities"] == 0 and bool(found["device"]),
            f"{found['capabilities']} held; a device file: {found['device'] or 'made'}",
        ),
        Layer("no_new_privs", found["no_new_privs"] == 1, "set" if found["no_new_privs"] == 1 else "not set"),
        Layer(
            "seccomp filter",
            seccomp,
            f"mode {found['seccomp']}; {_each(calls, 'done')}",
        ),
        Layer(
            "host files hidden",
            not found["files"],
            f"can read {', '.join(found['files'])}" if found["files"] else "none of 4 can be read",
        ),
        Layer(
            "read-only root",
            all(created.values()) and not changeable,
            _each(created, "created") + (f"; can be written: {_some(changeable)}" if changeable else ""),
        ),
        Layer(
            "setuid ignored",
            not loose,
            f"nosuid or nodev lacks on {_some(loose)}" if loose else f"{len(found['mounts'])} mounts",
        ),
        Layer(
            "bounded /tmp",
            found["tmp"] == "ENOSPC",
            f"{_PROBE_LIMITS.tmpfs_mb} MiB: {found['tmp'] or 'no bound met'}",
        ),
        Layer(
            "network unreachable",
            bool(found["network"] and found["unix"]),
            f"TCP: {found['network'] or 'connected'}, abstract unix socket: {found['unix'] or 'connected'}",
        ),
        Layer("empty environment", not found["environ"], ", ".join(found["environ"]) or "no variables"),
        Layer(
            "PID 1 out of reach",
            bool(found["signals"] and found["limits_of_1"]) and not found["files_of_1"],
            f"signals: {signals}; its limits: {found['limits_of_1'] or 'told'}; "
            f"its files: {_some(found['files_of_1']) or 'hidden'}",
        ),
        Layer("closed descriptors", set(numbers) <= {0, 1, 2, 3, 4}, f"open: {', '.join(map(str, numbers))}"),
        Layer(
            "resource limits",
            all(refused.values()) and 0 < found["limits"]["CPU"] <= 20 and found["limits"]["CORE"] == 1,
            f"{_each(refused, 'no bound met')}; {found['limits']['CPU']} s of processor time",
        ),
        Layer(
            "Landlock",
            found["landlock"] >= 2 and found["fenced"] == "EACCES",
            f"ABI {max(found['landlock'], 0)}; /dev/urandom for writing: {found['fenced'] or 'opened'}",
        ),
        Layer(
            "private /proc",
            set(proc) <= {"self", "thread-self"},
            f"shows {_some(proc) or 'nothing, for none can be mounted'}",
        ),
        Layer("first to be killed", found["score"] == "1000", f"score {found['score'] or 'unknown'}"),
    ]


def _is_tight(point: str, options: list[str]) -> bool:
    """Whether a mount ignores setuid and device files; the five devices are mounts of their own."""
    return _is_device(point) or {"nosuid", "nodev"} <= set(options)


def _is_device(point: str) -> bool:
    return point.startswith("/dev/") and point.count("/") == 2


def _may_change(point: str) -> bool:
    return point in ("/tmp", "/proc") or _is_device(point)  # noqa: S108 - inside the sandbox


def _namespace(name: str, found: dict[str, Any]) -> Layer:
    try:
        ours = os.readlink(f"/proc/self/ns/{name}")  # noqa: PTH115 - not a path, a label
    except OSError:
        ours = ""
    theirs = found["namespaces"][name]
    alone = found["pid"] == 2 and len(found["processes"]) <= 2
    if not theirs:
        # Where no /proc can be mounted; all namespaces are made by the same calls as that of processes.
        return Layer(f"{name} namespace", alone, f"no /proc to ask; the program is process {found['pid']}")
    holds = theirs != ours and (alone or name != "pid")
    seen = f"; sees {len(found['processes'])} processes" if name == "pid" else ""
    return Layer(f"{name} namespace", holds, f"{_number(theirs)}, the host's is {_number(ours)}{seen}")


def _number(label: str) -> str:
    return label.partition("[")[2].rstrip("]") or "unknown"


def _memory_of_the_tree(run: Run) -> Layer:
    result = run(_job(("crowd",), _CROWD_LIMITS))
    said = f"{result.status}: {result.detail}" if result.detail else result.status
    return Layer("memory of the tree", result.status == "memory_limit", said)


def control_group() -> Layer:
    """Whether a worker of this process is in a group of its own; asked while one is kept warm."""
    for pid in _below(os.getpid()):
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            continue
        if any(line.rpartition("/")[2].startswith("assay-") for line in lines):
            return Layer("control group", True, cgroups.usable() or "of an own")
    why = cgroups.why_not() or "not used"
    return Layer("control group", False, f"{why}; the tree is looked at 20 times a second instead")


def _each(tries: Mapping[str, str], otherwise: str) -> str:
    """What was tried and what came of it: the kernel's refusal, or `otherwise`."""
    return ", ".join(f"{what}: {refusal or otherwise}" for what, refusal in tries.items())


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if names[3:] else "")


def _below(pid: int) -> list[int]:
    found: list[int] = []
    queue = [pid]
    while queue:
        more = children(queue.pop())
        found += more
        queue += more
    return found


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
