"""A second fence around a program: the kernel's Landlock, which needs no privilege and cannot be undone.

In: folders that may be written and folders that may be read. Out: the Landlock version (ABI) that holds
from then on for the calling thread and for everything it starts; 0 where the kernel offers none.
Wrong: OSError naming the call; then nothing has been restricted.

What the fence lets through: reading and executing below `read_below`; reading and every change of files,
folders, links, FIFOs and sockets, but no making of device files, below `write_below`; writing to
/dev/null, /dev/zero and /dev/full. Descriptors that are open already keep what they may do. From ABI 4 no
TCP port can be bound or connected to, from ABI 5 no device can be given commands (ioctl), from ABI 6
neither signals nor abstract unix sockets reach a process outside the fence.
ABI 1 cannot allow a rename between two folders, so that honest programs would fail there and pass
elsewhere: it counts as none. Mounting is refused inside a fence: build the root before.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from collections.abc import Sequence

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1 << 0, 1 << 1

# The lowest version that can tell what the fence must say, and the highest whose meaning is known here.
_LOWEST, _HIGHEST = 2, 7
# Version -> every right over files that it knows.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1

_READ = EXECUTE | READ_FILE | READ_DIR
_CHANGE = (
    WRITE_FILE
    | READ_FILE
    | READ_DIR
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE
)
# The rights that a rule on something other than a folder may hold.
_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_OF_A_DEVICE = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")

_MACHINES = ("x86_64", "amd64", "aarch64", "arm64")
_VERSION = 1  # flag of landlock_create_ruleset: return the version instead
_PATH_BENEATH = 1
_IS_FOLDER, _KIND_OF_FILE = 0o040000, 0o170000
# Refused calls of a hostile program would otherwise fill the host's audit log (same program, nested domains).
_QUIET = 1 | 4

# Each look-up by item gives a function object of its own, so that each has its own argument types.
_libc = ctypes.CDLL(None, use_errno=True)
_create_ruleset, _add_rule, _restrict_self = (_libc["syscall"] for _ in range(3))
_create_ruleset.argtypes = (ctypes.c_long, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint)
_add_rule.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
_restrict_self.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_uint)
for _call in (_create_ruleset, _add_rule, _restrict_self):
    _call.restype = ctypes.c_long
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # on x86-64 and aarch64 alike

_known_abi: int | None = None


def abi() -> int:
    """Return the kernel's Landlock version; 0 where it has none, or on a machine type not known here."""
    global _known_abi
    if _known_abi is None:
        found = 0
        if os.uname().machine in _MACHINES:
            found = max(_create_ruleset(_CREATE, None, 0, _VERSION), 0)
        _known_abi = found
    return _known_abi


def fence(write_below: Sequence[str], read_below: Sequence[str] = ("/",)) -> int:
    """Restrict this thread and all it will start, for good; return the ABI that holds, 0 for no fence.

    The paths are absolute; a symbolic link stands for its goal, and a file may stand in place of a folder.
    The caller must be single-threaded, and must have set no_new_privs or be privileged.
    Raises OSError for a path that is not there and for each call that the kernel refuses.
    """
    version = min(abi(), _HIGHEST)
    if version < _LOWEST:
        return 0
    handled = _RIGHTS.get(version, _ALL_RIGHTS)
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", BIND_TCP | CONNECT_TCP)
    if version >= 6:
        attributes += struct.pack("=Q", SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL)
    ruleset = _create_ruleset(_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        _fail("landlock_create_ruleset")
    try:
        for path in read_below:
            _allow(ruleset, path, _READ & handled)
        for path in write_below:
            _allow(ruleset, path, _CHANGE & handled)
        for path in _DEVICES:
            try:
                _allow(ruleset, path, _OF_A_DEVICE & handled)
            except FileNotFoundError:
                continue  # what is not there needs no permission
        if _restrict_self(_RESTRICT, ruleset, _QUIET if version >= 7 else 0) < 0:
            number = ctypes.get_errno()
            _fail("landlock_restrict_self" + (" (is no_new_privs set?)" if number == errno.EPERM else ""))
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add one rule: `rights` hold for `path` and everything below it."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, f"Landlock's rule for {path}: {error.strerror}") from None
    try:
        if os.fstat(handle).st_mode & _KIND_OF_FILE != _IS_FOLDER:
            rights &= _OF_A_FILE
        if _add_rule(_ADD, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0) < 0:
            _fail(f"landlock_add_rule({path})")
    finally:
        os.close(handle)


def _fail(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
