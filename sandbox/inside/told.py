"""What is told of an exception: its class's name, its message, the limit behind it.

In: an exception or a class of the program's, which may lie. Out: exact strings of bounded length.
Wrong: nothing is raised, whatever the exception's own methods do.
"""

# pathlib would cost more to import than the rest of the far side.

from __future__ import annotations

import builtins
import errno
import os

MAX_MESSAGE = 1000

# Taken now: the program may replace them in their modules.
_ERRORS = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_listdir = os.listdir
_FORKING = ("fork", "forkpty", "fork_exec", "_fork_exec", "vfork", "posix_spawn", "posix_spawnp")
# Processes and threads that the program may have.
_most_tasks = [0]


def allow(tasks: int) -> None:
    """Say how many processes and threads the program may have."""
    _most_tasks[0] = tasks


def of(error: BaseException) -> list[str]:
    """Name of the class, message, and the limit that made it: "memory", "processes" or ""."""
    return [name_of(type(error)), message_of(error), _cause_of(error)]


def name_of(kind: type) -> str:
    """The class's name; "own." stands before one that only a builtin exception may have."""
    name = type.__getattribute__(kind, "__name__")
    text = str.encode(name, "utf-8", "backslashreplace")[:100].decode("utf-8", "ignore")
    return text if _ERRORS.get(text, kind) is kind else f"own.{text}"


def message_of(error: BaseException) -> str:
    """The exception's own text, as an exact str of bounded length, whatever its class does."""
    try:
        text = str(error)
        return str.encode(text, "utf-8", "backslashreplace")[: 4 * MAX_MESSAGE].decode("utf-8", "ignore")[
            :MAX_MESSAGE
        ]
    except BaseException:
        return "<unprintable>"


def _cause_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "memory"
    refused = (isinstance(error, BlockingIOError) and error.errno == errno.EAGAIN) or (
        type(error) is RuntimeError and error.args == ("can't start new thread",)
    )
    # Both have other causes too: a pipe that is empty, a stack that does not fit.
    return "processes" if refused and (_raised_by_fork(error) or _crowded()) else ""


def _raised_by_fork(error: BaseException) -> bool:
    """Whether the innermost function that the error came out of is one that makes processes."""
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        names = trace.tb_frame.f_code.co_names if trace is not None else ()
        return any(name in _FORKING for name in names)
    except BaseException:
        return False


def _crowded() -> bool:
    """Whether as many processes and threads are alive as may be; True too where no /proc tells."""
    try:
        pids = [name for name in _listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    tasks = 0
    for pid in pids:
        try:
            tasks += len(_listdir(f"/proc/{pid}/task"))
        except OSError:
            continue  # it has ended meanwhile, or it is PID 1, which nobody may look at
    return not pids or tasks >= _most_tasks[0]
