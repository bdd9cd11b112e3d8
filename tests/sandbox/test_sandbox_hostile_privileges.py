"""Programs that try to gain power: users, capabilities, namespaces, mounts, limits, rare system calls."""

import os

import hostile
import pytest
from hostile import Arena, body

from sandbox import Limits

arena = pytest.fixture(scope="module")(hostile.arena)
unharmed = pytest.fixture(autouse=True)(hostile.unharmed)

# For each probe below: `call` makes a system call by its number on either machine and returns its error.
CALLING = """
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
def call(x86, arm, *arguments):
    number = x86 if X86 else arm
    if number is None:
        return "EPERM"
    ctypes.set_errno(0)
    converted = [a if type(a) is bytes else ctypes.c_long(a) for a in arguments]
    result = libc.syscall(number, *converted)
    return errno.errorcode.get(ctypes.get_errno(), "?") if result == -1 else "done"
"""


def test_no_other_user_or_group_can_be_had(arena: Arena) -> None:
    source = """
        import ctypes, os
        def probe():
            before = os.getresuid(), os.getresgid(), os.getgroups()
            for number in (0, 1, 1000, 65533, 200000, 2**32 - 2):
                for act in (
                    lambda: os.setuid(number), lambda: os.seteuid(number), lambda: os.setgid(number),
                    lambda: os.setresuid(number, number, number), lambda: os.setreuid(number, number),
                    lambda: os.setresgid(number, number, number), lambda: os.setgroups([number]),
                    lambda: os.setgroups([]), lambda: os.initgroups("root", number),
                    lambda: ctypes.CDLL(None).setfsuid(number), lambda: ctypes.CDLL(None).setfsgid(number),
                ):
                    try:
                        act()
                    except OSError:
                        pass
            lines = open("/proc/self/status").read().splitlines()
            ids = {word for line in lines if line[:4] in ("Uid:", "Gid:") for word in line.split()[1:]}
            return before == (os.getresuid(), os.getresgid(), os.getgroups()) and len(ids) == 1
        """
    assert arena.probed(source) == [True] * 3


def test_no_capability_comes_back(arena: Arena) -> None:
    source = f"""{CALLING}
def probe():
    told = []
    for version in (0x20080522, 0x20071026, 0x19980330):
        for sets in ((~0, ~0, ~0), (1 << 21, 1 << 21, 0), (0, 1 << 21, 0), (0, 0, ~0)):
            data = struct.pack("6I", *(number & 0xFFFFFFFF for number in sets * 2))
            told.append(call(126, 91, struct.pack("Ii", version, 0), data))
    for capability in (0, 1, 7, 21, 38, 39, 40):
        told.append(call(157, 167, 47, 2, capability, 0, 0))
    # Secure bits; no_new_privs taken back; the mode of seccomp; another seccomp filter's listener.
    told += [call(157, 167, 28, 0, 0, 0, 0), call(157, 167, 38, 0, 0, 0, 0), call(157, 167, 22, 0, 0, 0, 0)]
    lines = open("/proc/self/status").read().splitlines()
    held = {{line.split()[1] for line in lines if line.startswith("Cap")}}
    kept = [line.split()[1] for line in lines if line.startswith(("NoNewPrivs:", "Seccomp:"))]
    return [sorted(held), kept, [one for one in told[:-3] if one == "done"]]
"""
    assert arena.probed(source) == [[["0" * 16], ["1", "2"], []]] * 3


def test_no_user_namespace_trick_maps_another_id(arena: Arena) -> None:
    source = """
        import os
        def probe():
            done = []
            for pid in ("self", "1", str(os.getppid())):
                for name, text in (("uid_map", "0 0 1"), ("uid_map", "0 65534 1"), ("gid_map", "0 0 9"),
                                   ("gid_map", "0 0 4294967295"), ("setgroups", "allow")):
                    try:
                        number = os.open(f"/proc/{pid}/{name}", os.O_WRONLY)
                        os.write(number, text.encode())
                        done.append([pid, name])
                    except OSError:
                        pass
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_no_namespace_can_be_made_or_entered(arena: Arena) -> None:
    source = f"""{CALLING}
def probe():
    told = []
    for bit in (7, 17, 25, 26, 27, 28, 29, 30):
        told.append(call(272, 97, 1 << bit))
        # The raw call with the flag among other, harmless ones, and with high bits set.
        told.append(call(56, 220, 1 << bit | 0x11, 0, 0, 0, 0) if bit != 7 else "EPERM")
        told.append(call(56, 220, 1 << 63 | 1 << bit | 0x11, 0, 0, 0, 0) if bit != 7 else "EPERM")
    told.append(call(272, 97, 0x20000 | 0x10000000 | 0x40000000))
    for pid in ("self", "1", str(os.getppid())):
        for name in "cgroup ipc mnt net pid pid_for_children time user uts".split():
            try:
                number = os.open(f"/proc/{{pid}}/ns/{{name}}", os.O_RDONLY)
            except OSError:
                continue
            told.append(call(308, 268, number, 0))
            os.close(number)
    handle = os.pidfd_open(1)
    told.append(call(308, 268, handle, 0x7E020080))
    os.close(handle)
    return sorted(set(told))
"""
    assert arena.probed(source) == [["EPERM"]] * 3


def test_the_mounts_cannot_be_changed(arena: Arena) -> None:
    source = f"""{CALLING}
def probe():
    before = open("/proc/self/mountinfo").read()
    told = []
    for target in (b"/", b"/usr/lib", b"/proc", b"/tmp", b"/tmp/work", b"/dev/null"):
        for kind in (b"tmpfs", b"proc", b"sysfs", b"overlay", b"devtmpfs", b"cgroup2"):
            told.append(call(165, 40, b"none", target, kind, 0, 0))
        for flags in (32, 32 | 4096, 4096, 8192, 1 << 18, 1 << 20):
            told.append(call(165, 40, b"none", target, b"", flags, 0))
        for flags in (0, 1, 2, 8):
            told.append(call(166, 39, target, flags))
        told.append(call(161, 51, target))
        told.append(call(155, 41, target, target))
        told.append(call(428, 428, -100, target, 1))
        told.append(call(429, 429, -100, target, -100, b"/tmp", 0))
        told.append(call(442, 442, -100, target, 0x8000, struct.pack("4Q", 0, 1, 0, 0), 32))
        told.append(call(430, 430, b"tmpfs", 0))
        told.append(call(433, 433, -100, target, 0))
    return [sorted(set(told)), before == open("/proc/self/mountinfo").read()]
"""
    assert arena.probed(source) == [[["EPERM"], True]] * 3


RARE = {
    "key of its own": "call(248, 217, b'user', b'probe', b'x', 1, -3)",
    "session key ring": "call(250, 219, 1, 0, 0, 0, 0)",
    "key search": "call(249, 218, b'user', b'probe', 0, -3)",
    "performance counter": "call(298, 241, struct.pack('II', 1, 112) + bytes(104), 0, -1, -1, 0)",
    "program in the kernel": "call(321, 280, 5, bytes(128), 128)",
    "ring of requests": "call(425, 425, 8, bytes(120))",
    "page faults served by the program": "call(323, 282, 0x800)",
    "page faults served, user mode only": "call(323, 282, 0x801)",
    "old asynchronous requests": "call(206, 0, 8, bytes(8))",
    "no random addresses": "call(135, 92, 0x0040000)",
    "personality asked for": "call(135, 92, 0xFFFFFFFF)",
    "clock set": "call(227, 112, 0, struct.pack('qq', 1, 0))",
    "clock adjusted": "call(159, 171, struct.pack('i', 0x8000) + bytes(204))",
    "time of day": "call(164, 170, struct.pack('qq', 1, 0), 0)",
    "host name": "call(170, 161, b'x', 1)",
    "kernel log": "call(103, 116, 3, bytes(64), 64)",
    "restart": "call(169, 142, 0xfee1dead, 672274793, 0x01234567, 0)",
    "swap": "call(167, 224, b'/tmp/swap', 0)",
    "accounting": "call(163, 89, b'/tmp/work/log')",
    "quota": "call(179, 60, 0x800001 << 8, b'/', 0, 0)",
    "port access": "call(172, None, 3)",
    "kernel module": "call(313, 273, 0, b'', 0)",
    "another kernel": "call(320, 294, 0, 0, 0, 0, 0)",
    "file by its handle": "call(304, 265, -100, struct.pack('Ii', 8, 1) + bytes(8), 0)",
    "handle of a file": "call(303, 264, -100, b'/', struct.pack('Ii', 128, 0) + bytes(128), bytes(4), 0)",
    "changes of every file": "call(300, 262, 0, 0)",
    "shared segment": "call(29, 194, 0x1234, 4096, 0o1777)",
    "message queue": "call(68, 186, 0x1234, 0o1777)",
    "named message queue": "call(240, 180, b'probe', 0o102, 0o600, 0)",
    "semaphores": "call(64, 190, 0x1234, 1, 0o1777)",
    "comparison of processes": "call(312, 272, 1, 1, 0, 0, 0)",
    "pages of another process": "call(279, 239, 1, 0, 0, 0, 0, 0)",
    "terminal hung up": "call(153, 58)",
    "segment table": "call(154, None, 0, bytes(16), 16)",
}


def test_rare_interfaces_of_the_kernel_are_refused(arena: Arena) -> None:
    """Refused before their arguments are looked at, so that a bug of the kernel there is out of reach too."""
    attempts = ", ".join(f"{name!r}: {attempt}" for name, attempt in RARE.items())
    source = f"""{CALLING}
def probe():
    told = {{{attempts}}}
    return {{name: error for name, error in told.items() if error != "EPERM"}}
"""
    assert arena.probed(source) == [{}] * 3


def test_no_limit_can_be_raised_for_itself_or_its_children(arena: Arena) -> None:
    source = """
        import os, resource
        def probe():
            done = []
            names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
            for name in names:
                which = getattr(resource, name)
                soft, hard = resource.getrlimit(which)
                if hard == resource.RLIM_INFINITY:
                    continue
                for pair in ((hard + 1, hard + 1), (soft, hard + 1), (-1, -1), (soft, -1)):
                    for act in (lambda: resource.setrlimit(which, pair),
                                lambda: resource.prlimit(0, which, pair),
                                lambda: resource.prlimit(os.getpid(), which, pair)):
                        try:
                            act()
                            done.append([name, *pair])
                        except (OSError, ValueError):
                            pass
            wanted = [getattr(resource, f"RLIMIT_{n}") for n in "AS CPU FSIZE NOFILE NPROC CORE".split()]
            return [done, [one for one in wanted if resource.getrlimit(one)[1] == resource.RLIM_INFINITY]]
        """
    assert arena.probed(source) == [[[], []]] * 3


def test_limits_lowered_to_nothing_stop_no_answer(arena: Arena) -> None:
    source = body(
        """
        import resource
        for name in dir(resource):
            if name.startswith("RLIMIT_") and name not in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA"):
                try:
                    resource.setrlimit(getattr(resource, name), (0, 0))
                except (OSError, ValueError):
                    pass
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_memory_cannot_be_locked_and_the_killer_cannot_be_told_to_look_away(arena: Arena) -> None:
    source = f"""{CALLING}
def probe():
    told = [call(151, 230, 3), call(149, 228, 0x10000, 4096)]
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-1000")
        told.append("written")
    except OSError:
        pass
    return "done" in told or "written" in told
"""
    assert arena.probed(source) == [False] * 3


def test_no_priority_can_be_gained(arena: Arena) -> None:
    source = """
        import ctypes, os
        def probe():
            done = []
            libc = ctypes.CDLL(None, use_errno=True)
            X86 = os.uname().machine == "x86_64"
            for act in (
                lambda: os.nice(-1),
                lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
                lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
                lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(99)),
            ):
                try:
                    act()
                    done.append("raised")
                except OSError:
                    pass
            # The real-time class of input and output.
            if libc.syscall(251 if X86 else 30, 1, 0, 1 << 13) == 0:
                done.append("io")
            return done
        """
    assert arena.probed(source) == [[], [], []]


def test_the_death_signal_may_be_cleared_and_the_program_still_ends_with_its_job(arena: Arena) -> None:
    source = body(
        """
        import ctypes, time
        libc = ctypes.CDLL(None)
        for option, value in ((1, 0), (4, 1), (4, 0), (36, 1), (59, 0), (0x59616D61, -1)):
            libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)
        if os.fork() == 0:
            os.setsid()
            libc.prctl(1, 0, 0, 0, 0)
            time.sleep(60)
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) == ("pass", "pass")


def test_a_filter_of_its_own_only_adds_to_ours(arena: Arena) -> None:
    """The program forbids itself to write: it can say nothing more, and that is its own doing."""
    source = body(
        """
        import ctypes, struct
        libc = ctypes.CDLL(None)
        number = 1 if os.uname().machine == "x86_64" else 64
        lines = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
        head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
        if libc.prctl(22, ctypes.c_ulong(2), ctypes.c_ulong(ctypes.addressof(head)), 0, 0):
            return "refused"
        return [value * factor for value in values]
        """
    )
    assert arena.verdicts(source) in [("unserializable", "unserializable"), ("exit", "exit")]


def test_a_filter_of_its_own_cannot_hand_calls_to_an_outsider(arena: Arena) -> None:
    source = f"""{CALLING}
def probe():
    code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
    told = call(317, 277, 1, 8, ctypes.addressof(head))
    return [told, open("/proc/self/status").read().count("NoNewPrivs:\\t1")]
"""
    for told, bound in arena.probed(source):
        assert told in ("done", "EBUSY", "EPERM", "EACCES")
        assert bound == 1


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the call exists on x86-64 only")
def test_the_segment_registers_may_be_set_to_rubbish(arena: Arena) -> None:
    source = body("import ctypes\nctypes.CDLL(None).syscall(158, 0x1002, ctypes.c_long(0x10))\nreturn []")
    assert arena.verdicts(source, Limits(wall_s=20)) == ("signal", "signal")
