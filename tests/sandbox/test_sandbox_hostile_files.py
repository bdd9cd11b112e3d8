"""Programs that attack through files: the root they see, devices, special files, what they leave or fill."""

import os
import socket
from pathlib import Path

import hostile
import pytest
from hostile import Arena, body

from sandbox import Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)


def test_nothing_outside_the_working_folder_can_be_written_removed_or_renamed(arena: Arena) -> None:
    source = """
        import os, sys
        def probe():
            done = []
            places = [os.__file__, os.path.dirname(os.__file__), sys.executable, "/", "/etc", "/dev", "/usr",
                      "/lib", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/mem/..",
                      "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/user", "/sys"]
            for place in places:
                for act in (
                    lambda: os.close(os.open(place, os.O_WRONLY)),
                    lambda: os.close(os.open(place + "/probe", os.O_WRONLY | os.O_CREAT)),
                    lambda: os.truncate(place, 0),
                    lambda: os.chmod(place, 0o777),
                    lambda: os.chown(place, os.getuid(), os.getgid()),
                    lambda: os.utime(place),
                    lambda: os.rename(place, "/tmp/work/taken"),
                    lambda: os.link(place, "/tmp/work/linked"),
                    lambda: os.unlink(place),
                    lambda: os.rmdir(place),
                    lambda: os.mkdir(place + "/folder"),
                    lambda: os.symlink("/tmp", place + "/link"),
                    lambda: os.setxattr(place, "user.probe", b"1"),
                ):
                    try:
                        act()
                        done.append(place)
                    except OSError:
                        pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_the_running_interpreter_cannot_be_overwritten_through_proc(arena: Arena) -> None:
    source = """
        import os
        def probe():
            done = []
            for path in ("/proc/self/exe", "/proc/2/exe", "/proc/1/exe", "/proc/thread-self/exe"):
                for flags in (os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND):
                    try:
                        os.close(os.open(path, flags))
                        done.append(path)
                    except OSError:
                        pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_links_through_proc_lead_to_no_other_root(arena: Arena) -> None:
    source = """
        import os
        def probe():
            seen, root = [], os.stat("/")
            for base in ("/proc/1/root", "/proc/self/root", "/proc/1/cwd", "/proc/self/cwd/../..", "/../.."):
                try:
                    os.symlink(base, "/tmp/work/there")
                    for path in (base, "/tmp/work/there"):
                        for name in ("etc/passwd", "etc/hostname", "work", "sys/kernel", "var", "boot"):
                            if os.path.lexists(f"{path}/{name}"):
                                seen.append(f"{path}/{name}")
                        # The root of the tree, where it can be seen at all, is this one.
                        if os.path.exists(path) and not os.path.samestat(os.stat(path), root):
                            seen.append(path)
                except OSError:
                    pass
                finally:
                    os.unlink("/tmp/work/there")
            return seen
        """
    assert arena.probed(source) == [[], [], []]


def test_no_device_of_the_host_can_be_opened_or_made(arena: Arena) -> None:
    source = """
        import os, stat
        def probe():
            done = []
            names = "mem kmem port kmsg kvm fuse vda sda nvme0n1 loop0 loop-control tty console ptmx "
            names += "pts/ptmx net/tun vhost-net vsock vhost-vsock userfaultfd hpet rtc0 nvidia0 nvidiactl"
            for name in names.split():
                try:
                    os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
                    done.append(name)
                except OSError:
                    pass
            for kind in (stat.S_IFBLK, stat.S_IFCHR):
                for major, minor in ((254, 0), (8, 0), (1, 1), (1, 3), (10, 232), (5, 0)):
                    for folder in ("/tmp", "/tmp/work", "/dev"):
                        try:
                            os.mknod(f"{folder}/made", kind | 0o666, os.makedev(major, minor))
                            done.append([folder, kind, major, minor])
                        except OSError:
                            pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_a_socket_file_of_the_host_cannot_be_reached(arena: Arena, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        path = tmp_path / "s"
        listener.bind(os.fsencode(path))
        listener.listen()
        path.chmod(0o777)
        source = f"""
            import socket
            def probe():
                done = []
                for path in ({str(path)!r}, "/proc/1/root" + {str(path)!r}, "/run/docker.sock",
                             "/var/run/docker.sock", "/run/containerd/containerd.sock",
                             "/run/dbus/system_bus_socket", "/run/systemd/private", "/dev/log"):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
                        with socket.socket(socket.AF_UNIX, kind) as one:
                            try:
                                one.connect(path)
                                done.append(path)
                            except OSError:
                                pass
                return done
            """
        assert arena.probed(source) == [[], [], []]


def test_a_program_file_of_its_own_making_cannot_be_executed(arena: Arena) -> None:
    source = """
        import ctypes, os, shutil, sys
        libc = ctypes.CDLL(None, use_errno=True)
        def probe():
            done = []
            shutil.copy(sys.executable, "/tmp/python")
            os.chmod("/tmp/python", 0o6755)
            number = os.open("/tmp/python", os.O_RDONLY)
            def run(call):
                child = os.fork()
                if child == 0:
                    try:
                        call()
                    finally:
                        os._exit(77)
                return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            arguments = ["python", "-I", "-S", "-c", "import os; os._exit(0)"]
            for call in (
                lambda: os.execv("/tmp/python", arguments),
                lambda: os.execv("/dev/shm/python", arguments),
                lambda: os.execve(number, arguments, {}),
                lambda: os.execv(f"/proc/self/fd/{number}", arguments),
            ):
                done.append(run(call))
            try:
                ctypes.CDLL("/tmp/python")
                done.append("mapped")
            except OSError:
                pass
            os.close(number)
            os.unlink("/tmp/python")
            return done
        """
    assert arena.probed(source) == [[77] * 4] * 3


def test_a_file_without_a_name_cannot_become_a_program(arena: Arena) -> None:
    source = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        def probe():
            done = []
            for flags in (0, 1, 2, 0x10):
                number = libc.memfd_create(b"x", flags)
                done.append([number, ctypes.get_errno()])
            secret = libc.syscall(447, 0)
            return [*done, secret]
        """
    assert arena.probed(source) == [[[-1, 1]] * 4 + [-1]] * 3


def test_extended_attributes_give_a_file_no_privilege(arena: Arena) -> None:
    source = """
        import os
        def probe():
            done = []
            open("/tmp/work/tool", "w").close()
            capability = bytes.fromhex("0100000200000020000000000000000000000000")
            for name in ("security.capability", "trusted.overlay.opaque", "trusted.probe"):
                try:
                    os.setxattr("/tmp/work/tool", name, capability)
                    done.append(name)
                except OSError:
                    pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_a_file_larger_than_allowed_cannot_be_made_by_any_call(arena: Arena) -> None:
    source = """
        import mmap, os
        def probe():
            sizes = []
            for grow in (
                lambda n: os.truncate("/tmp/big", 1 << 40),
                lambda n: os.ftruncate(n, (16 << 20) + 1),
                lambda n: os.posix_fallocate(n, 0, 1 << 30),
                lambda n: os.pwrite(n, b"x", 1 << 40),
                lambda n: (os.lseek(n, 1 << 40, 0), os.write(n, b"x")),
                lambda n: os.sendfile(n, zero, 0, 1 << 30),
            ):
                zero = os.open("/dev/zero", os.O_RDONLY)
                number = os.open("/tmp/big", os.O_RDWR | os.O_CREAT)
                try:
                    grow(number)
                except OSError:
                    pass
                sizes.append(os.fstat(number).st_size <= 16 << 20)
                os.close(number)
                os.close(zero)
            return sizes
        """
    assert arena.probed(source) == [[True] * 6] * 3


def test_a_program_that_asks_to_die_of_a_large_file_is_a_signal(arena: Arena) -> None:
    source = body(
        """
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.truncate("/tmp/work/solution.py", 1 << 40)
        """
    )
    assert arena.verdicts(source) == ("signal", "signal")


def test_a_full_file_system_is_the_programs_own_trouble(arena: Arena) -> None:
    source = """
        import errno, os
        def probe():
            made, stopped = 0, None
            for count in range(100):
                try:
                    with open(f"/tmp/{count}", "wb", buffering=0) as file:
                        for _ in range(15):
                            made += file.write(bytes(1 << 20)) >> 20
                except OSError as error:
                    stopped = errno.errorcode[error.errno]
                    break
            return [stopped, made <= 16]
        """
    assert arena.probed(source, Limits(wall_s=20, tmpfs_mb=16)) == [["ENOSPC", True]] * 3


def test_the_number_of_files_is_bounded(arena: Arena) -> None:
    source = """
        import errno, os
        def probe():
            number = 0
            try:
                os.mkdir("/tmp/many")
                while number < 200_000:
                    os.mknod(f"/tmp/many/{number}")
                    number += 1
            except OSError as error:
                return [errno.errorcode[error.errno], number < 100_000]
        """
    assert arena.probed(source) == [["ENOSPC", True]] * 3


def test_folders_that_cannot_be_entered_or_listed_are_no_trouble_afterwards(arena: Arena) -> None:
    source = body(
        """
        for _ in range(300):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        for name in (b"\\xff\\xfe", b"new\\nline", b"\\x1b[2J", b"-rf", b" ", b"*"):
            os.mkdir(os.fsencode("/tmp/work/") + name)
        os.mkfifo("/tmp/work/fifo")
        os.symlink("/tmp/work/loop", "/tmp/work/loop")
        os.chmod("/tmp/work", 0)
        return [value * factor for value in values] if values != [-4] else None
        """
    )
    # The second call finds the folder closed.
    assert arena.verdicts(source) == ("wrong", "exception")


def test_a_working_folder_that_is_gone_stops_no_answer(arena: Arena) -> None:
    source = body(
        """
        import shutil
        shutil.rmtree("/tmp/work", ignore_errors=True)
        try:
            os.rename("/tmp/work", "/tmp/elsewhere")
        except OSError:
            pass
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_a_crash_leaves_no_core_file_even_where_the_limit_is_raised_first(arena: Arena) -> None:
    source = """
        import os, resource
        def probe():
            try:
                resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
                return "raised"
            except (OSError, ValueError):
                pass
            if (child := os.fork()) == 0:
                os.abort()
            status = os.waitpid(child, 0)[1]
            left = [name for name in os.listdir("/tmp/work") if name not in ("main.py", "solution.py")]
            return [os.WTERMSIG(status), os.WCOREDUMP(status), left]
        """
    assert arena.probed(source) == [[6, False, []]] * 3


def test_a_named_pipe_that_nobody_writes_is_a_timeout(arena: Arena) -> None:
    source = body("os.mkfifo('/tmp/fifo')\nreturn open('/tmp/fifo').read()")
    assert arena.verdicts(source, hostile.FAST) == ("timeout", "timeout")


def test_reading_an_endless_device_runs_into_the_memory_limit(arena: Arena) -> None:
    source = body("return open('/dev/zero', 'rb').read()")
    assert arena.verdicts(source, Limits(wall_s=20, memory_mb=128)) == ("memory_limit", "memory_limit")


def test_an_exclusive_lock_on_a_file_that_all_share_ends_with_its_job(arena: Arena) -> None:
    source = """
        import fcntl, os
        def probe():
            done = []
            for path in (os.__file__, "/dev/null"):
                if (child := os.fork()) == 0:
                    os.setsid()
                    with open(path) as file:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        import time
                        time.sleep(60)
                for _ in range(2000):
                    with open(path) as file:
                        try:
                            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        except BlockingIOError:
                            break
                    import time
                    time.sleep(0.001)
                else:
                    done.append(path)
            return done
        """
    # Each of the three runs gets the locks although the one before ended while it held them.
    assert arena.probed(source) == [[], [], []]


def test_the_whole_visible_tree_belongs_to_the_interpreter(arena: Arena) -> None:
    """No file that the program can name, outside the interpreter's own, tells of the host or of the tests."""
    source = """
        import os, sys
        def probe():
            found = []
            skipped = {"/usr", "/lib", "/lib64", "/bin", "/proc", sys.base_prefix}
            for folder, inner, names in os.walk("/"):
                inner[:] = [name for name in inner if os.path.join(folder, name) not in skipped]
                found += [os.path.join(folder, name) for name in names]
            known = {"/dev/" + n for n in "null zero full random urandom stdin stdout stderr fd shm".split()}
            known |= {"/bin", "/etc/ld.so.cache", "/tmp/work/solution.py", "/tmp/work/main.py"}
            return [path for path in found if path not in known]
        """
    assert arena.probed(source) == [[], [], []]
