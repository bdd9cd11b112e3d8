"""The code that runs on the far side, compiled once a supervisor.

In: nothing. Out: command lines that boot a bare interpreter, and the bytes it reads first. They hold our
own modules as code objects: marshal is safe here, since both ends are this interpreter and the file
between them is sealed. Without this each start would compile the modules anew wherever no byte code can be
cached, and search the path for them wherever it can.
"""

from __future__ import annotations

import base64
import functools
import marshal
import os
import sys
import zlib
from pathlib import Path

# Each module before those that import it; an empty path marks a package.
_MODULES = (
    ("sandbox", ""),
    ("sandbox.codec", "codec.py"),
    ("sandbox.frames", "frames.py"),
    ("sandbox.inside", ""),
    ("sandbox.inside.suite", "inside/suite.py"),
    ("sandbox.inside.recorder", "inside/recorder.py"),
    ("sandbox.inside.told", "inside/told.py"),
    ("sandbox.inside.harness", "inside/harness.py"),
    ("sandbox.inside.kernel", "inside/kernel.py"),
    ("sandbox.inside.landlock", "inside/landlock.py"),
    ("sandbox.inside.root", "inside/root.py"),
    ("sandbox.inside.program", "inside/program.py"),
    ("sandbox.inside.init", "inside/init.py"),
    ("sandbox.inside.server", "inside/server.py"),
    ("sandbox.inside.reach", "inside/reach.py"),
    ("sandbox.inside.taken", "inside/taken.py"),
    ("sandbox.inside.agent", "inside/agent.py"),
)
_REACHING = ("sandbox", "sandbox.codec", "sandbox.inside", "sandbox.inside.kernel", "sandbox.inside.reach")
_ALONE = ("sandbox.inside.taken", "sandbox.inside.agent", "sandbox.inside.reach")
_OF_A_SERVER = tuple(name for name, _ in _MODULES if name not in _ALONE)
_OF_AN_AGENT = tuple(
    name for name, _ in _MODULES if name.rpartition(".")[2] not in ("root", "init", "server", "reach")
)
# What a fresh interpreter needs that only runs one program.
_OF_A_PROGRAM = tuple(
    name for name, _ in _MODULES[: [name for name, _ in _MODULES].index("sandbox.inside.harness") + 1]
)
_BOOT = """
import marshal, sys
with open(%s, "rb", closefd=False) as file:
    size = int.from_bytes(file.read(4), "little")
    for name, code in marshal.loads(file.read(size)):
        module = sys.modules[name] = type(sys)(name)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
        module.__path__ = []
        if code:
            exec(code, module.__dict__)
    config = file.read()
"""
# The places of `sandbox.inside.program`, which a fresh interpreter does not load.
_PAYLOAD = 5
_SERVER = _BOOT % "int(sys.argv[1])" + 'sys.modules["sandbox.inside.server"].main(config, sys.argv[1:])\n'
_ONCE = _BOOT % "int(sys.argv[1])" + 'sys.modules["sandbox.inside.init"].once(sys.argv[2:])\n'
_REACH = _BOOT % "int(sys.argv[1])" + 'sys.modules["sandbox.inside.reach"].main(sys.argv[2:])\n'
_PROGRAM = _BOOT % _PAYLOAD + 'sys.modules["sandbox.inside.harness"].resume(config)\n'
# Where the modules come as text, since the other end may be another version of Python.
_AGENT = """
import marshal, os, sys
sys.path[:] = [path for path in sys.path if path]
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(1)
        data += part
    return data
if sys.version_info < (3, 10):
    text = b"error Python 3.10 or later is needed, and this is " + sys.version.split()[0].encode()
    os.write(1, b"S" + len(text).to_bytes(4, "little") + text)
    os._exit(1)
for name, path, text in marshal.loads(take(int.from_bytes(take(4), "little"))):
    module = sys.modules[name] = type(sys)(name)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)
    module.__path__ = []
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
sys.modules["sandbox.inside.agent"].main()
"""
# The same as a program that needs nothing but itself.
_ALONE_PROGRAM = """
import base64, marshal, sys, zlib
if sys.version_info < (3, 10):
    sys.exit("Python 3.10 or later is needed, and this is " + sys.version.split()[0])
unpack = lambda text: zlib.decompress(base64.b85decode(text))
for name, path, text in marshal.loads(unpack("%s")):
    module = sys.modules[name] = type(sys)(name)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)
    module.__path__ = []
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
sys.modules["sandbox.inside.agent"].alone(unpack("%s"), "%s", "%s")
"""
_OPTIONS = ("-P", "-s", "-S", "-B", "-X", "utf8", "-c")


def bundle(whole: bool = True) -> bytes:
    """Return the far side's modules, or only those of a program, preceded by their length in four bytes."""
    return _packed(_OF_A_SERVER if whole else _OF_A_PROGRAM)


def once_bundle() -> bytes:
    """Return the modules of `sandbox.inside.init`, likewise."""
    return _packed(tuple(name for name in _OF_A_SERVER if name != "sandbox.inside.server"))


def reach_bundle() -> bytes:
    """Return the modules of `sandbox.inside.reach`, likewise."""
    return _packed(_REACHING)


@functools.cache
def _packed(names: tuple[str, ...]) -> bytes:
    here = Path(__file__).parent
    parts = []
    for name, path in _MODULES:
        if name not in names:
            continue
        code = None
        if path:
            code = compile((here / path).read_bytes(), str(here / path), "exec", dont_inherit=True)
        parts.append((name, code))
    data = marshal.dumps(parts)
    return len(data).to_bytes(4, "little") + data


@functools.cache
def source_bundle() -> list[tuple[str, str, str]]:
    """Return (module, file, text) of all that an agent needs, each module before those that import it."""
    here = Path(__file__).parent
    return [
        (name, path, (here / path).read_text(encoding="utf-8") if path else "")
        for name, path in _MODULES
        if name in _OF_AN_AGENT
    ]


@functools.cache
def agent_bundle() -> bytes:
    """Return the agent's modules as it reads them first, preceded by their length in four bytes."""
    data = marshal.dumps(source_bundle(), 2)
    return len(data).to_bytes(4, "little") + data


def agent_command() -> list[str]:
    """Return the arguments of a Python that is an agent (`sandbox.inside.agent`)."""
    return ["-s", "-B", "-X", "utf8", "-c", _AGENT]


@functools.cache
def _agent_text() -> str:
    return _packed_text(marshal.dumps(source_bundle(), 2))


def _packed_text(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data, 9)).decode("ascii")


def agent_program(job: bytes, mark: str, file: str) -> str:
    """Return the text of a program that runs one encoded job (`sandbox.inside.agent.alone`)."""
    return _ALONE_PROGRAM % (_agent_text(), _packed_text(job), mark, file)


def server_command(descriptors: list[int]) -> list[str]:
    """Return the command line of a server; the first descriptor is the file of `bundle` and settings."""
    return [executable(), *_OPTIONS, _SERVER, *map(str, descriptors)]


def once_command(bundle_at: int, flags: int, descriptors: list[int]) -> list[str]:
    """Return the command line of PID 1 in namespaces of another tool (`sandbox.inside.init.once`)."""
    return [executable(), *_OPTIONS, _ONCE, str(bundle_at), str(flags), *map(str, descriptors)]


def reach_command(bundle_at: int, descriptor: int) -> list[str]:
    """Return the command line that makes a mount namespace (`sandbox.inside.reach`)."""
    return [executable(), *_OPTIONS, _REACH, str(bundle_at), str(descriptor)]


def program_command() -> list[str]:
    """Return the command line of a fresh interpreter for one program, whose payload begins with `bundle`."""
    return [executable(), *_OPTIONS, _PROGRAM]


@functools.cache
def executable() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
