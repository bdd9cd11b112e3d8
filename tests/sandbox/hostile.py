"""What tests of hostile programs share: one task, every way to try a candidate for it, a look around after.

In: a candidate's source. Out: what came of it (`Arena.verdicts`), or what it reports itself (`Arena.probed`).
`Arena.look` runs honest jobs in the same Sandbox and fails unless they find all as the first one found it.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from typing import Any

from sandbox import Call, Job, Limits, Result, Sandbox, equal

# For programs that never end; for those that do something first; time enough for those that end.
FAST = Limits(wall_s=0.3, cpu_s=5.0)
SOON = Limits(wall_s=0.7, cpu_s=5.0)
PATIENT = Limits(wall_s=20.0, cpu_s=20.0)

HONEST = "def scale(values, factor):\n    return [value * factor for value in values]\n"
CALLS = (Call(([1, 2, 3], 2)), Call(([], 5)), Call(([-4], 3)))
EXPECTED = ([2, 4, 6], [], [-12])
SUITE = """
def check(candidate):
    assert candidate([1, 2, 3], 2) == [2, 4, 6]
    assert candidate([], 5) == []
    assert candidate([-4], 3) == [-12]
"""

# What a program finds around it. It must be the same for each job, whatever ran before.
_SURROUNDINGS = """
import atexit, builtins, fcntl, gc, os, resource, signal, sys, threading
def kind(number):
    try:
        return os.readlink(f"/proc/self/fd/{number}").partition(":")[0]
    except OSError:
        return "unknown"
def flags(number):
    try:
        return fcntl.fcntl(number, fcntl.F_GETFL)
    except OSError:
        return None
def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError as error:
        return error.errno
def status():
    kept = "SigPnd SigBlk SigIgn SigCgt ShdPnd Cap Threads NoNew Seccomp Cpus_allowed Groups Uid"
    lines = read("/proc/self/status")
    if type(lines) is not str:
        return lines
    return [line for line in lines.split("\\n") if line.startswith(tuple(kept.split()))]
def mounts():
    lines = read("/proc/self/mountinfo")
    if type(lines) is not str:
        return lines
    return [[*line.split()[4:6], line.partition(" - ")[2].split()[0]] for line in lines.splitlines()]
def process():
    mask = os.umask(0)
    os.umask(mask)
    return {
        "cwd": os.getcwd(),
        "umask": mask,
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
        "environment": dict(os.environ),
        # The address space is bounded relative to what the interpreter has at its start.
        "limits": {
            name: list(resource.getrlimit(getattr(resource, name)))
            for name in dir(resource)
            if name.startswith("RLIMIT_") and name != "RLIMIT_AS"
        },
        "status": status(),
        "oom": read("/proc/self/oom_score_adj"),
        "handlers": {int(number): repr(signal.getsignal(number)) for number in signal.valid_signals()},
        "timers": [list(signal.getitimer(which)) for which in range(3)],
        "ids": [os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0), os.getuid(), os.getgid()],
        # Without the middle column: which id of the host a job has is not for it to choose.
        "maps": [str(read(f"/proc/self/{name}_map")).split()[::2] for name in ("uid", "gid", "projid")],
        "name": os.uname().nodename,
    }
def world():
    return {
        "files": sorted(os.path.join(a, n) for a, b, c in os.walk("/tmp") for n in [*b, *c]),
        "modes": [[path, oct(os.stat(path).st_mode)] for path in ("/", "/tmp", "/tmp/work")],
        "mounts": mounts(),
        "processes": sorted(name for name in os.listdir("/proc") if name.isdigit()),
        "descriptors": {n: [kind(n), flags(n)] for n in range(64) if flags(n) is not None},
    }
def interpreter():
    return {
        "argv": sys.argv,
        "path": sys.path,
        "flags": repr(sys.flags),
        "modules": sorted(sys.modules),
        "builtins": {name: type(value).__name__ for name, value in vars(builtins).items()},
        "own": {name: getattr(builtins, name).__module__ for name in ("len", "print", "open", "__import__")},
        "collector": [gc.isenabled(), list(gc.get_threshold()), gc.get_freeze_count() > 0, len(gc.callbacks)],
        "recursion": sys.getrecursionlimit(),
        "switching": sys.getswitchinterval(),
        "digits": sys.get_int_max_str_digits(),
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "tracing": [sys.gettrace(), sys.getprofile()],
        "importers": [repr(type(one)) for one in (*sys.meta_path, *sys.path_hooks)],
        "warnings": [list(sys.warnoptions), len(sys.modules["warnings"].filters)]
        if "warnings" in sys.modules
        else [],
        "handlers at exit": atexit._ncallbacks(),
        "threads": threading.active_count(),
        "encodings": [sys.stdout.encoding, sys.stdout.errors, sys.getfilesystemencoding()],
        "hash": hash("seed"),
        "arithmetic": [2 + 2, sorted([3, 1, 2]), str(5), 7 * 8, len("abc")],
    }
def look():
    return [world(), process(), interpreter()]
"""


# Looks through all memory of its process that it can read, for two texts that follow each other. Apart they
# are in the program itself; together only where the thing that is looked for was.
SCAN = """
def scan(first, second):
    found = 0
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for region in regions:
            if "r" not in region[1] or region[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            low, high = (int(part, 16) for part in region[0].split("-"))
            tail = b""
            for at in range(low, high, 1 << 22):
                try:
                    memory.seek(at)
                    data = tail + memory.read(min(1 << 22, high - at))
                except (OSError, ValueError, OverflowError):
                    break
                place = data.find(first)
                while place >= 0:
                    after = place + len(first)
                    if all(a == b for a, b in zip(data[after : after + len(second)], second)):
                        found += len(data) - after >= len(second)
                    place = data.find(first, after)
                tail = data[-64:]
    return found
"""


class Arena:
    """One Sandbox of one worker in which hostile programs follow each other."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.first = self._surroundings()

    def calls(self, source: str, limits: Limits = PATIENT, **options: Any) -> Result:
        files = {"solution.py": textwrap.dedent(source)}
        options = {"entry": "scale", "calls": CALLS, **options}
        return self.box.run(Job("calls", files, limits=limits, **options))

    def split(self, source: str, test: str = SUITE, limits: Limits = PATIENT, **options: Any) -> Result:
        files = {"solution.py": textwrap.dedent(source), "test.py": textwrap.dedent(test)}
        return self.box.run(Job("split", files, limits=limits, **{"entry": "scale", **options}))

    def script(self, source: str, limits: Limits = PATIENT, **options: Any) -> Result:
        return self.box.run(Job("script", {"main.py": textwrap.dedent(source)}, limits=limits, **options))

    def verdicts(self, source: str, limits: Limits = PATIENT) -> tuple[str, str]:
        """Try a candidate for the task by value and by suite; see `verdict`."""
        return verdict(self.calls(source, limits)), verdict(self.split(source, limits=limits))

    def probed(self, source: str, limits: Limits = PATIENT) -> list[Any]:
        """Run `source`, which defines `probe()`, as each kind of job; return what that returned each time.

        What a job that did not end well was found to be stands in place of the value.
        """
        source = textwrap.dedent(source)
        told = f"{source}\ndef scale():\n    found = probe()\n    print(ascii(found))\n    return found\n"
        results = [
            self.calls(told, limits, calls=[Call()]),
            self.split(told, "def check(candidate): candidate()", limits),
            self.script(f"{source}\nprint(ascii(probe()))", limits),
        ]
        return [told_by(one) for one in results]

    def look(self) -> None:
        """Fail unless honest jobs, by value and by suite, still find all as the first of them did."""
        assert differences(self.first, self._surroundings()) == []
        assert verdict(self.split(HONEST)) == "pass"

    def _surroundings(self) -> Any:
        result = self.calls(_SURROUNDINGS, entry="look", calls=[Call()])
        assert result.status == "ok", result.detail
        assert isinstance(result.outputs[0], list), result.outputs[0]
        return result.outputs[0]


def verdict(result: Result) -> str:
    """Return "pass", "wrong" (it ended well with other values than are right), or the status."""
    if result.status != "ok":
        return result.status
    if result.trust == "split":
        return "pass"
    right = len(result.outputs) == len(EXPECTED) and all(map(equal, result.outputs, EXPECTED))
    return "pass" if right else "wrong"


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Say, one line each, where two values of the codec's types differ."""
    if type(old) is type(new) is dict:
        return [
            line
            for key in sorted({*old, *new}, key=str)
            for line in differences(old.get(key), new.get(key), f"{path}.{key}")
        ]
    if type(old) is type(new) is list and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for index, (a, b) in pairs for line in differences(a, b, f"{path}.{index}")]
    return [] if old == new else [f"{path}: {old!r} became {new!r}"]


def told_by(result: Result) -> Any:
    """Return the value that a probe printed, or what went wrong in its place."""
    if result.status == "ok" and result.stdout:
        return ast.literal_eval(result.stdout)
    return result.status, result.detail, result.outputs, result.stderr[-500:]


def body(source: str, imports: str = "import os, sys") -> str:
    """A candidate whose function has this body."""
    return f"{imports}\ndef scale(values, factor):\n{textwrap.indent(textwrap.dedent(source), '    ')}"


def arena() -> Iterator[Arena]:
    """A module's fixture: `arena = pytest.fixture(scope="module")(hostile.arena)`."""
    with Sandbox(workers=1) as box:
        yield Arena(box)


def unharmed(arena: Arena) -> Iterator[None]:
    """A module's fixture, used by each test: whatever a test ran, honest jobs come out right after it."""
    yield
    arena.look()
