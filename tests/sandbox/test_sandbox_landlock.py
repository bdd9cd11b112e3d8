"""The Landlock fence: what it lets through, what it refuses, and that nothing inside takes it away.

Every test fences a process of its own and lets it try.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from sandbox.inside import landlock

# Runs in a bare interpreter, as the real launcher does. `tried` names the error of a call, or "done".
BOOT = """
import ctypes, json, os, sys, types
given = json.loads(sys.argv[1])
landlock = types.ModuleType("landlock")
with open(given["module"]) as file:
    exec(compile(file.read(), given["module"], "exec"), landlock.__dict__)
def no_new_privs():
    assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0
def fence(write=(given["inside"],), *read):
    no_new_privs()
    return landlock.fence(list(write), *read)
def tried(call, *args, **options):
    try:
        call(*args, **options)
    except OSError as error:
        return type(error).__name__
    return "done"
def write(path, mode="w"):
    with open(path, mode) as file:
        file.write("x")
inside, outside = given["inside"], given["outside"]
said = {}
exec(given["code"])
print(json.dumps(said))
"""
needs = pytest.mark.skipif(landlock.abi() < 2, reason="this kernel has no Landlock of ABI 2 or later")


class Yard:
    """A folder that may be written, one that may not, and a way to run code inside the fence."""

    def __init__(self, base: Path) -> None:
        self.inside, self.outside = base / "inside", base / "outside"
        for folder in (self.inside, self.outside):
            (folder / "one").mkdir(parents=True)
            (folder / "two").mkdir()
            (folder / "file").write_text("kept")

    def run(self, code: str, **given: Any) -> dict[str, Any]:
        payload = {
            "module": landlock.__file__,
            "inside": str(self.inside),
            "outside": str(self.outside),
            "code": textwrap.dedent(code),
            **given,
        }
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", BOOT, json.dumps(payload)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@needs
def test_a_fence_says_which_version_of_it_holds(yard: Yard) -> None:
    assert yard.run("said['abi'] = fence()") == {"abi": min(landlock.abi(), 7)}


@needs
@pytest.mark.parametrize(
    "attempt",
    [
        "write(f'{here}/new')",
        "write(f'{here}/file')",
        "write(f'{here}/file', 'a')",
        "os.truncate(f'{here}/file', 0)",
        "os.unlink(f'{here}/file')",
        "os.mkdir(f'{here}/folder')",
        "os.rmdir(f'{here}/one')",
        "os.symlink('/', f'{here}/link')",
        "os.link(f'{here}/file', f'{here}/again')",
        "os.link(f'{here}/file', f'{here}/one/again')",
        "os.rename(f'{here}/file', f'{here}/renamed')",
        "os.rename(f'{here}/file', f'{here}/one/file')",
        "os.rename(f'{here}/one', f'{here}/two/one')",
        "os.mkfifo(f'{here}/fifo')",
        "__import__('_socket').socket(1, 1).bind(f'{here}/s')",
    ],
)
def test_a_change_works_in_the_given_folder_and_nowhere_else(yard: Yard, attempt: str) -> None:
    code = f"""
        def attempt(here):
            {attempt}
        fence()
        said['inside'] = tried(attempt, inside)
        said['outside'] = tried(attempt, outside)
    """
    said = yard.run(code)
    assert said["inside"] == "done"
    # A link or rename between folders is refused as if they lay on two file systems.
    assert said["outside"] in ("PermissionError", "OSError")
    assert (yard.outside / "file").read_text() == "kept"
    assert sorted(path.name for path in yard.outside.rglob("*")) == ["file", "one", "two"]


@needs
@pytest.mark.parametrize(
    "attempt",
    [
        "os.rename(f'{outside}/file', f'{inside}/stolen')",
        "os.rename(f'{inside}/file', f'{outside}/planted')",
        "os.link(f'{outside}/file', f'{inside}/stolen')",
        "os.link(f'{inside}/file', f'{outside}/planted')",
        "write(f'{inside}/../outside/file')",
        "os.symlink(outside, f'{inside}/way'); write(f'{inside}/way/file')",
        "os.chdir(outside); write('file')",
        "write('/proc/self/comm')",
    ],
)
def test_no_way_leads_from_the_given_folder_to_another(yard: Yard, attempt: str) -> None:
    said = yard.run(f"def attempt():\n    {attempt}\nfence()\nsaid['it'] = tried(attempt)")
    assert said["it"] in ("PermissionError", "OSError")
    assert (yard.outside / "file").read_text() == "kept"


@needs
def test_everything_may_still_be_read_and_executed(yard: Yard) -> None:
    code = """
        fence()
        said['read'] = open(f'{outside}/file').read()
        said['list'] = sorted(os.listdir(outside))
        said['run'] = os.waitstatus_to_exitcode(os.system('exec /bin/sh -c "exit 7"'))
    """
    assert yard.run(code) == {"read": "kept", "list": ["file", "one", "two"], "run": 7}


@needs
def test_what_may_be_read_can_be_narrowed(yard: Yard) -> None:
    code = """
        fence([inside], [f'{outside}/one'])
        said['list'] = os.listdir(f'{outside}/one')
        said['file'] = tried(open, f'{outside}/file')
        said['root'] = tried(os.listdir, '/')
        said['own'] = open(f'{inside}/file').read()
        said['run'] = tried(os.execv, f'{inside}/file', ['file'])
    """
    os.chmod(yard.inside / "file", 0o755)
    refused = "PermissionError"
    assert yard.run(code) == {"list": [], "file": refused, "root": refused, "own": "kept", "run": refused}


@needs
def test_a_single_file_may_stand_in_place_of_a_folder(yard: Yard) -> None:
    code = """
        fence([f'{outside}/file'], [f'{inside}/file'])
        said['write'] = tried(write, f'{outside}/file')
        said['read'] = open(f'{inside}/file').read()
        said['beside'] = tried(write, f'{outside}/new')
    """
    assert yard.run(code) == {"write": "done", "read": "kept", "beside": "PermissionError"}


@needs
def test_harmless_devices_may_be_written(yard: Yard) -> None:
    code = """
        fence()
        for name in ('null', 'zero', 'full', 'urandom'):
            said[name] = tried(write, f'/dev/{name}')
        said['isatty'] = os.isatty(os.open('/dev/null', os.O_RDWR))
    """
    said = yard.run(code)
    assert said == {
        "null": "done",
        "zero": "done",
        "full": "OSError",  # it opens, and is full
        "urandom": "PermissionError",
        "isatty": False,
    }


@needs
def test_no_device_can_be_made_even_in_the_given_folder(yard: Yard) -> None:
    code = """
        fence()
        said['null'] = tried(os.mknod, f'{inside}/null', 0o020666, os.makedev(1, 3))
        said['loop'] = tried(os.mknod, f'{inside}/loop', 0o060666, os.makedev(7, 0))
    """
    assert yard.run(code) == {"null": "PermissionError", "loop": "PermissionError"}


@needs
def test_a_program_finds_a_temporary_folder_that_works(yard: Yard) -> None:
    code = """
        fence(['/tmp'])
        sys.path[:] = given['path']
        import tempfile
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
            said['file'] = file.write(b'x')
            write(f'{folder}/new')
            os.mkdir(f'{folder}/below')
            os.replace(f'{folder}/new', f'{folder}/below/new')
        said['gone'] = not os.path.exists(folder)
    """
    assert yard.run(code, path=sys.path) == {"file": 1, "gone": True}


@needs
def test_descriptors_of_before_keep_working_and_pipes_can_be_opened_again(yard: Yard) -> None:
    code = """
        held = open(f'{outside}/held', 'w')
        fence()
        said['held'] = tried(held.write, 'x')
        held.close()
        said['stdout'] = tried(lambda: open('/proc/self/fd/1', 'w').close())
    """
    assert yard.run(code) == {"held": "done", "stdout": "done"}
    assert (yard.outside / "held").read_text() == "x"


@needs
def test_what_a_fenced_process_starts_is_fenced_as_well(yard: Yard) -> None:
    code = """
        fence()
        said['shell'] = os.waitstatus_to_exitcode(os.system(f'echo x 2>/dev/null > {outside}/file'))
        child = os.fork()
        if child == 0:
            os._exit(int(tried(write, f'{outside}/file') == 'done'))
        said['child'] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    """
    said = yard.run(code)
    assert said["shell"] != 0
    assert said["child"] == 0
    assert (yard.outside / "file").read_text() == "kept"


@needs
def test_a_second_fence_can_only_take_more_away(yard: Yard) -> None:
    code = """
        fence()
        said['wider'] = fence(['/']) > 0
        said['outside'] = tried(write, f'{outside}/file')
        said['inside'] = tried(write, f'{inside}/file')
        fence([f'{inside}/one'])
        said['narrower'] = tried(write, f'{inside}/file')
        said['below'] = tried(write, f'{inside}/one/file')
    """
    assert yard.run(code) == {
        "wider": True,
        "outside": "PermissionError",
        "inside": "done",
        "narrower": "PermissionError",
        "below": "done",
    }


@pytest.mark.skipif(landlock.abi() < 4, reason="this kernel's Landlock (before ABI 4) knows no TCP")
def test_no_tcp_port_can_be_bound_or_connected_to(yard: Yard) -> None:
    code = """
        from _socket import socket
        free = tried(socket(2, 1).connect, ('127.0.0.1', given['port']))
        fence()
        said['before'] = free
        said['connect'] = tried(socket(2, 1).connect, ('127.0.0.1', given['port']))
        said['bind'] = tried(socket(2, 1).bind, ('127.0.0.1', 0))
        said['bind6'] = tried(socket(10, 1).bind, ('::1', 0))
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = yard.run(code, port=server.getsockname()[1])
    assert said["before"] == "done"
    assert said["connect"] == said["bind"] == "PermissionError"
    # Where the machine has no IPv6 there is nothing to refuse.
    assert said["bind6"] in ("PermissionError", "OSError")


@pytest.mark.skipif(landlock.abi() < 6, reason="this kernel's Landlock (before ABI 6) knows no signals")
def test_signals_reach_own_processes_only(yard: Yard) -> None:
    code = """
        fence()
        said['parent'] = tried(os.kill, os.getppid(), 0)
        said['other'] = tried(os.kill, given['pid'], 15)
        child = os.fork()
        if child == 0:
            os.execv('/bin/sleep', ['sleep', '60'])
        said['child'] = tried(os.kill, child, 9)
        said['ended'] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said['self'] = tried(os.kill, os.getpid(), 0)
    """
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        said = yard.run(code, pid=other.pid)
        assert other.poll() is None
        other.kill()
    assert said == {
        "parent": "PermissionError",
        "other": "PermissionError",
        "child": "done",
        "ended": -signal.SIGKILL,
        "self": "done",
    }


@pytest.mark.skipif(landlock.abi() < 6, reason="this kernel's Landlock (before ABI 6) knows no sockets")
def test_abstract_sockets_of_others_are_out_of_reach(yard: Yard) -> None:
    code = """
        from _socket import socket
        fence()
        said['theirs'] = tried(socket(1, 1).connect, given['name'])
        own = socket(1, 1)
        own.bind(given['name'] + '-own')
        own.listen(1)
        said['own'] = tried(socket(1, 1).connect, given['name'] + '-own')
    """
    name = f"\0assay-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen(1)
        assert yard.run(code, name=name) == {"theirs": "PermissionError", "own": "done"}


@needs
def test_a_missing_folder_is_named_and_nothing_is_restricted(yard: Yard) -> None:
    code = """
        try:
            fence([inside, f'{inside}/nowhere'])
        except OSError as error:
            said['error'] = str(error)
            said['errno'] = error.errno
        said['outside'] = tried(write, f'{outside}/file')
        said['open'] = len(os.listdir('/proc/self/fd'))
        fence()
        said['open later'] = len(os.listdir('/proc/self/fd'))
    """
    said = yard.run(code)
    assert f"{yard.inside}/nowhere" in said["error"]
    assert said["errno"] == 2
    assert said["outside"] == "done"
    assert said["open"] == said["open later"]


@needs
def test_a_process_that_could_gain_privileges_is_told_what_lacks(yard: Yard) -> None:
    code = """
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            landlock.fence(['/tmp'])
        except OSError as error:
            said['error'] = str(error)
    """
    said = yard.run(code)
    assert "landlock_restrict_self" in said["error"]
    assert "no_new_privs" in said["error"]


@needs
@pytest.mark.parametrize("version", range(2, 8))
def test_the_rules_of_each_older_kernel_hold_too(yard: Yard, version: int) -> None:
    if version > landlock.abi():
        pytest.skip(f"this kernel's Landlock is of ABI {landlock.abi()}")
    code = """
        landlock._known_abi = given['version']
        said['abi'] = fence()
        said['inside'] = tried(write, f'{inside}/one/new')
        said['rename'] = tried(os.rename, f'{inside}/one/new', f'{inside}/two/new')
        said['outside'] = tried(write, f'{outside}/new')
        said['null'] = tried(write, '/dev/null')
    """
    assert yard.run(code, version=version) == {
        "abi": version,
        "inside": "done",
        "rename": "done",
        "outside": "PermissionError",
        "null": "done",
    }


@pytest.mark.parametrize("version", [0, 1])
def test_a_kernel_that_cannot_make_the_fence_changes_nothing(yard: Yard, version: int) -> None:
    code = """
        landlock._known_abi = given['version']
        said['abi'] = fence()
        said['outside'] = tried(write, f'{outside}/new')
    """
    assert yard.run(code, version=version) == {"abi": 0, "outside": "done"}


def test_a_bare_interpreter_needs_nothing_else_for_it() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-B",
            "-c",
            "import sys, os, struct, ctypes, errno; before = set(sys.modules);"
            "exec(compile(open(sys.argv[1]).read(), 'landlock', 'exec'), {});"
            "print(*set(sys.modules) - before)",
            str(landlock.__file__),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"__future__"}
