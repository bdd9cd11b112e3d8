"""Backends that isolate with a tool of others: bubblewrap and containers."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Call, Job, Limits, Result, Sandbox, SandboxUnavailable
from sandbox.backends.bwrap import private_folders

ROOT = Path(__file__).parents[2]
PATIENT = Limits(wall_s=20.0, cpu_s=20.0)
SOON = Limits(wall_s=0.7, cpu_s=5.0)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="both need Linux")


@pytest.fixture(scope="module")
def bwrap() -> Iterator[Sandbox]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap: apt-get install bubblewrap")
    with Sandbox("bwrap", cache=None) as box:
        yield box


def script(box: Sandbox, source: str, limits: Limits = PATIENT, **options: object) -> Result:
    return box.run(Job("script", {"main.py": textwrap.dedent(source)}, limits=limits, **options))


SUM = "def add(a, b):\n    print('called')\n    return a + b\n"
JOBS = {
    "calls": Job("calls", {"solution.py": SUM}, "add", [Call((1, 2)), Call(([1], [2])), Call((1, "x"))]),
    "script": Job("script", {"main.py": "print(input()[::-1])"}, stdin="abc"),
    "split": Job("split", {"solution.py": SUM, "test.py": "def check(c):\n    assert c(1, 2) == 3"}, "add"),
    "split that fails": Job(
        "split", {"solution.py": SUM, "test.py": "def check(c):\n    assert c(1, 2) == 4"}, "add"
    ),
    "unittest": Job(
        "unittest",
        {"solution.py": SUM, "test.py": "def test_add():\n    assert candidate(1, 2) == 3"},
        "add",
        record=["add"],
    ),
    "exit": Job("calls", {"solution.py": "raise SystemExit(0)"}, "add", [Call((1, 2))]),
    "text that is no program": Job("script", {"main.py": "def"}),
    "exception": Job("script", {"main.py": "1 / 0"}),
    "signal": Job("script", {"main.py": "import os; os.kill(os.getpid(), 11)"}),
    "endless": Job("script", {"main.py": "while True: pass"}, limits=SOON),
    "too much output": Job("script", {"main.py": "while True: print('x' * 1000)"}, limits=PATIENT),
    "too much memory": Job("script", {"main.py": "x = bytearray(1 << 31)"}, limits=PATIENT),
}


def told(result: Result) -> list[object]:
    return [
        result.status,
        result.outputs,
        result.stdout[:1000],
        result.exit_code,
        result.trust,
        result.candidate_calls,
        result.recorded,
        result.truncated,
    ]


@pytest.mark.parametrize("name", JOBS)
def test_bwrap_says_what_our_own_namespaces_say(bwrap: Sandbox, name: str) -> None:
    with Sandbox() as own:
        expected = own.run(JOBS[name])
    result = bwrap.run(JOBS[name])
    assert told(result) == told(expected)
    assert (result.backend, result.isolation) == ("bwrap", "namespaces")


def test_bwrap_runs_a_program_of_another_language(bwrap: Sandbox) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs node: apt-get install nodejs")
    files = {"solution.js": "function f(x) { return x * 2 }"}
    result = bwrap.run(Job("calls", files, "f", [Call((21,))], lang="javascript", limits=PATIENT))
    assert (result.status, result.outputs) == ("ok", [42])


def test_bwrap_builds_a_program_of_another_language(bwrap: Sandbox) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs go: apt-get install golang-go")
    files = {"main.go": 'package main\nfunc main() { println("hi") }'}
    result = bwrap.run(Job("script", files, lang="go", limits=PATIENT))
    assert (result.status, result.stderr) == ("ok", "hi\n")


def test_nothing_of_the_host_is_in_sight_under_bwrap(bwrap: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "needle-55")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        source = """
            import glob, os, socket, sys
            for path in ["/etc/passwd", "/root/.bashrc", "/work", "/home", *glob.glob("/proc/*/environ")]:
                try:
                    data = open(path, "rb").read()
                    print("read", path, b"needle" in data or "environ" not in path)
                except IsADirectoryError:
                    print("listed", path, os.listdir(path))
                except OSError:
                    pass
            try:
                socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)
                print("connected")
            except OSError:
                pass
            print(os.environ, os.getpid(), os.getuid())
            """
        result = script(bwrap, source, argv=[str(listener.getsockname()[1])])
    lines = [line for line in result.stdout.splitlines() if not line.endswith("False")]
    assert lines == ["environ({}) 2 65534"]


def test_bwrap_leaves_the_hosts_uid_0(bwrap: Sandbox) -> None:
    result = script(
        bwrap, "print(open('/proc/self/uid_map').read().split(), open('/proc/self/status').read())"
    )
    assert result.stdout.split("'")[3] != "0"
    found = dict(line.split(":\t") for line in result.stdout.splitlines() if ":\t" in line)
    assert {found[name].strip("0") for name in ("CapPrm", "CapEff", "CapInh", "CapBnd", "CapAmb")} == {""}
    assert (found["Seccomp"], found["NoNewPrivs"]) == ("2", "1")


def test_only_tmp_is_writable_under_bwrap_and_it_is_bounded(bwrap: Sandbox) -> None:
    source = """
        import os
        for folder in ("/", "/dev", "/usr", "/proc", "/dev/shm", os.path.dirname(os.__file__)):
            try:
                open(folder + "/probe", "w").close()
                print("wrote", folder)
            except OSError:
                pass
        try:
            for number in range(100):
                open(f"{number}", "wb").write(bytes(1 << 20))
        except OSError as error:
            print(error.strerror, number)
        """
    limits = Limits(wall_s=20.0, cpu_s=20.0, tmpfs_mb=8)
    result = script(bwrap, source, limits=limits)
    assert result.stdout.startswith("wrote /dev/shm\nNo space left on device")
    assert int(result.stdout.split()[-1]) <= limits.tmpfs_mb


@pytest.mark.parametrize("processes", [1, 4])
def test_processes_are_counted_under_bwrap(bwrap: Sandbox, processes: int) -> None:
    source = """
        import os, time
        made = 0
        try:
            while os.fork():
                made += 1
            time.sleep(20)
        except BlockingIOError:
            print(made)
        """
    limits = Limits(wall_s=20.0, cpu_s=20.0, processes=processes)
    assert script(bwrap, source, limits=limits).stdout == f"{processes - 1}\n"


def test_bwrap_jobs_at_once_do_not_count_each_others_processes(bwrap: Sandbox) -> None:
    source = "import os, time\nif os.fork(): time.sleep(0.5); os.wait()"
    limits = Limits(wall_s=20.0, cpu_s=20.0, processes=2)
    bwrap.workers = 4
    jobs = [Job("script", {"main.py": source}, limits=limits)] * 8
    assert {result.status for result in bwrap.map(jobs)} == {"ok"}


def processes_named(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def gone(mark: str) -> bool:
    for _ in range(100):
        if not processes_named(mark):
            return True
        time.sleep(0.1)
    return False


DAEMON = """
    import os, subprocess, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv({python!r}, ["{mark}", "-c", "import time; time.sleep(600)"])
    time.sleep({sleep})
    """


@pytest.mark.parametrize("sleep", [0.3, 600])
def test_bwrap_leaves_no_process_and_no_descriptor(bwrap: Sandbox, sleep: float) -> None:
    mark = f"left-under-bwrap-{os.getpid()}-{sleep}"
    before = len(os.listdir("/proc/self/fd"))
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    result = script(bwrap, DAEMON.format(python=python, mark=mark, sleep=sleep), limits=SOON)
    assert result.status == ("ok" if sleep < 1 else "timeout")
    assert gone(mark)
    assert len(os.listdir("/proc/self/fd")) == before


def supervisor(mark: str, options: str) -> subprocess.Popen[str]:
    """A process that runs an endless job of the name `mark` and says so once that has begun."""
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    source = f"""
        import sys, threading, time
        sys.path.insert(0, {str(ROOT)!r})
        from sandbox import Job, Limits, Sandbox
        program = {DAEMON.format(python=python, mark=mark, sleep=600)!r}
        import textwrap
        job = Job("script", {{"main.py": textwrap.dedent(program)}}, limits=Limits(wall_s=600))
        threading.Thread(target=Sandbox({options}).run, args=(job,), daemon=True).start()
        print("started", flush=True)
        time.sleep(600)
        """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def await_process(mark: str) -> None:
    for _ in range(200):
        if processes_named(mark):
            return
        time.sleep(0.1)
    pytest.fail("the job did not begin")


def test_bwrap_jobs_end_with_a_supervisor_that_is_killed(bwrap: Sandbox) -> None:
    mark = f"orphan-under-bwrap-{os.getpid()}"
    with supervisor(mark, "'bwrap'") as process:
        # The mark stands in the supervisor's own command line as well.
        for _ in range(200):
            if len(processes_named(mark)) > 1:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert gone(mark)


def test_a_machine_without_bwrap_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        Sandbox("bwrap")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("echo --size", "too old: it lacks --as-pid-1", id="old"),
        pytest.param(
            'if [ "$1" = --help ]; then echo --as-pid-1 --size --perms --remount-ro --clearenv --cap-drop; '
            "else echo bwrap: no permission >&2; exit 1; fi",
            "backend 'bwrap': .*bwrap: no permission",
            id="refused",
        ),
    ],
)
def test_a_bwrap_that_cannot_be_used_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, match: str
) -> None:
    tool = tmp_path / "bwrap"
    tool.write_text(f"#!/bin/sh\n{text}\n")
    tool.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match=match):
        Sandbox("bwrap")


def test_a_folder_that_only_its_owner_may_read_is_refused_with_advice(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    assert [str(tmp_path / "open")] in private_folders([str(tmp_path / "open")]).values()
    with pytest.raises(SandboxUnavailable, match=r"chmod o\+rx"):
        private_folders([str(tmp_path / "closed")])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_packages_in_a_private_folder_of_root_can_be_imported_under_bwrap(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bwrap: apt-get install bubblewrap")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("s3cret")
    packages = private / "packages"
    packages.mkdir(mode=0o755)
    (packages / "helpful.py").write_text("value = 7\n")
    with Sandbox("bwrap", packages=[packages]) as box:
        source = f"""
            import helpful, os
            print(helpful.value, os.listdir({str(private)!r}))
            try:
                open(helpful.__file__, "a")
            except OSError:
                print("refused")
            """
        result = script(box, source)
    assert result.stdout == "7 ['packages']\nrefused\n"
