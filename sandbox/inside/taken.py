"""What processes take, as an agent sees it from among them.

In: pids. Out: processor time, memory and numbers, from /proc. Wrong: nothing is raised; what is gone
meanwhile counts nothing, and so does what this kernel does not tell (gVisor tells less).
"""

# pathlib would cost more to import than the rest of this module.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os


class Taken:
    """What processes have taken so far; those that are gone meanwhile count nothing.

    cpu_s     seconds of processor time, those of their own children that ended included
    waited_s  seconds that one thread was ready to run and others had the processors, the longest of them
    kb        KiB of memory, pages that they share counted for each of them
    tasks     processes and threads
    """

    def __init__(self, pids: list[int]) -> None:
        self.pids = pids
        ticks = nanoseconds = self.kb = self.tasks = 0
        for pid in pids:
            # After the name, which may hold anything.
            fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            if len(fields) > 17:
                ticks += sum(map(int, fields[11:15]))
                self.tasks += int(fields[17])
            for line in _read(f"/proc/{pid}/status").splitlines():
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    self.kb += int(line.split()[1])
            words = _read(f"/proc/{pid}/schedstat").split()
            if len(words) == 3:
                nanoseconds = max(nanoseconds, int(words[1]))
        self.cpu_s = ticks / os.sysconf("SC_CLK_TCK")
        self.waited_s = nanoseconds / 1e9

    def exact_kb(self) -> int:
        """KiB of memory, shared pages once: forked processes share most, and this takes its time."""
        total = 0
        for pid in self.pids:
            for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1])
                elif line.startswith(b"Pss_File:"):
                    total -= int(line.split()[1])
        return total


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""


def below(root: int) -> list[int]:
    """All processes below `root`."""
    found: list[int] = []
    queue = [root]
    while queue:
        pid = queue.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            more = [int(text) for text in _read(f"/proc/{pid}/task/{thread}/children").split()]
            found += more
            queue += more
    return found


def out_of_memory() -> bool:
    """Whether the kernel has killed a process of this control group for want of memory."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path, "rb") as file:
                for line in file.read(4096).splitlines():
                    name, _, number = line.partition(b" ")
                    if name == b"oom_kill" and number.strip() not in (b"", b"0"):
                        return True
        except OSError:
            continue
    return False
