"""Says which layers of isolation hold on this machine, by trying them from inside.

In: a function that runs a job in namespaces. Out: `Layer`s, or one line on what is missing.
Wrong: nothing is raised; a machine that cannot isolate has layers that do not hold, with the reason.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import Any

from sandbox.job import Job, Layer, Limits, Result
from sandbox.memory import can_measure

Run = Callable[[Job], Result]

_NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")

# Runs inside: reports what it finds and what it is refused.
_PROBE = """
import json, os, resource, socket
def tried(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return ""
def read(path):
    with open(path, "rb") as file:
        return file.read(4096).decode("utf-8", "replace")
import sys
secret, port = sys.argv[1], int(sys.argv[2])
found = {"namespaces": {}, "status": {}, "uid": os.getuid(), "environ": dict(os.environ)}
for name in %r:
    try:
        found["namespaces"][name] = os.readlink("/proc/self/ns/" + name)
    except OSError:
        found["namespaces"][name] = ""
try:
    for line in read("/proc/self/status").splitlines():
        key, _, value = line.partition(":")
        found["status"][key] = value.strip()
    found["uid_map"] = read("/proc/self/uid_map").split()
except OSError as error:
    found["proc"] = str(error)
found["host_file"] = tried(lambda: read(secret))
found["write_root"] = tried(lambda: open("/probe", "w"))
found["write_python"] = tried(lambda: open(os.__file__ + ".probe", "w"))
found["network"] = tried(lambda: socket.create_connection(("127.0.0.1", port), 1))
found["unix"] = tried(lambda: socket.socketpair()[0].close())
found["pids"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
found["limits"] = {n: resource.getrlimit(getattr(resource, "RLIMIT_" + n))[0] for n in ("AS", "CPU", "NPROC")}
found["fds"] = sorted(n for n in range(256) if not tried(lambda: os.fstat(n)))
print(json.dumps(found))
""" % (_NAMESPACES,)  # noqa: UP031 - the text is full of braces

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


def problem(run: Run) -> str:
    """Return "" where a job can be isolated, else one line on what is missing and what to do."""
    result = run(Job("script", {"main.py": "print(40 + 2)"}, limits=Limits(wall_s=20, cpu_s=20)))
    if result.status == "ok" and result.stdout == "42\n":
        return ""
    reason = result.detail or f"{result.status}: {result.stderr.strip()[-200:]}"
    advice = next((hint for word, hint in _HINTS if word in reason), "see Sandbox.doctor() for each layer")
    return f"no isolated run is possible here: {reason}; {advice}; backend='plain' runs without isolation"


def layers(run: Run) -> list[Layer]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        job = Job(
            "script",
            {"main.py": _PROBE},
            argv=(os.path.abspath(__file__), str(port)),  # noqa: PTH100 - no symbolic link is to be followed
            limits=Limits(wall_s=20, cpu_s=20),
        )
        result = run(job)
    if result.status != "ok":
        return [Layer("isolated run", False, f"{result.status}: {result.detail or result.stderr[-300:]}")]
    return [Layer("isolated run", True, f"{result.wall_s * 1000:.0f} ms"), *_judge(json.loads(result.stdout))]


def _judge(found: dict[str, Any]) -> list[Layer]:
    made = []
    for name in _NAMESPACES:
        ours = _own_namespace(name)
        theirs = found["namespaces"][name]
        holds = bool(theirs) and theirs != ours
        made.append(
            Layer(f"{name} namespace", holds, f"{theirs or 'unknown'}, the host's is {ours or 'unknown'}")
        )
    status = found["status"]
    outside = found.get("uid_map", ["", "0"])[1]
    capabilities = {name: status.get(name, "?") for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
    limits = found["limits"]
    made += [
        Layer("unprivileged uid", outside != "0", f"{found['uid']} inside, {outside} outside"),
        Layer(
            "no capabilities", all(not text.strip("0") for text in capabilities.values()), str(capabilities)
        ),
        Layer("no_new_privs", status.get("NoNewPrivs") == "1", f"NoNewPrivs {status.get('NoNewPrivs')}"),
        Layer("seccomp filter", status.get("Seccomp") == "2", f"Seccomp {status.get('Seccomp')}"),
        Layer("host files hidden", bool(found["host_file"]), found["host_file"] or "a host file was read"),
        Layer(
            "read-only root",
            bool(found["write_root"] and found["write_python"]),
            f"{found['write_root']}, {found['write_python']}",
        ),
        Layer("network unreachable", bool(found["network"]), found["network"] or "a host port was reached"),
        Layer("empty environment", not found["environ"], f"{len(found['environ'])} variables"),
        Layer("own processes only", all(pid < 100 for pid in found["pids"]), f"sees {found['pids']}"),
        Layer("resource limits", all(value > 0 for value in limits.values()), str(limits)),
        Layer("memory of the tree", can_measure(), "read from /proc/*/task/*/children every 50 ms"),
        Layer("closed descriptors", len(found["fds"]) <= 5, f"open: {found['fds']}"),
    ]
    return made


def _own_namespace(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{name}")  # noqa: PTH115 - not a path, a label
    except OSError:
        return ""
