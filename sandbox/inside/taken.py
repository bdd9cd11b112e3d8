"""What processes take, from /proc: for the supervisor, who looks from the host, and for an agent among them.

In: pids. Out: processor time, memory and numbers. Wrong: nothing is raised; what is gone meanwhile counts
nothing, and so does what this kernel does not tell (gVisor tells less) or hides from this user.
It bounds what RLIMIT_AS, which is per process, cannot, and works without a writable control group.
"""

# pathlib would cost more to import than the rest of this module.
# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import os


class Taken:
    """What processes have taken so far, all of them together.

    cpu_s    seconds of processor time, those of their own children that ended included
    init_s   the part of it that `inits` have; these wait for the orphans, of earlier jobs too
    kb       KiB of memory, pages that they share counted for each of them
    tasks    processes and threads, without `inits`
    peak_kb  KiB of the largest at its peak, without `inits`
    """

    def __init__(self, pids: list[int], inits: list[int] | None = None) -> None:
        self._pids = pids
        self._inits = inits or []
        ticks = init_ticks = self.kb = self.tasks = self.peak_kb = 0
        for pid in pids:
            own = pid in self._inits
            # After the name, which may hold anything.
            fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            if len(fields) > 17:
                spent = sum(map(int, fields[11:15]))
                ticks += spent
                init_ticks += spent if own else 0
                self.tasks += 0 if own else int(fields[17])
            for line in _read(f"/proc/{pid}/status").splitlines():
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    self.kb += int(line.split()[1])
                elif line.startswith(b"VmHWM:") and not own:
                    self.peak_kb = max(self.peak_kb, int(line.split()[1]))
        each = os.sysconf("SC_CLK_TCK")
        self.cpu_s, self.init_s = ticks / each, init_ticks / each

    def exact_kb(self) -> int:
        """KiB of memory, shared pages once: forked processes share most, and this takes its time."""
        total = 0
        for pid in self._pids:
            lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
            if not lines:
                total += Taken([pid]).kb
            for line in lines:
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1])
                elif line.startswith(b"Pss_File:"):
                    total -= int(line.split()[1])
        return total

    def waited_s(self) -> float:
        """Seconds that one thread was ready to run while others had the processors, without `inits`.

        The longest, not the sum: threads wait side by side.
        """
        others = [pid for pid in self._pids if pid not in self._inits]
        paths = [f"/proc/{pid}/task/{thread}/schedstat" for pid in others for thread in _threads(pid)]
        return max(map(_delay, paths), default=0.0)


def of_job(root: int) -> Taken:
    """What the job has taken whose PID 1 is the child of `root`."""
    return Taken(below(root), children(root))


def waited_here() -> float:
    """Seconds that the calling thread was ready to run while others had the processors, since it began."""
    return _delay("/proc/thread-self/schedstat")


def children(pid: int) -> list[int]:
    """The processes that `pid`, all of its threads, has started and not yet waited for."""
    return [
        int(text) for thread in _threads(pid) for text in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


def below(root: int) -> list[int]:
    """All processes below `root`."""
    found: list[int] = []
    queue = [root]
    while queue:
        more = children(queue.pop())
        found += more
        queue += more
    return found


def can_look() -> bool:
    """Whether this kernel tells a process's children, without which every tree looks empty."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def out_of_memory() -> bool:
    """Whether the kernel has killed a process of this control group for want of memory."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        for line in _read(path).splitlines():
            name, _, number = line.partition(b" ")
            if name == b"oom_kill" and number.strip() not in (b"", b"0"):
                return True
    return False


def _delay(path: str) -> float:
    words = _read(path).split()
    return int(words[1]) / 1e9 if len(words) == 3 else 0.0


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(1 << 16)
    except OSError:
        return b""
