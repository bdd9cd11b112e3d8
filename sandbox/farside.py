"""The code that runs on the far side, compiled once a supervisor.

In: nothing. Out: command lines that boot a bare interpreter, and the bytes it reads first. They hold our
own modules as code objects: marshal is safe here, since both ends are this interpreter and the file
between them is sealed. Without this each start would compile the modules anew wherever no byte code can be
cached, and search the path for them wherever it can.
"""

from __future__ import annotations

import functools
import marshal
import os
import sys
from pathlib import Path

# Each module before those that import it; an empty path marks a package.
_MODULES = (
    ("sandbox", ""),
    ("sandbox.codec", "codec.py"),
    ("sandbox.frames", "frames.py"),
    ("sandbox.inside", ""),
    ("sandbox.inside.suite", "inside/suite.py"),
    ("sandbox.inside.recorder", "inside/recorder.py"),
    ("sandbox.inside.harness", "inside/harness.py"),
    ("sandbox.inside.kernel", "inside/kernel.py"),
    ("sandbox.inside.landlock", "inside/landlock.py"),
    ("sandbox.inside.root", "inside/root.py"),
    ("sandbox.inside.program", "inside/program.py"),
    ("sandbox.inside.init", "inside/init.py"),
    ("sandbox.inside.server", "inside/server.py"),
)
# What a fresh interpreter needs that only runs one program.
_OF_A_PROGRAM = tuple(
    f"sandbox{name}"
    for name in ("", ".codec", ".frames", ".inside", ".inside.suite", ".inside.recorder", ".inside.harness")
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
_PROGRAM = _BOOT % _PAYLOAD + 'sys.modules["sandbox.inside.harness"].resume(config)\n'
_OPTIONS = ("-P", "-s", "-S", "-B", "-X", "utf8", "-c")


@functools.cache
def bundle(whole: bool = True) -> bytes:
    """Return the far side's modules, or only those of a program, preceded by their length in four bytes."""
    here = Path(__file__).parent
    parts = []
    for name, path in _MODULES:
        if not whole and name not in _OF_A_PROGRAM:
            continue
        code = None
        if path:
            code = compile((here / path).read_bytes(), str(here / path), "exec", dont_inherit=True)
        parts.append((name, code))
    data = marshal.dumps(parts)
    return len(data).to_bytes(4, "little") + data


def server_command(descriptors: list[int]) -> list[str]:
    """Return the command line of a server; the first descriptor is the file of `bundle` and settings."""
    return [executable(), *_OPTIONS, _SERVER, *map(str, descriptors)]


def program_command() -> list[str]:
    """Return the command line of a fresh interpreter for one program, whose payload begins with `bundle`."""
    return [executable(), *_OPTIONS, _PROGRAM]


@functools.cache
def executable() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
