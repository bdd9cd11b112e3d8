"""Errors that are for people: what is wrong, where, and what to do.

The command line turns an `AssayError` into one line on standard error and exit status 2. Anything
else that reaches it is a defect of ours.
"""


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
