"""Runs one program of one kind inside the sandbox and sends what comes of it as frames.

In: the decoded job, its working folder, the descriptor of the result channel and, for the two halves of
a split job, that of the request channel. Out: frames (see the constants below); then the process ends.
The program shares this process and may forge any frame, which is why no frame says "passed": frames
carry values, and the supervisor trusts exit statuses only as PID 1 reports them.
"""

# pathlib and contextlib would cost more to import than the rest of the launcher.
# ruff: noqa: PTH103, PTH120, PTH123, S102

from __future__ import annotations

import builtins
import gc
import os
import sys
import types

from sandbox import codec, frames
from sandbox.inside import suite, told
from sandbox.inside.recorder import Recorder

TYPE_CHECKING = False  # importing typing would cost more than the rest of the launcher
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# Frames of the program: solution.py is loaded; the outcome of a call; a recorded call; the end; a failure.
READY, OUTPUT, RECORD, DONE, FAILURE = b"R", b"O", b"P", b"D", b"X"
# Frames between the halves of a split job: begin; call this; it came to that.
GO, QUERY, ANSWER = b"G", b"Q", b"A"
# A file that a build left, sent by PID 1.
BUILT = b"B"
# First byte of an outcome: a value, an exception, a value that has no encoding.
VALUE, ERROR, UNENCODABLE = b"v", b"e", b"u"

EXIT_CHANNEL_LOST = 71
_MUTABLE = (list, dict, set, bytearray)
# An answer carries values inside a list of a list, and must itself be no deeper than may be sent.
_CARRIED_DEPTH = codec.MAX_DEPTH - 2

# Taken now: the program may replace them in their modules.
_write, _read, _getpid, _exit, _set_blocking = os.write, os.read, os.getpid, os._exit, os.set_blocking
_OWN_FRAMES = 16


class Channel:
    """The result channel of this one process; a fork of it that comes back this way ends quietly."""

    def __init__(self, out: int, requests: int, nonce: bytes) -> None:
        self.out = out
        self.requests = requests
        self.nonce = nonce
        self.owner = _getpid()

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        if _getpid() != self.owner:
            _exit(0)
        data = memoryview(frames.pack(self.nonce, kind, payload))
        while data:
            try:
                data = data[_write(self.out, data) :]
            except BlockingIOError:
                # The program has changed a descriptor that it does not know.
                _set_blocking(self.out, True)
            except OSError:
                _exit(EXIT_CHANNEL_LOST)

    def ask(self, query: bytes) -> bytes:
        """Send a query, return the answer; a supervisor that has no answer any more ends this process."""
        self.send(QUERY, query)
        frame = self.receive()
        if frame is None:
            _exit(1)
        return frame[1]

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return the next frame of the supervisor, or None when it has closed the channel."""
        head = self._exactly(frames.HEAD_BYTES)
        if head is None:
            return None
        kind, size = frames.head(head)
        body = self._exactly(size)
        return None if body is None else (kind, body)

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = _read(self.requests, min(size - len(parts), 1 << 20))
            except BlockingIOError:
                _set_blocking(self.requests, True)
                continue
            if not part:
                return None
            parts += part
        return bytes(parts)


def write_files(folder: str, files: dict[str, str | bytes]) -> None:
    """Write `files` below `folder`; bytes are what a build made, and may be run."""
    for name, contents in files.items():
        path = f"{folder}/{name}"
        if "/" in name:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        data = contents if isinstance(contents, bytes) else contents.encode("utf-8", "surrogatepass")
        mode = 0o755 if isinstance(contents, bytes) else 0o644
        descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, mode)
        with open(descriptor, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]


# The descriptors of a program in a fresh interpreter: results, requests, and the file it all came in.
_CHANNEL, _REQUESTS, _PAYLOAD = 3, 4, 5


def resume(encoded: bytes) -> NoReturn:
    """Go on in a fresh interpreter that was started for this program alone."""
    os.close(_PAYLOAD)
    for descriptor in (_CHANNEL, _REQUESTS):
        try:
            os.set_inheritable(descriptor, False)
        except OSError:
            continue  # not every program has both
    config: dict[str, Any] = codec.decode(encoded)
    os.environ.clear()
    main(config, config["work"], _CHANNEL, _REQUESTS)


def main(config: dict[str, Any], work: str, out: int, requests: int) -> NoReturn:
    channel = Channel(out, requests, config["nonce"])
    told.allow(config["limits"]["processes"])
    # The frames of this module are not the program's doing.
    sys.setrecursionlimit(sys.getrecursionlimit() + _OWN_FRAMES)
    _forget_ourselves(config, work)
    _reseed()
    run = {"calls": _calls, "script": _script, "unittest": _suite, "candidate": _serve, "test": _test}
    try:
        code = run[config["role"]](config, channel, work)
    except BaseException as error:
        # Only a program that tampers with the interpreter gets here.
        fail(channel, "harness", error)
        code = 1
    finish(code)


def _forget_ourselves(config: dict[str, Any], work: str) -> None:
    """Leave the interpreter as a program expects it: its own path, `exit`, and none of our modules."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("sandbox", "ctypes", "_ctypes")]:
        del sys.modules[name]
    sys.modules.pop("__main__", None)
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.path[:] = [work, *config["packages"], *sys.path]
    name = (config["entry"] or "main.py") if config["role"] == "script" else "solution.py"
    sys.argv = [f"{work}/{name}", *config["argv"]]
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    builtins.help = _sitebuiltins._Helper()


def warm_up() -> None:
    """Do once what each program does, so that the interpreter has its tables before it is forked."""
    import _sitebuiltins
    import atexit

    del _sitebuiltins, atexit
    scope: dict[str, Any] = {}
    exec(suite.compiled(_WARMING, "<warming>"), scope)
    _checked = codec.decode(codec.encode([[1, 2.5, "text"], {"key": (True, None, b"bytes")}, {1}]))
    frames.pack(bytes(8), OUTPUT, outcome_of(_Apply(scope["f"], _checked, {}), 1 << 20)[0])


# A little of everything that a compiler meets.
_WARMING = """
import math, itertools, collections, re, functools, string, heapq, bisect, random, copy, typing
from typing import List
class C:
    def __init__(self, a: int = 1, *rest, **more): self.a = a
def f(*args: List[int]) -> float:
    \"\"\"Text.\"\"\"
    total, found = 0.0, {}
    for index, value in enumerate(args):
        if isinstance(value, list) and not found.get(str(index)):
            total += sum(x for x in value if isinstance(x, (int, float)))
            found[f"{index!r}"] = [y * 2 for y in range(3)]
        elif value is None: break
        else: continue
    while total > 1e9: total //= 2
    try:
        assert total >= 0, "never"
        return sorted(found, key=lambda k: -len(k)) and total
    except (ValueError, TypeError) as error: raise
    finally: found.clear()
"""


def _reseed() -> None:
    """Draw anew what a library drew when it was loaded ahead; `random` does so itself after a fork."""
    gc.enable()
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()


def finish(code: int) -> NoReturn:
    """End as the interpreter would: wait for threads, run exit handlers, flush; then leave at once."""
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        import atexit

        atexit._run_exitfuncs()
    except BaseException as error:
        del error
    flush()
    _exit(code)


def flush() -> None:
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except BaseException as error:
            del error


def fail(channel: Channel, category: str, error: BaseException) -> None:
    channel.send(FAILURE, codec.encode([category, *told.of(error)]))


def outcome_of(call: Callable[[], Any], max_bytes: int) -> tuple[bytes, BaseException | None]:
    """Return what `call` comes to in encoded form, and the exception where it raised one."""
    try:
        value = call()
    except BaseException as error:
        return ERROR + codec.encode(told.of(error)), error
    try:
        return VALUE + codec.encode(value, max_bytes=max_bytes), None
    except codec.EncodeError as error:
        return UNENCODABLE + codec.encode([told.name_of(type(value)), str(error), ""]), None


class _Apply:
    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs

    def __call__(self) -> Any:
        return self.function(*self.args, **self.kwargs)


def load(name: str, source: str, path: str, channel: Channel) -> types.ModuleType | None:
    """Import `source` as module `name`; on failure say so on the channel and return None."""
    try:
        code = suite.compiled(source, path)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        fail(channel, "compile", error)
        return None
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        fail(channel, "exit", error)
        return None
    except BaseException as error:
        fail(channel, "load", error)
        return None
    return module


def _function(module: types.ModuleType, name: str, channel: Channel) -> Callable[..., Any] | None:
    function = module.__dict__.get(name)
    if callable(function):
        return function  # type: ignore[no-any-return]
    method = _method(module.__dict__.get("Solution"), name)
    if method is not None:
        return method
    fail(channel, "missing", AttributeError(f"solution.py has no function {name!r}"))
    return None


def _method(kind: Any, name: str) -> Callable[..., Any] | None:
    """A method of class Solution as a function: each call has an object of its own."""
    if not isinstance(kind, type) or not callable(getattr(kind, name, None)):
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(kind(), name)(*args, **kwargs)

    return call


def _recorder(config: dict[str, Any], module: types.ModuleType, channel: Channel) -> Recorder | None:
    """Wrap the functions to record; None where one of them is missing."""
    recorder = Recorder(
        lambda record: channel.send(RECORD, record),
        outcome_of,
        config["record_max"],
        config["record_bytes"],
    )
    for name in config["record"]:
        function = _function(module, name, channel)
        if function is None:
            return None
        setattr(module, name, recorder.wrap(name, function))
    return recorder


def _calls(config: dict[str, Any], channel: Channel, work: str) -> int:
    module = load("solution", config["files"]["solution.py"], f"{work}/solution.py", channel)
    if module is None or (recorder := _recorder(config, module, channel)) is None:
        return 1
    function = _function(module, config["entry"], channel)
    if function is None:
        return 1
    channel.send(READY)
    for blob in config["calls"]:
        args, kwargs = codec.decode(blob)
        outcome, _ = outcome_of(_Apply(function, args, kwargs), config["result_bytes"])
        channel.send(OUTPUT, outcome)
    return _done(channel, recorder)


def _done(channel: Channel, recorder: Recorder | None) -> NoReturn:
    channel.send(DONE, codec.encode(recorder.skipped if recorder else 0))
    flush()
    _exit(0)


def _script(config: dict[str, Any], channel: Channel, work: str) -> int:
    name = config["entry"] or "main.py"
    module = sys.modules["__main__"]
    module.__file__ = f"{work}/{name}"
    try:
        code = suite.compiled(config["files"][name], module.__file__)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        fail(channel, "compile", error)
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        if error.code is None:
            return 0
        if isinstance(error.code, int):
            return error.code & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        fail(channel, "load", error)
        # Without the frame of this module.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _suite(config: dict[str, Any], channel: Channel, work: str) -> int:
    module = load("solution", config["files"]["solution.py"], f"{work}/solution.py", channel)
    if module is None or (recorder := _recorder(config, module, channel)) is None:
        return 1
    if _function(module, config["entry"], channel) is None:
        return 1
    channel.send(READY)
    names = {name: value for name, value in module.__dict__.items() if not name.startswith("__")}
    error = suite.run(config["files"]["test.py"], f"{work}/test.py", names, module.__dict__[config["entry"]])
    if error is not None:
        fail(channel, error.stage, error.cause)
        return 1
    return _done(channel, recorder)


def _serve(config: dict[str, Any], channel: Channel, work: str) -> int:
    """The candidate's half of a split job: answer calls until the supervisor closes the channel."""
    module = load("solution", config["files"]["solution.py"], f"{work}/solution.py", channel)
    if module is None or (entry := _function(module, config["entry"], channel)) is None:
        return 1
    channel.send(READY)
    while (frame := channel.receive()) is not None:
        name, args, kwargs = codec.decode(frame[1])
        function = entry if name == config["entry"] else module.__dict__[name]
        watched = args if config["in_place"] else []
        before = [codec.encode(value) if type(value) in _MUTABLE else b"" for value in watched]
        outcome, error = outcome_of(_Apply(function, args, kwargs), config["result_bytes"])
        extra: list[Any] = [_error_shape(error), _changes(before, args)]
        channel.send(ANSWER, codec.encode([outcome, *extra]))
    return 0


def _changes(before: list[bytes], args: list[Any]) -> dict[int, Any]:
    """The arguments that the call changed in place, by position, so that the caller's change as well."""
    changed = {}
    for index, (old, value) in enumerate(zip(before, args, strict=False)):
        if old:
            try:
                new = codec.encode(value, max_depth=_CARRIED_DEPTH)
            except codec.EncodeError:
                continue
            if new != old:
                changed[index] = value
    return changed


def _error_shape(error: BaseException | None) -> list[Any] | None:
    """[nearest builtin exception class, whether it is the class itself, its arguments], to raise it again."""
    if error is None:
        return None
    kind = type(error)
    for base in kind.__mro__:
        if base.__module__ == "builtins" and getattr(builtins, base.__name__, None) is base:
            break
    else:
        return None
    try:
        args = list(error.args)
        codec.encode(args, max_bytes=1 << 16, max_depth=_CARRIED_DEPTH)
    except Exception:
        args = [told.message_of(error)]
    return [base.__name__, base is kind, args]


def _test(config: dict[str, Any], channel: Channel, work: str) -> int:
    """The suite's half of a split job: its candidate is a proxy that asks the supervisor."""
    if channel.receive() is None:
        return 1
    proxies = suite.proxies(channel, [config["entry"], *config["exports"]])
    error = suite.run(config["files"]["test.py"], f"{work}/test.py", proxies, proxies[config["entry"]])
    if error is not None:
        fail(channel, error.stage, error.cause)
        return 1
    return _done(channel, None)
