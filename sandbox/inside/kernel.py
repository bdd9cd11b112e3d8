"""The few system calls that Python's `os` lacks, and the seccomp filter, through ctypes.

In: plain numbers and paths. Out: nothing; each function raises OSError naming the call that failed.
The filter is classic BPF assembled here: refuse other architectures, answer ENOSYS for calls newer than
the table below, EPERM for calls that a program under test has no business with, let the rest through.
"""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_ALL_NEW = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)

CLONE_PIDFD = 0x00001000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_MOVE = 8192
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2

SIGPIPE, SIGCHLD, SIGXFSZ = 13, 17, 25

# Functions called through it keep the interpreter's lock: a process that is cloned in between has it too.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_libc.syscall.restype = ctypes.c_long
_libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
_libc.signal.restype = ctypes.c_void_p


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def set_signal(number: int, action: int | None) -> int | None:
    """Set a signal's action by the C library's own pointer (0: default) and return the one before."""
    before: int | None = _libc.signal(number, action)
    return before


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces; return (pid, pidfd) to the parent and (0, -1) to the child.

    The child runs none of the handlers that `os.fork` runs: it must fork again before foreign code does.
    """
    handle = ctypes.c_int(-1)
    number = {"x86_64": 56, "aarch64": 220}[machine()]
    pid: int = _libc.syscall(
        number, ctypes.c_long(flags | CLONE_PIDFD | SIGCHLD), 0, ctypes.byref(handle), 0, 0
    )
    _check(min(pid, 0), "clone")
    return pid, handle.value


def unshare(flags: int, what: str) -> None:
    _check(_libc.unshare(flags), f"unshare({what})")


def set_host_name(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def mount(source: str, target: str, fstype: str = "", flags: int = 0, data: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), fstype.encode() or None, flags, data.encode() or None
    )
    _check(done, f"mount({target})")


def umount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount({target})")


def mount_setattr(target: str, attributes: ctypes.Array[ctypes.c_char]) -> None:
    """Change a mount and all mounts below it (struct mount_attr); kernels before 5.12 have no such call."""
    done = _libc.syscall(442, -100, os.fsencode(target), 0x8000, attributes, len(attributes))
    _check(done, f"mount_setattr({target})")


def pivot_root(new: str, old: str) -> None:
    number = {"x86_64": 155, "aarch64": 41}[machine()]
    _check(_libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    _check(_libc.prctl(option, value, third, 0, 0), f"prctl({option})")


def machine() -> str:
    """Return the instruction set, one of the two whose system call numbers are known here."""
    name = os.uname().machine
    name = {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)
    if name not in _ARCHES or struct.calcsize("P") != 8:
        raise OSError(f"no seccomp table for the machine type {name!r}")
    return name


def bar_capabilities() -> None:
    """Empty the bounding and ambient sets: nothing that this process starts can come to have more."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the last capability of this kernel, or none to drop from
    # Kernels before 4.3 have no ambient set to clear.
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def drop_capabilities() -> None:
    """Empty the permitted, effective and inheritable sets, for good."""
    header = struct.pack("=Ii", 0x20080522, 0)
    number = {"x86_64": 126, "aarch64": 91}[machine()]
    _check(_libc.syscall(number, header, bytes(24)), "capset")


# name -> (number on x86-64, number on aarch64); None where the machine has no such call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "afs_syscall": (183, None),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "init_module": (175, 105),
    "io_cancel": (210, 3),
    "io_destroy": (207, 1),
    "io_getevents": (208, 4),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_getsetattr": (245, 185),
    "mq_notify": (244, 184),
    "mq_open": (240, 180),
    "mq_timedreceive": (243, 183),
    "mq_timedsend": (242, 182),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    # Processes that crowd on one processor would look as if others kept them from the rest.
    "sched_setaffinity": (203, 122),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "sysfs": (139, None),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
# Calls that a process may make for itself alone, whose first argument then is 0.
_OF_ONESELF: dict[str, tuple[int, int]] = {
    "prlimit64": (302, 261),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
_SETPRIORITY = (141, 140)
# machine -> (audit architecture, clone, clone3, socket, socketpair, ioctl)
_ARCHES = {
    "x86_64": (0xC000003E, 56, 435, 41, 53, 16),
    "aarch64": (0xC00000B7, 220, 435, 198, 199, 29),
}
# The last number whose meaning is known here (futex_requeue): newer calls are answered ENOSYS.
_LAST_KNOWN = 456
_X32_BIT = 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX = 1

_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR_AT, _ARCH_AT, _ARG0_AT, _ARG1_AT = 0, 4, 16, 24


def seccomp_program(name: str) -> bytes:
    """Return the filter for machine type `name` as an array of struct sock_filter."""
    arch, clone, clone3, socket, socketpair, ioctl = _ARCHES[name]
    column = 0 if name == "x86_64" else 1
    denied = sorted(number for pair in _DENIED.values() if (number := pair[column]) is not None)
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_JEQ, 1, 0, arch),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NR_AT),
        (_JGE, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_JGE, 0, 1, _LAST_KNOWN + 1),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        # glibc falls back from clone3 to clone, whose flags a filter can read.
        (_JEQ, 0, 1, clone3),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        (_JEQ, 0, 4, clone),
        (_LOAD, 0, 0, _ARG0_AT),
        (_JSET, 0, 1, CLONE_ALL_NEW),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_JEQ, 1, 0, socket),
        (_JEQ, 0, 4, socketpair),
        (_LOAD, 0, 0, _ARG0_AT),
        (_JEQ, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _ERRNO | _EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
        (_JEQ, 0, 5, ioctl),
        (_LOAD, 0, 0, _ARG1_AT),
        (_JEQ, 1, 0, _TIOCSTI),
        (_JEQ, 0, 1, _TIOCLINUX),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    # A program has PID 1's uid: without these it could take PID 1's processor time away.
    for pair in _OF_ONESELF.values():
        code += [
            (_JEQ, 0, 4, pair[column]),
            (_LOAD, 0, 0, _ARG0_AT),
            (_JEQ, 1, 0, 0),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    code += [
        (_JEQ, 0, 6, _SETPRIORITY[column]),
        (_LOAD, 0, 0, _ARG0_AT),
        (_JEQ, 0, 2, 0),
        (_LOAD, 0, 0, _ARG1_AT),
        (_JEQ, 1, 0, 0),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for number in denied:
        code.append((_JEQ, 0, 1, number))
        code.append((_RETURN, 0, 0, _ERRNO | _EPERM))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


_prepared: list[ctypes.Array[ctypes.c_char]] = []


def prepare_seccomp() -> None:
    """Assemble the filter ahead, for the processes to be forked from this one."""
    code = seccomp_program(machine())
    program = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(program)))
    _prepared[:] = [head, program]


def install_seccomp() -> None:
    """Put this process and all it will start under the filter. Needs no_new_privs. There is no way back."""
    if not _prepared:
        prepare_seccomp()
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(_prepared[0]))
