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

import engines
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Call, Job, Limits, Result, Sandbox, SandboxError, SandboxUnavailable
from sandbox.backends.bwrap import private_folders
from sandbox.backends.carrier import Carrier
from sandbox.inside import agent

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


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[engines.Options]:
    with engines.options(tmp_path_factory.mktemp("engine")) as found:
        yield found


@pytest.fixture(scope="module", params=["bwrap", "container"])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param == "bwrap":
        yield request.getfixturevalue("bwrap")
    else:
        with Sandbox("container", **request.getfixturevalue("engine")) as made:
            yield made


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
def test_another_tool_says_what_our_own_namespaces_say(box: Sandbox, name: str) -> None:
    with Sandbox() as own:
        expected = own.run(JOBS[name])
    result = box.run(JOBS[name])
    assert told(result) == told(expected)
    isolation = {"bwrap": "namespaces", "container": "container"}[box.backend]
    assert (result.backend, result.isolation) == (box.backend, isolation)


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


def test_nothing_of_the_host_is_in_sight(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "needle-55")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        source = """
            import glob, os, socket, sys
            for path in [*sys.argv[2:], "/root/.bashrc", "/home", *glob.glob("/proc/*/environ")]:
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
        files = [__file__, str(ROOT / "pyproject.toml"), "/etc/shadow"]
        result = script(box, source, argv=[str(listener.getsockname()[1]), *files])
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


def test_only_tmp_is_writable_and_it_is_bounded(box: Sandbox) -> None:
    source = """
        import os
        for folder in ("/", "/dev", "/usr", "/proc", os.path.dirname(os.__file__)):
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
    result = script(box, source, limits=limits)
    assert result.stdout.startswith("No space left on device")
    assert int(result.stdout.split()[-1]) <= limits.tmpfs_mb


@pytest.mark.parametrize("processes", [1, 4])
def test_processes_are_counted(box: Sandbox, processes: int) -> None:
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
    assert script(box, source, limits=limits).stdout == f"{processes - 1}\n"


def test_as_many_threads_as_allowed_can_be_had_and_no_more(box: Sandbox) -> None:
    source = """
        import threading, time
        for number in range(30):
            threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()
            print(number, flush=True)
        """
    limits = Limits(wall_s=20.0, cpu_s=20.0, processes=12)
    result = script(box, source, limits=limits)
    assert (result.status, result.stdout.split()[-1]) == ("proc_limit", "10")


def test_jobs_at_once_do_not_count_each_others_processes(box: Sandbox) -> None:
    source = "import os, time\nif os.fork(): time.sleep(0.5); os.wait()"
    limits = Limits(wall_s=20.0, cpu_s=20.0, processes=2)
    box.workers = 4
    jobs = [Job("script", {"main.py": source}, limits=limits)] * 8
    assert {result.status for result in box.map(jobs)} == {"ok"}


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
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open("{mark}", "w")
            os.execv({python!r}, ["{mark}", "-c", "import time; time.sleep(600)"])
    while not os.path.exists("{mark}"):
        time.sleep(0.01)
    time.sleep({sleep})
    """


def daemon(box: Sandbox, mark: str, sleep: float) -> str:
    """A program that leaves a process called `mark` behind."""
    own = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    python = "/usr/bin/python3" if box.backend == "container" else own
    return textwrap.dedent(DAEMON.format(python=python, mark=mark, sleep=sleep))


@pytest.mark.parametrize("sleep", [0.1, 600])
def test_no_process_and_no_descriptor_is_left(box: Sandbox, sleep: float) -> None:
    mark = f"left-{os.getpid()}-{box.backend}-{sleep}"
    before = len(os.listdir("/proc/self/fd"))
    result = script(box, daemon(box, mark, sleep), limits=Limits(wall_s=3.0, cpu_s=5.0))
    assert result.status == ("ok" if sleep < 1 else "timeout")
    assert gone(mark)
    assert len(os.listdir("/proc/self/fd")) == before


def test_jobs_end_with_a_supervisor_that_is_killed(
    box: Sandbox, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mark = f"orphan-{os.getpid()}-{box.backend}"
    options = request.getfixturevalue("engine") if box.backend == "container" else {}
    (tmp_path / "program.py").write_text(daemon(box, mark, 600))
    source = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from sandbox import Job, Limits, Sandbox
        program = open({str(tmp_path / "program.py")!r}).read()
        job = Job("script", {{"main.py": program}}, limits=Limits(wall_s=600))
        Sandbox({box.backend!r}, **{options!r}).run(job)
        """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)]) as process:
        for _ in range(600):
            if processes_named(mark):
                break
            time.sleep(0.1)
        else:
            pytest.fail("the job did not begin")
        process.send_signal(signal.SIGKILL)
    assert gone(mark)
    for _ in range(100):
        if not options or f"sandbox-{process.pid}-" not in listed(options["engine"]):
            return
        time.sleep(0.1)
    pytest.fail("the container is still there")


def listed(engine: str) -> str:
    command = [engine, "ps", "--all", "--format", "{{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


AS_USER = """
import sys
sys.path.insert(0, {root!r})
from sandbox import Call, Job, Limits, Sandbox
with Sandbox("bwrap", cache=None) as box:
    job = Job("calls", {{"solution.py": "def f(x): return x * 2"}}, "f", [Call((21,))])
    print(box.run(job).outputs)
    source = "import os\\nos.fork()\\nos.fork()"
    limits = Limits(wall_s=20, cpu_s=20, processes=2)
    print(box.run(Job("script", {{"main.py": source}}, limits=limits)).status)
    print(box.run(Job("script", {{"main.py": "while True: pass"}}, limits=Limits(wall_s=0.5))).status)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user to test with")
def test_an_ordinary_user_can_use_bwrap(bwrap: Sandbox) -> None:
    setpriv = shutil.which("setpriv")
    python = next((path for path in engines.PYTHONS[:-1] if Path(path).exists()), None)
    if setpriv is None or python is None:
        pytest.skip("needs setpriv and a system Python 3.11 or later, for a user cannot read root's own")
    command = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", python, "-B", "-c"]
    probe = subprocess.run([*command, f"open({str(ROOT / 'sandbox' / 'job.py')!r})"], capture_output=True)
    if probe.returncode:
        pytest.skip("an ordinary user cannot read this checkout")
    source = AS_USER.format(root=str(ROOT))
    result = subprocess.run([*command, source], capture_output=True, text=True, timeout=120, cwd="/")
    assert (result.stdout, result.stderr) == ("[42]\nproc_limit\ntimeout\n", "")


def test_what_can_be_used_here_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {layer.name: layer for layer in Sandbox.available()}
    assert set(found) == {"zygote", "nsrun", "bwrap", "container", "remote", "plain"}
    assert found["plain"].holds
    assert (found["remote"].holds, "needs a url" in found["remote"].detail) == (False, True)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {layer.name: layer for layer in Sandbox.available()}
    assert "apt-get install bubblewrap" in found["bwrap"].detail
    assert not any(found[name].holds for name in ("bwrap", "container"))


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
            "backend 'bwrap' .*bwrap: no permission",
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


@pytest.mark.parametrize("size", [1, 300_000, 2_000_000])
def test_large_values_travel_through_a_container(engine: engines.Options, size: int) -> None:
    with Sandbox("container", **engine) as box:
        files = {"solution.py": "def f(x):\n    return x + x", "test.py": "def check(f):\n"}
        files["test.py"] += f"    assert f('x' * {size}) == 'x' * {2 * size}"
        result = box.run(Job("split", files, "f", limits=PATIENT))
        assert (result.status, result.candidate_calls) == ("ok", 1)
        result = box.run(Job("calls", files, "f", [Call(("y" * size,))] * 3, limits=PATIENT))
        assert (result.status, result.outputs) == ("ok", ["y" * 2 * size] * 3)


def test_a_program_cannot_write_to_its_agents_descriptors(engine: engines.Options) -> None:
    source = r"""
        import os
        for number in range(256):
            try:
                os.write(number, b"S\x04\0\0\0exit")
            except OSError:
                pass
        for name in (f"/proc/1/fd/{number}" for number in range(16)):
            try:
                os.write(os.open(name, os.O_WRONLY), b"S\x04\0\0\0exit")
                print("wrote", name)
            except OSError:
                pass
        try:
            os.kill(1, 9)
        except OSError:
            print("refused")
        """
    with Sandbox("container", **engine) as box:
        result = script(box, source)
    assert "wrote" not in result.stdout
    assert result.status in ("ok", "unserializable")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        pytest.param("exit 3", "its engine said nothing", id="dies"),
        pytest.param("echo 'Error: no such thing' >&2; exit 125", "Error: no such thing", id="refuses"),
        pytest.param("cat /dev/zero", "ended without a report", id="garbage"),
        pytest.param("printf 'S\\006\\0\\0\\0exit x'", "ended without a report", id="line that is none"),
        pytest.param("printf 'S\\377\\377\\377\\377'", "ended without a report", id="endless message"),
        pytest.param("printf 'S\\007\\0\\0\\0started'; exit 1", "ended without a report", id="begins"),
    ],
)
def test_an_engine_that_misbehaves_is_no_verdict(tmp_path: Path, text: str, detail: str) -> None:
    tool = tmp_path / "engine"
    tool.write_text(f'#!/bin/sh\nif [ "$1" = run ]; then {text}; fi\n')
    tool.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=detail):
        Sandbox("container", engine=str(tool))


def test_a_machine_without_an_engine_is_told_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"docker: not on this machine; podman: not on this machine"):
        Sandbox("container")


def test_an_image_that_is_not_there_is_not_pulled(engine: engines.Options) -> None:
    options = {**engine, "image": "localhost/no-such-image:1"}
    with pytest.raises(SandboxUnavailable, match=r"no image localhost/no-such-image:1.* pull "):
        Sandbox("container", **options)


def test_a_container_runs_python_only(engine: engines.Options) -> None:
    with (
        Sandbox("container", **engine) as box,
        pytest.raises(SandboxError, match="backend 'container' runs Python only"),
    ):
        box.run(Job("script", {"main.js": ""}, lang="javascript"))


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_what_an_agent_sends_is_messages_or_nothing(chunks: list[bytes]) -> None:
    reader, writer = os.pipe()
    try:
        carrier = Carrier(dict.fromkeys(("status", "channel", "out", "err"), writer))
        for chunk in chunks:
            if not carrier.take(chunk):
                break
    finally:
        os.close(reader)
        os.close(writer)


def test_messages_come_through_however_they_are_cut() -> None:
    data = b"".join(
        agent.HEAD.pack(kind, len(body)) + body
        for kind, body in ((agent.LINE, b"started"), (agent.OUT, b"abc"), (agent.ERR, b""), (agent.OUT, b"d"))
    )
    for size in range(1, len(data) + 1):
        pipes = {name: os.pipe() for name in ("status", "channel", "out", "err")}
        carrier = Carrier({name: ends[1] for name, ends in pipes.items()})
        assert all(carrier.take(data[at : at + size]) for at in range(0, len(data), size))
        for _, writer in pipes.values():
            os.close(writer)
        said = {name: os.read(ends[0], 100) for name, ends in pipes.items()}
        for source, _ in pipes.values():
            os.close(source)
        assert said == {"status": b"started\n", "channel": b"", "out": b"abcd", "err": b""}


def test_a_job_runs_under_gvisor(engine: engines.Options) -> None:
    if shutil.which("runsc") is None:
        pytest.skip("needs gVisor: apt-get install runsc")
    more = (*engine.get("engine_options", ()), "--runtime-flag=network=none")
    options = {**engine, "runtime": "runsc", "engine_options": more}
    try:
        box = Sandbox("container", **options)
    except SandboxUnavailable as error:
        pytest.skip(f"gVisor does not work here: {error}")
    with box:
        result = box.run(JOBS["calls"])
        assert (result.status, result.outputs[:2]) == ("ok", [3, [1, 2]])
        assert box.run(JOBS["endless"]).status == "timeout"
