"""Nothing is left of a thousand jobs, hostile and honest, nor of a supervisor that was killed among them.

Looked for are processes (by descent and by the users that programs ran as), mounts, descriptors, threads,
control groups and files.
"""

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import hostile
import pytest

from sandbox import Job, Limits, Sandbox

ROOT = Path(__file__).parents[2]
JOBS = 1000
WORKERS = 2
# No user of a machine: what the kernel shows where an id has no name here.
NOBODY = 65534
_BRIEF = Limits(wall_s=0.05, memory_mb=64, processes=6, output_kb=16)
_PATIENT = Limits(wall_s=20, memory_mb=64, processes=6, output_kb=16)

# What a program does -> what comes of it by value, by suite and as a script; "|" stands between two of them.
# A script that ends well is "wrong", since it has no values.
PROGRAMS: dict[str, tuple[str, str, str]] = {
    hostile.HONEST: ("pass", "pass", "wrong"),
    "def scale(values, factor): return None\n": ("wrong", "failed", "wrong"),
    "def scale(": ("compile_error", "compile_error", "compile_error"),
    "raise ValueError\n": ("exception", "exception", "exception"),
    "import os\nos._exit(0)\n": ("exit", "exit", "wrong"),
    "import os\nos.abort()\n": ("signal", "signal", "signal"),
    "import os\nos.fork()\nos.kill(0, 9)\n": ("signal", "signal", "signal"),
    "import time\ntime.sleep(60)\n": ("timeout", "timeout", "timeout"),
    "import os, time\nfor _ in range(2): os.fork()\nos.setsid()\ntime.sleep(60)\n": (
        "timeout|exception",
        "timeout|exception",
        "timeout|exception",
    ),
    "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import time\n"
    f"        time.sleep(60)\n    os._exit(0)\n{hostile.HONEST}": ("pass", "pass", "wrong"),
    "import os\nwhile True: os.fork()\n": ("proc_limit", "proc_limit", "proc_limit"),
    "x = bytearray(1 << 30)\n": ("memory_limit", "memory_limit", "memory_limit"),
    f"for n in range(300): open(f'/tmp/{{n}}', 'w').write('x' * n)\n{hostile.HONEST}": (
        "pass",
        "pass",
        "wrong",
    ),
    "import os\nos.mkfifo('/tmp/p')\nos.mkdir('/tmp/d', 0)\nos.symlink('/tmp', '/tmp/l')\nos._exit(1)\n": (
        "exit",
        "exit",
        "exit",
    ),
    "import socket\ns = [socket.socket(socket.AF_UNIX) for _ in range(20)]\ns[0].bind(b'\\0name')\n1 / 0\n": (
        "exception",
        "exception",
        "exception",
    ),
    "import os\nos.write(1, bytes(1 << 20))\nos._exit(3)\n": ("exit", "exit", "output_limit"),
    "import os\nfor n in range(3, 64):\n    try: os.write(n, b'x' * 64)\n    except OSError: pass\n": (
        "unserializable",
        "unserializable",
        "unserializable",
    ),
    f"import os\nos.closerange(0, 64)\n{hostile.HONEST}": ("unserializable", "unserializable", "wrong"),
    "import os, sys\nos.execv(sys.executable, [sys.executable, '-S', '-c', 'pass'])\n": (
        "exit",
        "exit",
        "wrong",
    ),
    "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n1 / 0\n": (
        "exception",
        "exception",
        "exception",
    ),
    f"import mmap, os\nm = mmap.mmap(-1, 1 << 22)\nm[:] = bytes(1 << 22)\nos.nice(5)\n{hostile.HONEST}": (
        "pass",
        "pass",
        "wrong",
    ),
    "import signal, time\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
    "    except OSError: pass\ntime.sleep(60)\n": ("timeout", "timeout", "timeout"),
}


def jobs(count: int) -> Iterator[tuple[Job, set[str]]]:
    """`count` jobs of all programs, by value, by suite and as scripts in turn, and what comes of each."""
    for number, (source, expected) in zip(range(count), itertools.cycle(PROGRAMS.items()), strict=False):
        turn = number // len(PROGRAMS) % 3
        wanted = set(expected[turn].split("|"))
        limits = _BRIEF if "timeout" in wanted else _PATIENT
        if turn == 0:
            files = {"solution.py": source}
            yield Job("calls", files, entry="scale", calls=hostile.CALLS, limits=limits), wanted
        elif turn == 1:
            files = {"solution.py": source, "test.py": hostile.SUITE}
            yield Job("split", files, entry="scale", limits=limits), wanted
        else:
            yield Job("script", {"main.py": source}, limits=limits), wanted


# -- what may be left


def descendants(root: int) -> dict[int, tuple[int, int]]:
    """pid -> (start time, user) of each process below `root`, zombies too."""
    found: dict[int, tuple[int, int]] = {}
    queue = [root]
    while queue:
        parent = queue.pop()
        try:
            for thread in Path(f"/proc/{parent}/task").iterdir():
                queue += map(int, (thread / "children").read_text().split())
        except OSError:
            pass
        told = identity(parent)
        if parent != root and told is not None:
            found[parent] = told
    return found


def identity(pid: int) -> tuple[int, int] | None:
    """(start time, user) of a process; None where it is gone."""
    try:
        start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        return start, Path(f"/proc/{pid}").stat().st_uid
    except (OSError, IndexError, ValueError):
        return None


class Watcher:
    """Notes in a thread, fifty times a second, what lives below a process."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.seen: dict[int, tuple[int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.seen |= descendants(self.root)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def users(self) -> set[int]:
        """The users that only programs of this sandbox have: not ours, nor one of the machine's."""
        return {user for _, user in self.seen.values() if user > NOBODY}

    def left(self) -> list[str]:
        """What is still alive of all that was seen, and whoever else has one of those users."""
        users = self.users()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            told = identity(int(entry.name))
            if told is not None and (self.seen.get(int(entry.name)) == told or told[1] in users):
                found.append(f"{entry.name} of user {told[1]}")
        return found

    def left_in_the_end(self) -> list[str]:
        """What is left when all has been given time to vanish: of a process whose parent was killed the
        machine's first process hears only now.
        """
        deadline = time.monotonic() + 20
        while (found := self.left() + groups(self.root)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


def mounts() -> list[str]:
    """The mounts that this process sees, without the numbers that tell nothing."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted(" ".join(line.split()[3:6]) for line in lines)


def new_mounts(before: list[str]) -> list[str]:
    """Those that are there now and stay; others on this machine may mount something for a moment."""
    deadline = time.monotonic() + 5
    while (new := [line for line in mounts() if line not in before]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return new


def groups(maker: int) -> list[str]:
    """The control groups that process `maker` has made, wherever they are."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if line.partition(" - ")[2].split()[0] in ("cgroup", "cgroup2"):
            for folder, names, _ in os.walk(line.split()[4]):
                found += [f"{folder}/{name}" for name in names if name.startswith(f"assay-{maker}-")]
    return found


def descriptors() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(entry).partition(":")[0])
        except OSError:
            continue  # the one that was reading this folder
    return sorted(found)


# -- what is done in a process of its own, which has no other children, threads or descriptors


def work_off_a_thousand() -> None:
    me = os.getpid()
    before = mounts(), descriptors(), threading.active_count()
    watcher = Watcher(me)
    wrong = []
    with Sandbox(workers=WORKERS) as box:
        asked = list(jobs(JOBS))
        for (job, expected), result in zip(asked, box.map(job for job, _ in asked), strict=True):
            found = hostile.verdict(result)
            if found not in expected:
                wrong.append((job.kind, job.files, found, result.detail))
        idle = descendants(me)
    watcher.stop()
    assert wrong == [], wrong
    assert watcher.seen
    # Between jobs there are only workers, which the next job would use: two processes each.
    assert len(idle) <= 2 * (2 * WORKERS + 2), idle
    told = descendants(me), watcher.left(), groups(me), new_mounts(before[0])
    assert told == ({}, [], [], []), told
    after = descriptors(), threading.active_count()
    assert after == before[1:], (before, after)
    assert os.listdir(tempfile.gettempdir()) == []


def lose_workers_on_the_way() -> None:
    watcher = Watcher(os.getpid())
    wrong = []
    # All waiting workers may have been killed at once: there are as many tries, and one more.
    with Sandbox(workers=WORKERS, retries=WORKERS + 1) as box:
        asked = list(jobs(2 * len(PROGRAMS)))
        for number, result in enumerate(box.map(job for job, _ in asked)):
            job, expected = asked[number]
            found = hostile.verdict(result)
            if found not in {*expected, "infra_error"}:
                wrong.append((job.kind, job.files, found, result.detail))
            if number % 8 == 3:
                for pid in descendants(os.getpid()):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
        honest = Job("calls", {"solution.py": hostile.HONEST}, entry="scale", calls=hostile.CALLS)
        after = [hostile.verdict(box.run(honest)) for _ in range(4)]
    watcher.stop()
    assert wrong == [], wrong
    assert after == ["pass"] * 4, after
    left = watcher.left_in_the_end()
    assert left == [], left


def be_busy(after: int) -> None:
    with Sandbox(workers=WORKERS) as box:
        for number, _ in enumerate(box.map(job for job, _ in jobs(10**6))):
            if number == after:
                print("busy", flush=True)


def command(call: str) -> list[str]:
    paths = [str(ROOT), str(Path(__file__).parent)]
    source = f"import sys; sys.path[:0] = {paths!r}; import test_sandbox_leftovers as t; t.{call}"
    return [sys.executable, "-c", source]


def alone(call: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command(call), env=environment, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr[-4000:]) == (0, "")


def test_a_thousand_mixed_jobs_leave_nothing_behind(tmp_path: Path) -> None:
    alone("work_off_a_thousand()", tmp_path)


def test_workers_that_are_killed_from_outside_leave_nothing_and_cost_no_verdict(tmp_path: Path) -> None:
    """The machine's killer may choose any of them; whatever job was on it says so or is run again."""
    alone("lose_workers_on_the_way()", tmp_path)


@pytest.mark.parametrize("after", [0, 7, 30])
def test_a_supervisor_that_is_killed_among_its_jobs_leaves_nothing_behind(after: int, tmp_path: Path) -> None:
    before = mounts()
    supervisor = subprocess.Popen(
        command(f"be_busy({after})"),
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    assert supervisor.stdout is not None
    watcher = Watcher(supervisor.pid)
    try:
        word = supervisor.stdout.readline()
        time.sleep(0.05)
    finally:
        os.kill(supervisor.pid, signal.SIGKILL)
        supervisor.wait()
        watcher.stop()
        supervisor.stdout.close()
    assert word == b"busy\n"
    assert len(watcher.seen) >= 4
    assert watcher.left_in_the_end() == []
    assert new_mounts(before) == []
    assert list(tmp_path.iterdir()) == []
