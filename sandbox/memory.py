"""What a process tree takes, read from the host's /proc.

In: the tree's root. Out: KiB that its processes take together, pages shared between them counted once
where that matters, and how many tasks it has; or the processor time so far and the largest process.
A process that ends meanwhile counts nothing, and so does one that the host hides from this user.
This bounds what RLIMIT_AS, which is per process, cannot, and works without a writable cgroup.
"""

from __future__ import annotations

import os
from pathlib import Path


def measure(root: int, limit_kb: int) -> tuple[int, int]:
    """Return (KiB in use, tasks of the program alive) for `root`, the parent of the job's PID 1."""
    total = tasks = 0
    pids = _descendants(root)
    for pid in pids:
        fields = _fields(f"/proc/{pid}/status")
        total += fields.get("RssAnon", 0) + fields.get("RssShmem", 0)
        tasks += fields.get("Threads", 0)
    if total > limit_kb:
        # Forked processes share most of their pages: only now is the exact sum worth its price.
        total = 0
        for pid in pids:
            exact = _fields(f"/proc/{pid}/smaps_rollup")
            if "Pss" in exact:
                total += exact["Pss"] - exact.get("Pss_File", 0)
            else:
                fields = _fields(f"/proc/{pid}/status")
                total += fields.get("RssAnon", 0) + fields.get("RssShmem", 0)
    return total, max(tasks - 1, 0)


def can_measure() -> bool:
    """Whether this kernel tells a process's children, without which every tree looks empty."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def spent(root: int) -> tuple[float, float, int]:
    """Return what the job below `root` has taken: (processor seconds, PID 1's of them, KiB at the peak).

    PID 1's are its own and those of all processes that it has waited for, maybe of earlier jobs too. The peak
    is that of the largest process but PID 1. The kernel forgets all three for processes that die with PID 1.
    """
    ticks = firsts = peak_kb = 0
    own = set(children(root))
    for pid in _descendants(root):
        try:
            line = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        # After the name, which may hold anything: the 14th to 17th fields, own and waited-for time.
        taken = sum(map(int, line.rpartition(b")")[2].split()[11:15]))
        ticks += taken
        if pid in own:
            firsts += taken
        else:
            peak_kb = max(peak_kb, _fields(f"/proc/{pid}/status").get("VmHWM", 0))
    each = os.sysconf("SC_CLK_TCK")
    return ticks / each, firsts / each, peak_kb


def waited(root: int) -> float:
    """Return the seconds that one thread of the job was ready to run while others had the processors.

    The largest, not the sum: threads wait side by side. PID 1's are not the job's.
    """
    own = set(children(root))
    longest = 0.0
    for pid in _descendants(root):
        if pid not in own:
            for thread in _threads(pid):
                longest = max(longest, _delay(f"/proc/{pid}/task/{thread}/schedstat"))
    return longest


def waited_here() -> float:
    """Return the same of the calling thread, since it began."""
    return _delay("/proc/thread-self/schedstat")


def _delay(path: str) -> float:
    try:
        words = Path(path).read_bytes().split()
    except OSError:
        return 0.0
    return int(words[1]) / 1e9 if len(words) == 3 else 0.0


def children(pid: int) -> list[int]:
    """Return the processes that `pid`, all of its threads, has started and not yet waited for."""
    found: list[int] = []
    for thread in _threads(pid):
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
        except OSError:
            continue
        found += map(int, text.split())
    return found


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - half the price, and it is asked often
    except OSError:
        return []


def _descendants(root: int) -> list[int]:
    found: list[int] = []
    queue = [root]
    while queue:
        parent = queue.pop()
        queue += children(parent)
        if parent != root:
            found.append(parent)
    return found


def _fields(path: str) -> dict[str, int]:
    """The numeric "Name: value" lines of a /proc file; {} where the process is gone or out of reach."""
    fields: dict[str, int] = {}
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError:
        return fields
    for line in lines:
        name, colon, rest = line.partition(b":")
        words = rest.split()
        if colon and words and words[0].isdigit():
            fields[name.decode("ascii", "replace")] = int(words[0])
    return fields
