"""Errors that are for people: what is wrong, where, and what to do.

The command line turns an `AssayError` into one line on standard error and exit status 2. Anything
else that reaches it is a defect of ours.
"""

import errno


class AssayError(Exception):
    """Bad input or a bad environment. The message is one line a person can act on."""


class RowError(AssayError):
    """A row does not fit its record; names the table, the row and the field."""


class RunDirError(AssayError):
    """A run directory cannot be used: wrong version, in use, not writable, or not one at all."""


class ShardError(AssayError):
    """A shard or its sidecar is missing, unreadable or not what its sidecar says."""


class AccountingError(AssayError):
    """Rows in is not rows kept plus drops: a stage lost or invented rows."""


class EnvironmentFault(AssayError):
    """The machine, not a row, is at fault (disk full, no permission, no sandbox): the run must stop."""


class Deferred(EnvironmentFault):
    """What a unit needs is not there yet. Others may be worked on still; then the stage ends with this."""


_FATAL = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "disk quota used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
    errno.EMFILE: "too many open files",
    errno.EIO: "input/output error",
}


def environment_fault(error: OSError) -> EnvironmentFault | None:
    """What to tell a person about an operating-system error that no other row would escape, or None."""
    if (what := _FATAL.get(error.errno or 0)) is None:
        return None
    where = f"{error.filename}: " if error.filename else ""
    return EnvironmentFault(
        f"{where}{what}; finished parts are kept, so mend that and run the same command again"
    )
