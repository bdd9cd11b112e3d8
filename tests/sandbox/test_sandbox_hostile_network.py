"""Programs that try to talk to anyone: other machines, the host's services, other jobs, the kernel."""

import os
import socket
import textwrap
import threading

import hostile
import pytest
from hostile import Arena, body

from sandbox import Job, Limits, Sandbox

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)


def test_no_kind_of_socket_but_local_ones_can_be_made(arena: Arena) -> None:
    source = """
        import socket
        def probe():
            made = []
            for family in range(64):
                for kind in range(1, 7):
                    for protocol in (0, 1, 6, 17, 255):
                        try:
                            socket.socket(family, kind, protocol).close()
                            made.append(family)
                        except OSError:
                            pass
            return sorted(set(made))
        """
    assert arena.probed(source) == [[socket.AF_UNIX]] * 3


def test_no_name_can_be_looked_up(arena: Arena) -> None:
    source = """
        import socket
        def probe():
            done = []
            for name in ("localhost", "example.com", "host.docker.internal", "metadata.google.internal"):
                for look in (socket.gethostbyname, lambda n: socket.getaddrinfo(n, 80)):
                    try:
                        done.append(look(name))
                    except OSError:
                        pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_a_host_service_cannot_be_reached_by_any_transport(arena: Arena) -> None:
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
        for one in (stream, datagram):
            one.bind(("127.0.0.1", 0))
            one.setblocking(False)
        stream.listen()
        source = f"""
            import http.client, socket, urllib.request
            def probe():
                done = []
                for address in ("127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1"):
                    for act in (
                        lambda: socket.create_connection((address, {stream.getsockname()[1]}), 0.1),
                        lambda: socket.socket(2, 2).sendto(b"x", (address, {datagram.getsockname()[1]})),
                        lambda: http.client.HTTPConnection(address, 80, timeout=0.1).request("GET", "/"),
                        lambda: urllib.request.urlopen(f"http://{{address}}/", timeout=0.1),
                    ):
                        try:
                            act()
                            done.append(address)
                        except OSError:
                            pass
                return done
            """
        assert arena.probed(source) == [[], [], []]
        with pytest.raises(BlockingIOError):
            stream.accept()
        with pytest.raises(BlockingIOError):
            datagram.recv(1)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has a second way to call the kernel")
def test_the_kernels_other_entrance_is_deadly(arena: Arena) -> None:
    """Through the 32-bit entrance the numbers of calls are others: 359 is socket, 11 execve."""
    source = body(
        """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("53 b867010000 bb02000000 b901000000 ba00000000 cd80 5b c3"))
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        return [call()]
        """
    )
    by_values, by_suite = arena.calls(source), arena.split(source)
    assert (by_values.status, by_values.detail) == ("signal", "killed by SIGSYS")
    assert (by_suite.status, by_suite.detail) == ("signal", "killed by SIGSYS")


def test_nobody_can_be_impersonated_over_a_local_socket(arena: Arena) -> None:
    source = """
        import os, socket, struct
        def probe():
            done = []
            left, right = socket.socketpair()
            right.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            for claim in ((1, os.getuid(), os.getgid()), (os.getpid(), 0, 0), (2, 0, os.getgid())):
                if claim == (os.getpid(), os.getuid(), os.getgid()):
                    continue
                try:
                    told = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", *claim))
                    left.sendmsg([b"x"], [told])
                    done.append(claim)
                except OSError:
                    pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_a_server_of_its_own_fails_like_any_network_and_is_the_programs_error(arena: Arena) -> None:
    source = body("import socketserver\nsocketserver.TCPServer(('127.0.0.1', 0), None)")
    result = arena.calls(source)
    assert [output.type for output in result.outputs] == ["OSError"] * 3
    assert arena.verdicts(source) == ("wrong", "exception")
    assert arena.script("import socket\nsocket.create_server(('127.0.0.1', 0))").status == "exception"


def test_a_name_bound_by_one_job_is_free_for_the_next(arena: Arena) -> None:
    source = """
        import os, socket
        kept = []
        def probe():
            done = []
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                one = socket.socket(socket.AF_UNIX, kind)
                one.bind(b"\\0taken" + bytes([kind]))
                kept.append(one)
            other = socket.socket(socket.AF_UNIX)
            other.bind("/tmp/work/taken")
            kept.append(other)
            if os.fork() == 0:
                import time
                time.sleep(60)
            return "bound"
        """
    assert arena.probed(source) == ["bound"] * 3


def test_jobs_at_the_same_time_cannot_talk_to_each_other(arena: Arena) -> None:
    """Each listens wherever it can and calls wherever it can; both see that nobody is there."""
    source = """
        import os, socket, time
        met = []
        def listen(address):
            one = socket.socket(socket.AF_UNIX)
            one.bind(address)
            one.listen()
            one.setblocking(False)
            return one
        mine = os.urandom(4).hex()
        listeners = [listen(b"\\0meet-" + mine.encode()), listen(f"/tmp/meet-{mine}")]
        deadline = time.monotonic() + 0.4
        while time.monotonic() < deadline:
            for path in os.listdir("/tmp"):
                if path.startswith("meet-") and mine not in path:
                    met.append(path)
            try:
                names = open("/proc/net/unix").read()
                met += [line for line in names.split() if "meet-" in line and mine not in line]
            except OSError:
                pass
            for process in os.listdir("/proc"):
                if process.isdigit() and int(process) not in (os.getpid(), os.getppid()):
                    met.append(process)
            for one in listeners:
                try:
                    met.append(repr(one.accept()))
                except BlockingIOError:
                    pass
            time.sleep(0.02)
        print(met)
        """
    job = Job("script", {"main.py": textwrap.dedent(source)}, limits=Limits(wall_s=20))
    with Sandbox(workers=2) as box:
        results = list(box.map([job, job]))
    assert [(result.status, result.stdout) for result in results] == [("ok", "[]\n")] * 2


def test_a_name_in_use_by_another_job_is_not_taken(arena: Arena) -> None:
    """The abstract name is the same; only one of two could have it if they shared a namespace."""
    source = """
        import socket, time
        one = socket.socket(socket.AF_UNIX)
        one.bind(b"\\0the-only-name")
        time.sleep(0.4)
        print("mine")
        """
    job = Job("script", {"main.py": textwrap.dedent(source)}, limits=Limits(wall_s=20))
    results: list[str] = []
    with Sandbox(workers=2) as box:
        threads = [threading.Thread(target=lambda: results.append(box.run(job).stdout)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == ["mine\n"] * 2
