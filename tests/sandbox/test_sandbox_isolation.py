"""What a program can reach of its host: nothing. Each test asks from inside, as root and as a user."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sandbox import Job, Limits, Result, Sandbox, doctor
from sandbox.inside import kernel

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def box() -> Sandbox:
    return Sandbox()


def script(box: Sandbox, source: str, **options: object) -> Result:
    job = Job("script", {"main.py": textwrap.dedent(source)}, limits=Limits(wall_s=20), **options)
    return box.run(job)


def test_every_required_layer_holds() -> None:
    missing = doctor.lacking(Sandbox.doctor())
    assert missing == []


def test_host_files_are_not_there(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    result = script(
        box,
        """
        import sys
        for path in ["/etc/passwd", "/etc/shadow", "/root/.bashrc", "/work", "/home", "/var", *sys.argv[1:]]:
            try:
                open(path).read()
                print("read", path)
            except IsADirectoryError:
                import os
                print("listed", path, os.listdir(path))
            except OSError:
                pass
        """,
        argv=[str(secret), str(ROOT / "pyproject.toml"), __file__],
    )
    assert (result.status, result.stdout) == ("ok", "")


def test_the_root_holds_only_what_python_needs(box: Sandbox) -> None:
    result = script(box, "import os; print(*sorted(os.listdir('/')))")
    assert set(result.stdout.split()) <= {
        *("bin", "dev", "etc", "lib", "lib64", "proc", "tmp", "usr"),
        sys.base_prefix.split("/")[1],
    }
    assert script(box, "import os; print(os.listdir('/etc'))").stdout in ("['ld.so.cache']\n", "[]\n")


def test_only_tmp_is_writable(box: Sandbox) -> None:
    result = script(
        box,
        """
        import os
        for folder, inner, _ in os.walk("/"):
            if folder.count("/") > 2 or folder == "/proc":
                inner.clear()
            try:
                open(folder + "/probe", "w").close()
                print(folder)
            except OSError:
                pass
        """,
    )
    assert set(result.stdout.split()) <= {"/tmp", "/tmp/work", "/dev/shm"}
    assert "/tmp/work" in result.stdout


def test_the_supervisors_environment_is_out_of_reach(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "needle-55")
    result = script(
        box,
        """
        import glob, os
        print(dict(os.environ))
        for path in glob.glob("/proc/*/environ") + ["/proc/1/environ", "/proc/self/environ"]:
            try:
                print(b"needle" in open(path, "rb").read(), b"PLANTED" in open(path, "rb").read())
            except OSError:
                pass
        """,
    )
    assert result.stdout.startswith("{}\n")
    assert "True" not in result.stdout


def test_a_host_listener_cannot_be_reached(box: Sandbox) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        source = """
            import ctypes, socket, sys
            try:
                socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)
                print("connected")
            except OSError as error:
                print(type(error).__name__, error.errno)
            for family in (socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 40):
                print(ctypes.CDLL(None, use_errno=True).socket(family, 1, 0), ctypes.get_errno())
            socket.socketpair()
            """
        result = script(box, source, argv=[str(listener.getsockname()[1])])
        assert result.stdout == "OSError 97\n" + "-1 97\n" * 4
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_an_abstract_unix_socket_of_the_host_cannot_be_reached(box: Sandbox) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        name = f"sandbox-test-{os.getpid()}"
        listener.bind(b"\0" + name.encode())
        listener.listen()
        source = """
            import socket, sys
            try:
                socket.socket(socket.AF_UNIX).connect(b"\\0" + sys.argv[1].encode())
                print("connected")
            except OSError as error:
                print(type(error).__name__)
            """
        assert script(box, source, argv=[name]).stdout == "ConnectionRefusedError\n"


def test_it_sees_no_process_but_its_own(box: Sandbox) -> None:
    source = "import os; print([p for p in os.listdir('/proc') if p.isdigit()], os.getpid(), os.getppid())"
    assert script(box, source).stdout == "['2'] 2 1\n"


REFUSED = (
    "mount ptrace unshare setns keyctl bpf perf_event_open io_uring_setup userfaultfd shmget kexec_load "
    "init_module memfd_create process_vm_readv open_by_handle_at chroot pivot_root syslog personality"
)


@pytest.mark.parametrize("name", REFUSED.split())
def test_dangerous_calls_are_refused(box: Sandbox, name: str) -> None:
    number = kernel._DENIED[name][0 if kernel.machine() == "x86_64" else 1]
    source = """
        import ctypes, sys
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.syscall(int(sys.argv[1]), 0, 0, 0, 0, 0), ctypes.get_errno())
        """
    assert script(box, source, argv=[str(number)]).stdout == "-1 1\n"


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_no_namespace_can_be_made_by_clone(box: Sandbox, flag: int) -> None:
    number = 56 if kernel.machine() == "x86_64" else 220
    source = """
        import ctypes, os, sys
        libc = ctypes.CDLL(None, use_errno=True)
        pid = libc.syscall(int(sys.argv[1]), int(sys.argv[2]) | 17, 0, 0, 0, 0)
        if pid == 0: os._exit(0)
        print(pid, ctypes.get_errno())
        """
    assert script(box, source, argv=[str(number), str(flag)]).stdout == "-1 1\n"


@pytest.mark.parametrize("number", [435, 457, 463, 600])
def test_calls_newer_than_the_filter_do_not_exist(box: Sandbox, number: int) -> None:
    source = """
        import ctypes, sys
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.syscall(int(sys.argv[1]), 0, 0, 0), ctypes.get_errno())
        """
    assert script(box, source, argv=[str(number)]).stdout == "-1 38\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the x32 calls exist on x86-64 only")
def test_the_other_call_table_of_this_machine_is_deadly(box: Sandbox) -> None:
    source = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)"
    result = script(box, source)
    assert (result.status, result.detail) == ("signal", "killed by SIGSYS")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_fits_both_machines(machine: str) -> None:
    program = kernel.seccomp_program(machine)
    lines = [program[at : at + 8] for at in range(0, len(program), 8)]
    assert len(program) % 8 == 0
    assert 0 < len(lines) < 4096
    for at, line in enumerate(lines):
        assert at + 1 + max(line[2], line[3]) < len(lines) or line[0] == 0x06
    assert lines[-1][0] == 0x06


def test_a_setuid_program_gains_nothing(box: Sandbox) -> None:
    source = """
        import os, shutil
        try:
            shutil.copy("/dev/null", "/tmp/x")
            os.chmod("/tmp/x", 0o6755)
            os.setuid(0)
            print("root")
        except OSError:
            print("refused")
        print(open("/proc/self/uid_map").read().split()[::2])
        """
    assert script(box, source).stdout == "refused\n['65534', '1']\n"


def test_ordinary_programs_still_work(box: Sandbox) -> None:
    source = """
        import asyncio, ctypes, hashlib, json, multiprocessing, random, sqlite3, ssl, subprocess, sys
        import tempfile, threading, zlib, zoneinfo
        async def nap(): await asyncio.sleep(0.01); return 1
        print(asyncio.run(nap()))
        print(subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True).stdout.decode().strip())
        queue = multiprocessing.Queue()
        child = multiprocessing.Process(target=queue.put, args=(3,))
        child.start(); print(queue.get()); child.join()
        with tempfile.NamedTemporaryFile() as file: file.write(b"x"); print(4)
        print(sqlite3.connect(":memory:").execute("select 5").fetchone()[0])
        """
    result = script(box, source)
    assert (result.stdout, result.stderr) == ("1\n2\n3\n4\n5\n", "")


AS_USER = """
import os, sys
sys.path.insert(0, {root!r})
from sandbox import Call, Job, Limits, Sandbox, doctor
assert os.getuid() == 65534
print(doctor.lacking(Sandbox.doctor()))
box = Sandbox()
solution = "def f(x): return x + 1"
print(box.run(Job("calls", {{"solution.py": solution}}, entry="f", calls=[Call((1,))])).outputs)
test = "def check(candidate): assert candidate(1) == 2"
print(box.run(Job("split", {{"solution.py": solution, "test.py": test}}, entry="f")).status)
fork = '''
import os, time
n = 0
try:
    while os.fork(): n += 1
except OSError: print(n)
else: time.sleep(9)
'''
print(box.run(Job("script", {{"main.py": fork}})).stdout)
print(box.run(Job("script", {{"main.py": "while True: pass"}}, limits=Limits(wall_s=0.5))).status)
print(box.run(Job("script", {{"main.py": "print(open('/etc/passwd').read())"}})).status)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user to test with")
def test_an_ordinary_user_gets_the_same_isolation(tmp_path: Path) -> None:
    setpriv = shutil.which("setpriv")
    python = next(
        (
            p
            for p in ("/usr/bin/python3.13", "/usr/bin/python3.12", "/usr/bin/python3.11")
            if Path(p).exists()
        ),
        None,
    )
    if setpriv is None or python is None:
        pytest.skip("needs setpriv and a system Python 3.11 or later, for a user cannot read root's own")
    command = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", python, "-B", "-c"]
    probe = subprocess.run([*command, f"open({str(ROOT / 'sandbox' / 'job.py')!r})"], capture_output=True)
    if probe.returncode:
        pytest.skip("an ordinary user cannot read this checkout")
    result = subprocess.run(
        [*command, AS_USER.format(root=str(ROOT))], capture_output=True, text=True, timeout=120, cwd="/"
    )
    assert result.stderr == ""
    assert result.stdout.split("\n") == ["[]", "[2]", "ok", "15", "", "timeout", "exception", ""]
