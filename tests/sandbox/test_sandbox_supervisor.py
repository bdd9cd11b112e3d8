"""The supervisor: many threads, streams in order, nothing left behind, and no silent weakening."""

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Call, Job, Limits, Sandbox, SandboxError, SandboxUnavailable, doctor, farside
from sandbox import sandbox as module
from sandbox.pool import Pool

ROOT = Path(__file__).parents[2]
JOB = Job("calls", {"solution.py": "def f(x):\n    return x * x"}, entry="f", calls=[Call((3,))])


def job(number: int) -> Job:
    return Job("calls", JOB.files, entry="f", calls=[Call((number,))])


def open_descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> list[str]:
    """Our children, but for the warm workers of other tests' sandboxes."""
    gc.collect()
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    before = set(children())
    yield
    assert set(children()) <= before


def test_map_yields_in_order_with_several_workers() -> None:
    with Sandbox(workers=3) as box:
        results = [result.outputs for result in box.map(job(n) for n in range(12))]
    assert results == [[n * n] for n in range(12)]


def test_map_reads_only_a_little_ahead() -> None:
    taken = 0

    def jobs() -> Iterator[Job]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield job(number)

    stream = Sandbox(workers=2).map(jobs())
    assert next(stream).outputs == [0]
    assert taken <= 6
    stream.close()


def test_map_of_nothing_is_nothing() -> None:
    assert list(Sandbox().map([])) == []


def test_run_may_be_called_from_many_threads() -> None:
    box = Sandbox()
    outputs: dict[int, object] = {}

    def work(number: int) -> None:
        outputs[number] = box.run(job(number)).outputs

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: [number * number] for number in range(8)}


@pytest.mark.parametrize(
    "source",
    ["def f(x):\n    return x", "raise SystemExit", "while True: pass", "import os; os.kill(0, 9)", "def f("],
)
@pytest.mark.parametrize("backend", ["auto", "plain"])
def test_a_job_leaves_nothing_behind(
    source: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = open_descriptors(), children()
    with Sandbox(backend) as box:
        for kind in ("calls", "split"):
            files = {"solution.py": source, "test.py": "def check(candidate): candidate(1)"}
            box.run(Job(kind, files, entry="f", calls=[Call((1,))], limits=Limits(wall_s=0.4)))
        warm = open_descriptors()
        for keeper in set(children()) - set(before[1]):
            assert len(descendants(int(keeper))) <= 2
        box.run(Job("calls", {"solution.py": source}, entry="f", limits=Limits(wall_s=0.4)))
        assert open_descriptors() == warm
    assert (open_descriptors(), children()) == before
    assert list(tmp_path.iterdir()) == []


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_killing_the_supervisor_ends_its_jobs() -> None:
    source = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from sandbox import Job, Limits, Sandbox
        program = "import os, time\\nfor _ in range(3):\\n  if not os.fork(): os.setsid()\\ntime.sleep(60)"
        print("go", flush=True)
        Sandbox().run(Job("script", {{"main.py": program}}, limits=Limits(wall_s=60)))
        """
    supervisor = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert supervisor.stdout is not None
    supervisor.stdout.readline()
    family: set[int] = set()
    deadline = time.monotonic() + 20
    while len(family) < 5 and time.monotonic() < deadline:
        family = descendants(supervisor.pid)
        time.sleep(0.02)
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait()
    supervisor.stdout.close()
    assert len(family) >= 5
    while any(map(alive, family)) and time.monotonic() < deadline + 10:
        time.sleep(0.02)
    assert [pid for pid in family if alive(pid)] == []


def test_a_supervisor_that_was_held_up_calls_no_program_late_that_was_not() -> None:
    source = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from sandbox import Job, Limits, Sandbox
        box = Sandbox()
        print("go", flush=True)
        job = Job("script", {{"main.py": "import time; time.sleep(0.5)"}}, limits=Limits(wall_s=2))
        print(box.run(job).status)
        """
    supervisor = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE)
    assert supervisor.stdout is not None
    supervisor.stdout.readline()
    time.sleep(0.4)
    supervisor.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    supervisor.send_signal(signal.SIGCONT)
    assert supervisor.communicate(timeout=60)[0] == b"ok\n"


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found |= {int(child)} | descendants(int(child))
    except OSError:
        pass
    return found


def test_an_interrupted_run_ends_its_job() -> None:
    class Stop(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Stop

    with Sandbox() as box:
        assert box.run(JOB).outputs == [9]
        before = open_descriptors()
        previous = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(Stop):
                box.run(Job("script", {"main.py": "import time; time.sleep(60)"}, limits=Limits(wall_s=60)))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        assert open_descriptors() == before
        for keeper in children():
            assert len(descendants(int(keeper))) <= 2
        assert box.run(JOB).outputs == [9]


def test_the_plain_backend_must_be_asked_for_and_says_what_it_is() -> None:
    result = Sandbox("plain").run(JOB)
    assert (result.status, result.outputs) == ("ok", [9])
    assert (result.backend, result.isolation) == ("plain", "none")
    assert Sandbox().run(JOB).isolation == "namespaces"


def test_the_plain_backend_sweeps_its_descendants_away() -> None:
    source = (
        "import os, time\nchild = os.fork()\n"
        "if child == 0: os.setsid(); os.fork(); time.sleep(60)\nelse: print(child, flush=True)"
    )
    result = Sandbox("plain").run(Job("script", {"main.py": source}, limits=Limits(wall_s=20)))
    assert result.status == "ok"
    assert not Path(f"/proc/{int(result.stdout)}").exists()


def test_the_plain_backend_notices_too_many_processes() -> None:
    source = "import os, time\nfor _ in range(4): os.fork()\ntime.sleep(30)"
    limits = Limits(wall_s=20, processes=8)
    assert Sandbox("plain").run(Job("script", {"main.py": source}, limits=limits)).status == "proc_limit"


NO_ADMIN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from sandbox import Sandbox, SandboxUnavailable
try:
    Sandbox()
except SandboxUnavailable as error:
    print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root has capabilities to lose")
def test_root_without_the_capability_is_told_what_to_do() -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs setpriv to give a capability up")
    command = [setpriv, "--bounding-set=-sys_admin", sys.executable, "-c", NO_ADMIN]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    assert "CAP_SYS_ADMIN" in result.stdout
    assert result.stdout.count("\n") == 1


def test_auto_refuses_where_namespaces_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module._run_probe

    def refused(job: Job, pool: Pool):
        result = real(job, pool)
        result.status, result.detail = (
            "infra_error",
            "set-up: [Errno 1] unshare(user): Operation not permitted",
        )
        return result

    monkeypatch.setattr(module, "_run_probe", refused)
    module._require_namespaces.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=r"sysctl user\.max_user_namespaces") as caught:
            Sandbox()
        assert "\n" not in str(caught.value)
        Sandbox("plain")
    finally:
        module._require_namespaces.cache_clear()


def test_the_doctor_reports_a_machine_that_cannot_isolate() -> None:
    with Sandbox("plain") as box:
        assert doctor.lacking(doctor.layers(box.run))


def test_a_launcher_that_cannot_start_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Sandbox()
    monkeypatch.setattr(farside, "executable", lambda: "/nonexistent/python")
    before = open_descriptors()
    for kind in ("calls", "split"):
        result = box.run(Job(kind, {"solution.py": "", "test.py": ""}, entry="f"))
        assert result.status == "infra_error"
    monkeypatch.setattr(farside, "executable", lambda: "/bin/false")
    assert box.run(JOB).status == "infra_error"
    assert open_descriptors() == before


def test_running_out_of_descriptors_anywhere_leaves_nothing_behind() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = set()
    with Sandbox() as box:
        assert box.run(JOB).outputs == [9]
        before = open_descriptors()
        lowest = os.dup(0)
        os.close(lowest)
        try:
            # Numbers above the lowest free one may be in use as well.
            for spare in range(500):
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
                seen.add(box.run(JOB).status)
                if "ok" in seen:
                    break
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert open_descriptors() == before
    assert seen == {"infra_error", "ok"}


def test_files_that_do_not_fit_are_our_failure_not_the_programs() -> None:
    big = Job("script", {"main.py": "", "data": "x" * (3 << 20)}, limits=Limits(tmpfs_mb=1))
    result = Sandbox().run(big)
    assert (result.status, "No space left" in result.detail) == ("infra_error", True)


def test_bad_arguments_are_sandbox_errors() -> None:
    with pytest.raises(SandboxError, match="backend"):
        Sandbox("chroot")  # type: ignore[arg-type]
    with pytest.raises(SandboxError, match="workers"):
        Sandbox(workers=0)
    with pytest.raises(SandboxError, match="not a folder"):
        Sandbox(packages=["/nonexistent"])


def test_results_carry_measurements() -> None:
    source = "from time import process_time as t\nx = bytearray(50 << 20)\nwhile t() < 0.2: pass"
    result = Sandbox().run(Job("script", {"main.py": source}, limits=Limits(wall_s=30)))
    # The wall clock starts with the program, the processor's with its interpreter: neither bounds the other.
    assert result.cpu_s >= 0.2
    assert result.wall_s > 0
    assert result.max_rss > 50 << 10


def test_no_job_is_charged_with_the_time_of_an_earlier_one() -> None:
    burning = "from time import process_time as t\nwhile t() < 0.7: pass"
    waiting = "import time; time.sleep(0.3)"
    limits = Limits(wall_s=30, cpu_s=1)
    with Sandbox() as box:
        for _ in range(3):
            assert box.run(Job("script", {"main.py": burning}, limits=limits)).status == "ok"
        result = box.run(Job("script", {"main.py": waiting}, limits=limits))
        assert result.status == "ok"
        assert result.cpu_s < 0.7
        stopped = box.run(Job("script", {"main.py": "import time; time.sleep(9)"}, limits=Limits(wall_s=0.3)))
        assert stopped.status == "timeout"
        assert stopped.cpu_s < 0.7


def test_the_clock_of_one_half_stands_still_while_the_other_works() -> None:
    """Together they take longer than either may."""
    candidate = "import time\ndef f(x):\n    time.sleep(0.9)\n    return x"
    test = "import time\ndef check(candidate):\n    time.sleep(0.9)\n    assert candidate(1) == 1"
    files = {"solution.py": candidate, "test.py": test}
    with Sandbox() as box:
        assert box.run(Job("split", files, entry="f", limits=Limits(wall_s=1.5))).status == "ok"
        slow = files | {"test.py": "def check(candidate):\n    for n in range(9): candidate(n)"}
        result = box.run(Job("split", slow, entry="f", limits=Limits(wall_s=1.5)))
        assert result.status == "timeout"


def test_a_stopped_job_still_carries_measurements() -> None:
    source = "x = bytearray(50 << 20)\nwhile True: pass"
    result = Sandbox().run(Job("script", {"main.py": source}, limits=Limits(wall_s=1.5)))
    assert result.status == "timeout"
    assert result.cpu_s > 0
    assert result.max_rss > 50 << 10


def test_a_copy_of_our_descriptors_elsewhere_does_not_keep_a_job_alive() -> None:
    """A process forked off meanwhile holds the same pipes; here duplicates stand for it."""
    copies: list[int] = []

    def copy() -> None:
        time.sleep(0.4)
        for entry in list(Path("/proc/self/fd").iterdir()):
            if "pipe:" in os.readlink(entry):
                copies.append(os.dup(int(entry.name)))

    thread = threading.Thread(target=copy)
    thread.start()
    program = {"main.py": "import time; time.sleep(60)"}
    result = Sandbox().run(Job("script", program, limits=Limits(wall_s=1)))
    thread.join()
    for number in copies:
        os.close(number)
    assert copies
    assert (result.status, result.exit_code) == ("timeout", None)
